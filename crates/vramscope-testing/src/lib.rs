//! What the tests of all crates share: how a test says that it cannot run on this machine, GPUs that are only counters
//! ([`on_phantom`]), recordings of whole jobs ([`fleet`]), the pages whose examples are tested ([`book`]), and files that are written by
//! tests ([`committed`]).
//!
//! A test that needs something which may not be there, such as tmux, calls [`skip`] and returns. Nobody sees what a
//! test that passes prints, so each skip is also written to the file that `VRAMSCOPE_SKIPS` names, which `./test` counts
//! in its closing lines. In continuous integration (`CI` is set) only what is listed in `.ci/may-skip` or named in
//! `VRAMSCOPE_MAY_SKIP` may be missing: any other skip fails its test.
#![allow(clippy::panic, clippy::print_stderr, reason = "this is for tests")]

pub mod book;
mod committed;
pub mod fleet;
mod phantom;

pub use committed::{committed, typescript};
pub use phantom::{is_on_phantom, on_phantom, own_test, phantom_gpu, phantom_run};

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// What may be missing in continuous integration, one name a line.
const MAY_SKIP: &str = include_str!("../../../.ci/may-skip");

/// Says that the test that calls it does not run, for want of `need` (one word, such as `gpu`); `why` is for who reads
/// the test's output.
///
/// # Panics
/// In continuous integration, where `need` is not among what may be missing.
pub fn skip(need: &str, why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("?");
    eprintln!("skipped for want of {need}: {why}");
    if let Some(file) = std::env::var_os("VRAMSCOPE_SKIPS") {
        let line = format!("{need} {test}\n");
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(&file);
        // One write: tests of several processes append to the same file.
        if let Err(e) = opened.and_then(|mut file| file.write_all(line.as_bytes())) {
            panic!("{}: {e}", Path::new(&file).display());
        }
    }
    let more = std::env::var("VRAMSCOPE_MAY_SKIP").unwrap_or_default();
    assert!(
        std::env::var_os("CI").is_none_or(|ci| ci.is_empty()) || may_skip(need, MAY_SKIP, &more),
        "{test} cannot run for want of {need}: {why}. Where that is meant, name it in .ci/may-skip or VRAMSCOPE_MAY_SKIP"
    );
}

/// The need is on the list, or among the words of `more`.
fn may_skip(need: &str, list: &str, more: &str) -> bool {
    let listed = list.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    listed.chain(more.split_whitespace()).any(|allowed| allowed == need)
}

/// The folder of larger recordings, beside the checkout or where `VRAMSCOPE_DATA` names it; [`skip`]s where it is not.
pub fn recordings() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("VRAMSCOPE_DATA").map_or_else(beside, PathBuf::from);
    if !folder.is_dir() {
        let at = folder.display();
        skip("recordings", &format!("there is no folder {at}; VRAMSCOPE_DATA may name another"));
        return None;
    }
    Some(folder)
}

/// The interpreter that the environment variable `variable` names; [`skip`]s for want of `need` where it names none.
pub fn interpreter(need: &str, variable: &str) -> Option<String> {
    let named = std::env::var(variable).ok();
    if named.is_none() {
        skip(need, &format!("{variable} does not name an interpreter"));
    }
    named
}

#[cfg(test)]
mod tests {
    use super::may_skip;

    #[test]
    fn only_what_is_named_may_be_missing() {
        let list = "# tmux\ngpu\n torch \n";
        assert!(may_skip("gpu", list, "") && may_skip("torch", list, ""));
        assert!(!may_skip("tmux", list, "") && !may_skip("gp", list, "") && !may_skip("", list, " "));
        assert!(may_skip("tmux", list, "recordings tmux"));
    }
}
