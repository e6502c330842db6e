//! Finds the iterations of a recording from its allocations alone.
//!
//! A program that repeats itself makes each kind of allocation (a stack and a size) once or several times per iteration. So many
//! kinds occur equally often. The count that most kinds share is the number of iterations; the first of these kinds in each
//! iteration marks its start.

use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashMap};

use crate::history::{Counters, History, Moment};

/// Number of candidate counts that are tried, most shared first.
const TRIED: usize = 16;

/// The smallest number of iterations that counts as repetition.
const FEWEST_ITERATIONS: u32 = 2;

/// The smallest number of kinds of allocations that must occur once per iteration.
const FEWEST_KINDS: usize = 3;

/// Two neighboring iterations must share at least this fraction of their allocations, relative to the shorter one.
const ALIKE: f64 = 0.6;

/// At least this fraction of all iterations must be of similar length: between half and twice the median. They must also contain
/// this fraction of all allocations.
const REGULAR: f64 = 0.8;

/// In a recording without stacks, a kind of allocation is its property and that of this many allocations before it, because single
/// properties also repeat within an iteration.
const BEFORE: usize = 8;

/// Returns the events of the allocations that start the iterations, in order; empty if nothing repeats. `most` is the largest
/// possible number of iterations.
pub(crate) fn iteration_starts(history: &History, most: u32) -> Vec<usize> {
    if history.recorded().any(|a| history.stack_of(a).is_some()) {
        return Kinds::of(history, KindsBy::Stack).iteration_starts(most);
    }
    let starts = Kinds::of(history, KindsBy::Size).iteration_starts(most);
    if starts.is_empty() {
        // Sizes follow the batch, or the length of a sequence.
        return Kinds::of(history, KindsBy::Order(frees_before(history))).iteration_starts(most);
    }
    starts
}

/// The property that allocations of one kind share.
enum KindsBy {
    /// The stack and the size.
    Stack,
    /// The size.
    Size,
    /// The frees right before the allocation, as a hash.
    Order(Vec<u64>),
}

/// The kinds of the allocations of a recording.
struct Kinds<'h> {
    history: &'h History,
    by: KindsBy,
    hasher: DefaultHashBuilder,
}

impl<'h> Kinds<'h> {
    fn of(history: &'h History, by: KindsBy) -> Self {
        Self { history, by, hasher: DefaultHashBuilder::default() }
    }

    /// Returns the kind and the number of each allocation.
    fn in_order(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        let mut properties = [0; BEFORE];
        self.history.recorded().enumerate().map(move |(number, a)| {
            properties[number % BEFORE] = match &self.by {
                KindsBy::Stack => {
                    return (self.hasher.hash_one((self.history.stack_of(a), a.requested)), number);
                }
                KindsBy::Size => a.requested,
                KindsBy::Order(frees) => frees.get(number).copied().unwrap_or_default(),
            };
            let before = (0..BEFORE).map(|n| properties[(number + BEFORE - n) % BEFORE]);
            (before.fold(0, |hash: u64, property| self.hasher.hash_one((hash, property))), number)
        })
    }

    fn iteration_starts(&self, most: u32) -> Vec<usize> {
        let mut kinds: HashMap<u64, Kind> = HashMap::new();
        let mut all = 0;
        for (key, number) in self.in_order() {
            let kind = kinds.entry(key).or_insert(Kind { count: 0, first: number, last: number });
            kind.count += 1;
            kind.last = number;
            all = number + 1;
        }
        // Kinds that occur only in one part of the run, as parameters do, say nothing about the whole.
        kinds.retain(|_, k| (FEWEST_ITERATIONS..=most).contains(&k.count) && (k.last - k.first) * 4 >= all);
        let mut shared: HashMap<u32, usize> = HashMap::new();
        for kind in kinds.values() {
            *shared.entry(kind.count).or_default() += 1;
        }
        let mut shared: Vec<(u32, usize)> =
            shared.into_iter().filter(|&(_, kinds)| kinds >= FEWEST_KINDS).collect();
        shared.sort_unstable_by_key(|&(count, kinds)| (std::cmp::Reverse(kinds), count));
        let events = || self.history.recorded().filter_map(|a| a.from.event());
        let mut held = Vec::new();
        for (count, _) in shared.into_iter().take(TRIED) {
            let first = kinds.iter().filter(|(_, k)| k.count == count).min_by_key(|(_, k)| k.first);
            let Some((&begins, _)) = first else { continue };
            let marks: Vec<usize> =
                self.in_order().filter(|&(kind, _)| kind == begins).map(|(_, number)| number).collect();
            if !(is_regular(&marks, all) && are_alike(&marks, self.in_order().map(|(kind, _)| kind))) {
                continue;
            }
            if held.is_empty() {
                held = held_before(self.history, events());
            }
            if let Some(starts) = from_troughs(&held, &marks) {
                let mut events = events().enumerate();
                let event = |start| events.find(|&(number, _)| number == start).map(|(_, event)| event);
                return starts.into_iter().filter_map(event).collect();
            }
        }
        Vec::new()
    }
}

/// Returns for each allocation a hash of the frees between it and the allocation before. A free counts by the number of allocations since the
/// freed one was made.
fn frees_before(history: &History) -> Vec<u64> {
    let hasher = DefaultHashBuilder::default();
    let mut frees: Vec<(Moment, usize)> =
        history.recorded().enumerate().map(|(number, a)| (a.freed, number)).collect();
    frees.sort_unstable();
    let mut frees = frees.into_iter().peekable();
    let hashes = history.recorded().enumerate().map(|(number, a)| {
        let mut hash = 0;
        while let Some((_, freed)) = frees.next_if(|&(when, freed)| when <= a.from && freed < number) {
            hash = hasher.hash_one((hash, number - freed));
        }
        hash
    });
    hashes.collect()
}

/// Returns the allocated bytes right before each of some events.
fn held_before(history: &History, events: impl Iterator<Item = usize>) -> Vec<u64> {
    let mut events = events.peekable();
    // Moment n is before event n.
    let is_asked = |(moment, _): &(Moment, Counters)| events.next_if_eq(&moment.index()).is_some();
    history.walk().filter(is_asked).map(|(_, counters)| counters.allocated).collect()
}

/// Returns the starts of the iterations with these marks. A start is a fixed number of allocations before its mark, chosen so
/// that the fewest bytes are allocated there over all iterations. Returns `None` if iterations do not start at a low point: the
/// repetition is then a part of an iteration, such as a layer of a model. Marks are indices of allocations.
fn from_troughs(held: &[u64], marks: &[usize]) -> Option<Vec<usize>> {
    // The first iteration starts with less memory than all others, since it allocates much that stays.
    let later = if marks.len() > 2 { &marks[2..] } else { &marks[1..] };
    let shortest = marks.array_windows().map(|[a, b]| b - a).min()?;
    let over_all = |back: &usize| -> u128 {
        later.iter().filter_map(|mark| held.get(mark.checked_sub(*back)?)).map(|&b| u128::from(b)).sum()
    };
    // The first kind of an iteration occurs early in it.
    let back = (0..=shortest / 2).min_by_key(over_all)?;
    let starts: Vec<usize> = marks.iter().map(|mark| mark.saturating_sub(back)).collect();
    let ends = starts.iter().skip(1).copied().chain([held.len()]);
    let is_trough = |&(&start, end): &(&usize, usize)| {
        let Some(iteration) = held.get(start..end).filter(|iteration| !iteration.is_empty()) else {
            return false;
        };
        let (least, most) =
            iteration.iter().fold((u64::MAX, 0), |(least, most), &h| (least.min(h), most.max(h)));
        iteration[0] as f64 <= least as f64 + (most - least) as f64 * TROUGH
    };
    let first = marks.len() - later.len();
    let troughs = starts.iter().zip(ends).skip(first).filter(is_trough).count();
    (troughs as f64 >= later.len() as f64 * REGULAR).then_some(starts)
}

/// The largest height of a low point above the minimum of its iteration, as a fraction of the range from minimum to maximum.
const TROUGH: f64 = 0.1;

/// The number of allocations of one kind, with the indices of the first and the last.
struct Kind {
    count: u32,
    first: usize,
    last: usize,
}

/// Whether most of the iterations that start at `marks` have similar lengths; `all` is the total number of allocations. The first
/// iteration may be longer, since it allocates much that stays, and the last may be cut off.
fn is_regular(marks: &[usize], all: usize) -> bool {
    let mut lengths: Vec<usize> =
        marks.array_windows().map(|[a, b]| b - a).skip(usize::from(marks.len() > 3)).collect();
    if let &[first, second] = marks {
        lengths = vec![second - first, all - second];
    }
    lengths.sort_unstable();
    let Some(&middle) = lengths.get(lengths.len() / 2) else { return false };
    let about: Vec<usize> = lengths.iter().copied().filter(|&l| l * 2 >= middle && l <= middle * 2).collect();
    let is_most = |part: usize, all: usize| part as f64 >= all as f64 * REGULAR;
    is_most(about.len(), lengths.len()) && is_most(about.iter().sum(), lengths.iter().sum())
}

/// Whether neighboring iterations that start at `marks` make mostly the same allocations. The first iteration is ignored if there
/// are others.
fn are_alike(marks: &[usize], kinds: impl Iterator<Item = u64>) -> bool {
    let mut iterations: Vec<HashMap<u64, usize>> = vec![HashMap::new(); marks.len()];
    let mut iteration = 0;
    for (number, kind) in kinds.enumerate().skip(marks.first().copied().unwrap_or(0)) {
        while marks.get(iteration + 1).is_some_and(|&next| next <= number) {
            iteration += 1;
        }
        *iterations[iteration].entry(kind).or_default() += 1;
    }
    let skipped = usize::from(iterations.len() > 2);
    let (mut alike, mut all) = (0, 0);
    for [a, b] in iterations[skipped..].array_windows() {
        alike += a.iter().map(|(kind, &count)| count.min(b.get(kind).copied().unwrap_or(0))).sum::<usize>();
        all += a.values().sum::<usize>().min(b.values().sum());
    }
    alike as f64 >= all as f64 * ALIKE
}
