//! Identifies the program of a recording by a sketch of its user lines, so that many recordings can be compared.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};
use vramscope_analysis::Code;
use vramscope_report::Names;

use crate::summary::Program;

/// Hashes in a sketch. Two programs that share a tenth of their lines share about three hashes.
const HASHES: usize = 32;

/// Limit on the listed files.
const FILES: usize = 3;

pub(super) fn of(names: &Names<'_>) -> Program {
    let trace = names.trace;
    let mut lines: BTreeSet<u64> = BTreeSet::new();
    let mut functions: BTreeSet<u64> = BTreeSet::new();
    let mut files: BTreeMap<String, usize> = BTreeMap::new();
    for (id, frame) in trace.frames.iter().filter(|&(id, _)| names.frames.code(id) == Code::User) {
        let (file, name) = (trace.strings.get(frame.filename), trace.strings.get(frame.name));
        functions.insert(hash(&[file, name]));
        if lines.insert(hash(&[file, name, &frame.line.to_string()])) {
            *files.entry(names.file(id).into()).or_default() += 1;
        }
    }
    let mut files: Vec<(String, usize)> = files.into_iter().collect();
    files.sort_by_key(|(_, lines)| Reverse(*lines));
    Program {
        lines: lines.len(),
        sketch: lines.into_iter().take(HASHES).collect(),
        functions: functions.into_iter().take(HASHES).collect(),
        files: files.into_iter().take(FILES).map(|(file, _)| file).collect(),
    }
}

/// Returns a hash that is the same on every machine and in every version of vramscope.
fn hash(texts: &[&str]) -> u64 {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    let bytes = hash.finalize();
    bytes.iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte))
}
