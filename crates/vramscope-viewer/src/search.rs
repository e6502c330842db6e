//! Searches for allocations of one device.

use vramscope_analysis::Cancel;

use crate::ViewError;
use crate::answers::{moment, stack};
use crate::columns::{Answer, Columns};
use crate::device::OpenDevice;
use crate::protocol::{Found, SearchQuery};

/// How many matches a search lists, the largest first; all are counted.
const MOST_FOUND: usize = 1000;

impl OpenDevice {
    pub(crate) fn search(&self, mut query: SearchQuery, cancel: &Cancel) -> Answer {
        let allocations = &self.history().allocations;
        let holds =
            |list: &Option<Vec<u32>>, n: u32| list.as_ref().is_none_or(|l| l.binary_search(&n).is_ok());
        let mut purposes = [query.purposes.is_none(); 256];
        for &purpose in query.purposes.iter().flatten() {
            purposes[usize::from(purpose)] = true;
        }
        // What allocations are for is found out only where it is asked.
        let is_for =
            |id: usize| query.purposes.is_none() || purposes[usize::from(self.purposes().allocations[id])];
        for list in [&mut query.stacks, &mut query.tags].into_iter().flatten() {
            list.sort_unstable();
        }
        // Versions are counted when they are first needed: only a search for one needs them.
        let is_version = |id: usize, begin: f64| {
            query.version.is_none_or(|v| query.address == Some(begin) && self.versions()[id] == v)
        };
        let matches = |id: usize| {
            let a = &allocations[id];
            let (size, begin) = (a.size as f64, a.address as f64);
            query.min.is_none_or(|min| size >= min)
                && query.max.is_none_or(|max| size <= max)
                && query.address.is_none_or(|at| begin <= at && at < begin + size.max(1.0))
                && is_version(id, begin)
                && holds(&query.tags, self.tags.allocations[id])
                && holds(&query.stacks, stack(a.stack))
                && is_for(id)
        };
        /// Allocations that are searched before it is checked again whether the answer is still wanted.
        const STRIDE: usize = 1 << 16;
        let mut found: Vec<usize> = Vec::new();
        for first in (0..allocations.len()).step_by(STRIDE) {
            if cancel.is_cancelled() {
                return Err(ViewError::Unwanted);
            }
            let end = allocations.len().min(first + STRIDE);
            found.extend((first..end).filter(|&id| matches(id)));
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
