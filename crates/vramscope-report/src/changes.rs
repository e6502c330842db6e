//! What changed between two recordings, in words: the sentences that text, JSON and page share.

use vramscope_analysis::{
    Both, Cause, Difference, Finding, Holder, HolderChange, HolderKey, LeakSuspect, LineDifference, Origin,
    Place, Side,
};

use crate::names::Names;
use vramscope_basics::units::{bytes, count, counted, signed_bytes};

/// The most categories that are named in a sentence.
const MOST_CATEGORIES: usize = 4;

/// The name by which the words tell two recordings apart.
pub fn side(side: Side) -> &'static str {
    match side {
        Side::A => "A",
        Side::B => "B",
    }
}

/// By how much what is allocated at the moments that are compared differs: a sentence. `at` says where these are.
pub fn verdict(difference: &Difference, at: &str) -> String {
    let allocated = difference.counters.map(|counters| counters.allocated);
    let (more, by) = match allocated.difference() {
        0 => return format!("{at} both hold {}.", bytes(allocated.a)),
        by if by > 0 => ("more", by),
        by => ("less", by),
    };
    let times = match allocated {
        Both { a: 0, .. } | Both { b: 0, .. } => String::new(),
        Both { a, b } => format!(" ({} times as much)", factor(b as f64 / a as f64)),
    };
    let [a, b] = [allocated.a, allocated.b].map(bytes);
    format!("{at} B holds {} {more} than A: {b} instead of {a}{times}.", bytes(by.unsigned_abs()))
}

/// `2.0`, `0.25`.
fn factor(factor: f64) -> String {
    if factor < 0.95 { format!("{factor:.2}") } else { format!("{factor:.1}") }
}

/// What changed, in a sentence or two.
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
                (None, Some(b)) => format!("A leak in B: {b}. In A nothing piles up."),
                (Some(a), None) => format!("A leak that is gone: in A, {a}. In B nothing piles up."),
                (Some(a), Some(b)) => format!("Both leak. In A, {a}; in B, {b}."),
                (None, None) => format!("What piles up holds {now}."),
            }
        }
        Cause::Recomputed { by } => format!(
            "{} runs parts of its forward pass again inside of the backward pass, as activation checkpointing does, and {} does not. What these parts hold: {now}.",
            side(*by),
            side(by.other())
        ),
        Cause::Optimizer { steps } => {
            let files = |side: Side| {
                let files = steps.of(side).iter().map(|place| match *place {
                    Place::Line(frame) | Place::Function(frame) => names.of(side).file(frame).to_string(),
                    Place::NoStack => String::new(),
                });
                files.collect::<Vec<String>>().join(", ")
            };
            let [a, b] = Side::BOTH.map(files);
            match (a.as_str(), b.as_str()) {
                ("", "") => format!("The optimizer keeps another amount: {now}."),
                (a, b) if a == b => format!("The optimizer, {a}, keeps another amount: {now}."),
                ("", b) => {
                    format!("The optimizer is another: in B {b}; in A it allocates nothing. It holds {now}.")
                }
                (a, "") => {
                    format!("The optimizer is another: in A {a}; in B it allocates nothing. It holds {now}.")
                }
                (a, b) => format!("The optimizer is another: {a} in A, {b} in B. It holds {now}."),
            }
        }
        Cause::Type { factor: by } => format!(
            "What stays for most of the run is {} times as large, piece by piece: another type, as bfloat16 for float32. With all that goes along: {now}.",
            factor(*by)
        ),
        Cause::Model { parameters } => {
            let of = |side: Side| {
                let of = parameters.of(side);
                format!("{} in {}", bytes(of.bytes), counted(of.count, "block"))
            };
            format!(
                "The model is another: its parameters are {} in A, {} in B. With their gradients and what the optimizer keeps for them: {now}.",
                of(Side::A),
                of(Side::B)
            )
        }
        Cause::Feature { feature, by } => {
            let uses = format!("{} uses {}, {} does not.", side(*by), feature.name, side(by.other()));
            if finding.difference() == 0 { uses } else { format!("{uses} Its stacks hold {now}.") }
        }
        Cause::Scaled { factor: by, stacks, squared, same_count, same_kept, same_parameters } => {
            let each = if *same_count { ", each as many" } else { "" };
            let times = factor(*by);
            let squares = match squared {
                0 => String::new(),
                n => format!(", those of {} even {} times", count(*n as u64), factor(by * by)),
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
                same => format!(" What stays for most of the run and is as large in both: {}.", bytes(*same)),
            };
            format!(
                "{} hold allocations that are {times} times as large in B{squares}{each}: {reason}. They hold {now}.{same}",
                counted(*stacks as u64, "stack")
            )
        }
        Cause::Blocks => format!("The same requests lie in blocks of another size: {now}."),
        Cause::Repeated { stacks } => {
            let (more, reason) = match held.b.bytes > held.a.bytes {
                true => ("more", "more layers, or a loop that runs more often"),
                false => ("fewer", "fewer layers, or a loop that runs less often"),
            };
            format!(
                "{} hold {more} allocations of the same size in B, {} and not {}: {reason}. They hold {now}.",
                counted(*stacks as u64, "stack"),
                count(held.b.count),
                count(held.a.count)
            )
        }
        Cause::Unused => {
            format!(
                "Reserved and not allocated where most is reserved: {now}: other settings, or requests that fit into each other's place less or better."
            )
        }
        Cause::Category(category) => format!("{}: {now}.", category.name()),
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

/// What of it each category holds more, where that is told; behind all bytes.
fn categories(finding: &Finding) -> String {
    let differing = finding.categories.iter().filter(|of| of.held.a.bytes != of.held.b.bytes);
    let parts: Vec<String> = differing
        .take(MOST_CATEGORIES)
        .map(|of| format!("{} {}", of.category.name(), difference(of.held.map(|held| held.bytes))))
        .collect();
    if parts.is_empty() || matches!(finding.cause, Cause::Category(_)) {
        return String::new();
    }
    format!(" ({})", parts.join(", "))
}

/// A line that holds another amount, as `model.py:42 forward`.
pub fn line(line: &LineDifference, names: &Both<Names<'_>>) -> String {
    names.of(line.side()).matched(line.place(), line.freed_there).to_string()
}

/// A group of allocations at two moments, named as where it is: at the later moment, or in B, if there.
pub fn holder(change: &HolderChange, names: &Both<Names<'_>>) -> String {
    let names = names.of(change.side());
    match change.holders.of(change.side()) {
        &Some(Holder { key: HolderKey::Line(frame), origin, .. }) if change.is_function => {
            names.matched(Place::Function(frame), origin == Some(Origin::FreeOnly)).into()
        }
        Some(holder) => names.wide_holder(holder).into(),
        None => String::new(),
    }
}

/// What a line holds in both, behind its name.
pub fn amounts(line: &LineDifference) -> String {
    was(line.held.map(|held| held.bytes), line.only_in)
}

/// Bytes in the second, and what they were in the first.
pub fn was(held: Both<u64>, only_in: Option<Side>) -> String {
    let [a, b] = [held.a, held.b].map(bytes);
    match only_in {
        Some(Side::B) => format!("{b}, new"),
        Some(Side::A) => format!("was {a}, gone"),
        None => format!("{b}, was {a}"),
    }
}

/// `+1.20 GiB`; `0 B` where nothing differs.
pub fn difference(of: Both<u64>) -> String {
    signed_bytes(of.difference())
}

fn leak(names: &Names<'_>, first: &LeakSuspect, lines: usize) -> String {
    let more = match lines {
        0 | 1 => String::new(),
        lines => format!(", and {}", counted(lines as u64 - 1, "more line")),
    };
    format!(
        "{} kept {} of the {} blocks it allocated, {}{more}",
        names.frame(first.line),
        count(first.kept),
        count(first.allocations),
        bytes(first.kept_bytes)
    )
}
