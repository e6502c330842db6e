//! Logs with corrected chunk checksums, and JSON, with the same checks as the target `read`. Random mutations almost never have correct
//! checksums and are rarely valid JSON.
#![no_main]

#[path = "../questions/mod.rs"]
mod questions;
#[path = "../questions/samples.rs"]
mod samples;

use libfuzzer_sys::fuzz_target;
use vramscope::trace::formats::{Opened, Reader};

/// Header sizes of a version 2 log and of its chunks, in bytes.
const HEADER: usize = 20;
const CHUNK_HEADER: usize = 20;

fuzz_target!(|bytes: &[u8]| match bytes {
    [b'\x93', ..] => {
        check(bytes);
        if let Some(log) = sealed(bytes) {
            check(&log);
        }
    }
    [b'{' | b'[', ..] => check(bytes),
    // Records only: the payload of the one chunk after the log's names.
    _ => check(&log_of(bytes)),
});

/// Corrects the checksums, run ids and chunk numbers of a log of version 1 or 2, as far as the log has them.
fn sealed(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut log = bytes.starts_with(b"\x93vramscp").then(|| bytes.to_vec())?;
    let version_1 = log.get(8) == Some(&1);
    let (head, mut rest) = log.split_at_mut_checked(if version_1 { 12 } else { HEADER })?;
    let mut number = 0u32;
    while let Some(([l0, l1, l2, l3, checksum @ ..], after)) = rest.split_first_chunk_mut::<8>() {
        let own = if version_1 { 0 } else { CHUNK_HEADER - 8 };
        let length = u32::from_le_bytes([*l0, *l1, *l2, *l3]) as usize + own;
        let Some((sealed, next)) = after.split_at_mut_checked(length) else { break };
        if !version_1 {
            sealed[..8].copy_from_slice(&head[12..]);
            sealed[8..12].copy_from_slice(&number.to_le_bytes());
            number += 1;
        }
        checksum.copy_from_slice(&crc32fast::hash(sealed).to_le_bytes());
        rest = next;
    }
    Some(log)
}

fn log_of(records: &[u8]) -> Vec<u8> {
    let names = include_bytes!("../corpus/log/names");
    let sealed = [&names[12..20], &1u32.to_le_bytes(), records].concat();
    let seal = [records.len() as u32, crc32fast::hash(&sealed)].map(u32::to_le_bytes).concat();
    [&names[..], &seal, &sealed].concat()
}

/// Reads `bytes` and runs every query on the recording or the log of samples.
fn check(bytes: &[u8]) {
    match Reader::new(bytes).read_any() {
        Ok(Opened::Recording(recording)) => questions::ask(&recording),
        Ok(Opened::Samples { log, .. }) => samples::ask(&log),
        Err(_) => {}
    }
}
