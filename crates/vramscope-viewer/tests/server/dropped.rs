//! Dropped files that expand enormously: rejected with a sentence, before they fill the memory.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::server;

const MIB: usize = 1 << 20;

/// `start`, followed by `times` mebibytes of `byte`, as gzip with several members. Each member is compressed only once.
fn packed(start: &[u8], byte: u8, times: usize, level: Compression) -> Vec<u8> {
    let member = |bytes: &[u8]| {
        let mut gzip = GzEncoder::new(Vec::new(), level);
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    };
    [member(start), member(&vec![byte; MIB]).repeat(times)].concat()
}

/// A pickle of dictionaries that take six bytes each and look like allocator settings.
fn settings() -> Vec<u8> {
    let mut bytes = b"\x80\x04](\x8c\x13expandable_segments\x94".to_vec();
    for _ in 0..300 {
        bytes.extend(b"}(h\0\x88u".repeat(1000));
        bytes.extend(b"e(");
    }
    bytes.extend(b"e.");
    bytes
}

/// The peak of this process's resident memory in bytes, if the system reports it.
fn highest_resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?;
    Some(kib.parse::<usize>().ok()? << 10)
}

#[test]
fn files_that_mean_more_than_they_hold_are_refused_in_a_sentence() {
    let fast = Compression::fast();
    let pickled = [b"\x80\x04]X".as_slice(), &(900 * MIB as u32).to_le_bytes()].concat();
    let path = server().path("api/open?name=bomb");
    for (bomb, why) in [
        (
            packed(b"{\"segments\": [\"", b'x', 900, fast),
            "a string, number or space of more than 16777216 bytes",
        ),
        (packed(&pickled, b'x', 900, fast), "bomb: "),
        (packed(b"{\"segments\": [], \"a\": [", b' ', 900, Compression::best()), "bomb: "),
        (packed(b"", 0, 900, Compression::best()), "bomb: "),
        (settings(), "would take more than 8 times as much memory"),
    ] {
        let reply = server().ask("POST", &path, &[], &bomb);
        assert_eq!(reply.status, 422, "{}", reply.text());
        assert!(reply.text().contains(why), "{}", reply.text());
    }
    if let Some(highest) = highest_resident() {
        assert!(highest < 512 * MIB, "{highest} bytes");
    }
}
