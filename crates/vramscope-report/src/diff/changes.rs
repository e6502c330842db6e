//! Sentences about the differences between two recordings, shared by text, JSON and the page.

use vramscope_analysis::{
    Both, Cause, CodePlace, Difference, Finding, FreedBytes, Holder, HolderChange, HolderKey, LeakSuspect,
    LineDifference, Origin, SettingChange, Side,
};
use vramscope_basics::units::{bytes, count, counted, signed_bytes};

use crate::names::Names;
use crate::report::out_of_memory::causes::recorded_conf;
use crate::shown::Shown;

/// Limit on the number of categories in one sentence.
const MOST_CATEGORIES: usize = 4;

/// The name of a recording in sentences.
pub fn side(side: Side) -> &'static str {
    match side {
        Side::A => "A",
        Side::B => "B",
    }
}

/// One or two sentences: the differences of the peaks of reserved bytes and of the allocated bytes at the compared events, the larger one
/// first. `at` names these events, as "At the peak"; at other events, the peaks of reserved bytes are not compared.
pub fn verdict(difference: &Difference, at: &str) -> String {
    let allocated = difference.counters.map(|counters| counters.allocated);
    let reserved = difference.peaks.map(|peaks| peaks.reserved.bytes);
    let of_allocated = match compared(allocated) {
        None => format!("{at}, both have {} allocated.", bytes(allocated.a)),
        Some((by, than)) => format!("{at}, B has {by} allocated than A: {than}."),
    };
    let of_reserved = compared(reserved).filter(|_| difference.is_at_peaks());
    match of_reserved.map(|(by, than)| format!("B reserves {by} than A: {than} at the peaks.")) {
        None => of_allocated,
        Some(of_reserved) if reserved.a.abs_diff(reserved.b) > allocated.a.abs_diff(allocated.b) => {
            format!("{of_reserved} {of_allocated}")
        }
        Some(of_reserved) => format!("{of_allocated} {of_reserved}"),
    }
}

/// The difference of two numbers of bytes, as `2.50 GiB more`, and both, as `11.26 GiB instead of 8.76 GiB (1.3 times as much)`. The factor is
/// left out near 1, and so are sizes that look the same. `None` if they are equal.
fn compared(of: Both<u64>) -> Option<(String, String)> {
    let by = of.difference();
    let more = if by > 0 { "more" } else { "less" };
    let [a, b] = [of.a, of.b].map(bytes);
    let than = if a == b { format!("both about {a}") } else { format!("{b} instead of {a}") };
    let ratio = of.b as f64 / of.a as f64;
    let times = match of {
        Both { a: 0, .. } | Both { b: 0, .. } => String::new(),
        _ if (0.95..1.05).contains(&ratio) => String::new(),
        _ => format!(" ({} times as much)", factor(ratio)),
    };
    (by != 0).then(|| (format!("{} {more}", bytes(by.unsigned_abs())), format!("{than}{times}")))
}

/// Compares the bytes that a change freed with those that it promised: a verdict, then the peaks and the end.
pub fn promise(promised: u64, freed: &FreedBytes) -> Vec<String> {
    let FreedBytes { peak_allocated, peak_reserved, end_allocated, end_reserved } = *freed;
    let keeps = |freed: i64| u64::try_from(freed).is_ok_and(|freed| freed >= promised);
    let peak = keeps(peak_allocated) && keeps(peak_reserved);
    let end = keeps(end_allocated) && keeps(end_reserved);
    let at_all = [peak_allocated, peak_reserved, end_allocated, end_reserved].iter().any(|&freed| freed > 0);
    let promised = bytes(promised);
    let verdict = match (peak, end) {
        (true, true) => format!("B keeps the promise of {promised} at the peaks and at the end."),
        (true, false) => format!("B keeps the promise of {promised} at the peaks, but not at the end."),
        (false, true) => format!("B keeps the promise of {promised} at the end, but not at the peaks."),
        (false, false) if at_all => {
            format!("B frees less than the promised {promised} at the peaks and at the end.")
        }
        (false, false) => format!("B frees nothing of the promised {promised}."),
    };
    let less = |freed: i64| match freed {
        0 => "is the same".to_owned(),
        freed if freed > 0 => format!("is {} lower", bytes(freed.unsigned_abs())),
        freed => format!("is {} higher", bytes(freed.unsigned_abs())),
    };
    let are = |freed: i64| less(freed).replacen("is", "are", 1);
    vec![
        verdict,
        format!(
            "The peak of allocated bytes {}, that of reserved bytes {}.",
            less(peak_allocated),
            less(peak_reserved)
        ),
        format!("At the end, allocated bytes {}, reserved bytes {}.", are(end_allocated), are(end_reserved)),
    ]
}

/// Formats a factor, as `2.0` or `0.25`.
fn factor(factor: f64) -> String {
    if factor < 0.95 { format!("{factor:.2}") } else { format!("{factor:.1}") }
}

/// One or two sentences about a difference.
pub fn finding(finding: &Finding, names: &Both<Names<'_>>) -> String {
    let held = finding.held;
    let both = |of: Both<u64>| format!("{} in A, {} in B", bytes(of.a), bytes(of.b));
    let now = format!("{}{}", both(held.map(|held| held.bytes)), categories(finding));
    match &finding.cause {
        Cause::Leak(suspects) => {
            let of = |side: Side| {
                suspects.of(side).first().map(|first| leak(names.of(side), first, suspects.of(side).len()))
            };
            match (of(Side::A), of(Side::B)) {
                (None, Some(b)) => format!("Leak only in B: {b}."),
                (Some(a), None) => format!("Leak only in A: {a}."),
                (Some(a), Some(b)) => format!("Leak in both. In A: {a}; in B: {b}."),
                (None, None) => format!("Suspected leaks hold {now}."),
            }
        }
        Cause::Recomputed { by } => format!(
            "{} recomputes parts of the forward pass in the backward pass, as activation checkpointing does, and {} does not. These parts hold {now}.",
            side(*by),
            side(by.other())
        ),
        Cause::Optimizer { steps } => {
            let files = |side: Side| {
                let files = steps.of(side).iter().map(|place| match *place {
                    CodePlace::Line(frame) | CodePlace::Function(frame) => {
                        names.of(side).file(frame).to_string()
                    }
                    CodePlace::NoStack => String::new(),
                });
                files.collect::<Vec<String>>().join(", ")
            };
            let [a, b] = Side::BOTH.map(files);
            match (a.as_str(), b.as_str()) {
                ("", "") => format!("The size of the optimizer state differs: {now}."),
                (a, b) if a == b => format!("The size of the optimizer state differs ({a}): {now}."),
                ("", b) => {
                    format!(
                        "The optimizers differ: {b} in B; none allocates state in A. The state holds {now}."
                    )
                }
                (a, "") => {
                    format!(
                        "The optimizers differ: {a} in A; none allocates state in B. The state holds {now}."
                    )
                }
                (a, b) => format!("The optimizers differ: {a} in A, {b} in B. The state holds {now}."),
            }
        }
        Cause::Type { factor: by } => format!(
            "Each long-lived allocation is {} times as large: another data type, for example bfloat16 instead of float32. With all dependent allocations: {now}.",
            factor(*by)
        ),
        Cause::Model { parameters } => {
            let of = |side: Side| {
                let of = parameters.of(side);
                format!("{} in {}", bytes(of.bytes), counted(of.count, "block"))
            };
            format!(
                "The models differ: parameters of {} in A, {} in B. With their gradients and optimizer state: {now}.",
                of(Side::A),
                of(Side::B)
            )
        }
        Cause::Feature { feature, by } => {
            let uses = format!("{} uses {}, {} does not.", side(*by), feature.name, side(by.other()));
            if finding.difference() == 0 { uses } else { format!("{uses} Its stacks hold {now}.") }
        }
        Cause::Scaled { factor: by, stacks, squared, same_count, same_kept, same_parameters } => {
            let each = if *same_count { ", in equal number" } else { "" };
            let times = factor(*by);
            let squares = match squared {
                0 => String::new(),
                n => format!(" ({} of them {} times)", count(*n as u64), factor(by * by)),
            };
            let [batch, sequences, image, layers] = match *by > 1.0 {
                true => ["a larger batch", "longer sequences", "a larger image", "wider layers"],
                false => ["a smaller batch", "shorter sequences", "a smaller image", "narrower layers"],
            };
            let reason = match (squared, same_parameters) {
                (0, true) => format!("{batch} or {sequences}"),
                (0, false) => format!("{batch}, {sequences} or {layers}"),
                (_, true) => format!("{sequences} or {image}"),
                (_, false) => format!("{sequences}, {image} or {layers}"),
            };
            let same = match same_kept {
                0 => String::new(),
                same => format!(" Long-lived and equal in both: {}.", bytes(*same)),
            };
            format!(
                "{} have allocations that are {times} times as large in B{squares}{each}: {reason}. They hold {now}.{same}",
                counted(*stacks as u64, "stack")
            )
        }
        Cause::Blocks => format!("The same requests were served by blocks of different sizes: {now}."),
        Cause::Repeated { stacks } => {
            let (more, reason) = match held.b.bytes > held.a.bytes {
                true => ("more", "more layers, or a loop that runs more often"),
                false => ("fewer", "fewer layers, or a loop that runs less often"),
            };
            format!(
                "{} have {more} allocations of the same size in B ({} instead of {}): {reason}. They hold {now}.",
                counted(*stacks as u64, "stack"),
                count(held.b.count),
                count(held.a.count)
            )
        }
        Cause::Unused => {
            let conf = names.map(|names| recorded_conf(names.trace));
            let SettingChange { add, remove, .. } = SettingChange::between(conf.a, conf.b);
            let list = |items: Vec<String>| {
                items.iter().map(|item| format!("`{}`", Shown::of(item))).collect::<Vec<_>>().join(", ")
            };
            let why = match (add.is_empty(), remove.is_empty()) {
                (true, true) => "Free blocks are reused to a different degree".to_owned(),
                (false, true) => format!("B has {}", list(add)),
                (true, false) => format!("A has {}", list(remove)),
                (false, false) => format!("A has {}, and B {}", list(remove), list(add)),
            };
            format!("Peak of reserved bytes above the peak of allocated bytes: {now}. {why}.")
        }
        Cause::Category(category) => format!("{}: {now}.", crate::names::category(*category)),
        Cause::Line => match finding.lines.first() {
            None => now,
            Some(line) => {
                let of = self::line(line, names);
                match line.only_in {
                    Some(Side::B) => format!("{of} is new: it holds {}.", bytes(held.b.bytes)),
                    Some(Side::A) => format!("{of} is gone: it held {}.", bytes(held.a.bytes)),
                    None => format!("{of}: {now}."),
                }
            }
        },
    }
}

/// The difference of each category in parentheses, after the bytes; empty if categories are unknown.
fn categories(finding: &Finding) -> String {
    let differing = finding.categories.iter().filter(|of| of.held.a.bytes != of.held.b.bytes);
    let parts: Vec<String> = differing
        .take(MOST_CATEGORIES)
        .map(|of| {
            format!("{} {}", crate::names::category(of.category), difference(of.held.map(|held| held.bytes)))
        })
        .collect();
    if parts.is_empty() || matches!(finding.cause, Cause::Category(_)) {
        return String::new();
    }
    format!(" ({})", parts.join(", "))
}

/// The name of a line, as `model.py:42 forward`.
pub fn line(line: &LineDifference, names: &Both<Names<'_>>) -> String {
    names.of(line.side()).matched(line.place(), line.freed_there).to_string()
}

/// The name of a group of allocations, taken from the later event or from recording B if the group is in both.
pub fn holder(change: &HolderChange, names: &Both<Names<'_>>) -> String {
    let names = names.of(change.side());
    match change.holders.of(change.side()) {
        &Some(Holder { key: HolderKey::Line(frame), origin, .. }) if change.is_function => {
            names.matched(CodePlace::Function(frame), origin == Some(Origin::FreeOnly)).into()
        }
        Some(holder) => names.wide_holder(holder).into(),
        None => String::new(),
    }
}

/// The bytes of a line in both recordings, for display after its name.
pub fn amounts(line: &LineDifference) -> String {
    was(line.held.map(|held| held.bytes), line.only_in)
}

/// The bytes in B and in A, as `2.00 GiB, was 1.00 GiB`.
pub fn was(held: Both<u64>, only_in: Option<Side>) -> String {
    let [a, b] = [held.a, held.b].map(bytes);
    match only_in {
        Some(Side::B) => format!("{b}, new"),
        Some(Side::A) => format!("was {a}, gone"),
        None => format!("{b}, was {a}"),
    }
}

/// The signed difference, as `+1.20 GiB`; `0 B` if there is none.
pub fn difference(of: Both<u64>) -> String {
    signed_bytes(of.difference())
}

fn leak(names: &Names<'_>, first: &LeakSuspect, lines: usize) -> String {
    let more = match lines {
        0 | 1 => String::new(),
        lines => format!(", and {}", counted(lines as u64 - 1, "more line")),
    };
    format!(
        "{} retained {} of the {} blocks it allocated, {}{more}",
        names.frame(first.line),
        count(first.kept),
        count(first.allocations),
        bytes(first.kept_bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_kept_at_the_peaks_and_at_the_end() {
        let verdict = |freed: [i64; 4]| {
            let [peak_allocated, peak_reserved, end_allocated, end_reserved] = freed.map(|mib| mib << 20);
            let freed = FreedBytes { peak_allocated, peak_reserved, end_allocated, end_reserved };
            promise(100 << 20, &freed)[0].clone()
        };
        let kept = "B keeps the promise of 100.00 MiB at the";
        assert_eq!(verdict([100, 120, 100, 100]), format!("{kept} peaks and at the end."));
        assert_eq!(verdict([100, 120, 100, 0]), format!("{kept} peaks, but not at the end."));
        // The cache keeps the freed blocks.
        assert_eq!(verdict([100, 0, 100, 100]), format!("{kept} end, but not at the peaks."));
        assert_eq!(
            verdict([50, 0, 0, 0]),
            "B frees less than the promised 100.00 MiB at the peaks and at the end."
        );
        assert_eq!(verdict([0, -20, 0, 0]), "B frees nothing of the promised 100.00 MiB.");
    }
}
