//! Processes that used a GPU and lack PyTorch's numbers.

use std::os::unix::process::ExitStatusExt as _;

use super::attempt::Attempt;
use super::recordings::Recorded;

/// Processes that used a GPU and left no complete recording with all events.
pub(crate) struct Unrecorded {
    pub(crate) processes: u64,
    /// Why they lack a recording.
    pub(crate) reason: String,
}

impl Unrecorded {
    pub(crate) fn of(attempt: &Attempt) -> Option<Self> {
        let complete = |recorded: &&Recorded| recorded.facts.is_complete;
        let (dropped, whole): (Vec<_>, Vec<_>) =
            attempt.recordings.iter().filter(complete).partition(|recorded| recorded.facts.may_have_dropped);
        let processes = attempt.machine.counts.processes.saturating_sub(whole.len() as u64);
        (processes > 0).then(|| Self { processes, reason: reasons(attempt, processes, dropped.len() as u64) })
    }
}

/// Why `processes` processes lack PyTorch's numbers, of which `dropped` have a recording without its older events.
fn reasons(attempt: &Attempt, processes: u64, dropped: u64) -> String {
    const DROPPED: &str = "older events were dropped (--max-entries)";
    match dropped {
        0 => reason(attempt),
        _ if dropped >= processes => DROPPED.to_owned(),
        _ => format!("{}; {DROPPED}", reason(attempt)),
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
