//! Compares files read ahead on a thread with the same bytes read from memory, and tests pipes whose writer stays open.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use vramscope_trace::formats::{self, Compression, Reader, Recording};
use vramscope_trace::{Event, ReadError, Trace};

use crate::{everything, read, read_json};

/// A recording of `events` events as a pickle.
fn pickle(events: usize) -> Vec<u8> {
    let mut trace: Arc<Trace> = read_json(&everything()).trace;
    let device = &mut Arc::make_mut(&mut trace).devices[0];
    let some: Vec<Event> = device.events.iter().filter(|e| e.size < 1 << 30).collect();
    device.events = some
        .iter()
        .cycle()
        .zip(0u64..)
        .map(|(&e, i)| Event {
            address_or_free: e.address_or_free.wrapping_add(512 * (i % 977)),
            time_us: Some(i as i64 * 7919),
            ..e
        })
        .take(events)
        .collect();
    let mut bytes = Vec::new();
    formats::write_pickle(&trace, &mut bytes).unwrap();
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

/// Reads `bytes` from a file. Also returns the last reported number of bytes read.
fn read_file(bytes: &[u8]) -> (Result<Recording, ReadError>, u64) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let mut told = 0;
    let opened = File::open(file.path()).unwrap();
    let reader = Reader::file(&opened).progress(|bytes| {
        assert!(told <= bytes, "progress went back");
        told = bytes;
    });
    let recording = reader.read();
    (recording, told)
}

#[test]
fn a_file_reads_like_the_same_bytes_in_memory() {
    let plain = pickle(50_000);
    assert!(plain.len() > 1 << 20, "several chunks");
    for (bytes, compression) in [
        (plain.clone(), Compression::None),
        (gzip(&plain), Compression::Gzip),
        (zstd(&plain), Compression::Zstd),
        (zstd(b""), Compression::Zstd),
    ] {
        let (recording, told) = read_file(&bytes);
        match (recording, read(&bytes)) {
            (Ok(recording), Ok(expected)) => {
                assert!(recording == expected);
                assert_eq!(recording.compression, compression);
            }
            (recording, expected) => {
                assert_eq!(recording.unwrap_err().to_string(), expected.unwrap_err().to_string());
            }
        }
        assert_eq!(told, bytes.len() as u64, "{compression:?}");
    }
}

#[test]
fn errors_of_a_file_are_those_of_its_bytes() {
    let plain = pickle(50_000);
    let cut = |bytes: &[u8], at: usize| bytes[..bytes.len() * at / 10].to_vec();
    let mut wrong = plain.clone();
    wrong[plain.len() / 2] ^= 0x55;
    let mut damaged = gzip(&plain);
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0x55;
    for bytes in [
        cut(&plain, 3),
        cut(&plain, 9),
        cut(&gzip(&plain), 9),
        cut(&zstd(&plain), 9),
        damaged,
        wrong,
        // An error at the start leaves a thread that still has the rest to read.
        [b"\x80\x04R".as_slice(), &plain].concat(),
        zstd(&[b"no snapshot".as_slice(), &plain].concat()),
    ] {
        let [file, memory] = [read_file(&bytes).0, read(&bytes)];
        let [file, memory] =
            [file, memory].map(|r| r.map(|r| r.trace.devices.len()).map_err(|e| e.to_string()));
        assert_eq!(file, memory);
    }
}

/// The error of the bytes in a pipe whose writer stays open.
fn error_of_a_pipe(bytes: &[u8]) -> String {
    let (reader, mut writer) = io::pipe().unwrap();
    writer.write_all(bytes).unwrap();
    #[cfg(unix)]
    {
        let file = File::from(std::os::fd::OwnedFd::from(reader.try_clone().unwrap()));
        // All bytes were consumed when the error is returned, so they must be written again.
        let error = Reader::file(&file).read().unwrap_err();
        writer.write_all(bytes).unwrap();
        assert_eq!(formats::read(reader).unwrap_err().to_string(), error.to_string());
        error.to_string()
    }
    #[cfg(not(unix))]
    formats::read(reader).unwrap_err().to_string()
}

#[test]
fn an_error_does_not_wait_for_what_a_pipe_may_still_bring() {
    // If reading waited, this test would hang, because nothing follows the wrong byte.
    let start = b"\x80\x04\x95\0\0\0\0\0\0\0\0}\x94(\x8c\x0ddevice_traces]\x94]\x94(".to_vec();
    let frame = b"}\x94(\x8c\x04name\x8c\x01f\x8c\x08filename\x8c\x01g\x8c\x04lineK\x07u".to_vec();
    let list = [b"]\x94(".as_slice(), &frame, &frame, b"e]\x94(h\x03h"].concat();
    for before in [
        Vec::new(),
        b"K\x07".to_vec(),
        b"\x8a\x01\x07".to_vec(),
        b"\x8b\x01\0\0\0\x07".to_vec(),
        frame.clone(),
        [b"]\x94(".as_slice(), &frame].concat(),
    ] {
        let bytes = [start.as_slice(), &before, b"R"].concat();
        let error = error_of_a_pipe(&bytes);
        let at = bytes.len() - 1;
        assert!(error.starts_with(&format!("refused opcode REDUCE at byte {at}")), "{error}");
    }
    let unmade = [start.as_slice(), &list, &b"\xf0"[..]].concat();
    assert!(error_of_a_pipe(&unmade).contains("memo entry 240 is used before it is set"));
    let long = [start.as_slice(), b"\x8a\xff"].concat();
    assert!(error_of_a_pipe(&[long.as_slice(), &[0; 9]].concat()).contains("an integer beyond 64 bits"));
    assert!(error_of_a_pipe(b"{\"segments\": [}").starts_with("not a JSON snapshot: "));
}

#[test]
fn a_file_that_cannot_be_opened_is_named_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let error = |path: &Path| Reader::open(path).unwrap_err().to_string();
    let named = |path: &Path, why: &str| format!("{}: {why}", path.display());
    let none = path.join("none.pickle");
    assert_eq!(error(&none), named(&none, "no such file; check the name, or give the full path"));
    assert_eq!(error(path), named(path, "is a directory; name a snapshot in it"));
    std::fs::write(path.join("snapshot.pickle"), "").unwrap();
    assert_eq!(error(path), named(path, "is a directory; name snapshot.pickle in it"));
}

#[test]
fn reading_ends_when_it_is_cancelled() {
    for bytes in [pickle(10), gzip(&pickle(50_000)), zstd(&pickle(50_000))] {
        for reader in [Reader::new(&bytes[..]), Reader::ahead(&bytes[..])] {
            let error = reader.cancel(|| true).read().unwrap_err();
            assert!(matches!(error, ReadError::Cancelled), "{error}");
        }
        let reads = AtomicUsize::new(0);
        let reader = Reader::ahead(&bytes[..]).cancel(|| reads.fetch_add(1, Ordering::Relaxed) > 0);
        assert!(matches!(reader.read(), Err(ReadError::Cancelled)));
    }
}
