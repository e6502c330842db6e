//! Tests on phantom GPUs (`vramscope-phantom`), which run on a machine without a GPU.
#![allow(clippy::unwrap_used, reason = "a test that cannot be started again fails")]

use std::process::Command;

use vramscope_phantom::{PhantomError, PhantomGpu, PhantomOptions, PhantomRun, UnansweredKind};

use crate::skip;

/// Set in a process that runs a test's body on phantom GPUs.
const ON_PHANTOM: &str = "VRAMSCOPE_TEST_ON_PHANTOM";

/// Returns phantom GPU number `number`. Its memory is `number + 1` times 16 GiB, so that GPUs can be distinguished. A context takes 512
/// MiB.
pub fn phantom_gpu(number: usize) -> PhantomGpu {
    PhantomGpu {
        name: format!("Phantom GPU {number}"),
        total_bytes: (number as u64 + 1) << 34,
        context_bytes: 512 << 20,
        compute_capability: 90,
        multiprocessors: 132,
        threads_per_multiprocessor: 2048,
        blocks_per_multiprocessor: 32,
        shared_per_multiprocessor_bytes: 228 << 10,
        shared_per_block_bytes: 227 << 10,
        l2_bytes: 50 << 20,
        bus_bits: 5120,
        is_integrated: false,
        mig: None,
    }
}

/// Returns a machine with this number of [phantom GPUs](phantom_gpu); [`skip`]s if this system does not support them.
///
/// # Panics
/// Its files cannot be written.
pub fn phantom_run(gpus: usize) -> Option<PhantomRun> {
    phantom_run_of(&(0..gpus).map(phantom_gpu).collect::<Vec<_>>())
}

/// As [`phantom_run`], with other GPUs.
///
/// # Panics
/// Its files cannot be written.
pub fn phantom_run_of(gpus: &[PhantomGpu]) -> Option<PhantomRun> {
    match PhantomRun::new(gpus, PhantomOptions::default()) {
        Ok(run) => Some(run),
        Err(e @ PhantomError::NoLibrary) => {
            skip("phantom", &e.to_string());
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// Returns a command that runs the test with this name in this test program again, with the test's output.
///
/// # Panics
/// The system cannot report the program's path.
pub fn own_test(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture"]);
    command
}

/// Whether this process was started by [`on_phantom`] to run the body of a test.
pub fn is_on_phantom() -> bool {
    std::env::var_os(ON_PHANTOM).is_some()
}

/// Runs the body of the calling test on this number of [phantom GPUs](phantom_gpu), in a separate process. That process runs the test
/// again, including the code before the body. [`skip`]s if this system does not support phantom GPUs.
///
/// # Panics
/// The body fails, or it calls a function that a phantom GPU does not support.
pub fn on_phantom(gpus: usize, body: impl FnOnce()) {
    on_phantom_of(&(0..gpus).map(phantom_gpu).collect::<Vec<_>>(), &[], body);
}

/// As [`on_phantom`], with other GPUs and with variables of the environment.
///
/// # Panics
/// The body fails, or it calls a function that a phantom GPU does not support.
pub fn on_phantom_of(gpus: &[PhantomGpu], variables: &[(&str, &str)], body: impl FnOnce()) {
    if is_on_phantom() {
        return body();
    }
    let Some(run) = phantom_run_of(gpus) else { return };
    let thread = std::thread::current();
    let name = thread.name().unwrap();
    let output = own_test(name)
        .envs(run.environment())
        .envs(variables.iter().copied())
        .env(ON_PHANTOM, "1")
        .output()
        .unwrap();
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    let ran = output.status.success() && said.contains("1 passed");
    assert!(ran, "{name} on phantom GPUs: {}\n{said}", output.status);
    let mut unanswered = run.report().unwrap().unanswered;
    unanswered.retain(|call| matches!(call.kind, UnansweredKind::Unknown | UnansweredKind::Refused));
    assert!(unanswered.is_empty(), "{name} on phantom GPUs: {unanswered:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_runs_in_a_process_of_its_own() {
        let mut ran_here = false;
        on_phantom(2, || ran_here = true);
        assert_eq!(ran_here, is_on_phantom());
    }

    #[test]
    fn a_body_that_fails_fails_its_test() {
        let failed = std::panic::catch_unwind(|| on_phantom(1, || panic!("as it should")));
        if is_on_phantom() {
            failed.unwrap();
        } else if let Err(why) = failed {
            let why = why.downcast::<String>().unwrap();
            assert!(why.contains("as it should"), "{why}");
        }
    }
}
