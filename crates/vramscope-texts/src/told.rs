//! Sentences about the errors of a text, and a bar of the device's memory.

use std::fmt::Write as _;

use vramscope_basics::units::{bytes, counted};

use crate::error::{CauseKind, Found, TextError};

/// Columns of the bar.
const COLUMNS: u64 = 60;

/// The most errors that are told one by one.
const MOST_TOLD: usize = 3;

/// The answer as text: the first error, its cause, its numbers as a bar, what cannot be known, and the next steps; then the others in a line
/// each.
#[must_use]
pub fn told(name: &str, found: &Found) -> String {
    let mut out = format!("{name}: text, {}\n\n", counted(found.lines, "line"));
    let Some(first) = found.errors.first() else {
        out.push_str("No out-of-memory error was found.");
        if found.followed > 0 {
            let _ = write!(
                out,
                " {} about failures that follow from another one: look for the first failure of another rank.",
                counted(found.followed, "line")
            );
        }
        out.push('\n');
        return out;
    };
    let _ = writeln!(out, "{}\n", verdict(first));
    out.push_str(&bar(first));
    for text in next_steps(first) {
        let _ = writeln!(out, "{text}");
    }
    if found.errors.len() > 1 {
        out.push_str("\nLater in the text:\n");
    }
    for error in found.errors.iter().skip(1).take(MOST_TOLD) {
        let _ = writeln!(out, "  {}", verdict(error));
    }
    let more = found.errors.len().saturating_sub(MOST_TOLD + 1) as u64 + found.more_errors;
    if more > 0 {
        let _ = writeln!(out, "  ... {} more", counted(more, "error"));
    }
    if found.followed > 0 {
        let _ =
            writeln!(out, "\n{} about failures that follow from this one.", counted(found.followed, "line"));
    }
    out
}

/// The error and its cause, in a sentence with its place.
fn verdict(error: &TextError) -> String {
    let cause = error.cause();
    let asked = error.tried.map_or("a request".to_owned(), |tried| format!("a request of {}", bytes(tried)));
    let sure = match cause.certainty {
        "shown" => "",
        "likely" => ", likely",
        _ => ", possibly",
    };
    let lacking = cause.lacking_bytes.map(bytes).unwrap_or_default();
    let because = match cause.kind {
        CauseKind::Size if error.cache().is_some() => format!(
            "{sure} because the device is too small: {lacking} is missing, and the cache has {}",
            bytes(error.cache().unwrap_or_default())
        ),
        CauseKind::Size => format!("{sure} because the device is too small"),
        CauseKind::Fragmentation => format!(
            "{sure} because of fragmentation: {} is reserved and free, and {lacking} is missing",
            bytes(error.cache().unwrap_or_default())
        ),
        CauseKind::Others => format!(
            "{sure} because of other processes on the device{}",
            error.others.map_or(String::new(), |others| format!(": they use {}", bytes(others)))
        ),
        CauseKind::Limit => format!(
            "{sure} because of a limit{}, not of the device",
            error.limit.map_or(String::new(), |limit| format!(" of {}", bytes(limit)))
        ),
        CauseKind::Pages => format!(
            "{sure} although {} is free: the allocator needs whole pages of 2 or 20 MiB, or the free memory is of another kind",
            bytes(error.free.unwrap_or_default())
        ),
        CauseKind::Host => " because of the memory of the host, not of the device".to_owned(),
        CauseKind::AddressSpace => {
            " because of virtual addresses that expandable segments reserve, not of memory".to_owned()
        }
        CauseKind::Unknown => "; the text does not show why".to_owned(),
    };
    let mut place = format!("line {}", error.line);
    if let Some(rank) = error.rank {
        let _ = write!(place, ", rank {rank}");
    }
    if let Some(device) = error.device {
        let _ = write!(place, ", device {device}");
    }
    format!("Out of memory ({}, {place}): {asked} failed{because}.", error.program)
}

/// The device's memory, if the text has its size: allocated, cached, the rest of the process, other processes, free.
fn bar(error: &TextError) -> String {
    let (Some(total), Some(free)) = (error.total.filter(|&total| total > 0), error.free) else {
        return String::new();
    };
    let allocated = error.allocated.unwrap_or_default();
    let cached = error.cache().unwrap_or_default();
    let own = error.process.map_or(0, |process| process.saturating_sub(allocated.saturating_add(cached)));
    let others = error.others.unwrap_or_default();
    let known = [allocated, cached, own, others, free].into_iter().fold(0, u64::saturating_add);
    if known > total.saturating_add(total / 50) {
        return "The numbers of the text contradict each other: together they exceed the device.\n\n"
            .to_owned();
    }
    let parts = [
        ("allocated", allocated, '█'),
        ("cached", cached, '▓'),
        ("context and libraries", own, '▒'),
        ("other processes", others, '░'),
        ("not named", total.saturating_sub(known), '·'),
        ("free", free, ' '),
    ];
    let (mut drawn, mut rows) = (String::new(), String::new());
    for (name, part, letter) in parts {
        let columns = (u128::from(part) * u128::from(COLUMNS) / u128::from(total)) as usize;
        drawn.extend(std::iter::repeat_n(letter, columns));
        if part > 0 {
            let _ = writeln!(rows, "  {:>11}  {letter} {name}", bytes(part));
        }
    }
    format!("  [{drawn:<width$}] {}\n{rows}\n", bytes(total), width = COLUMNS as usize)
}

/// At most two next steps.
fn next_steps(error: &TextError) -> Vec<String> {
    let record = "Record the run to see what holds the memory: `vramscope.torch.record(\"run.pickle\")` around it, then `vramscope report run.pickle`.";
    let phantom = "Without a GPU, `vramscope phantom run --gpu GPU -- python PROGRAM` runs it and says what it needs; `vramscope fit` finds changes that fit.";
    let is_torch = error.program == "pytorch";
    let steps: &[&str] = match error.cause().kind {
        CauseKind::Host => {
            &["Look at the memory of the host: `vramscope run -- python PROGRAM` records both."]
        }
        CauseKind::Others => &[
            "`nvidia-smi` or `vramscope top` names the other processes. End them, or choose another device with `CUDA_VISIBLE_DEVICES`.",
        ],
        CauseKind::Limit => &[
            "Raise the limit (`set_per_process_memory_fraction`, `gpu_memory_utilization`, `mem_fraction_static`, the pool's maximum).",
        ],
        CauseKind::Fragmentation if is_torch && !error.expandable_segments => &[
            "Set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`, so that free memory serves requests of any size.",
            record,
        ],
        CauseKind::AddressSpace => &["Lower `expandable_segments_reserve`, or use fewer streams."],
        CauseKind::Size | CauseKind::Fragmentation | CauseKind::Pages | CauseKind::Unknown if is_torch => {
            &[record, phantom]
        }
        _ => &[
            "`vramscope run -- PROGRAM` records what the program allocates at the driver; `vramscope report run.vramscope` shows it.",
        ],
    };
    steps.iter().map(|&step| step.to_owned()).collect()
}
