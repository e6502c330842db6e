//! Pictures of the timeline of one device.

use serde::{Deserialize, Serialize};
use vramscope_analysis::{Axis, ByteKind, Cancel, LARGEST_SIDE, PictureWindow, Span};

use crate::SessionError;
use crate::questions::columns::{Columns, F64s, Reply, U8s, U16s, U32s, Written, moment, stack};
use crate::questions::conditions::SearchQuery;
use crate::questions::device::{ByKind, OpenDevice};
use crate::questions::tables::category;

/// The part of the timeline to draw, and the size of the picture.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Window"))]
pub struct WindowQuery {
    #[cfg_attr(test, ts(type = "ByteKind"))]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(crate) stacked: ByteKind,
    #[cfg_attr(test, ts(type = "Axis"))]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Span"))]
pub struct SpanQuery {
    #[cfg_attr(test, ts(type = "Axis"))]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
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

/// The maximum number of pixels in a picture.
const MOST_PIXELS: u32 = 64 << 20;

impl TryFrom<&WindowQuery> for PictureWindow {
    type Error = SessionError;

    fn try_from(q: &WindowQuery) -> Result<Self, SessionError> {
        let sides = [q.width, q.height];
        let numbers = [q.from, q.to, q.low, q.high.unwrap_or(0.0)];
        let sound = numbers.iter().all(|n| n.is_finite())
            && q.from < q.to
            && sides.iter().all(|&s| (1..=LARGEST_SIDE).contains(&s))
            && u32::from(q.width) * u32::from(q.height) <= MOST_PIXELS;
        if !sound {
            return Err(SessionError::Argument("invalid window: size or position out of range".to_owned()));
        }
        Ok(Self {
            stacked: q.stacked,
            axis: q.axis,
            from: q.from,
            to: q.to,
            width: q.width,
            height: q.height,
            low: q.low,
            high: q.high,
            fit_reserved: q.fit_reserved,
        })
    }
}

impl OpenDevice {
    pub(crate) fn picture(&self, query: &WindowQuery, cancel: &Cancel) -> Reply<Picture> {
        let window = PictureWindow::try_from(query)?;
        self.check(window.axis)?;
        let only = self.only(query.only.as_ref(), cancel)?;
        let timeline = only.as_deref().unwrap_or(&self.timeline);
        let view = timeline.view_unless(&window, cancel).ok_or(SessionError::Cancelled)?;
        let (picture, history) = (view.picture, self.history());
        let things = || picture.things.iter().map(|&id| id as usize);
        let mut columns = Columns::default();
        let id = columns.u32(picture.things.iter().copied());
        let items = if window.stacked == ByteKind::Reserved {
            let ranges = || things().map(|i| &history.reserved[i]);
            let bytes = columns.sizes(ranges().map(|r| r.size));
            Items {
                id,
                address: columns.sizes(ranges().map(|r| r.address)),
                bytes,
                size: bytes,
                from: columns.u32(ranges().map(|r| moment(r.from))),
                to: columns.u32(ranges().map(|r| moment(r.to))),
                stack: columns.u32(ranges().map(|r| stack(r.stack))),
                tags: columns.u32(things().map(|i| self.tags.ranges[i])),
                purpose: columns.u8([]),
            }
        } else {
            let allocations = || things().map(|i| &history.allocations[i]);
            let until_freed = window.stacked == ByteKind::Allocated;
            let size = columns.sizes(allocations().map(|a| a.size));
            Items {
                id,
                address: columns.sizes(allocations().map(|a| a.address)),
                bytes: if window.stacked == ByteKind::Requested {
                    columns.sizes(allocations().map(|a| a.requested))
                } else {
                    size
                },
                size,
                from: columns.u32(allocations().map(|a| moment(a.from))),
                to: columns.u32(allocations().map(|a| moment(if until_freed { a.freed } else { a.to }))),
                stack: columns.u32(allocations().map(|a| stack(a.stack))),
                tags: columns.u32(things().map(|i| self.tags.allocations[i])),
                purpose: columns
                    .u8(self.purposes_so_far().into_iter().flat_map(|p| things().map(|i| p.allocations[i]))),
            }
        };
        let [requested, allocated, active, reserved] = view.highest.map(|bytes| columns.sizes(bytes));
        let head = Picture {
            low: picture.low,
            high: picture.high,
            column: columns.u32(picture.column),
            moment: columns.u32(picture.moment),
            start: columns.u32(picture.start),
            item: columns.u32(picture.thing),
            end: columns.u16(picture.end),
            items,
            highest: crate::questions::device::ByKind { requested, allocated, active, reserved },
        };
        Ok(Written { head, columns })
    }
    /// Allocated bytes by category.
    pub(crate) fn bands(
        &self,
        &SpanQuery { axis, from, to, width, ref only }: &SpanQuery,
        cancel: &Cancel,
    ) -> Reply<Bands> {
        let sound = from.is_finite() && to.is_finite() && from < to && (1..=LARGEST_SIDE).contains(&width);
        if !sound {
            return Err(SessionError::Argument(
                "invalid interval: width or position out of range".to_owned(),
            ));
        }
        let span = Span { axis, from, to, width };
        self.check(span.axis)?;
        let purposes = self.purposes();
        let only = self.only(only.as_ref(), cancel)?;
        let timeline = only.as_deref().unwrap_or(&self.timeline);
        let bands = timeline.bands_unless(&span, |id| purposes.category(id), cancel);
        let bands = bands.ok_or(SessionError::Cancelled)?;
        Columns::answer(|columns| Bands {
            column: columns.u32(bands.column),
            moment: columns.u32(bands.moment),
            bands: bands
                .bytes
                .into_iter()
                .map(|(of, bytes)| Band { category: category(of), bytes: columns.sizes(bytes) })
                .collect(),
        })
    }

    /// Fails if the recording does not have this axis.
    pub(crate) fn check(&self, axis: Axis) -> Result<(), SessionError> {
        if axis == Axis::Time && self.timeline.duration().is_none() {
            return Err(SessionError::Argument("the recording has no times".to_owned()));
        }
        Ok(())
    }
}
