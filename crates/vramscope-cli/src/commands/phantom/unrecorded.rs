//! Processes that used a GPU and lack PyTorch's numbers.

use std::os::unix::process::ExitStatusExt as _;

use super::attempt::Attempt;

/// Processes that used a GPU and left no complete recording.
pub(crate) struct Unrecorded {
    pub(crate) processes: u64,
    /// Why they lack a recording.
    pub(crate) reason: String,
}

impl Unrecorded {
    pub(crate) fn of(attempt: &Attempt) -> Option<Self> {
        let complete = attempt.recordings.iter().filter(|recorded| recorded.facts.is_complete).count() as u64;
        let processes = attempt.machine.counts.processes.saturating_sub(complete);
        (processes > 0).then(|| Self { processes, reason: reason(attempt) })
    }
}

fn reason(attempt: &Attempt) -> String {
    let machine = &attempt.machine;
    let isolated: Vec<&str> = machine.unrecorded.iter().filter_map(|setting| option(setting)).collect();
    if attempt.ended.killed {
        "killed before the numbers could be written".to_owned()
    } else if let Some(signal @ (9 | 11 | 6)) = attempt.ended.status.signal() {
        format!("killed by signal {signal} before the numbers could be written")
    } else if machine.counts.killed > 0 {
        "a process was killed before the numbers could be written".to_owned()
    } else if isolated.is_empty() {
        "no history of PyTorch's allocator was recorded".to_owned()
    } else {
        // -I implies -E.
        let option = if isolated.contains(&"-I") { "-I" } else { isolated[0] };
        format!("the interpreter was started with {option} (isolated), which prevents recording")
    }
}

/// The option of the Python command that sets one of its flags.
fn option(setting: &str) -> Option<&'static str> {
    match setting {
        "isolated" => Some("-I"),
        "no_site" => Some("-S"),
        "ignore_environment" => Some("-E"),
        _ => None,
    }
}
