//! The first difference between the outlines of two parts of recordings, such as two steps.

use vramscope_analysis::{Both, Cancel, Moment};

use crate::ViewError;
use crate::device::OpenDevice;
use crate::protocol::{Parting, PartingQuery};
use crate::recording::OpenRecording;

/// Compares an interval of one device with an interval of another.
pub(crate) fn parting(
    of: Both<(&OpenRecording, usize)>,
    query: &PartingQuery,
    cancel: &Cancel,
) -> Result<Parting, ViewError> {
    let [a, b] = [(of.a, query.from, query.to), (of.b, query.other_from, query.other_to)].map(
        |((file, position), from, to)| -> Result<(&OpenDevice, [Moment; 2]), ViewError> {
            let device = file.device(position)?;
            Ok((device, [device.moment(from)?, device.moment(to)?]))
        },
    );
    let parts = Both { a: a?, b: b? }.map(|&(device, moments)| (&device.timeline, moments));
    let found = vramscope_analysis::Parting::of(parts, cancel).ok_or(ViewError::Unwanted)?;
    let index = |of: Option<Moment>| of.map(Moment::index);
    Ok(Parting {
        shared: found.shared,
        is_same: found.moments.is_none(),
        moment: found.moments.and_then(|moments| index(moments.a)),
        other_moment: found.moments.and_then(|moments| index(moments.b)),
    })
}
