//! Exact search: finds the lowest packing of a few hundred items, or proves that there is none below some height.
//!
//! Based on Moffitt, "`MiniMalloc`: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning" (ASPLOS 2023).
//! Every packing can be pushed down until nothing moves. Each item then rests on the highest item below it that shares its
//! lifetime. So it is enough to place items by nondecreasing offset, each on top of the items that it overlaps, and to give up a
//! branch as soon as
//!
//! * the unplaced items at some moment, stacked no lower than each can be, exceed the capacity; an item that was passed over can
//!   only be raised by another unplaced item, so that item counts as well;
//! * an item would be placed so high that another unplaced item fits completely below it (that item would have come first);
//! * an item would be placed before its twin of the same size and lifetime.
//!
//! If no unplaced item crosses a moment any more, the two sides are solved one after the other: a failure on one side never sends
//! the search back into the other.
//!
//! The choice of the first item decides whether the search takes milliseconds or hours, and no single rule is good for all
//! problems. So short searches under several rules take turns. Each round shuffles the rules a little and prefers the items that
//! closed branches before (Boussemart et al., "Boosting Systematic Search by Weighting Constraints", ECAI 2004).

use std::cmp::Reverse;
use std::ops::Range;

use super::{Item, Packing, height};

/// Limit on the number of items. The recursion is one level per item at most, and this many levels fit into a stack of 4 MiB even
/// without optimization.
const MOST_ITEMS: usize = 4096;

/// Lowers `packing` as far as `steps` (number of examined items) allow.
pub(crate) fn improve(items: &[Item], packing: &mut Packing, mut steps: u64) {
    let Some(problem) = Problem::new(items) else { return };
    let unit = problem.unit;
    // No packing is as low as this. The bound is a sum of sizes, so it is a multiple of the unit.
    let mut impossible = packing.lower_bound - unit;
    // Usually a packing can reach the bound, so most of the steps try that. The rest halve the distance to the given-up height,
    // each time with a quarter of the remaining steps.
    let mut given_up = impossible;
    let mut given = steps / 8 * 5;
    let mut capacity = packing.lower_bound;
    while given_up + unit < packing.height && steps > 0 {
        given = given.clamp(1, steps);
        let mut left = given;
        let outcome = problem.fit(capacity, &mut left);
        steps -= given - left;
        match outcome {
            Outcome::Fits(offsets) => {
                let all = items.iter().enumerate().filter(|(_, item)| item.takes_room());
                for ((number, _), offset) in all.zip(offsets) {
                    packing.offsets[number] = offset;
                }
                packing.height = height(items, &packing.offsets);
            }
            Outcome::Impossible => {
                impossible = capacity;
                given_up = capacity;
            }
            Outcome::Unknown => given_up = capacity,
        }
        given = steps / 4;
        let distance = packing.height.saturating_sub(given_up) / unit;
        // If everything that was given up is proven impossible, the lowest remaining height is as likely as any.
        let up = if given_up == impossible { 1 } else { distance / 2 };
        capacity = given_up + up * unit;
    }
    packing.exhausted = impossible + unit >= packing.height;
}

/// The result of a search for a packing within some capacity.
enum Outcome {
    /// Offsets in bytes, in the order of the items that take room.
    Fits(Vec<u64>),
    /// Every branch was closed.
    Impossible,
    /// The steps ran out first.
    Unknown,
}

/// Items over the relevant moments, with sizes in units of the common divisor of all sizes.
///
/// A moment is a maximal set of items that are live together. Lifetimes become ranges of moments; two items overlap in time
/// exactly if their ranges do.
struct Problem {
    moments: Vec<Range<usize>>,
    durations: Vec<u32>,
    sizes: Vec<i32>,
    unit: u64,
    moment_count: usize,
}

impl Problem {
    /// Returns `None` if there are more than [`MOST_ITEMS`] items, or if their sizes in units do not fit into 31 bits.
    fn new(items: &[Item]) -> Option<Self> {
        let items = items.iter().copied().filter(Item::takes_room).collect::<Vec<_>>();
        if items.is_empty() || items.len() > MOST_ITEMS {
            return None;
        }
        let unit = items.iter().fold(0, |unit, item| gcd(unit, item.size));
        let sizes =
            items.iter().map(|item| i32::try_from(item.size / unit).ok()).collect::<Option<Vec<_>>>()?;
        // All tops are sums of sizes, so none overflows if the sum of all sizes does not.
        sizes.iter().try_fold(0_i32, |sum, &size| sum.checked_add(size))?;
        let durations = items.iter().map(|item| item.to - item.from).collect();
        let (moments, moment_count) = moments(&items);
        Some(Self { moments, durations, sizes, unit, moment_count })
    }

    /// Searches for a packing within `capacity` bytes; subtracts the used steps from `steps`.
    fn fit(&self, capacity: u64, steps: &mut u64) -> Outcome {
        let capacity = i32::try_from(capacity / self.unit).unwrap_or(i32::MAX);
        let count = self.sizes.len() as u64;
        // A packing of n items is n nodes deep, so fewer nodes could never find one.
        let nodes = NODES.max(count + count / 4);
        // The run time is random with a heavy tail; two independent runs cut off most of it.
        let mut runs = SEEDS.map(|seed| (seed, vec![0_u64; self.sizes.len()]));
        for round in 0_u64.. {
            for (seed, blame) in &mut runs {
                for preference in Preference::ALL {
                    if *steps == 0 {
                        return Outcome::Unknown;
                    }
                    let given = nodes.saturating_mul(count).min(*steps);
                    let order = self.order(preference, round, *seed, blame);
                    let mut search = Search::new(self, &order, capacity, given);
                    let step = search.run();
                    *steps -= given - search.steps_left;
                    match step {
                        Step::Done => return Outcome::Fits(self.in_bytes(&order, &search.offsets)),
                        Step::Dead => return Outcome::Impossible,
                        Step::OutOfSteps => search.pass_on_blame(&order, blame),
                    }
                }
            }
        }
        Outcome::Unknown
    }

    /// Returns the item indices in the order in which the search tries them.
    fn order(&self, preference: Preference, round: u64, seed: u64, blame: &[u64]) -> Vec<usize> {
        let mut load = vec![0_u64; self.moment_count];
        for (moments, &size) in self.moments.iter().zip(&self.sizes) {
            for at in &mut load[moments.clone()] {
                *at += u64::from(size.unsigned_abs());
            }
        }
        let key = |&item: &usize| {
            let range = &self.moments[item];
            let size = u64::from(self.sizes[item].unsigned_abs());
            // Lifetimes can be measured by clock or by number of moments; each measure is bad for some problems.
            let width =
                if round.is_multiple_of(2) { u64::from(self.durations[item]) } else { range.len() as u64 };
            let mut noise = Noise::new(item, round, seed);
            let total = noise.stretch(load[range.clone()].iter().copied().max().unwrap_or(0));
            let area = noise.stretch(width.saturating_mul(size));
            let width = noise.stretch(width);
            let first = if round == 0 { total } else { noise.stretch(blame[item]) };
            let key = match preference {
                Preference::Width => [width, area, total],
                Preference::Total => [first, area, width],
                Preference::TotalWidth => [first, width, area],
                Preference::Area => [area, total, width],
            };
            // The key ends with the properties of twins, so that twins are neighbors if there is no noise.
            (Reverse(key), range.start, range.end, size, item)
        };
        let mut order = (0..self.sizes.len()).collect::<Vec<_>>();
        order.sort_by_cached_key(key);
        order
    }

    fn in_bytes(&self, order: &[usize], offsets: &[i32]) -> Vec<u64> {
        let mut bytes = vec![0; offsets.len()];
        for (&item, &offset) in order.iter().zip(offsets) {
            bytes[item] = u64::from(offset.unsigned_abs()) * self.unit;
        }
        bytes
    }
}

/// The rule for which of several possible next items is tried first.
#[derive(Debug, Clone, Copy)]
enum Preference {
    Width,
    Total,
    TotalWidth,
    Area,
}

impl Preference {
    const ALL: [Self; 4] = [Self::Width, Self::Total, Self::TotalWidth, Self::Area];
}

/// Nodes of one search. Restarts that use the collected blame do better than long searches.
const NODES: u64 = 500;

/// Any numbers work; with these, the published problems take the least time.
const SEEDS: [u64; 2] = [0, 52];

/// Reproducible random factors: none in round 0, up to 1.5 in later rounds.
struct Noise {
    bits: u64,
}

impl Noise {
    /// The mixing step of `SplitMix64` (Steele et al., OOPSLA 2014).
    fn new(item: usize, round: u64, seed: u64) -> Self {
        if round == 0 {
            return Self { bits: 0 };
        }
        let mut bits = ((item as u64) << 32 ^ seed << 16 ^ round).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self { bits: bits ^ bits >> 31 }
    }

    /// Returns `value` in units of 1/256, times a factor of up to 1.5.
    fn stretch(&mut self, value: u64) -> u64 {
        let byte = self.bits & 0xFF;
        self.bits >>= 8;
        value.saturating_mul(256 + byte / 2)
    }
}

enum Step {
    Done,
    Dead,
    OutOfSteps,
}

/// The last placement as (offset, item); the next one must be larger.
type Mark = (i32, usize);

/// One depth-first search under one preference. Here, items are numbered by preference.
struct Search {
    capacity: i32,
    steps_left: u64,
    sizes: Vec<i32>,
    moments: Vec<Range<usize>>,
    /// The item of the same size and lifetime that must be placed first.
    twins: Vec<Option<usize>>,
    placed: Vec<bool>,
    /// For a placed item, its offset; for an unplaced item, the top of all placed items that it overlaps.
    offsets: Vec<i32>,
    /// By moment: number of unplaced items that are live both there and at the moment before.
    crossing: Vec<u32>,
    /// Offsets before placements raised them.
    trail: Vec<(usize, i32)>,
    /// By moment and by item: how often it closed a branch.
    blame: Vec<u64>,
    item_blame: Vec<u64>,
    /// Scratch. By moment: the two lowest possible tops of unplaced items, and the top of all of them stacked.
    lowest: Vec<i32>,
    second: Vec<i32>,
    stack: Vec<i32>,
    /// Scratch: unplaced items by their lowest possible offset.
    by_offset: Vec<Mark>,
}

impl Search {
    fn new(problem: &Problem, order: &[usize], capacity: i32, steps: u64) -> Self {
        let sizes = order.iter().map(|&item| problem.sizes[item]).collect::<Vec<_>>();
        let moments = order.iter().map(|&item| problem.moments[item].clone()).collect::<Vec<_>>();
        let mut crossing = vec![0; problem.moment_count];
        for range in &moments {
            for crossing in &mut crossing[range.start + 1..range.end] {
                *crossing += 1;
            }
        }
        let mut alike = (0..order.len()).collect::<Vec<_>>();
        alike.sort_unstable_by_key(|&item| (sizes[item], moments[item].start, moments[item].end, item));
        let mut twins = vec![None; order.len()];
        for pair in alike.windows(2) {
            if sizes[pair[0]] == sizes[pair[1]] && moments[pair[0]] == moments[pair[1]] {
                twins[pair[1]] = Some(pair[0]);
            }
        }
        Self {
            capacity,
            steps_left: steps,
            twins,
            placed: vec![false; sizes.len()],
            offsets: vec![0; sizes.len()],
            crossing,
            trail: Vec::new(),
            blame: vec![0; problem.moment_count],
            item_blame: vec![0; sizes.len()],
            lowest: vec![0; problem.moment_count],
            second: vec![0; problem.moment_count],
            stack: vec![0; problem.moment_count],
            by_offset: Vec::new(),
            sizes,
            moments,
        }
    }

    fn run(&mut self) -> Step {
        let all = (0..self.sizes.len()).collect::<Vec<_>>();
        self.solve_parts(&all, None)
    }

    /// Adds to `blame`, by item number, each item's share of the closed branches; old blame decays.
    fn pass_on_blame(&self, order: &[usize], blame: &mut [u64]) {
        let all = self.blame.iter().chain(&self.item_blame).sum::<u64>().max(1);
        for (item, &number) in order.iter().enumerate() {
            let own = self.blame[self.moments[item].clone()].iter().sum::<u64>() + self.item_blame[item];
            // In millionths, so that small shares count.
            blame[number] = blame[number] / 10 * 9 + own * 1_000_000 / all;
        }
    }

    /// Solves each group of items that share no moments with the others, one group after the other.
    fn solve_parts(&mut self, items: &[usize], mark: Option<Mark>) -> Step {
        let mut by_start = items.to_vec();
        by_start.sort_unstable_by_key(|&item| self.moments[item].start);
        let mut from = 0;
        while from < by_start.len() {
            let mut end = self.moments[by_start[from]].end;
            let mut to = from + 1;
            while to < by_start.len() && self.moments[by_start[to]].start < end {
                end = end.max(self.moments[by_start[to]].end);
                to += 1;
            }
            match self.solve(&by_start[from..to], mark) {
                Step::Done => from = to,
                stop => return stop,
            }
        }
        Step::Done
    }

    /// Places `items`, all of them still unplaced, after `mark`. Placements stay only if all items can be placed.
    fn solve(&mut self, items: &[usize], mark: Option<Mark>) -> Step {
        let cost = items.len() as u64;
        if self.steps_left < cost {
            self.steps_left = 0;
            return Step::OutOfSteps;
        }
        self.steps_left -= cost;
        let Some(candidates) = self.candidates(items, mark) else { return Step::Dead };
        let mut others = Vec::with_capacity(items.len());
        for (offset, item) in candidates {
            others.clear();
            others.extend(items.iter().copied().filter(|&other| other != item));
            let trail = self.trail.len();
            let splits = self.place(item, &others);
            let mark = Some((offset, item));
            let step = if splits { self.solve_parts(&others, mark) } else { self.solve(&others, mark) };
            match step {
                Step::Dead => self.unplace(item, &others, trail),
                Step::Done | Step::OutOfSteps => return step,
            }
        }
        Step::Dead
    }

    /// Returns the items that can be placed next, with their offsets, lowest first; `None` if the remaining items cannot fit any
    /// more.
    fn candidates(&mut self, items: &[usize], mark: Option<Mark>) -> Option<Vec<Mark>> {
        let bottom = mark.map_or(0, |(offset, _)| offset);
        for &item in items {
            let range = self.moments[item].clone();
            self.lowest[range.clone()].fill(i32::MAX);
            self.second[range.clone()].fill(i32::MAX);
            self.stack[range].fill(0);
        }
        let mut lowest_top = i32::MAX;
        for &item in items {
            lowest_top = lowest_top.min(self.offsets[item] + self.sizes[item]);
            let top = self.offsets[item].max(bottom) + self.sizes[item];
            let range = self.moments[item].clone();
            for (lowest, second) in self.lowest[range.clone()].iter_mut().zip(&mut self.second[range]) {
                *second = top.max(*lowest).min(*second);
                *lowest = top.min(*lowest);
            }
        }
        self.by_offset.clear();
        for &item in items {
            let size = self.sizes[item];
            let mut offset = self.offsets[item];
            if Some((offset, item)) <= mark {
                // Passed over: an item that is still to be placed has to raise it.
                let own = offset.max(bottom) + size;
                let range = self.moments[item].clone();
                let tops = self.lowest[range.clone()].iter().zip(&self.second[range]);
                let lifted = tops.map(|(&lowest, &second)| if lowest == own { second } else { lowest });
                offset = lifted.min().unwrap_or(i32::MAX);
            }
            if offset > self.capacity - size {
                self.item_blame[item] += 1;
                return None;
            }
            self.by_offset.push((offset, item));
        }
        self.by_offset.sort_unstable();
        for &(offset, item) in &self.by_offset {
            let size = self.sizes[item];
            let range = self.moments[item].clone();
            let mut highest = 0;
            for top in &mut self.stack[range.clone()] {
                *top = offset.max(*top) + size;
                highest = highest.max(*top);
            }
            if highest > self.capacity {
                for at in range.filter(|&at| self.stack[at] == highest) {
                    self.blame[at] += 1;
                }
                return None;
            }
        }
        let below = self.by_offset.iter().take_while(|&&(offset, _)| offset < lowest_top);
        let next = below.filter(|&&(offset, item)| {
            let is_lifted = self.offsets[item] < offset;
            !is_lifted && self.twins[item].is_none_or(|twin| self.placed[twin])
        });
        Some(next.copied().collect())
    }

    /// Places `item` at its lowest offset; returns true if some moment is no longer crossed by an unplaced item.
    fn place(&mut self, item: usize, others: &[usize]) -> bool {
        let range = self.moments[item].clone();
        let top = self.offsets[item] + self.sizes[item];
        self.placed[item] = true;
        // An item of a single moment may have been the last one there.
        let mut splits = range.len() == 1;
        for crossing in &mut self.crossing[range.start + 1..range.end] {
            *crossing -= 1;
            splits |= *crossing == 0;
        }
        for &other in others {
            let moments = &self.moments[other];
            if moments.start < range.end && range.start < moments.end && self.offsets[other] < top {
                self.trail.push((other, self.offsets[other]));
                self.offsets[other] = top;
            }
        }
        splits || others.is_empty()
    }

    /// Undoes the placement of `item`, and of those `others` that were placed after it.
    fn unplace(&mut self, item: usize, others: &[usize], trail: usize) {
        for &gone in others.iter().chain([&item]) {
            if std::mem::take(&mut self.placed[gone]) {
                let range = self.moments[gone].clone();
                for crossing in &mut self.crossing[range.start + 1..range.end] {
                    *crossing += 1;
                }
            }
        }
        // In reverse, so that an offset that was raised twice gets its oldest value.
        for (other, offset) in self.trail.drain(trail..).rev() {
            self.offsets[other] = offset;
        }
    }
}

/// Returns lifetimes as ranges of moments, and the number of moments.
///
/// A new moment begins where an item starts after another one has ended. Between two such points, the live set first only grows
/// and then only shrinks, so one moment represents it.
fn moments(items: &[Item]) -> (Vec<Range<usize>>, usize) {
    let mut starts = (0..items.len()).collect::<Vec<_>>();
    starts.sort_unstable_by_key(|&item| items[item].from);
    let mut ends = (0..items.len()).collect::<Vec<_>>();
    ends.sort_unstable_by_key(|&item| items[item].to);
    let mut ranges = vec![0..0; items.len()];
    let mut ends = ends.into_iter().peekable();
    let mut moment = 0;
    for item in starts {
        let mut ended = false;
        while let Some(gone) = ends.next_if(|&gone| items[gone].to <= items[item].from) {
            ranges[gone].end = moment + 1;
            ended = true;
        }
        moment += usize::from(ended);
        ranges[item].start = moment;
    }
    for gone in ends {
        ranges[gone].end = moment + 1;
    }
    (ranges, moment + 1)
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
