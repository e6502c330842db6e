//! Shared test support: skipping tests that cannot run on this machine, phantom GPUs ([`on_phantom`]), recordings of whole jobs
//! ([`fleet`]), the pages whose examples are tested ([`book`]), and generated files ([`committed`]).
//!
//! A test whose requirement is missing, such as tmux, calls [`skip`] and returns. The output of passing tests is hidden, so each skip is
//! also written to the file that `VRAMSCOPE_SKIPS` names. `./test` counts these at its end. In continuous integration (`CI` is set), only
//! the requirements in `.ci/may-skip` or `VRAMSCOPE_MAY_SKIP` may be missing: any other skip fails its test.
#![allow(clippy::panic, clippy::print_stderr, reason = "used only by tests")]

pub mod book;
mod committed;
pub mod fleet;
mod phantom;

pub use committed::{Declarations, committed};
pub use vramscope_phantom::{PhantomGpu, PhantomMig};

pub use phantom::{
    is_on_phantom, on_phantom, on_phantom_of, own_test, phantom_gpu, phantom_run, phantom_run_of,
};

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The requirements that may be missing in continuous integration, one per line.
const MAY_SKIP: &str = include_str!("../../../.ci/may-skip");

/// Reports that the calling test does not run, because the requirement `need` is missing (one word, such as `gpu`). `why` explains it in
/// the test's output.
///
/// # Panics
/// In continuous integration, if `need` may not be missing.
pub fn skip(need: &str, why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("?");
    eprintln!("skipped, {need} is missing: {why}");
    if let Some(file) = std::env::var_os("VRAMSCOPE_SKIPS") {
        let line = format!("{need} {test}\n");
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(&file);
        // A single write, because tests of several processes append to the same file.
        if let Err(e) = opened.and_then(|mut file| file.write_all(line.as_bytes())) {
            panic!("{}: {e}", Path::new(&file).display());
        }
    }
    let more = std::env::var("VRAMSCOPE_MAY_SKIP").unwrap_or_default();
    assert!(
        std::env::var_os("CI").is_none_or(|ci| ci.is_empty()) || may_skip(need, MAY_SKIP, &more),
        "{test} cannot run, {need} is missing: {why}. If this is intended, add it to .ci/may-skip or VRAMSCOPE_MAY_SKIP"
    );
}

/// Whether the requirement is on the list, or among the words of `more`.
fn may_skip(need: &str, list: &str, more: &str) -> bool {
    let listed = list.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    listed.chain(more.split_whitespace()).any(|allowed| allowed == need)
}

/// Returns the folder of larger recordings, next to the checkout or in `VRAMSCOPE_DATA`; [`skip`]s if it does not exist.
pub fn recordings() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("VRAMSCOPE_DATA").map_or_else(beside, PathBuf::from);
    if !folder.is_dir() {
        let at = folder.display();
        skip("recordings", &format!("there is no folder {at}; set VRAMSCOPE_DATA to use another"));
        return None;
    }
    Some(folder)
}

/// How often a random test runs: `n` times, or more often by the factor in `VRAMSCOPE_TIMES` (`./test --slow`).
pub fn times(n: u32) -> u32 {
    let factor = std::env::var("VRAMSCOPE_TIMES").ok().and_then(|factor| factor.parse().ok());
    n.saturating_mul(factor.unwrap_or(1))
}

/// Returns the interpreter in the environment variable `variable`; [`skip`]s with `need` if it is not set.
pub fn interpreter(need: &str, variable: &str) -> Option<String> {
    let named = std::env::var(variable).ok();
    if named.is_none() {
        skip(need, &format!("{variable} does not name an interpreter"));
    }
    named
}

/// Differences between snapshots and PyTorch's schema of a release (`crates/vramscope-trace/tests/schema`), one per line. The script is
/// independent of vramscope: it uses CPython's unpickler.
///
/// # Panics
/// If the script fails.
pub fn schema_differences(arguments: &[&str], release: &str, files: &[PathBuf]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../vramscope-trace/tests/schema/snapshot_schema.py");
    let output = Command::new("python3").arg(script).args(arguments).arg(release).args(files).output();
    let output = output.unwrap_or_else(|e| panic!("python3: {e}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(i32::from(!text.is_empty())), "{told}");
    text
}

#[cfg(test)]
mod tests {
    use super::may_skip;

    #[test]
    fn only_listed_requirements_may_be_missing() {
        let list = "# tmux\ngpu\n torch \n";
        assert!(may_skip("gpu", list, "") && may_skip("torch", list, ""));
        assert!(!may_skip("tmux", list, "") && !may_skip("gp", list, "") && !may_skip("", list, " "));
        assert!(may_skip("tmux", list, "recordings tmux"));
    }
}
