//! Every question that the page asks of an open recording, and who answers it. A server and the engine in a browser take the same.

use serde::Deserialize;
use vramscope_analysis::{Both, Cancel};

use crate::ViewError;
use crate::columns::{Answer, Columns};
use crate::comparison::compare;
use crate::held::holders_of_both;
use crate::highest::highest;
use crate::protocol::{
    AllocationsQuery, GroupsQuery, HighestOfBothQuery, HoldersOfBothQuery, LegendQuery, LiveQuery,
    PlaceQuery, PoolQuery, ReplayQuery, SearchQuery, SpanQuery, SpecksQuery, SpentQuery, WindowQuery,
};
use crate::recording::OpenRecording;
use crate::what_if::known_gpus;

/// What the page asks of one device of a file.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "question", rename_all = "snake_case")]
pub enum Question {
    /// The names of frames, and the stacks, of the whole file.
    Names,
    /// The timeline in a window.
    Picture(WindowQuery),
    /// Allocated bytes by category over a span.
    Bands(SpanQuery),
    /// What allocations are for, and the steps of the program.
    Meaning,
    /// What is live at a moment: in groups, as a tree of calls, and by category.
    Live(LiveQuery),
    /// Groups of what is live in this device and in another, of whatever file.
    HoldersOfBoth(HoldersOfBothQuery),
    /// What was allocated and freed between two moments, in groups.
    Spent(SpentQuery),
    /// The groups by which pictures are coloured.
    Groups(GroupsQuery),
    /// The largest groups, and how much each holds.
    Legend(LegendQuery),
    /// Groups of a part of this device and of a part of another, of whatever file, each where it holds most.
    HighestOfBoth(HighestOfBothQuery),
    /// Segments and blocks at a moment.
    Layout {
        /// The moment.
        moment: usize,
    },
    /// Free memory at a moment, and what keeps it from joining.
    Holes {
        /// The moment.
        moment: usize,
    },
    /// Since when a hole is there.
    Hole {
        /// The moment.
        moment: usize,
        /// The address of its first byte.
        address: f64,
    },
    /// What a pool holds at a moment.
    Pool(PoolQuery),
    /// Some events, in order.
    Events {
        /// The number of the first.
        first: usize,
        /// How many.
        count: usize,
    },
    /// Everything about one allocation.
    Allocation {
        /// Its number.
        id: usize,
    },
    /// The allocations that match.
    Search {
        /// What is searched for.
        search: SearchQuery,
    },
    /// Some rows of the table of allocations.
    Allocations(AllocationsQuery),
    /// Where what matches is too small for a picture.
    Specks(SpecksQuery),
    /// Where an allocation lies in the stack.
    Place(PlaceQuery),
    /// What is marked along the recording, as a list.
    Markers,
    /// The runs of annotated regions.
    Regions,
    /// Every range of memory that was reserved, and the pools.
    Segments,
    /// What the report finds.
    Report,
    /// What other settings of the allocator would have needed.
    Replay(ReplayQuery),
    /// Whether PyTorch takes a setting.
    Setting {
        /// As for PYTORCH_CUDA_ALLOC_CONF.
        conf: String,
    },
    /// The GPUs that are known by name, those with the least memory first.
    Gpus,
    /// What changed from this device to another, of whatever file.
    Comparison {
        /// The position of the other file.
        other_file: usize,
        /// The position of the device in it.
        other_device: usize,
    },
}

/// How long a question takes to answer. Slow questions wait for each other and never keep quick ones waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Pictures, lists, lookups.
    Quick,
    /// Reports and replays of the whole.
    Slow,
}

impl Question {
    /// The question that a page asks.
    ///
    /// # Errors
    /// Where it is none.
    pub fn of_json(json: &[u8]) -> Result<Self, ViewError> {
        serde_json::from_slice(json).map_err(|e| ViewError::Question(format!("this is no question: {e}")))
    }

    /// How long its answer takes.
    pub fn pace(&self) -> Pace {
        match self {
            Self::Report | Self::Replay(_) | Self::Comparison { .. } => Pace::Slow,
            _ => Pace::Quick,
        }
    }

    /// The position of the other file that it is about.
    pub fn other_file(&self) -> Option<usize> {
        match *self {
            Self::Comparison { other_file, .. }
            | Self::HoldersOfBoth(HoldersOfBothQuery { other_file, .. })
            | Self::HighestOfBoth(HighestOfBothQuery { other_file, .. }) => Some(other_file),
            _ => None,
        }
    }

    /// The answer about the device at position `device` of `file`: a head in JSON, and columns of numbers behind it. `other` is the
    /// file of [`Question::other_file`].
    ///
    /// # Errors
    /// Where the question makes no sense, or nobody waits for the answer any more.
    pub fn answer(
        self,
        file: &OpenRecording,
        device: usize,
        other: Option<&OpenRecording>,
        cancel: &Cancel,
    ) -> Answer {
        let of = || file.device(device);
        let plain = Columns::default;
        match self {
            Self::Names => Columns::answer(|columns| file.names(columns)),
            Self::Picture(window) => of()?.picture(window, cancel),
            Self::Bands(span) => of()?.bands(span, cancel),
            Self::Meaning => plain().behind(&of()?.meaning()),
            Self::Live(query) => file.live(device, &query, cancel),
            Self::Spent(query) => file.spent(device, &query, cancel),
            Self::HoldersOfBoth(query) => {
                let other = other.ok_or(ViewError::NoFile(query.other_file))?;
                holders_of_both(Both { a: (file, device), b: (other, query.other_device) }, &query, cancel)
            }
            Self::Groups(query) => file.groups(device, &query),
            Self::Legend(query) => plain().behind(&file.legend(device, &query, cancel)?),
            Self::HighestOfBoth(query) => {
                let other = other.ok_or(ViewError::NoFile(query.other_file))?;
                highest(Both { a: (file, device), b: (other, query.other_device) }, &query, cancel)
            }
            Self::Layout { moment } => of()?.layout(moment),
            Self::Holes { moment } => file.holes(device, moment),
            Self::Hole { moment, address } => plain().behind(&of()?.hole(moment, address as u64)?),
            Self::Pool(query) => file.pool(device, &query),
            Self::Events { first, count } => of()?.events(first, count),
            Self::Allocation { id } => plain().behind(&of()?.allocation(id)?),
            Self::Search { search } => of()?.search(&search, cancel),
            Self::Allocations(query) => file.allocations(device, &query, cancel),
            Self::Specks(query) => of()?.specks(&query, cancel),
            Self::Place(query) => plain().behind(&of()?.place(query)?),
            Self::Markers => of()?.markers(),
            Self::Regions => {
                let device = of()?;
                Columns::answer(|columns| device.regions(columns))
            }
            Self::Segments => file.segments(device),
            Self::Report => plain().behind(&file.report(device, cancel)?),
            Self::Replay(query) => plain().behind(&file.replay(device, &query, cancel)?),
            Self::Setting { conf } => plain().behind(&file.setting(&conf)),
            Self::Gpus => plain().behind(&known_gpus()),
            Self::Comparison { other_file, other_device } => {
                let other = other.ok_or(ViewError::NoFile(other_file))?;
                plain().behind(&compare(Both { a: (file, device), b: (other, other_device) })?)
            }
        }
    }
}
