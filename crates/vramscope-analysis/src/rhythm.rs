//! What repeats in a recording: where its iterations begin, told by allocations alone.
//!
//! A program that repeats itself makes each kind of allocation (a stack and a size) as often as it goes round, so that many kinds are
//! made equally often. The number that most of them share is the number of rounds; the first of these kinds to be made in each
//! round marks where it begins.

use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashMap};

use crate::counters::Counters;
use crate::history::History;
use crate::moment::Moment;

/// How many numbers of rounds are tried, those that most kinds share first.
const TRIED: usize = 16;

/// The fewest rounds that are a rhythm.
const FEWEST_ROUNDS: u32 = 2;

/// The fewest kinds of allocations that must be made once a round.
const FEWEST_KINDS: usize = 3;

/// Of what two neighbouring rounds make this share is alike, at least, where they are of different lengths of the shorter.
const ALIKE: f64 = 0.6;

/// So many of all rounds are about as long as most, at least: between half and twice as long. They hold as many of all allocations.
const REGULAR: f64 = 0.8;

/// In a recording without stacks a kind of allocation is its size and those of as many before it: sizes alone repeat within a round, too.
const SIZES_BEFORE: usize = 8;

/// The events of the allocations that begin each round, in order; empty where no rhythm is found. `most` is how many rounds there
/// can be.
pub(crate) fn rounds(history: &History, most: u32) -> Vec<usize> {
    let hasher = &DefaultHashBuilder::default();
    let has_stacks = history.recorded().any(|a| history.stack_of(a).is_some());
    let kinds_in_order = || {
        let mut sizes = [0; SIZES_BEFORE];
        history.recorded().enumerate().map(move |(number, a)| {
            let kind = match history.stack_of(a) {
                stack if has_stacks => hasher.hash_one((stack, a.requested)),
                _ => {
                    sizes[number % SIZES_BEFORE] = a.requested;
                    let before = (0..SIZES_BEFORE).map(|n| sizes[(number + SIZES_BEFORE - n) % SIZES_BEFORE]);
                    before.fold(0, |hash: u64, size| hasher.hash_one((hash, size)))
                }
            };
            (kind, number)
        })
    };
    let mut kinds: HashMap<u64, Kind> = HashMap::new();
    let mut all = 0;
    for (key, number) in kinds_in_order() {
        let kind = kinds.entry(key).or_insert(Kind { count: 0, first: number, last: number });
        kind.count += 1;
        kind.last = number;
        all = number + 1;
    }
    // What is made in one part of the run alone, as parameters are, says nothing of the whole.
    kinds.retain(|_, k| (FEWEST_ROUNDS..=most).contains(&k.count) && (k.last - k.first) * 4 >= all);
    let mut shared: HashMap<u32, usize> = HashMap::new();
    for kind in kinds.values() {
        *shared.entry(kind.count).or_default() += 1;
    }
    let mut shared: Vec<(u32, usize)> =
        shared.into_iter().filter(|&(_, kinds)| kinds >= FEWEST_KINDS).collect();
    shared.sort_unstable_by_key(|&(count, kinds)| (std::cmp::Reverse(kinds), count));
    let events = || history.recorded().filter_map(|a| a.from.event());
    let mut held = Vec::new();
    for (count, _) in shared.into_iter().take(TRIED) {
        let first = kinds.iter().filter(|(_, k)| k.count == count).min_by_key(|(_, k)| k.first);
        let Some((&begins, _)) = first else { continue };
        let marks: Vec<usize> =
            kinds_in_order().filter(|&(kind, _)| kind == begins).map(|(_, number)| number).collect();
        if !(is_regular(&marks, all) && are_alike(&marks, kinds_in_order().map(|(kind, _)| kind))) {
            continue;
        }
        if held.is_empty() {
            held = held_before(history, events());
        }
        if let Some(starts) = from_troughs(&held, &marks) {
            let mut events = events().enumerate();
            let event = |start| events.find(|&(number, _)| number == start).map(|(_, event)| event);
            return starts.into_iter().filter_map(event).collect();
        }
    }
    Vec::new()
}

/// What is allocated right before each of some events, in bytes.
fn held_before(history: &History, events: impl Iterator<Item = usize>) -> Vec<u64> {
    let mut events = events.peekable();
    // Moment n lies before event n.
    let is_asked = |(moment, _): &(Moment, Counters)| events.next_if_eq(&moment.index()).is_some();
    history.walk().filter(is_asked).map(|(_, counters)| counters.allocated).collect()
}

/// Where the rounds with these marks begin: as many allocations before each as it takes to come to where, over all rounds, the least is
/// held. `None` where rounds do not begin with the least that they hold: what repeats is then a part of a round, as the layers of a
/// model are. Marks are numbers of allocations.
fn from_troughs(held: &[u64], marks: &[usize]) -> Option<Vec<usize>> {
    // The first round has less than all others, for much is made in it that stays.
    let later = if marks.len() > 2 { &marks[2..] } else { &marks[1..] };
    let shortest = marks.array_windows().map(|[a, b]| b - a).min()?;
    let over_all = |back: &usize| -> u128 {
        later.iter().filter_map(|mark| held.get(mark.checked_sub(*back)?)).map(|&b| u128::from(b)).sum()
    };
    // The first kind of a round comes early in it.
    let back = (0..=shortest / 2).min_by_key(over_all)?;
    let starts: Vec<usize> = marks.iter().map(|mark| mark.saturating_sub(back)).collect();
    let ends = starts.iter().skip(1).copied().chain([held.len()]);
    let is_trough = |&(&start, end): &(&usize, usize)| {
        let Some(round) = held.get(start..end).filter(|round| !round.is_empty()) else { return false };
        let (least, most) = round.iter().fold((u64::MAX, 0), |(least, most), &h| (least.min(h), most.max(h)));
        round[0] as f64 <= least as f64 + (most - least) as f64 * TROUGH
    };
    let first = marks.len() - later.len();
    let troughs = starts.iter().zip(ends).skip(first).filter(is_trough).count();
    (troughs as f64 >= later.len() as f64 * REGULAR).then_some(starts)
}

/// A trough lies at most so far above the least that is held in its round, as a share of the way to the most.
const TROUGH: f64 = 0.1;

/// Of the allocations of one kind how many there are, and the numbers of the first and the last among all.
struct Kind {
    count: u32,
    first: usize,
    last: usize,
}

/// Whether most of the rounds that begin at these, of so many allocations in `all`, are about as long as each other. The first may be
/// longer, for much is made then that stays, and the last may be cut off.
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

/// Whether rounds that begin at these make much the same: of all pairs of neighbours, the first left out where there are others.
fn are_alike(marks: &[usize], kinds: impl Iterator<Item = u64>) -> bool {
    let mut rounds: Vec<HashMap<u64, usize>> = vec![HashMap::new(); marks.len()];
    let mut round = 0;
    for (number, kind) in kinds.enumerate().skip(marks.first().copied().unwrap_or(0)) {
        while marks.get(round + 1).is_some_and(|&next| next <= number) {
            round += 1;
        }
        *rounds[round].entry(kind).or_default() += 1;
    }
    let skipped = usize::from(rounds.len() > 2);
    let (mut alike, mut all) = (0, 0);
    for [a, b] in rounds[skipped..].array_windows() {
        alike += a.iter().map(|(kind, &count)| count.min(b.get(kind).copied().unwrap_or(0))).sum::<usize>();
        all += a.values().sum::<usize>().min(b.values().sum());
    }
    alike as f64 >= all as f64 * ALIKE
}
