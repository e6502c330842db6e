//! The queries of the page and the answers to them, as plain data.
//!
//! The page's types are generated from these structs, including the comments (`viewer/src/source/generated/view.ts`). To add a
//! field, add it here only.
//!
//! Events are numbered from 0. A moment is a position between events: moment 0 is before the first event, moment n is after
//! event n - 1, so there is one more moment than there are events. Times of a device are microseconds after its first event.
//! Columns contain [`NONE`] for missing values.

mod allocations;
mod comparison;
mod contents;
mod findings;
mod groups;
mod held;
mod holes;
mod notes;
#[cfg(feature = "fleet")]
mod ranks;
mod recording;
mod search;
mod spent;
mod timeline;

pub(crate) use allocations::{AllocationColumn, Allocations, AllocationsQuery, Among};
pub(crate) use comparison::{Comparison, Held, WhatChanged};
pub(crate) use contents::{
    Allocation, Events, Layout, LayoutBlocks, LayoutSegments, Markers, PoolCourse, PoolHeld, PoolPeaks,
    PoolQuery, Pools, Regions, Segments,
};
pub(crate) use findings::{KnownGpu, OomFinding, Replay, ReplayTrust, Report, SettingCheck};
pub(crate) use groups::{GroupShare, Groups, GroupsQuery, Legend, LegendQuery};
pub(crate) use held::{Calls, HeldAt, Holders, Live};
pub(crate) use held::{HighestOfBoth, HighestOfBothQuery, HoldersOfBothQuery, LiveQuery};
pub(crate) use holes::{Asked, HoleSince, Holes, Pin};
pub use notes::Note;
#[cfg(feature = "server")]
pub(crate) use notes::PageQuery;
#[cfg(feature = "fleet")]
pub(crate) use ranks::{DifferentRank, KindOfRanks, RankTold, Ranks};
pub(crate) use recording::{
    ByKind, Device, Mark, MarkKind, Meaning, Names, Peak, Purpose, Recording, Steps, Tags, Trust,
};
pub(crate) use search::{
    Found, FrameField, Place, PlaceQuery, SearchQuery, SizeSign, Sought, Specks, SpecksQuery, TagField,
};
pub(crate) use spent::{Amount, EarlierPart, Spent, SpentAmounts, SpentIn, SpentQuery};
pub(crate) use timeline::{Band, Bands, Items, Picture, SpanQuery, WindowQuery};

/// Marks a missing value in columns of numbers.
pub(crate) const NONE: u32 = u32::MAX;

#[cfg(test)]
pub(crate) use contents::MARKERS;
