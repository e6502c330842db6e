//! The first difference between the outlines of two parts of recordings, such as two steps.

use serde::{Deserialize, Serialize};
use vramscope_analysis::{Both, Cancel, Moment};

use crate::SessionError;
use crate::questions::device::OpenDevice;
use crate::questions::recording::OpenRecording;

/// Requests the first difference between the allocated bytes over an interval of each of two devices.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct FirstDifferenceQuery {
    /// The first and the last moment of the interval.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The position of the other file, and of the device in it.
    pub(crate) other_file: usize,
    pub(crate) other_device: usize,
    pub(crate) other_from: usize,
    pub(crate) other_to: usize,
}

/// The first difference between two sequences of changes of the allocated bytes.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct FirstDifference {
    /// The number of changes before the difference.
    pub(crate) shared: usize,
    /// Whether there is no difference.
    pub(crate) is_same: bool,
    /// The moments right after the first change that differs; null if the interval has no further change.
    pub(crate) moment: Option<usize>,
    pub(crate) other_moment: Option<usize>,
}

/// Compares an interval of one device with an interval of another.
pub(crate) fn first_difference(
    of: Both<(&OpenRecording, usize)>,
    query: &FirstDifferenceQuery,
    cancel: &Cancel,
) -> Result<FirstDifference, SessionError> {
    let [a, b] = [(of.a, query.from, query.to), (of.b, query.other_from, query.other_to)].map(
        |((file, position), from, to)| -> Result<(&OpenDevice, [Moment; 2]), SessionError> {
            let device = file.device(position)?;
            Ok((device, [device.moment(from)?, device.moment(to)?]))
        },
    );
    let parts = Both { a: a?, b: b? }.map(|&(device, moments)| (&device.timeline, moments));
    let found = vramscope_analysis::FirstDifference::of(parts, cancel).ok_or(SessionError::Cancelled)?;
    let index = |of: Option<Moment>| of.map(Moment::index);
    Ok(FirstDifference {
        shared: found.shared,
        is_same: found.moments.is_none(),
        moment: found.moments.and_then(|moments| index(moments.a)),
        other_moment: found.moments.and_then(|moments| index(moments.b)),
    })
}
