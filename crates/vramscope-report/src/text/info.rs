//! The text of `vramscope info`: properties of a file.

use std::fmt::Write as _;

use vramscope_analysis::RecordingFacts;
use vramscope_trace::formats::{Format, Recording};

use super::page::{BOLD, format_of};
use crate::shown::Shown;
use vramscope_basics::units::{count, counted};

/// The properties of a file as text with ANSI styles: format, settings and counts.
pub fn info(file: &str, recording: &Recording, facts: &RecordingFacts) -> String {
    let trace = &recording.trace;
    let mut out = format!("{BOLD}{}{BOLD:#}\n", Shown::of(file));
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "  {name:<11} {value}");
    };
    line("format", format_of(recording));
    let notices = &recording.notices;
    if notices.damage.places > 0 {
        line("damage", notices.damage.to_string());
    }
    if trace.ends_early {
        let cut = match notices.cut_off_bytes {
            0 => "without its end".to_owned(),
            bytes => format!("in an incomplete write of {}", counted(bytes, "byte")),
        };
        line("ends", cut);
    }
    // A log does not contain the generation of PyTorch's format.
    if !matches!(recording.format, Format::Log { .. }) {
        line("age", facts.generation.to_owned());
    }
    line(
        "has",
        if facts.features.is_empty() { "nothing more".to_owned() } else { facts.features.join(", ") },
    );
    if let Some(settings) = &trace.settings {
        let conf = settings.conf_text.as_deref().filter(|c| !c.is_empty()).unwrap_or("(defaults)");
        line("settings", Shown::of(conf).into());
    }
    line(
        "stacks",
        format!(
            "{} of {} frames together, {} distinct frames",
            count(trace.stacks.len() as u64),
            count(facts.stack_frames as u64),
            count(trace.frames.len() as u64)
        ),
    );
    if let Some(annotations) = &trace.annotations {
        line("annotations", count(annotations.len() as u64));
    }
    if let Some(accesses) = &trace.accesses {
        let [launches, unknown] = [accesses.launches, accesses.unknown_launches].map(count);
        let noun = if accesses.launches == 1 { "launch" } else { "launches" };
        line("accesses", format!("{launches} {noun}, {unknown} with unknown parameters"));
    }
    for d in &facts.devices {
        let name = if d.device < 0 { "host".to_owned() } else { trace.device_name(d.device) };
        let counts = [(d.events, "event"), (d.segments, "segment"), (d.blocks, "block")];
        line(&name, counts.map(|(n, what)| counted(n as u64, what)).join(", "));
        for (action, n) in &d.actions {
            line("", format!("{:<16}{:>12}", action.name(), count(*n as u64)));
        }
        for action in d.skipped.iter() {
            line("", format!("{:<16}{:>12}", action.name(), "left out"));
        }
    }
    out
}
