//! Generates the TypeScript types and tables with which the page reads answers.

use vramscope_analysis::By;
use vramscope_testing::{Declarations, committed};
use vramscope_trace::{Action, Category, Phase};

use crate::Question;
use crate::questions::columns::NONE;
use crate::questions::markers::MARKERS;
use crate::questions::recording::Recording;
use crate::questions::tables::{CODES, ORIGINS, SEGMENT_KINDS, action};

const HEAD: &str = "// Written by the tests of crates/vramscope-session from src/questions and src/requests:
// `INSTA_UPDATE=always cargo test -p vramscope-session`.

import type { ReplayDevice, ReportDevice, ReportSection } from './report';

/** Stands for \"no such thing\" in columns of numbers. */
";

/// A type of the analysis that the page names.
fn union<'n>(docs: &str, name: &str, names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.map(|name| format!("\"{name}\"")).collect();
    format!("\n/**\n * {docs}\n */\nexport type {name} = {};\n", names.join(" | "))
}

fn table<'n>(docs: &str, name: &str, names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.map(|n| format!("  '{n}',\n")).collect();
    format!("\n/** {docs} */\nexport const {name} = [\n{}] as const;\n", names.concat())
}

/// The name of a variant in JSON.
fn snake_case(variant: &str) -> String {
    let parts = variant.chars().map(|c| match c {
        'A'..='Z' => format!("_{}", c.to_ascii_lowercase()),
        c => c.to_string(),
    });
    parts.collect::<String>().trim_start_matches('_').to_owned()
}

#[test]
fn the_page_reads_what_is_answered() {
    let actions = Action::KNOWN.iter().chain([&Action::Unknown]).map(|a| a.name());
    let tables = [
        format!("{HEAD}export const NONE = {NONE};\n"),
        table("Actions of events, as snapshots name them.", "ACTIONS", actions),
        table("Whose code a frame is.", "CODES", CODES.iter().map(|of| of.1)),
        table("How an allocation is known.", "ORIGINS", ORIGINS.iter().map(|of| of.1)),
        table("Kinds of segments.", "SEGMENT_KINDS", SEGMENT_KINDS.iter().map(|of| of.1)),
        table("What memory is for.", "CATEGORIES", Category::ALL.iter().map(|of| of.name())),
        table("What is marked along a recording.", "MARKERS", MARKERS.iter().copied()),
        table("The phases of a step.", "PHASES", Phase::ALL.iter().map(|phase| phase.name())),
        union(
            "A kind of bytes. The timeline stacks live allocations by one of them, or reserved ranges.",
            "ByteKind",
            ["requested", "allocated", "active", "reserved"].into_iter(),
        ),
        union(
            "The axis of the timeline: moments, or microseconds after the first event.",
            "Axis",
            ["events", "time"].into_iter(),
        ),
        union(
            "The grouping of live allocations, as in `vramscope report --by`.",
            "By",
            By::ALL.iter().map(|by| by.name()),
        ),
        union(
            "The frames of a stack that become nodes of the call tree: user code, Python code, or all.",
            "CallsOf",
            ["own", "python", "all"].into_iter(),
        ),
    ];
    let mut types = Declarations::default();
    types.add::<Recording<'_>>();
    types.add::<Question>();
    let answers = Question::answers(&mut types)
        .into_iter()
        .map(|(question, answer)| format!("  {}: {answer};\n", snake_case(question)));
    let answers = format!(
        "\n/** The answer to each question. */\nexport type Answers = {{\n{}}};\n",
        answers.collect::<String>()
    );
    committed("viewer/src/source/generated/questions.ts", &(tables.concat() + &types.text() + &answers));
}

#[test]
fn actions_are_numbered_by_position() {
    for (number, &known) in Action::KNOWN.iter().enumerate() {
        assert_eq!(usize::from(action(known)), number);
    }
    assert_eq!(usize::from(action(Action::Unknown)), Action::KNOWN.len());
}
