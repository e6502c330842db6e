//! Groups of allocations, for the colors of pictures and for the legend.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use vramscope_analysis::{AllocationProperties, By, Cancel, Holder, HolderKey, Moment, frame_key, stack_key};
use vramscope_trace::{Category, FrameId};

use crate::SessionError;
use crate::questions::columns::{Columns, NONE, Reply, U32s};
use crate::questions::conditions::SearchQuery;
use crate::questions::device::OpenDevice;
use crate::questions::held::{DeviceAt, key_of, readable};
use crate::questions::hues::{hue, hue_of};
use crate::questions::recording::OpenRecording;

/// Requests the groups by which a picture is colored.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct GroupsQuery {
    #[cfg_attr(test, ts(type = "By"))]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::values::schema::by"))]
    pub(crate) by: By,
}

/// The groups of a device, assigned to stacks or to tags.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Groups {
    /// The hue of each group: a hash of its name, equal in every recording; 0 for a group without a known name. Groups that
    /// cover most of the timeline, or of its peak, come first.
    pub(crate) hue: U32s,
    /// The group of each stack of the file; `NONE` if the device does not use it. Empty if groups are assigned to tags.
    pub(crate) stack: U32s,
    /// The group of allocations without a stack.
    pub(crate) no_stack: u32,
    /// The group of each of the device's tags; empty if groups are assigned to stacks.
    pub(crate) tags: U32s,
    /// The hue of each frame of the file, for call trees. Empty unless grouped by line, function, file or module.
    pub(crate) frame: U32s,
}

/// Requests a legend: the groups at the peak of an interval.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LegendQuery {
    #[cfg_attr(test, ts(type = "By"))]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::values::schema::by"))]
    pub(crate) by: By,
    /// The first and the last moment of the interval.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Whether to list reserved ranges instead of live allocations.
    pub(crate) reserved: bool,
    /// The maximum number of groups.
    pub(crate) most: usize,
    /// The search whose matches are not faded.
    pub(crate) search: Option<SearchQuery>,
    /// Whether only the matches are listed.
    #[serde(default)]
    pub(crate) only_found: bool,
}

/// The largest groups at a moment, and the sum of the others.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Legend {
    pub(crate) moment: usize,
    /// The bytes of all allocations or ranges, whether they match or not.
    pub(crate) bytes: u64,
    /// The matching bytes among them; null without a search.
    pub(crate) found: Option<u64>,
    /// Most bytes first.
    pub(crate) groups: Vec<GroupShare>,
    /// The number of groups that are not listed, and their bytes.
    pub(crate) others: usize,
    pub(crate) other_bytes: u64,
}

/// The bytes of one group.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct GroupShare {
    /// As in `Holders`.
    pub(crate) key: String,
    pub(crate) label: String,
    pub(crate) hue: u32,
    pub(crate) bytes: u64,
    /// The number of blocks or ranges.
    pub(crate) count: u64,
    /// The matching bytes.
    pub(crate) found: u64,
    /// The stack with the most bytes; null if none was recorded.
    pub(crate) stack: Option<usize>,
}

/// Group keys with their indices, in insertion order.
#[derive(Default)]
struct Numbers {
    keys: Vec<(HolderKey, Option<FrameId>)>,
    numbers: HashMap<HolderKey, u32>,
}

impl Numbers {
    fn of(&mut self, key: HolderKey, own: Option<FrameId>) -> u32 {
        *self.numbers.entry(key).or_insert_with_key(|key| {
            self.keys.push((key.clone(), own));
            (self.keys.len() - 1) as u32
        })
    }
}

/// The group index of each allocation, before sorting.
struct Table {
    by_stack: bool,
    /// For each stack, or for each of the device's tags; [`NONE`] if no allocation has it.
    groups: Vec<u32>,
    no_stack: u32,
    numbers: Numbers,
}

impl Table {
    fn of(file: &OpenRecording, device: &OpenDevice, by: By) -> Result<Self, SessionError> {
        let history = device.history();
        let by_stack = match by {
            By::Stack | By::Line | By::Function | By::File | By::Module => true,
            By::Pool | By::Stream | By::Layer => false,
            By::Category | By::Step | By::Size => {
                return Err(SessionError::Argument("these groups need no table".to_owned()));
            }
        };
        let mut numbers = Numbers::default();
        let mut no_stack = 0;
        let mut groups;
        if by_stack {
            let trace = file.session.trace();
            no_stack = numbers.of(HolderKey::NoStack, None);
            groups = vec![NONE; trace.stacks.len()];
            let stacks = history.allocations.iter().filter_map(|a| a.stack);
            for stack in stacks.chain(history.reserved.iter().filter_map(|r| r.stack)) {
                let group = &mut groups[stack.index()];
                if *group == NONE {
                    let own = file.session.frames().own_frame(trace, stack);
                    *group = numbers.of(stack_key(history, file.session.frames(), Some(stack), by), own);
                }
            }
        } else {
            groups = vec![NONE; device.tags.table.len()];
            for (id, &tags) in device.tags.allocations.iter().enumerate() {
                let group = &mut groups[tags as usize];
                if *group == NONE {
                    let key = match by {
                        By::Pool => HolderKey::Pool(device.pool(id)),
                        By::Stream => HolderKey::Stream(history.allocations[id].stream),
                        _ => HolderKey::Layer(device.layer(id)),
                    };
                    *group = numbers.of(key, None);
                }
            }
            for (range, &tags) in history.reserved.iter().zip(&device.tags.ranges) {
                let group = &mut groups[tags as usize];
                if *group == NONE {
                    let key = match by {
                        By::Pool => HolderKey::Pool(range.pool),
                        By::Stream => HolderKey::Stream(range.stream),
                        _ => HolderKey::Layer(None),
                    };
                    *group = numbers.of(key, None);
                }
            }
        }
        Ok(Self { by_stack, groups, no_stack, numbers })
    }

    fn group(&self, device: &OpenDevice, allocation: usize) -> usize {
        let at = match self.by_stack {
            true => device.history().allocations[allocation].stack.map(|stack| stack.index()),
            false => Some(device.tags.allocations[allocation] as usize),
        };
        at.map_or(self.no_stack, |at| self.groups[at]) as usize
    }

    /// The group indices, largest first. The order alternates between the group with the most bytes at the peak and the group
    /// that covers most of the timeline.
    fn largest(&self, device: &OpenDevice) -> Vec<usize> {
        let history = device.history();
        let (end, peak) = (history.end(), device.timeline.peaks().allocated.moment);
        let mut at_peak = vec![0u64; self.numbers.keys.len()];
        let mut covered = vec![0u128; self.numbers.keys.len()];
        for (id, a) in history.allocations.iter().enumerate() {
            let group = self.group(device, id);
            let moments = (a.freed.min(end).index()).saturating_sub(a.from.index());
            covered[group] += u128::from(a.size) * moments as u128;
            at_peak[group] += if a.is_allocated_at(peak) { a.size } else { 0 };
        }
        let mut rank = vec![usize::MAX; covered.len()];
        let mut all: Vec<usize> = (0..covered.len()).collect();
        all.sort_by_key(|&group| (Reverse(at_peak[group]), Reverse(covered[group]), group));
        all.iter().enumerate().for_each(|(place, &group)| rank[group] = 2 * place);
        all.sort_by_key(|&group| (Reverse(covered[group]), group));
        all.iter().enumerate().for_each(|(place, &group)| rank[group] = rank[group].min(2 * place + 1));
        all.sort_by_key(|&group| (rank[group], group));
        all
    }
}

/// The bytes of all groups.
fn sum(holders: &[Holder]) -> u64 {
    holders.iter().map(|h| h.bytes).sum()
}

impl OpenRecording {
    pub(crate) fn groups(&self, device: usize, query: &GroupsQuery) -> Reply<Groups> {
        let by = query.by;
        let of = self.device(device)?;
        let table = Table::of(self, of, by)?;
        let order = table.largest(of);
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, &group)| place[group] = at as u32);
        let placed = |group: u32| place.get(group as usize).copied().unwrap_or(NONE);
        let names = self.session.names();
        let by_frame = matches!(by, By::Line | By::Function | By::File | By::Module);
        let frames = self.session.trace().frames.iter().filter(|_| by_frame);
        let frame = |id| hue_of(&names, &frame_key(of.history(), self.session.frames(), id, by), Some(id));
        Columns::answer(|columns| {
            let groups = |columns: &mut Columns, are: bool| {
                columns.u32(table.groups.iter().filter(|_| are).map(|&group| placed(group)))
            };
            Groups {
                hue: columns.u32(order.iter().map(|&group| {
                    let (key, own) = &table.numbers.keys[group];
                    hue_of(&names, key, *own)
                })),
                stack: groups(columns, table.by_stack),
                no_stack: placed(table.no_stack),
                tags: groups(columns, !table.by_stack),
                frame: columns.u32(frames.map(|(id, _)| frame(id))),
            }
        })
    }

    pub(crate) fn legend(
        &self,
        device: usize,
        query: &LegendQuery,
        cancel: &Cancel,
    ) -> Result<Legend, SessionError> {
        let of = self.device(device)?;
        let (from, to) = (of.moment(query.from)?, of.moment(query.to)?);
        let only = of.only(query.search.as_ref().filter(|_| query.only_found), cancel)?;
        let peaks = only.as_deref().unwrap_or(&of.timeline).peaks_within(from, to);
        let by = query.by;
        let (moment, whole, all, found, is_searched) = if query.reserved {
            let at = peaks.reserved.moment;
            let all = self.ranges(of, at, by);
            (at, sum(&all), all, Vec::new(), false)
        } else {
            let highest = peaks.allocated.moment;
            let at = DeviceAt::of(self, device, highest.index(), query.search.as_ref(), cancel)?;
            let (all, found) = (at.holders(by), at.grouped(&at.found, by));
            (highest, sum(&all), if only.is_some() { found.clone() } else { all }, found, at.is_searched)
        };
        let found_of: HashMap<_, u64> = found.iter().map(|h| ((h.origin, h.key.clone()), h.bytes)).collect();
        let names = self.session.names();
        let (listed, others) = all.split_at(query.most.min(all.len()));
        let share = |h: &Holder| GroupShare {
            key: key_of(h),
            label: readable(h, names.wide_holder(h).into()),
            hue: hue(&names, h),
            bytes: h.bytes,
            count: h.count,
            found: found_of.get(&(h.origin, h.key.clone())).copied().unwrap_or_default(),
            stack: h.stack.map(|stack| stack.index()),
        };
        Ok(Legend {
            moment: moment.index(),
            bytes: whole,
            found: is_searched.then(|| sum(&found)),
            groups: listed.iter().map(share).collect(),
            others: others.len(),
            other_bytes: sum(others),
        })
    }

    /// The reserved ranges at a moment, grouped, largest first. They have no category and no layer.
    fn ranges(&self, device: &OpenDevice, at: Moment, by: By) -> Vec<Holder> {
        let history = device.history();
        let mut groups: HashMap<HolderKey, Holder> = HashMap::new();
        for id in device.timeline.reserved_at(at) {
            let range = &history.reserved[id as usize];
            let key = match by {
                By::Pool => HolderKey::Pool(range.pool),
                By::Stream => HolderKey::Stream(range.stream),
                By::Size => HolderKey::of_size(range.size),
                By::Category => HolderKey::Category(Category::Unknown),
                By::Layer => HolderKey::Layer(None),
                By::Step => HolderKey::Step(device.purposes().steps.at(range.from)),
                _ => stack_key(history, self.session.frames(), range.stack, by),
            };
            let none = Holder {
                bytes: 0,
                requested: 0,
                count: 0,
                origin: None,
                key: key.clone(),
                stack: range.stack,
            };
            let group = groups.entry(key).or_insert(none);
            group.bytes += range.size;
            group.requested += range.size;
            group.count += 1;
        }
        let mut groups: Vec<Holder> = groups.into_values().collect();
        groups.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.key.cmp(&b.key)));
        groups
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::questions::recording::example as open;

    const IN_TABLES: [By; 8] =
        [By::Stack, By::Line, By::Function, By::File, By::Module, By::Layer, By::Stream, By::Pool];

    #[test]
    fn an_allocation_has_the_colour_of_the_group_that_a_table_of_holders_puts_it_in() {
        for example in ["training.pickle.zst", "leak.pickle", "oom.pickle"] {
            let file = open(example);
            let device = &file.devices[0];
            let peak = device.history().peaks().allocated.moment.index();
            let at = DeviceAt::of(&file, 0, peak, None, &Cancel::default()).unwrap();
            let names = file.session.names();
            for by in IN_TABLES {
                let table = Table::of(&file, device, by).unwrap();
                let mut of_hue: HashMap<u32, u64> = HashMap::new();
                for holder in at.holders(by) {
                    *of_hue.entry(hue(&names, &holder)).or_default() += holder.bytes;
                }
                let mut of_table: HashMap<u32, u64> = HashMap::new();
                for id in device.allocated_at(Moment::from_index(peak)) {
                    let (key, own) = &table.numbers.keys[table.group(device, id)];
                    *of_table.entry(hue_of(&names, key, *own)).or_default() +=
                        device.history().allocations[id].size;
                }
                assert_eq!(of_table, of_hue, "{example} {by:?}");
            }
        }
    }

    #[test]
    fn a_category_has_its_own_colour() {
        let file = open("training.pickle.zst");
        let peak = file.devices[0].history().peaks().allocated.moment.index();
        let holders = DeviceAt::of(&file, 0, peak, None, &Cancel::default()).unwrap().holders(By::Category);
        assert!(holders.len() > 4);
        for holder in holders {
            let shown = Category::ALL[hue(&file.session.names(), &holder) as usize - 1];
            assert_eq!(holder.key, HolderKey::Category(shown));
        }
    }

    #[test]
    fn the_largest_come_first() {
        let file = open("training.pickle.zst");
        let device = &file.devices[0];
        let table = Table::of(&file, device, By::Line).unwrap();
        let order = table.largest(device);
        let mut all = order.clone();
        all.sort_unstable();
        assert_eq!(all, (0..table.numbers.keys.len()).collect::<Vec<_>>());
        let peak = device.history().peaks().allocated.moment.index();
        let most =
            DeviceAt::of(&file, 0, peak, None, &Cancel::default()).unwrap().holders(By::Line).remove(0);
        assert_eq!(table.numbers.keys[order[0]].0, most.key);
    }
}
