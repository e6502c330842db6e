//! The queries of the page about an open recording. A server and the engine in a browser accept the same queries.

use serde::Deserialize;
use vramscope_analysis::{Both, Cancel};
use vramscope_session::{DiffRequest, ReplayRequest, ReportRequest};

use crate::ViewError;
use crate::columns::{Answer, Columns};
use crate::comparison::compare;
use crate::held::holders_of_both;
use crate::highest::highest;
use crate::protocol::{
    AllocationsQuery, GroupsQuery, HighestOfBothQuery, HoldersOfBothQuery, LegendQuery, LiveQuery,
    PlaceQuery, PoolQuery, SearchQuery, SpanQuery, SpecksQuery, SpentQuery, WindowQuery,
};
use crate::recording::OpenRecording;
use crate::what_if::known_gpus;

/// A query of the page about one device of a file.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "question", rename_all = "snake_case")]
pub enum Question {
    /// The names of frames, and the stacks, of the whole file.
    Names,
    /// The timeline in a window.
    Picture(WindowQuery),
    /// Allocated bytes by category over an interval.
    Bands(SpanQuery),
    /// The categories of allocations, and the steps of the program.
    Meaning,
    /// The live allocations at a moment: in groups, as a call tree, and by category.
    Live(LiveQuery),
    /// Groups of the live allocations in this device and in another one, of any file.
    HoldersOfBoth(HoldersOfBothQuery),
    /// Allocations and frees between two moments, in groups.
    Spent(SpentQuery),
    /// The groups by which pictures are colored.
    Groups(GroupsQuery),
    /// The largest groups, and their bytes.
    Legend(LegendQuery),
    /// Groups in an interval of this device and in an interval of another one, of any file, each at its own peak.
    HighestOfBoth(HighestOfBothQuery),
    /// Segments and blocks at a moment.
    Layout {
        /// The moment.
        moment: usize,
    },
    /// Free memory at a moment, and the blocks that keep it from merging.
    Holes {
        /// The moment.
        moment: usize,
    },
    /// The moment since which a hole exists.
    Hole {
        /// The moment.
        moment: usize,
        /// The address of its first byte.
        address: f64,
    },
    /// The holders of a pool at a moment.
    Pool(PoolQuery),
    /// A range of events, in order.
    Events {
        /// The index of the first event.
        first: usize,
        /// The number of events.
        count: usize,
    },
    /// All facts about one allocation.
    Allocation {
        /// Its index.
        id: usize,
    },
    /// The matching allocations.
    Search {
        /// The search.
        search: SearchQuery,
    },
    /// A range of rows of the allocation table.
    Allocations(AllocationsQuery),
    /// The positions of matches that are too small for a picture.
    Specks(SpecksQuery),
    /// The position of an allocation in the stacked timeline.
    Place(PlaceQuery),
    /// The markers along the recording, as a list.
    Markers,
    /// The runs of annotated regions.
    Regions,
    /// All reserved ranges, and the pools.
    Segments,
    /// The findings of the report. The device is that of the query.
    Report(#[cfg_attr(test, ts(type = "ReportRequest"))] ReportRequest),
    /// The memory that other allocator settings would need. The device is that of the query.
    Replay(#[cfg_attr(test, ts(type = "ReplayRequest"))] ReplayRequest),
    /// Whether PyTorch accepts a setting.
    Setting {
        /// In the format of PYTORCH_CUDA_ALLOC_CONF.
        conf: String,
    },
    /// The GPUs known by name, smallest memory first.
    Gpus,
    /// The changes from this device to another one, of any file.
    Comparison {
        /// The position of the other file.
        other_file: usize,
        /// The position of the device in it.
        other_device: usize,
        /// The moments to compare.
        #[serde(default)]
        #[cfg_attr(test, ts(optional, type = "DiffRequest"))]
        request: DiffRequest,
    },
}

/// The expected duration of a query. Slow queries wait for each other, and never delay quick ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Pictures, lists, lookups.
    Quick,
    /// Reports and replays of the whole recording.
    Slow,
}

impl Question {
    /// Parses a query of a page.
    ///
    /// # Errors
    /// Fails if the JSON is not a query.
    pub fn of_json(json: &[u8]) -> Result<Self, ViewError> {
        serde_json::from_slice(json).map_err(|e| ViewError::Question(format!("invalid query: {e}")))
    }

    /// The expected duration of the query.
    pub fn pace(&self) -> Pace {
        match self {
            Self::Report(_) | Self::Replay(_) | Self::Comparison { .. } => Pace::Slow,
            _ => Pace::Quick,
        }
    }

    /// The position of the other file that the query refers to.
    pub fn other_file(&self) -> Option<usize> {
        match *self {
            Self::Comparison { other_file, .. }
            | Self::HoldersOfBoth(HoldersOfBothQuery { other_file, .. })
            | Self::HighestOfBoth(HighestOfBothQuery { other_file, .. }) => Some(other_file),
            _ => None,
        }
    }

    /// Answers the query for the device at position `device` of `file`: a JSON head, followed by columns of numbers. `other` is
    /// the file of [`Question::other_file`].
    ///
    /// # Errors
    /// Fails if the query is invalid or cancelled.
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
            Self::Report(request) => plain().behind(&file.report(device, request, cancel)?),
            Self::Replay(request) => plain().behind(&file.replay(device, request, cancel)?),
            Self::Setting { conf } => plain().behind(&file.setting(&conf)),
            Self::Gpus => plain().behind(&known_gpus()),
            Self::Comparison { other_file, other_device, request } => {
                let other = other.ok_or(ViewError::NoFile(other_file))?;
                let both = Both { a: (file, device), b: (other, other_device) };
                plain().behind(&compare(both, &request, cancel)?)
            }
        }
    }
}
