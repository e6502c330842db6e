//! Pictures of the timeline.

use serde::{Deserialize, Serialize};

use crate::columns::{F64s, U8s, U16s, U32s};
use crate::protocol::recording::ByKind;

/// What part of the timeline is drawn, and how large.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Window"))]
pub struct WindowQuery {
    pub(crate) stacked: ByteKind,
    pub(crate) axis: Axis,
    /// The left and the right end on the axis.
    pub(crate) from: f64,
    pub(crate) to: f64,
    /// The size of the picture in pixels.
    pub(crate) width: u16,
    pub(crate) height: u16,
    /// Bytes at the bottom and at the top; where the top is null, the picture is fitted to what is there.
    pub(crate) low: f64,
    pub(crate) high: Option<f64>,
    /// Where `high` is null: whether room is left for reserved bytes, too.
    pub(crate) fit_reserved: bool,
}

/// A kind of bytes. The timeline stacks live allocations by one of them, or reserved ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub(crate) enum ByteKind {
    Requested,
    Allocated,
    Active,
    Reserved,
}

/// What the timeline lies along: moments, or microseconds after the first event.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Axis {
    Events,
    Time,
}

impl From<Axis> for vramscope_analysis::Axis {
    fn from(axis: Axis) -> Self {
        match axis {
            Axis::Events => Self::Events,
            Axis::Time => Self::Time,
        }
    }
}

/// A picture of a window: each pixel column shows the moment in it at which the stacked bytes were highest, so that no
/// peak is lost at any zoom; each row shows what covers its middle.
///
/// Pixel columns that show the same moment share a column here. Column `c` has the runs `start[c]` up to `start[c + 1]`,
/// from the bottom: run `r` shows item `item[r]` below row `end[r]`, and above the end of the run before it. Row 0 is
/// the bottom. Above the last run nothing is live, and where the item is `NONE` nothing lies.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Picture {
    /// Bytes at the bottom and at the top.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// The column of each pixel column; `NONE` where the window reaches beyond the recording.
    pub(crate) column: U32s,
    /// The moment that a column shows.
    pub(crate) moment: U32s,
    pub(crate) start: U32s,
    pub(crate) item: U32s,
    pub(crate) end: U16s,
    pub(crate) items: Items,
    /// The exact highest bytes within each pixel column.
    pub(crate) highest: ByKind<F64s>,
}

/// The items of a picture: allocations, or ranges of reserved memory.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Items {
    /// The number of the allocation or range.
    pub(crate) id: U32s,
    pub(crate) address: F64s,
    /// Bytes as they are stacked.
    pub(crate) bytes: F64s,
    /// Bytes of the block or range, whatever is stacked.
    pub(crate) size: F64s,
    /// The first moment at which it is there.
    pub(crate) from: U32s,
    /// The first moment at which it is there no more; `NONE` where it stays to the end.
    pub(crate) to: U32s,
    pub(crate) stack: U32s,
    pub(crate) tags: U32s,
    /// Positions in the device's `purposes`; empty of ranges, and where the device has none yet.
    pub(crate) purpose: U8s,
}

/// What part of the axis is drawn, in how many pixel columns.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Span"))]
pub struct SpanQuery {
    pub(crate) axis: Axis,
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) width: u16,
}

/// Allocated bytes by category: each pixel column shows the first moment in it at which most was allocated, and there all
/// categories sum to what is allocated.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Bands {
    /// The column of each pixel column; `NONE` where the span reaches beyond the recording.
    pub(crate) column: U32s,
    /// The moment that a column shows.
    pub(crate) moment: U32s,
    /// Categories that have bytes, in the order of `CATEGORIES`.
    pub(crate) bands: Vec<Band>,
}

/// One category over time.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Band {
    /// A position in `CATEGORIES`.
    pub(crate) category: u8,
    /// Its bytes in each column.
    pub(crate) bytes: F64s,
}
