//! Searches for allocations of one device.

use vramscope_analysis::Cancel;

use crate::ViewError;
use crate::answers::{moment, stack};
use crate::columns::{Answer, Columns};
use crate::device::OpenDevice;
use crate::protocol::{Found, SearchQuery};

/// How many matches a search lists, the largest first; all are counted.
const MOST_FOUND: usize = 1000;

/// Tells which allocations of a device a search finds.
pub(crate) struct Matcher<'d> {
    device: &'d OpenDevice,
    query: SearchQuery,
    /// Whether each purpose is searched for; `None` where any is: what allocations are for is found out only where it is asked.
    purposes: Option<[bool; 256]>,
}

impl<'d> Matcher<'d> {
    pub(crate) fn of(device: &'d OpenDevice, mut query: SearchQuery) -> Self {
        for list in [&mut query.stacks, &mut query.tags].into_iter().flatten() {
            list.sort_unstable();
        }
        let purposes = query.purposes.as_ref().map(|searched| {
            let mut purposes = [false; 256];
            searched.iter().for_each(|&purpose| purposes[usize::from(purpose)] = true);
            purposes
        });
        Self { device, query, purposes }
    }

    /// Whether it finds the allocation of this number.
    pub(crate) fn finds(&self, id: usize) -> bool {
        let Self { device, query, purposes } = self;
        let a = &device.history().allocations[id];
        let (size, begin) = (a.size as f64, a.address as f64);
        let holds =
            |list: &Option<Vec<u32>>, n: u32| list.as_ref().is_none_or(|l| l.binary_search(&n).is_ok());
        query.min.is_none_or(|min| size >= min)
            && query.max.is_none_or(|max| size <= max)
            && query.address.is_none_or(|at| begin <= at && at < begin + size.max(1.0))
            // Versions are counted when they are first needed: only a search for one needs them.
            && query.version.is_none_or(|v| query.address == Some(begin) && device.versions()[id] == v)
            && holds(&query.tags, device.tags.allocations[id])
            && holds(&query.stacks, stack(a.stack))
            && purposes.is_none_or(|purposes| purposes[usize::from(device.purposes().allocations[id])])
    }
}

impl OpenDevice {
    pub(crate) fn search(&self, query: SearchQuery, cancel: &Cancel) -> Answer {
        let allocations = &self.history().allocations;
        let matcher = Matcher::of(self, query);
        /// Allocations that are searched before it is checked again whether the answer is still wanted.
        const STRIDE: usize = 1 << 16;
        let mut found: Vec<usize> = Vec::new();
        for first in (0..allocations.len()).step_by(STRIDE) {
            if cancel.is_cancelled() {
                return Err(ViewError::Unwanted);
            }
            let end = allocations.len().min(first + STRIDE);
            found.extend((first..end).filter(|&id| matcher.finds(id)));
        }
        let bytes = found.iter().map(|&id| allocations[id].size).sum();
        let count = found.len();
        found.sort_by_key(|&id| (std::cmp::Reverse(allocations[id].size), id));
        found.truncate(MOST_FOUND);
        let rows = || found.iter().map(|&id| &allocations[id]);
        let mut columns = Columns::default();
        let answer = Found {
            count,
            bytes,
            id: columns.u32(found.iter().map(|&id| id as u32)),
            address: columns.sizes(rows().map(|a| a.address)),
            size: columns.sizes(rows().map(|a| a.size)),
            from: columns.u32(rows().map(|a| moment(a.from))),
            to: columns.u32(rows().map(|a| moment(a.to))),
            stack: columns.u32(rows().map(|a| stack(a.stack))),
            tags: columns.u32(found.iter().map(|&id| self.tags.allocations[id])),
        };
        columns.behind(&answer)
    }
}
