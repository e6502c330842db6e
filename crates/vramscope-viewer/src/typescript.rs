//! Generates the TypeScript types and tables with which the page reads answers.

use vramscope_analysis::By;
use vramscope_testing::{committed, declared};
use vramscope_trace::{Action, Category};

use crate::columns::{F64s, U8s, U16s, U32s};
use crate::protocol::{
    Allocation, AllocationColumn, Allocations, AllocationsQuery, Among, Amount, Asked, Band, Bands, ByKind,
    Calls, Comparison, Device, EarlierPart, Events, Found, FrameField, GroupShare, Groups, GroupsQuery, Held,
    HeldAt, HighestOfBoth, HighestOfBothQuery, Holders, HoldersOfBothQuery, HoleSince, Holes, Items,
    KnownGpu, Layout, LayoutBlocks, LayoutSegments, Legend, LegendQuery, Live, LiveQuery, MARKERS, Mark,
    MarkKind, Markers, Meaning, NONE, Names, Note, OomFinding, Peak, Picture, Pin, Place, PlaceQuery,
    PoolCourse, PoolHeld, PoolPeaks, PoolQuery, Purpose, Recording, Regions, Replay, ReplayTrust, Report,
    SearchQuery, Segments, SettingCheck, SizeSign, Sought, SpanQuery, Specks, SpecksQuery, Spent,
    SpentAmounts, SpentIn, SpentQuery, Steps, TagField, Tags, Trust, WhatChanged, WindowQuery,
};
#[cfg(feature = "fleet")]
use crate::protocol::{DifferentRank, KindOfRanks, RankTold, Ranks};
use crate::questions::Question;
use crate::tables::{CODES, ORIGINS, SEGMENT_KINDS, action};

const HEAD: &str = "// Written by the tests of crates/vramscope-viewer from the structs in src/protocol, the questions in src/questions.rs
// and the tables in src/tables.rs: `INSTA_UPDATE=always cargo test -p vramscope-viewer`.

import type { ReplayDevice, ReportDevice } from './report';
import type { DiffRequest, ReplayRequest, ReportRequest } from './requests';

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

#[test]
fn the_page_reads_what_is_answered() {
    let actions = Action::KNOWN.iter().chain([&Action::Unknown]).map(|a| a.name());
    let parts = [
        format!("{HEAD}export const NONE = {NONE};\n"),
        table("Actions of events, as snapshots name them.", "ACTIONS", actions),
        table("Whose code a frame is.", "CODES", CODES.iter().map(|of| of.1)),
        table("How an allocation is known.", "ORIGINS", ORIGINS.iter().map(|of| of.1)),
        table("Kinds of segments.", "SEGMENT_KINDS", SEGMENT_KINDS.iter().map(|of| of.1)),
        table("What memory is for.", "CATEGORIES", Category::ALL.iter().map(|of| of.name())),
        declared::<U8s>(),
        declared::<U16s>(),
        declared::<U32s>(),
        declared::<F64s>(),
        declared::<ByKind<u64>>(),
        declared::<Recording<'_>>(),
        declared::<Device<'_>>(),
        declared::<Meaning<'_>>(),
        declared::<Steps>(),
        declared::<Trust>(),
        declared::<Peak>(),
        declared::<Mark>(),
        declared::<MarkKind>(),
        declared::<Tags>(),
        declared::<Purpose>(),
        declared::<Names<'_>>(),
        declared::<Note>(),
        declared::<Question>(),
        declared::<WindowQuery>(),
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
        declared::<Picture>(),
        declared::<Items>(),
        declared::<SpanQuery>(),
        declared::<Bands>(),
        declared::<Band>(),
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
        declared::<LiveQuery>(),
        declared::<HoldersOfBothQuery>(),
        declared::<SpentQuery>(),
        declared::<Spent>(),
        declared::<SpentIn>(),
        declared::<SpentAmounts>(),
        declared::<Amount>(),
        declared::<EarlierPart>(),
        declared::<GroupsQuery>(),
        declared::<Groups>(),
        declared::<LegendQuery>(),
        declared::<Legend>(),
        declared::<GroupShare>(),
        declared::<HighestOfBothQuery>(),
        declared::<HighestOfBoth>(),
        declared::<Holders>(),
        declared::<HeldAt>(),
        declared::<Calls>(),
        declared::<Live>(),
        declared::<Layout>(),
        declared::<LayoutSegments>(),
        declared::<LayoutBlocks>(),
        declared::<Events>(),
        declared::<Allocation>(),
        declared::<AllocationsQuery>(),
        declared::<AllocationColumn>(),
        declared::<Among>(),
        declared::<Allocations<'_>>(),
        declared::<SearchQuery>(),
        declared::<Sought>(),
        declared::<FrameField>(),
        declared::<TagField>(),
        declared::<SizeSign>(),
        declared::<Found>(),
        declared::<SpecksQuery>(),
        declared::<Specks>(),
        declared::<PlaceQuery>(),
        declared::<Place>(),
        table("What is marked along a recording.", "MARKERS", MARKERS.iter().copied()),
        declared::<Markers>(),
        declared::<Regions<'_>>(),
        declared::<Segments<'_>>(),
        declared::<PoolPeaks>(),
        declared::<PoolCourse>(),
        declared::<PoolQuery>(),
        declared::<PoolHeld>(),
        declared::<Holes>(),
        declared::<Asked>(),
        declared::<Pin>(),
        declared::<HoleSince>(),
        declared::<Report>(),
        declared::<OomFinding>(),
        declared::<Replay>(),
        declared::<ReplayTrust>(),
        declared::<SettingCheck>(),
        declared::<KnownGpu>(),
        declared::<Comparison>(),
        declared::<WhatChanged>(),
        declared::<Held>(),
    ];
    committed("viewer/src/source/generated/view.ts", &parts.concat());
}

#[cfg(feature = "fleet")]
#[test]
fn the_page_reads_what_is_told_of_all_ranks() {
    let parts = [
        "// Written by the tests of crates/vramscope-viewer from the structs in src/protocol/ranks.rs: \
         `INSTA_UPDATE=always cargo test -p vramscope-viewer`.\n\nimport type { F64s } from './view';\n"
            .to_owned(),
        declared::<Ranks<'_>>(),
        declared::<KindOfRanks>(),
        declared::<RankTold<'_>>(),
        declared::<DifferentRank>(),
    ];
    committed("viewer/src/source/generated/ranks.ts", &parts.concat());
}

#[test]
fn actions_are_told_by_their_positions() {
    for (number, &known) in Action::KNOWN.iter().enumerate() {
        assert_eq!(usize::from(action(known)), number);
    }
    assert_eq!(usize::from(action(Action::Unknown)), Action::KNOWN.len());
}
