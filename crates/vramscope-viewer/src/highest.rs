//! Groups in intervals of two recordings, each at its own peak.

use std::collections::HashSet;

use vramscope_analysis::{
    Both, By, Cancel, GroupPeakChange, GroupsInInterval, group_peaks_of_both, holders_among,
};

use crate::ViewError;
use crate::columns::{Columns, Reply};
use crate::device::OpenDevice;
use crate::held::{DeviceMoment, Groups, holders, marks};
use crate::protocol::{HighestOfBoth, HighestOfBothQuery, NONE, SearchQuery};
use crate::recording::OpenRecording;
use crate::search::Matcher;

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
    let changes = group_peaks_of_both(within, by, &marks(&found), cancel).ok_or(ViewError::Unwanted)?;
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
    ) -> Result<Self, ViewError> {
        let device = file.device(device)?;
        let (from, to) = (device.moment(from)?, device.moment(to)?);
        if from > to {
            return Err(ViewError::Question("the interval ends before it begins".to_owned()));
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
