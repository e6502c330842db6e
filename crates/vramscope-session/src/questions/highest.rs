//! Groups in intervals of two recordings, each at its own peak.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use vramscope_analysis::{
    Both, By, Cancel, GroupPeakChange, GroupsInInterval, group_peaks_of_both, holders_among,
};

use crate::SessionError;
use crate::questions::columns::{Columns, NONE, Reply, U32s};
use crate::questions::conditions::SearchQuery;
use crate::questions::device::OpenDevice;
use crate::questions::held::{DeviceMoment, Groups, Holders, holders, marks};
use crate::questions::recording::OpenRecording;
use crate::questions::search::Matcher;

/// Requests groups of the live allocations in an interval of each of two devices, each group at its own peak.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct HighestOfBothQuery {
    /// The first and the last moment of the interval.
    pub(crate) from: usize,
    pub(crate) to: usize,
    #[cfg_attr(test, ts(type = "By"))]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::values::schema::by"))]
    pub(crate) by: By,
    pub(crate) search: Option<SearchQuery>,
    /// The position of the other file, and of the device in it.
    pub(crate) other_file: usize,
    pub(crate) other_device: usize,
    pub(crate) other_from: usize,
    pub(crate) other_to: usize,
}

/// Groups, each with its bytes at its own peak. The moments of `holders` are those of the overall peak.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct HighestOfBoth {
    pub(crate) holders: Holders,
    /// The moment of each group's own peak in the first device; `NONE` if it has no bytes there.
    pub(crate) moment: U32s,
    /// The same for the other device.
    pub(crate) other_moment: U32s,
}

/// Groups of an interval of one device and of an interval of another, each at its own peak.
pub(crate) fn highest(
    of: Both<(&OpenRecording, usize)>,
    query: &HighestOfBothQuery,
    cancel: &Cancel,
) -> Reply<HighestOfBoth> {
    let by = query.by;
    let asked = Asked { search: query.search.as_ref(), by, cancel };
    let a = Part::of(of.a, query.from, query.to, &asked)?;
    let b = Part::of(of.b, query.other_from, query.other_to, &asked)?;
    let places = Both { a: a.place(), b: b.place() };
    let found = Both { a: a.found, b: b.found };
    let within = Both { a: a.within, b: b.within };
    let changes = group_peaks_of_both(within, by, &marks(&found), cancel).ok_or(SessionError::Cancelled)?;
    let names = of.map(|(file, _)| file.session.names());
    let moment = |of: fn(&GroupPeakChange) -> Option<vramscope_analysis::Moment>| {
        changes.iter().map(move |change| of(change).map_or(NONE, |moment| moment.index() as u32))
    };
    Columns::answer(|columns| {
        let groups = changes.iter().map(|change| &change.group);
        HighestOfBoth {
            holders: holders(columns, groups, &names, &places.b, Some(&places.a)),
            moment: columns.u32(moment(|change| change.moments.a)),
            other_moment: columns.u32(moment(|change| change.moments.b)),
        }
    })
}

/// The query parameters that both intervals share.
struct Asked<'q> {
    search: Option<&'q SearchQuery>,
    by: By,
    cancel: &'q Cancel,
}

/// An interval of a device, and the groups with matches in it.
struct Part<'f> {
    device: &'f OpenDevice,
    within: GroupsInInterval<'f, OpenDevice>,
    found: Groups,
}

impl<'f> Part<'f> {
    fn of(
        (file, device): (&'f OpenRecording, usize),
        from: usize,
        to: usize,
        asked: &Asked<'_>,
    ) -> Result<Self, SessionError> {
        let device = file.device(device)?;
        let (from, to) = (device.moment(from)?, device.moment(to)?);
        if from > to {
            return Err(SessionError::Argument("the interval ends before it begins".to_owned()));
        }
        let interval = device.timeline.interval(from, to);
        let matcher = Matcher::of(device, asked.search, asked.cancel)?;
        let found = matcher.map_or_else(HashSet::new, |matcher| {
            let ids = interval.allocations.iter().map(|&id| id as usize).filter(|&id| matcher.finds(id));
            let groups = holders_among(device.history(), file.session.frames(), device, ids, asked.by);
            groups.into_iter().map(|holder| (holder.origin, holder.key)).collect()
        });
        let within = GroupsInInterval {
            history: device.history(),
            frames: file.session.frames(),
            known: device,
            interval,
        };
        Ok(Self { device, within, found })
    }

    /// The moment of the allocated peak.
    fn place(&self) -> DeviceMoment<'f> {
        DeviceMoment { device: self.device, moment: self.within.interval.peak.moment }
    }
}
