//! Kinds: groups of ranks whose holders at the peak match within a few percent.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hashbrown::HashMap;
use serde::Serialize;

use super::ReadRank;
use crate::summary::{Held, Holders};

/// Two ranks match if the sum of the differences of their holders, by line and by category, is below this percentage of the larger peak.
const ALIKE_PERCENT: u128 = 3;

/// Limit on the listed differences of a kind.
const MOST_DIFFERENCES: usize = 5;

/// Ranks that match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Kind {
    /// The ranks.
    pub ranks: Vec<u64>,
    /// Whether it has at least half as many ranks as the largest kind. Other kinds are unusual.
    pub is_usual: bool,
    /// The rank with the median peak; it represents the kind.
    pub example_rank: u64,
    /// The peak of allocated bytes of the example rank.
    pub peak_allocated_bytes: u64,
    /// The lowest peak of a rank of the kind.
    pub lowest_peak_bytes: u64,
    /// The highest peak of a rank of the kind.
    pub highest_peak_bytes: u64,
    /// Index in the list of the most similar usual kind; `None` for the largest kind.
    pub compared_with: Option<usize>,
    /// Lines that hold more or less than in the compared kind, largest difference first.
    pub lines: Vec<Differs>,
    /// Categories that hold more or less than in the compared kind.
    pub categories: Vec<Differs>,
}

/// A difference between two ranks at their peaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Differs {
    /// A line or a category.
    pub name: String,
    /// Its bytes on this rank; 0 if it is part of this rank's rest.
    pub bytes: u64,
    /// Its bytes on the other rank; 0 if it is part of the other rank's rest.
    pub other_bytes: u64,
}

impl Differs {
    /// Returns the bytes on this rank minus bytes on the other.
    pub fn by(&self) -> i128 {
        i128::from(self.bytes) - i128::from(self.other_bytes)
    }
}

/// The holders of a rank at its peak.
struct Profile {
    peak: u64,
    lines: Groups,
    categories: Groups,
}

/// Bytes by group; a group has the same number in all ranks.
struct Groups {
    /// Bytes of the individual groups, by number.
    each: BTreeMap<u32, u64>,
    /// Bytes of all other groups together.
    rest: u64,
    /// Upper bound on the bytes of each of these groups.
    most_of_rest: u64,
}

/// Numbers of groups.
#[derive(Default)]
struct Numbers<'r>(HashMap<&'r str, u32>);

impl<'r> Numbers<'r> {
    fn of(&mut self, holders: &'r Holders) -> Groups {
        let mut each: BTreeMap<u32, u64> = BTreeMap::new();
        for h in &holders.top {
            let next = self.0.len() as u32;
            let bytes = each.entry(*self.0.entry(key(h)).or_insert(next)).or_default();
            *bytes = bytes.saturating_add(h.bytes);
        }
        Groups { each, rest: holders.rest_bytes, most_of_rest: holders.most_of_rest() }
    }
}

/// Returns the identifier of a group, the same in all recordings.
fn key(held: &Held) -> &str {
    held.place.as_deref().unwrap_or(&held.name)
}

/// Lower bound on the total difference between two lists of groups: a group in the rest of a list counts with the closest value that is
/// possible.
fn distance(a: &Groups, b: &Groups) -> u128 {
    let (mut rest_a, mut rest_b) = (u128::from(a.rest), u128::from(b.rest));
    let mut sum = 0;
    for (group, &here) in &a.each {
        let there = b.each.get(group).copied().unwrap_or_else(|| {
            let there = here.min(b.most_of_rest);
            rest_b = rest_b.saturating_sub(there.into());
            there
        });
        sum += u128::from(here.abs_diff(there));
    }
    for (_, &there) in b.each.iter().filter(|(group, _)| !a.each.contains_key(group)) {
        let here = there.min(a.most_of_rest);
        rest_a = rest_a.saturating_sub(here.into());
        sum += u128::from(there - here);
    }
    sum + rest_a.abs_diff(rest_b)
}

impl Profile {
    /// Returns the difference of two ranks in bytes.
    fn unlike(&self, other: &Self) -> u128 {
        distance(&self.lines, &other.lines).max(distance(&self.categories, &other.categories))
    }

    fn is_alike(&self, other: &Self) -> bool {
        self.unlike(other) * 100 < ALIKE_PERCENT * u128::from(self.peak.max(other.peak)).max(1)
    }
}

/// Returns the kinds of these ranks, largest first. In order of rising peaks, each rank joins the kind whose first rank is most similar, or
/// starts a new kind; so the result does not depend on the order of files.
pub(super) fn kinds(ranks: &[ReadRank<'_>]) -> Vec<Kind> {
    let (mut lines, mut categories) = (Numbers::default(), Numbers::default());
    let profiles: Vec<Profile> = ranks
        .iter()
        .map(|rank| Profile {
            peak: rank.summary.peak_allocated.bytes,
            lines: lines.of(&rank.summary.lines),
            categories: categories.of(&rank.summary.categories),
        })
        .collect();
    let mut order: Vec<usize> = (0..ranks.len()).collect();
    order.sort_by_key(|&at| (profiles[at].peak, ranks[at].number));
    // Each kind's ranks in order of their peaks.
    let mut members: Vec<Vec<usize>> = Vec::new();
    for at in order {
        let here = &profiles[at];
        let first = |kind: &Vec<usize>| &profiles[kind[0]];
        // Kinds are sorted by the peaks of their first ranks; kinds with much lower peaks cannot match.
        let alike = members.iter().enumerate().rev().take_while(|(_, kind)| {
            u128::from(here.peak - first(kind).peak) * 100 < ALIKE_PERCENT * u128::from(here.peak).max(1)
        });
        let nearest = alike
            .filter(|(_, kind)| here.is_alike(first(kind)))
            .min_by_key(|(number, kind)| (here.unlike(first(kind)), *number))
            .map(|(number, _)| number);
        match nearest {
            Some(kind) => members[kind].push(at),
            None => members.push(vec![at]),
        }
    }
    members.sort_by_key(|kind| (Reverse(kind.len()), kind.iter().map(|&at| ranks[at].number).min()));
    let most = members.first().map_or(0, Vec::len);
    let usual = members.iter().filter(|kind| 2 * kind.len() >= most).count();
    let examples: Vec<usize> = members.iter().map(|kind| kind[(kind.len() - 1) / 2]).collect();
    let kind = |(number, kind): (usize, &Vec<usize>)| {
        let example = examples[number];
        let others = (0..usual).filter(|&other| other != number && number > 0);
        let compared_with =
            others.min_by_key(|&other| (profiles[example].unlike(&profiles[examples[other]]), other));
        let against = compared_with.map(|other| ranks[examples[other]]);
        let differs = |of: fn(&ReadRank<'_>) -> Holders| {
            against.map_or_else(Vec::new, |there| differences(&of(&ranks[example]), &of(&there)))
        };
        let mut numbers: Vec<u64> = kind.iter().map(|&at| ranks[at].number).collect();
        numbers.sort_unstable();
        Kind {
            ranks: numbers,
            is_usual: number < usual,
            example_rank: ranks[example].number,
            peak_allocated_bytes: profiles[example].peak,
            lowest_peak_bytes: kind.iter().map(|&at| profiles[at].peak).min().unwrap_or(0),
            highest_peak_bytes: kind.iter().map(|&at| profiles[at].peak).max().unwrap_or(0),
            compared_with,
            lines: differs(|rank| rank.summary.lines.clone()),
            categories: differs(|rank| rank.summary.categories.clone()),
        }
    };
    members.iter().enumerate().map(kind).collect()
}

/// Returns the differences between two lists of holders, largest first, without differences below a hundredth of the largest.
fn differences(here: &Holders, there: &Holders) -> Vec<Differs> {
    let mut both: BTreeMap<&str, Differs> = BTreeMap::new();
    let mut add = |held: &'_ Held, key, here: u64, there: u64| {
        let empty = || Differs { name: held.name.clone(), bytes: 0, other_bytes: 0 };
        let differs = both.entry(key).or_insert_with(empty);
        differs.bytes = differs.bytes.saturating_add(here);
        differs.other_bytes = differs.other_bytes.saturating_add(there);
    };
    here.top.iter().for_each(|held| add(held, key(held), held.bytes, 0));
    there.top.iter().for_each(|held| add(held, key(held), 0, held.bytes));
    let (rest_here, rest_there) = (here.most_of_rest(), there.most_of_rest());
    let differs_for_sure = |d: &Differs| {
        let may_be_the_same = |named: u64, other: u64, rest: u64| other == 0 && named <= rest;
        d.by() != 0
            && !may_be_the_same(d.bytes, d.other_bytes, rest_there)
            && !may_be_the_same(d.other_bytes, d.bytes, rest_here)
    };
    let mut differs: Vec<Differs> = both.into_values().filter(differs_for_sure).collect();
    differs
        .sort_by(|a, b| b.by().unsigned_abs().cmp(&a.by().unsigned_abs()).then_with(|| a.name.cmp(&b.name)));
    let most = differs.first().map_or(0, |d| d.by().unsigned_abs());
    differs.retain(|d| d.by().unsigned_abs() * 100 > most);
    differs.truncate(MOST_DIFFERENCES);
    differs
}
