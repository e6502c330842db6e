//! The questions of the page about an open recording. The server, the engine in a browser, MCP and Python ask them.
//!
//! Each question has its own file: the query, the answer, and the computation. Tests write the page's types from these structs.
//!
//! - `recording`: a file with everything derived from it; `device`, `tags`, `categories`: one device. `categories` has one byte for each
//!   allocation. A short recording includes it. For a long one, the page requests it after its first picture.
//! - `columns`: columns of numbers in answers, and their conversion to JSON.
//! - `picture`: the timeline in a window. `search`: allocations that match, by `conditions`. `held`: live allocations at a moment, in
//!   groups and as a tree, changed by `transforms`.
//! - `interval`: the memory that an interval allocated, freed and retained. `first_difference`: the first difference between two intervals.
//! - `what_if`: other settings, other devices, and changes to the program.
//! - `operators`: the operators and kernels of a trace beside the recording; `lanes` has their rows.

mod about;
mod advice;
mod allocation;
mod allocations;
mod bits;
mod cached;
mod categories;
pub mod columns;
mod comparison;
mod conditions;
mod device;
mod events;
mod first_difference;
mod groups;
mod held;
mod highest;
mod holes;
mod hues;
mod interval;
mod lanes;
mod layout;
mod lines;
pub(crate) mod markers;
mod names;
mod operators;
mod picture;
mod pools;
pub(crate) mod recording;
mod regions;
mod regions_at;
mod report;
mod rows;
mod search;
pub(crate) mod tables;
mod tags;
mod transforms;
mod what_if;

pub use about::About;
pub use advice::PAGE_ADVICE;
pub use columns::Answer;
pub use operators::{operators_fit, own_operators};
pub use recording::OpenRecording;

use serde::Deserialize;
use serde_json::Value;
use vramscope_analysis::{Both, Cancel};

use self::allocation::Allocation;
use self::allocations::{Allocations, AllocationsQuery};
use self::columns::{Columns, Written};
use self::comparison::{Comparison, compare};
use self::conditions::SearchQuery;
use self::device::{Meaning, OpenDevice};
use self::events::Events;
use self::first_difference::{FirstDifference, FirstDifferenceQuery, first_difference};
use self::groups::{Groups, GroupsQuery, Legend, LegendQuery};
use self::held::{Holders, HoldersOfBothQuery, Live, LiveQuery, holders_of_both};
use self::highest::{HighestOfBoth, HighestOfBothQuery, highest};
use self::holes::{HoleSince, Holes};
use self::interval::{IntervalAnswer, IntervalQuery};
use self::layout::Layout;
use self::lines::{SourceLines, SourceLinesQuery};
use self::markers::Markers;
use self::names::Names;
use self::operators::{
    InFlight, InFlightQuery, OperatorFacts, OperatorLanes, OperatorPicture, OperatorWindow,
};
use self::picture::{Bands, Picture, SpanQuery, WindowQuery};
use self::pools::{PoolHeld, PoolQuery, Segments};
use self::regions::Regions;
use self::report::Report;
use self::search::Found;
use self::search::Place;
use self::search::PlaceQuery;
use self::search::Specks;
use self::search::SpecksQuery;
use self::what_if::{KnownGpu, MarkedProgram, Replay, SettingCheck, known_gpus};
use crate::{DiffRequest, ReplayRequest, ReportRequest, SessionError};

/// Declares [`Question`] from a list of queries. Each has the type of its answer, and an expression that computes the answer: its head,
/// or its head with columns.
macro_rules! questions {
    (
        |$of:ident|
        $(
            $(#[$docs:meta])*
            $name:ident
            $(($(#[$attribute:meta])* $query:ident: $type:ty))?
            $({ $($(#[$about:meta])* $member:ident: $kind:ty),* })?
            -> $answer:ty { $made:expr }
        )*
    ) => {
        /// A query of the page about one device of a file.
        #[derive(Debug, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[cfg_attr(test, derive(ts_rs::TS))]
        #[serde(tag = "question", rename_all = "snake_case")]
        pub enum Question {
            $($(#[$docs])* $name $(($(#[$attribute])* $type))? $({ $($(#[$about])* $member: $kind),* })?,)*
        }

        impl Question {
            fn answer_about(self, $of: &Subject<'_>) -> Answer {
                match self {
                    $(Self::$name $(($query))? $({ $($member),* })? => Written::<$answer>::from($made).bytes(),)*
                }
            }

            /// Declares the answers in TypeScript. Returns the names of all queries, each with the type of its answer.
            #[cfg(test)]
            pub(crate) fn answers(types: &mut vramscope_testing::Declarations) -> Vec<(&'static str, String)> {
                vec![$((stringify!($name), types.add::<$answer>())),*]
            }
        }
    };
}

questions! { |of|
    /// The names of frames, and the stacks, of the whole file.
    Names -> Names<'_> { Columns::answer(|columns| of.file.names(columns))? }
    /// The timeline in a window.
    Picture(window: WindowQuery) -> Picture { of.device()?.picture(&window, of.cancel)? }
    /// Allocated bytes by category over an interval.
    Bands(span: SpanQuery) -> Bands { of.device()?.bands(&span, of.cancel)? }
    /// The categories of allocations, and the steps of the program.
    Meaning -> Meaning<'_> { of.device()?.meaning() }
    /// The live allocations at a moment: in groups, as a call tree, and by category.
    Live(query: LiveQuery) -> Live { of.file.live(of.position, &query, of.cancel)? }
    /// Groups of the live allocations in this device and in another one, of any file.
    HoldersOfBoth(query: HoldersOfBothQuery) -> Holders {
        holders_of_both(of.both(query.other_file, query.other_device)?, &query, of.cancel)?
    }
    /// Allocations and frees between two moments, in groups.
    Interval(query: IntervalQuery) -> IntervalAnswer { of.file.interval(of.position, &query, of.cancel)? }
    /// The groups by which pictures are colored.
    Groups(query: GroupsQuery) -> Groups { of.file.groups(of.position, &query)? }
    /// The largest groups, and their bytes.
    Legend(query: LegendQuery) -> Legend { of.file.legend(of.position, &query, of.cancel)? }
    /// Groups in an interval of this device and in an interval of another one, of any file, each at its own peak.
    HighestOfBoth(query: HighestOfBothQuery) -> HighestOfBoth {
        highest(of.both(query.other_file, query.other_device)?, &query, of.cancel)?
    }
    /// The first difference between the allocated bytes in an interval of this device and in one of another, of any file.
    FirstDifference(query: FirstDifferenceQuery) -> FirstDifference {
        first_difference(of.both(query.other_file, query.other_device)?, &query, of.cancel)?
    }
    /// Segments and blocks at a moment.
    Layout {
        /// The moment.
        moment: usize
    } -> Layout { of.device()?.layout(moment)? }
    /// Free memory at a moment, and the blocks that keep it from merging.
    Holes {
        /// The moment.
        moment: usize
    } -> Holes { of.file.holes(of.position, moment)? }
    /// The moment since which a hole exists.
    Hole {
        /// The moment.
        moment: usize,
        /// The address of its first byte.
        address: f64
    } -> HoleSince { of.device()?.hole(moment, address as u64)? }
    /// The holders of a pool at a moment.
    Pool(query: PoolQuery) -> PoolHeld { of.file.pool(of.position, &query)? }
    /// A range of events, in order.
    Events {
        /// The index of the first event.
        first: usize,
        /// The number of events.
        count: usize
    } -> Events { of.device()?.events(first, count)? }
    /// All facts about one allocation.
    Allocation {
        /// Its index.
        id: usize
    } -> Allocation<'_> { of.device()?.allocation(id)? }
    /// The matching allocations.
    Search {
        /// The search.
        search: SearchQuery
    } -> Found { of.device()?.search(&search, of.cancel)? }
    /// A range of rows of the allocation table.
    Allocations(query: AllocationsQuery) -> Allocations<'_> { of.file.allocations(of.position, &query, of.cancel)? }
    /// The memory of the lines of a source file, or of all files.
    SourceLines(query: SourceLinesQuery) -> SourceLines { of.file.source_lines(of.position, &query, of.cancel)? }
    /// The positions of matches that are too small for a picture.
    Specks(query: SpecksQuery) -> Specks { of.device()?.specks(&query, of.cancel)? }
    /// The position of an allocation in the stacked timeline.
    Place(query: PlaceQuery) -> Place { of.device()?.place(&query, of.cancel)? }
    /// The markers along the recording, as a list.
    Markers -> Markers { of.device()?.markers()? }
    /// The runs of annotated regions.
    Regions -> Regions<'_> {{
        let device = of.device()?;
        Columns::answer(|columns| device.regions(columns))?
    }}
    /// The lanes of the operators and kernels of a trace beside the recording; null without one.
    OperatorLanes -> Option<OperatorLanes> { of.file.operator_lanes(of.position)? }
    /// The spans of these lanes in a window.
    OperatorPicture(window: OperatorWindow) -> OperatorPicture {
        of.file.operator_picture(of.position, &window, of.cancel)?
    }
    /// The operators and kernels in flight at an allocation or in an interval.
    InFlight(query: InFlightQuery) -> InFlight { of.file.in_flight(of.position, &query, of.cancel)? }
    /// An operator, and the memory that it allocated.
    Operator {
        /// The number of its lane.
        lane: usize,
        /// Its index in the lane.
        span: usize
    } -> OperatorFacts { of.file.operator(of.position, lane, span)? }
    /// All reserved ranges, and the pools.
    Segments -> Segments<'_> { of.file.segments(of.position)? }
    /// The findings of the report. The device is that of the query.
    Report(request: ReportRequest) -> Report {
        of.file.report(of.position, request, of.cancel)?
    }
    /// The memory that other allocator settings would need. The device is that of the query.
    Replay(request: ReplayRequest) -> Replay {
        of.file.replay(of.position, request, of.cancel)?
    }
    /// Whether PyTorch accepts a setting.
    Setting {
        /// In the format of PYTORCH_CUDA_ALLOC_CONF.
        conf: String
    } -> SettingCheck { of.file.setting(&conf) }
    /// The estimated peak with changes to parts of the program.
    Marked {
        /// The changes, such as `layer:h.*.mlp=checkpoint`.
        marks: Vec<String>
    } -> MarkedProgram { of.file.marked(of.position, &marks, of.cancel)? }
    /// The GPUs known by name, smallest memory first.
    Gpus -> Vec<KnownGpu> { known_gpus() }
    /// The changes from this device to another one, of any file.
    Comparison {
        /// The position of the other file.
        other_file: usize,
        /// The position of the device in it.
        other_device: usize,
        /// The moments to compare.
        #[serde(default)]
        #[cfg_attr(test, ts(as = "Option<DiffRequest>", optional))]
        request: DiffRequest
    } -> Comparison { compare(of.both(other_file, other_device)?, &request, of.cancel)? }
}

/// A device of a file at a position, and the file to compare with.
struct Subject<'f> {
    file: &'f OpenRecording,
    position: usize,
    other: Option<&'f OpenRecording>,
    cancel: &'f Cancel,
}

impl<'f> Subject<'f> {
    fn device(&self) -> Result<&'f OpenDevice, SessionError> {
        self.file.device(self.position)
    }

    /// This device, and a device of the other file, which is at the position `file`.
    fn both(&self, file: usize, device: usize) -> Result<Both<(&'f OpenRecording, usize)>, SessionError> {
        let other =
            self.other.ok_or_else(|| SessionError::Missing(format!("has no file {file} beside it")))?;
        Ok(Both { a: (self.file, self.position), b: (other, device) })
    }
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
    pub fn of_json(json: &[u8]) -> Result<Self, SessionError> {
        serde_json::from_slice(json).map_err(|e| SessionError::Argument(format!("invalid query: {e}")))
    }

    /// The expected duration of the query.
    pub fn pace(&self) -> Pace {
        match self {
            Self::Report(_)
            | Self::Replay(_)
            | Self::Comparison { .. }
            | Self::SourceLines(_)
            | Self::Marked { .. } => Pace::Slow,
            _ => Pace::Quick,
        }
    }

    /// The position of the other file that the query refers to.
    pub fn other_file(&self) -> Option<usize> {
        match *self {
            Self::Comparison { other_file, .. }
            | Self::HoldersOfBoth(HoldersOfBothQuery { other_file, .. })
            | Self::HighestOfBoth(HighestOfBothQuery { other_file, .. })
            | Self::FirstDifference(FirstDifferenceQuery { other_file, .. }) => Some(other_file),
            _ => None,
        }
    }

    /// Answers the query as JSON: columns are lists, in which `null` stands for "no such thing".
    ///
    /// # Errors
    /// Fails if the query is invalid or cancelled.
    pub fn json(
        self,
        file: &OpenRecording,
        device: usize,
        other: Option<&OpenRecording>,
        cancel: &Cancel,
    ) -> Result<Value, SessionError> {
        columns::json(&self.answer(file, device, other, cancel)?)
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
        self.answer_about(&Subject { file, position: device, other, cancel })
    }
}
