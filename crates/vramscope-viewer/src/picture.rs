//! Pictures of the timeline of one device.

use vramscope_analysis::{Axis, ByteKind, Cancel, LARGEST_SIDE, PictureWindow, Span};

use crate::ViewError;
use crate::answers::{moment, stack};
use crate::columns::{Columns, Reply, Written};
use crate::device::OpenDevice;
use crate::protocol::{self, Band, Bands, Items, Picture, SpanQuery, WindowQuery};
use crate::tables::category;

/// The maximum number of pixels in a picture.
const MOST_PIXELS: u32 = 64 << 20;

impl TryFrom<&WindowQuery> for PictureWindow {
    type Error = ViewError;

    fn try_from(q: &WindowQuery) -> Result<Self, ViewError> {
        let sides = [q.width, q.height];
        let numbers = [q.from, q.to, q.low, q.high.unwrap_or(0.0)];
        let sound = numbers.iter().all(|n| n.is_finite())
            && q.from < q.to
            && sides.iter().all(|&s| (1..=LARGEST_SIDE).contains(&s))
            && u32::from(q.width) * u32::from(q.height) <= MOST_PIXELS;
        if !sound {
            return Err(ViewError::Question("invalid window: size or position out of range".to_owned()));
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
        let view = timeline.view_unless(&window, cancel).ok_or(ViewError::Unwanted)?;
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
            highest: protocol::ByKind { requested, allocated, active, reserved },
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
            return Err(ViewError::Question("invalid interval: width or position out of range".to_owned()));
        }
        let span = Span { axis, from, to, width };
        self.check(span.axis)?;
        let purposes = self.purposes();
        let only = self.only(only.as_ref(), cancel)?;
        let timeline = only.as_deref().unwrap_or(&self.timeline);
        let bands = timeline.bands_unless(&span, |id| purposes.category(id), cancel);
        let bands = bands.ok_or(ViewError::Unwanted)?;
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
    pub(crate) fn check(&self, axis: Axis) -> Result<(), ViewError> {
        if axis == Axis::Time && self.timeline.duration().is_none() {
            return Err(ViewError::Question("the recording has no times".to_owned()));
        }
        Ok(())
    }
}
