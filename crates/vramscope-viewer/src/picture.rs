//! Pictures of the timeline of one device.

use vramscope_analysis::{Axis, ByteKind, Cancel, LARGEST_SIDE, Window};

use crate::ViewError;
use crate::answers::{moment, stack};
use crate::columns::{Answer, Columns};
use crate::device::OpenDevice;
use crate::protocol::{self, Items, Picture, WindowQuery};

/// The most pixels of a picture.
const MOST_PIXELS: u32 = 64 << 20;

impl TryFrom<WindowQuery> for Window {
    type Error = ViewError;

    fn try_from(q: WindowQuery) -> Result<Self, ViewError> {
        let sides = [q.width, q.height];
        let numbers = [q.from, q.to, q.low, q.high.unwrap_or(0.0)];
        let sound = numbers.iter().all(|n| n.is_finite())
            && q.from < q.to
            && sides.iter().all(|&s| (1..=LARGEST_SIDE).contains(&s))
            && u32::from(q.width) * u32::from(q.height) <= MOST_PIXELS;
        if !sound {
            return Err(ViewError::Question("no window of that size or place can be drawn".to_owned()));
        }
        Ok(Self {
            stacked: match q.stacked {
                protocol::ByteKind::Requested => ByteKind::Requested,
                protocol::ByteKind::Allocated => ByteKind::Allocated,
                protocol::ByteKind::Active => ByteKind::Active,
                protocol::ByteKind::Reserved => ByteKind::Reserved,
            },
            axis: match q.axis {
                protocol::Axis::Events => Axis::Events,
                protocol::Axis::Time => Axis::Time,
            },
            from: q.from,
            to: q.to,
            width: q.width,
            height: q.height,
            low: q.low,
            high: q.high,
            fit_reserved: q.fit_reserved != 0,
        })
    }
}

impl OpenDevice {
    pub(crate) fn picture(&self, query: WindowQuery, cancel: &Cancel) -> Answer {
        let window = Window::try_from(query)?;
        if window.axis == Axis::Time && self.timeline.duration().is_none() {
            return Err(ViewError::Question("the recording has no times".to_owned()));
        }
        let view = self.timeline.view_unless(&window, cancel).ok_or(ViewError::Unwanted)?;
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
            }
        };
        let [requested, allocated, active, reserved] = view.highest.map(|bytes| columns.sizes(bytes));
        let answer = Picture {
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
        columns.behind(&answer)
    }
}
