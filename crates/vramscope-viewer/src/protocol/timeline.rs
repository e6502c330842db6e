//! Pictures of the timeline.

use serde::{Deserialize, Serialize};
use vramscope_analysis::{Axis, ByteKind};

use crate::columns::{F64s, U8s, U16s, U32s};
use crate::protocol::recording::ByKind;
use crate::protocol::search::SearchQuery;

/// The part of the timeline to draw, and the size of the picture.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Window"))]
pub struct WindowQuery {
    #[cfg_attr(test, ts(type = "ByteKind"))]
    pub(crate) stacked: ByteKind,
    #[cfg_attr(test, ts(type = "Axis"))]
    pub(crate) axis: Axis,
    /// The left and right ends on the axis.
    pub(crate) from: f64,
    pub(crate) to: f64,
    /// The size of the picture in pixels.
    pub(crate) width: u16,
    pub(crate) height: u16,
    /// Bytes at the bottom and at the top. If the top is null, the picture is fitted to its contents.
    pub(crate) low: f64,
    pub(crate) high: Option<f64>,
    /// Whether a fitted picture includes the reserved bytes.
    pub(crate) fit_reserved: bool,
    /// The search whose matches alone are stacked; null for all allocations. Reserved ranges are not searched.
    pub(crate) only: Option<SearchQuery>,
}

/// A picture of a window. Each pixel column shows the moment within it at which the stacked bytes peak, so no peak is lost at
/// any zoom. Each row shows the item that covers its middle.
///
/// Pixel columns that show the same moment share a column here. Column `c` has the runs `start[c]..start[c + 1]`, from the
/// bottom up. Run `r` shows item `item[r]` below row `end[r]`, and above the end of the previous run. Row 0 is the bottom.
/// Nothing is live above the last run, or where the item is `NONE`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Picture {
    /// Bytes at the bottom and at the top.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// The column of each pixel column; `NONE` outside of the recording.
    pub(crate) column: U32s,
    /// The moment that a column shows.
    pub(crate) moment: U32s,
    pub(crate) start: U32s,
    pub(crate) item: U32s,
    pub(crate) end: U16s,
    pub(crate) items: Items,
    /// The exact maximum of the bytes within each pixel column.
    pub(crate) highest: ByKind<F64s>,
}

/// The items of a picture: allocations, or reserved ranges.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Items {
    /// The index of the allocation or range.
    pub(crate) id: U32s,
    pub(crate) address: F64s,
    /// Bytes as stacked.
    pub(crate) bytes: F64s,
    /// Bytes of the block or range, independent of the stacking.
    pub(crate) size: F64s,
    /// Its first moment.
    pub(crate) from: U32s,
    /// The first moment after its end; `NONE` if it stays to the end.
    pub(crate) to: U32s,
    pub(crate) stack: U32s,
    pub(crate) tags: U32s,
    /// Positions in the device's `purposes`; empty for ranges, and before the categories are computed.
    pub(crate) purpose: U8s,
}

/// The part of the axis to draw, and its number of pixel columns.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Span"))]
pub struct SpanQuery {
    #[cfg_attr(test, ts(type = "Axis"))]
    pub(crate) axis: Axis,
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) width: u16,
    /// The search whose matches alone count; null for all allocations.
    pub(crate) only: Option<SearchQuery>,
}

/// Allocated bytes by category. Each pixel column shows the first moment of its allocated peak; there, the categories sum to
/// the allocated bytes.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Bands {
    /// The column of each pixel column; `NONE` outside of the recording.
    pub(crate) column: U32s,
    /// The moment that a column shows.
    pub(crate) moment: U32s,
    /// Categories with bytes, in the order of `CATEGORIES`.
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
