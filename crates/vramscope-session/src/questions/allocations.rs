//! The table of allocations: a range of its rows, in any order.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vramscope_analysis::{Cancel, Moment, Origin, RecordedAllocation};
use vramscope_basics::lock;
use vramscope_report::Names;
use vramscope_trace::{Category, StackId};

use crate::SessionError;
use crate::questions::bits::STRIDE;
use crate::questions::cached::{AllocationColumn, Among};
use crate::questions::columns::{Columns, F64s, NONE, Reply, U8s, U32s, moment, stack};
use crate::questions::conditions::SearchQuery;
use crate::questions::device::{OpenDevice, Ordered};
use crate::questions::recording::OpenRecording;
use crate::questions::tables;

/// Requests a range of rows of the allocation table.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct AllocationsQuery {
    pub(crate) search: Option<SearchQuery>,
    pub(crate) among: Among,
    pub(crate) sort: AllocationColumn,
    pub(crate) descending: bool,
    /// The first row, and the number of rows.
    pub(crate) first: usize,
    pub(crate) count: usize,
    /// The index of an allocation whose row is requested.
    pub(crate) find: Option<usize>,
}

/// A range of rows of the allocation table.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Allocations<'r> {
    /// The number of rows in the whole table, and the sum of their bytes.
    pub(crate) count: usize,
    pub(crate) bytes: u64,
    /// The index of the first returned row.
    pub(crate) first: usize,
    /// The row of the requested allocation; null if it is not in the table.
    pub(crate) found_row: Option<usize>,
    /// The indices of the allocations.
    pub(crate) id: U32s,
    pub(crate) address: F64s,
    /// The number of earlier allocations at the same address.
    pub(crate) version: U32s,
    pub(crate) requested: F64s,
    /// The bytes of its block.
    pub(crate) bytes_of: F64s,
    /// The moments after the allocation and after its free.
    pub(crate) from: U32s,
    pub(crate) freed: U32s,
    /// NaN if unknown.
    pub(crate) from_us: F64s,
    pub(crate) freed_us: F64s,
    pub(crate) stack: U32s,
    pub(crate) tags: U32s,
    /// Positions in the device's `purposes`.
    pub(crate) purpose: U8s,
    /// Positions in `ORIGINS`.
    pub(crate) origin: U8s,
    /// The step of the allocation, from 0.
    pub(crate) step: U32s,
    /// The innermost annotated region around the allocation: a position in `regions`.
    pub(crate) region: U32s,
    pub(crate) regions: Vec<&'r str>,
}

/// The maximum number of rows in one answer.
const MOST_ROWS: usize = 100_000;
/// The maximum number of rows that are sorted between two checks for cancellation.
const SORTED_AT_ONCE: usize = 1 << 18;

/// A row's sort key, and the index of its allocation.
type KeyedRow = (u64, u32);
/// The sort key of a missing value, which sorts last.
const LAST: u64 = u64::MAX;

fn sort(places: &mut [KeyedRow], cancel: &Cancel) -> Result<(), SessionError> {
    if cancel.is_cancelled() {
        return Err(SessionError::Cancelled);
    }
    if places.len() <= SORTED_AT_ONCE {
        places.sort_unstable();
        return Ok(());
    }
    let middle = places.len() / 2;
    places.select_nth_unstable(middle);
    let (low, high) = places.split_at_mut(middle);
    sort(low, cancel)?;
    sort(high, cancel)
}

/// The rank of each value among the distinct values.
fn ranks<T: Ord>(values: Vec<Option<T>>) -> Vec<Option<u64>> {
    let mut different: Vec<&T> = values.iter().flatten().collect();
    different.sort_unstable();
    different.dedup();
    let rank = |value: &Option<T>| Some(different.binary_search(&value.as_ref()?).unwrap_or_default() as u64);
    values.iter().map(rank).collect()
}

/// A sort key that ignores case and compares numbers in the text by value.
fn natural(text: &str) -> String {
    let mut key = String::new();
    let mut digits = String::new();
    for c in text.chars().chain([' ']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        if !digits.is_empty() {
            key.push_str(&format!("{digits:0>12}"));
            digits.clear();
        }
        key.extend(c.to_lowercase());
    }
    key
}

impl OpenDevice {
    /// The step of an allocation.
    fn step_of(&self, id: usize) -> Option<usize> {
        self.purposes().steps.made_in(&self.history().allocations[id])
    }

    /// The moments of the allocation and its free. `None` if it was live before recording or never freed.
    fn lifetime(a: &RecordedAllocation) -> Option<(Moment, Moment)> {
        (a.origin == Origin::Recorded && a.freed != Moment::NEVER).then_some((a.from, a.freed))
    }
}

impl OpenRecording {
    /// The sort key of an allocation for each column.
    fn keys<'d>(
        &self,
        device: &'d OpenDevice,
        column: AllocationColumn,
    ) -> Box<dyn Fn(usize) -> Option<u64> + 'd> {
        let history = device.history();
        let allocations = &history.allocations;
        let of_tags = |ranks: Vec<Option<u64>>| -> Box<dyn Fn(usize) -> Option<u64> + 'd> {
            Box::new(move |id| ranks[device.tags.allocations[id] as usize])
        };
        match column {
            AllocationColumn::Allocation => Box::new(|id| Some(id as u64)),
            AllocationColumn::Address => Box::new(|id| Some(allocations[id].address)),
            AllocationColumn::RequestedBytes => Box::new(|id| Some(allocations[id].requested)),
            AllocationColumn::BlockBytes => Box::new(|id| Some(allocations[id].size)),
            AllocationColumn::AllocEvent => Box::new(|id| allocations[id].from.event().map(|e| e as u64)),
            AllocationColumn::FreeEvent => Box::new(|id| {
                Some(allocations[id].freed).filter(|&m| m != Moment::NEVER).map(|m| m.index() as u64)
            }),
            AllocationColumn::LifetimeEvents => Box::new(|id| {
                OpenDevice::lifetime(&allocations[id]).map(|(from, to)| (to.index() - from.index()) as u64)
            }),
            AllocationColumn::LifetimeUs => Box::new(|id| {
                let (from, to) = OpenDevice::lifetime(&allocations[id])?;
                let [from, to] = [from, to].map(|at| device.timeline.time_of(at));
                to?.checked_sub(from?)?.try_into().ok()
            }),
            AllocationColumn::Stream => {
                of_tags(device.tags.table.iter().map(|tags| Some(tags.stream)).collect())
            }
            AllocationColumn::Pool => {
                of_tags(ranks(device.tags.table.iter().map(|tags| tags.pool).collect()))
            }
            AllocationColumn::Layer => {
                let text = |layer: u32| natural(device.tags.texts[layer as usize].get(history));
                of_tags(ranks(device.tags.table.iter().map(|tags| tags.layer.map(text)).collect()))
            }
            AllocationColumn::Category => {
                let purposes = device.purposes();
                let ranks = ranks(Category::ALL.iter().map(|category| Some(category.name())).collect());
                Box::new(move |id| ranks[usize::from(tables::category(purposes.category(id as u32)))])
            }
            AllocationColumn::Line => {
                let trace = self.session.trace();
                let names = Names { trace, frames: self.session.frames() };
                let mut labels = HashMap::new();
                let own = trace.stacks.iter().map(|(id, _)| {
                    let frame = self.session.frames().own_frame(trace, id)?;
                    Some(
                        labels.entry(frame).or_insert_with(|| Arc::new(natural(&names.frame(frame)))).clone(),
                    )
                });
                let ranks = ranks(own.collect());
                Box::new(move |id| allocations[id].stack.and_then(|stack: StackId| ranks[stack.index()]))
            }
            AllocationColumn::Step => Box::new(|id| device.step_of(id).map(|step| step as u64)),
            AllocationColumn::Region => {
                let strings = &history.trace().strings;
                let regions = device.regions_at();
                let names = regions.names();
                let ranks = ranks(names.iter().map(|&name| Some(natural(strings.get(name)))).collect());
                let ranks: HashMap<_, _> = names.into_iter().zip(ranks).collect();
                Box::new(move |id| regions.at(allocations[id].from).and_then(|name| ranks[&name]))
            }
        }
    }

    /// The allocation indices of all rows in order, and the sum of their bytes. The last order is cached, because the table is
    /// read in pages.
    fn ordered(
        &self,
        device: &OpenDevice,
        query: &AllocationsQuery,
        cancel: &Cancel,
    ) -> Result<(Arc<[u32]>, u64), SessionError> {
        let of = (query.search.clone(), query.among, query.sort, query.descending);
        if let Some(last) = lock(&device.ordered).as_ref().filter(|last| last.of == of) {
            return Ok((last.ids.clone(), last.bytes));
        }
        let allocations = &device.history().allocations;
        let found = query.search.as_ref().map(|search| device.found(search, cancel)).transpose()?;
        let is_found = |id: &usize| found.as_ref().is_none_or(|found| found.has(*id as u32));
        let candidates: Box<dyn Iterator<Item = usize>> = match query.among {
            Among::All => Box::new(0..allocations.len()),
            Among::LiveAt { moment } => Box::new(device.allocated_at(device.moment(moment)?).into_iter()),
            Among::Within { from, to } => {
                let (from, to) = (Moment::from_index(from), Moment::from_index(to));
                let inside = move |id: &usize| from < allocations[*id].from && allocations[*id].from <= to;
                Box::new((0..allocations.len()).filter(inside))
            }
        };
        let key = self.keys(device, query.sort);
        let mut places: Vec<KeyedRow> = Vec::new();
        let mut bytes = 0;
        for (number, id) in candidates.filter(is_found).enumerate() {
            if number % STRIDE == 0 && cancel.is_cancelled() {
                return Err(SessionError::Cancelled);
            }
            let turned =
                |key: u64| if query.descending { LAST - 1 - key.min(LAST - 1) } else { key.min(LAST - 1) };
            places.push((key(id).map_or(LAST, turned), id as u32));
            bytes += allocations[id].size;
        }
        sort(&mut places, cancel)?;
        let ids: Arc<[u32]> = places.into_iter().map(|(_, id)| id).collect();
        *lock(&device.ordered) = Some(Ordered { of, ids: ids.clone(), bytes });
        Ok((ids, bytes))
    }

    pub(crate) fn allocations(
        &self,
        device: usize,
        query: &AllocationsQuery,
        cancel: &Cancel,
    ) -> Reply<Allocations<'_>> {
        let device = self.device(device)?;
        let history = device.history();
        let (all, bytes) = self.ordered(device, query, cancel)?;
        let first = query.first.min(all.len());
        let last = first.saturating_add(query.count.min(MOST_ROWS)).min(all.len());
        let ids = || all[first..last].iter().map(|&id| id as usize);
        let rows = || ids().map(|id| &history.allocations[id]);
        let us = |at: Moment| {
            let known = Some(at).filter(|&at| at != Moment::NEVER).and_then(|at| device.timeline.time_of(at));
            known.map_or(f64::NAN, |us| us as f64)
        };
        let mut regions = Vec::new();
        let mut numbers = HashMap::new();
        let region: Vec<u32> = rows()
            .map(|a| {
                let Some(name) = device.regions_at().at(a.from) else { return NONE };
                *numbers.entry(name).or_insert_with(|| {
                    regions.push(history.trace().strings.get(name));
                    (regions.len() - 1) as u32
                })
            })
            .collect();
        Columns::answer(|columns| Allocations {
            count: all.len(),
            bytes,
            first,
            found_row: query.find.and_then(|find| all.iter().position(|&id| id as usize == find)),
            id: columns.u32(ids().map(|id| id as u32)),
            address: columns.sizes(rows().map(|a| a.address)),
            version: columns.u32(ids().map(|id| device.versions()[id])),
            requested: columns.sizes(rows().map(|a| a.requested)),
            bytes_of: columns.sizes(rows().map(|a| a.size)),
            from: columns.u32(rows().map(|a| moment(a.from))),
            freed: columns.u32(rows().map(|a| moment(a.freed))),
            from_us: columns.f64(rows().map(|a| us(a.from))),
            freed_us: columns.f64(rows().map(|a| us(a.freed))),
            stack: columns.u32(rows().map(|a| stack(a.stack))),
            tags: columns.u32(ids().map(|id| device.tags.allocations[id])),
            purpose: columns.u8(ids().map(|id| device.purposes().allocations[id])),
            origin: columns.u8(rows().map(|a| tables::origin(a.origin))),
            step: columns.u32(ids().map(|id| device.step_of(id).map_or(NONE, |step| step as u32))),
            region: columns.u32(region),
            regions,
        })
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::questions::conditions::SearchQuery;
    use crate::questions::recording::example as open;

    fn query(sort: AllocationColumn, descending: bool, among: Among) -> AllocationsQuery {
        AllocationsQuery { search: None, among, sort, descending, first: 0, count: usize::MAX, find: None }
    }

    fn ids(file: &OpenRecording, query: &AllocationsQuery) -> Vec<usize> {
        let (ids, _) = file.ordered(&file.devices[0], query, &Cancel::default()).unwrap();
        ids.iter().map(|&id| id as usize).collect()
    }

    #[test]
    fn rows_stand_in_the_order_of_any_column() {
        let columns = [
            AllocationColumn::Allocation,
            AllocationColumn::Address,
            AllocationColumn::RequestedBytes,
            AllocationColumn::BlockBytes,
            AllocationColumn::AllocEvent,
            AllocationColumn::FreeEvent,
            AllocationColumn::LifetimeEvents,
            AllocationColumn::LifetimeUs,
            AllocationColumn::Stream,
            AllocationColumn::Pool,
            AllocationColumn::Category,
            AllocationColumn::Line,
            AllocationColumn::Layer,
            AllocationColumn::Step,
            AllocationColumn::Region,
        ];
        for example in ["leak.pickle", "training.pickle.zst"] {
            let file = open(example);
            let device = &file.devices[0];
            for column in columns {
                let key = file.keys(device, column);
                for descending in [false, true] {
                    let rows = ids(&file, &query(column, descending, Among::All));
                    let mut all = rows.clone();
                    all.sort_unstable();
                    assert!(all.into_iter().eq(0..device.history().allocations.len()));
                    for pair in rows.windows(2) {
                        let (a, b) = (key(pair[0]), key(pair[1]));
                        let right = match (a, b) {
                            (Some(a), Some(b)) if a == b => pair[0] < pair[1],
                            (Some(a), Some(b)) => (a < b) != descending,
                            (None, None) => pair[0] < pair[1],
                            (a, _) => a.is_some(),
                        };
                        assert!(right, "{example} {column:?} {descending}: {pair:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_table_has_the_requested_columns_and_order() {
        let file = open("leak.pickle");
        let device = &file.devices[0];
        let allocations = &device.history().allocations;
        let naive = |holds: &dyn Fn(&RecordedAllocation) -> bool| -> Vec<usize> {
            (0..allocations.len()).filter(|&id| holds(&allocations[id])).collect()
        };
        let end = device.history().end();
        let middle = Moment::from_index(end.index() / 2);
        let by_number = |among| query(AllocationColumn::Allocation, false, among);
        let live = ids(&file, &by_number(Among::LiveAt { moment: middle.index() }));
        assert_eq!(live, naive(&|a| a.is_allocated_at(middle)));
        let within = ids(&file, &by_number(Among::Within { from: middle.index(), to: end.index() }));
        assert_eq!(within, naive(&|a| a.from > middle));
        let search = Some(SearchQuery::Freed { spans: vec![[NONE; 2]] });
        let kept = ids(&file, &AllocationsQuery { search, ..by_number(Among::All) });
        assert_eq!(kept, naive(&|a| a.freed == Moment::NEVER));
        assert!(
            [&live, &within, &kept].iter().all(|rows| !rows.is_empty() && rows.len() < allocations.len())
        );
        // The row of an allocation, in this order; none if the table does not have it.
        let row = |find: usize| {
            let query = AllocationsQuery {
                find: Some(find),
                ..query(AllocationColumn::BlockBytes, true, Among::LiveAt { moment: middle.index() })
            };
            let order = ids(&file, &query);
            let answer = file.allocations(0, &query, &Cancel::default()).unwrap();
            assert_eq!(answer.head.found_row, order.iter().position(|&id| id == find));
            answer.head.found_row
        };
        assert!(live.iter().all(|&id| row(id).is_some()));
        assert!(naive(&|a| !a.is_allocated_at(middle)).into_iter().take(9).all(|id| row(id).is_none()));
        let beyond = Among::LiveAt { moment: end.index() + 1 };
        assert!(file.allocations(0, &by_number(beyond), &Cancel::default()).is_err());
        let cancel = Cancel::default();
        cancel.cancel();
        assert!(file.allocations(0, &query(AllocationColumn::Line, false, Among::All), &cancel).is_err());
    }

    #[test]
    fn many_rows_are_sorted_in_pieces() {
        let mut places: Vec<KeyedRow> =
            (0..600_000u32).map(|n| (u64::from(n.wrapping_mul(2_654_435_761) % 1000), n)).collect();
        sort(&mut places, &Cancel::default()).unwrap();
        assert!(places.is_sorted());
    }

    #[test]
    fn texts_are_sorted_by_the_values_of_their_numbers() {
        let mut lines = ["b.py:100 f", "B.py:9 f", "a10b", "a9b", "a"];
        lines.sort_by_key(|line| natural(line));
        assert_eq!(lines, ["a", "a9b", "a10b", "B.py:9 f", "b.py:100 f"]);
    }
}
