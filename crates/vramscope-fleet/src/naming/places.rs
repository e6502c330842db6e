//! Places of numbers in names.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::meanings::{Meaning, meaning};

/// Limit on the digits of a rank; longer numbers are times or process IDs.
const MOST_DIGITS: usize = 6;

/// The place of a number in a path. In names of one run, ranks have the same place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NumberPlace {
    /// 0 for the file name, 1 for its folder, and so on.
    above: usize,
    /// The words between the previous number and this one, in lower case with `_` between them.
    before: String,
    /// How many earlier numbers in the same name follow the same words.
    nth: usize,
}

impl NumberPlace {
    /// Returns a description; completes "ranks by".
    pub(super) fn in_words(&self) -> String {
        let where_ = match self.above {
            0 => "in the names of the files".to_owned(),
            1 => "in the names of their folders".to_owned(),
            n => format!("in the names of the folders {n} levels above them"),
        };
        match self.before.as_str() {
            "" => format!("the number {where_}"),
            word => format!("the number after \"{word}\" {where_}"),
        }
    }

    /// Whether numbers at this place count from 0 on each host.
    pub(super) fn is_local(&self) -> bool {
        self.meaning() == Meaning::OnHost
    }

    fn meaning(&self) -> Meaning {
        meaning(&self.before)
    }
}

/// Returns the numbers in a path with their places.
fn numbers(path: &str) -> Vec<(NumberPlace, u64)> {
    let mut found: Vec<(NumberPlace, u64)> = Vec::new();
    for (above, name) in path.rsplit('/').enumerate() {
        let name = if above == 0 { without_ending(name) } else { name };
        let mut rest = name;
        while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
            let digits = rest[start..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - start);
            let before = words(&rest[..start]);
            let number = rest[start..start + digits].parse().ok().filter(|_| digits <= MOST_DIGITS);
            let nth = found.iter().filter(|(p, _)| p.above == above && p.before == before).count();
            if let Some(number) = number {
                found.push((NumberPlace { above, before, nth }, number));
            }
            rest = &rest[start + digits..];
        }
    }
    found
}

fn words(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join("_")
}

/// Returns a file name without its format ending, such as `.json.gz`.
fn without_ending(name: &str) -> &str {
    name.split_once('.').map_or(name, |(stem, ending)| {
        // In `rank.3.pickle` the number is between dots.
        let end = ending.rfind(|c: char| c.is_ascii_digit()).map_or(stem.len(), |at| stem.len() + 2 + at);
        &name[..end]
    })
}

/// Returns the numbers of parallel groups in a path.
pub(super) fn groups(path: &str) -> BTreeMap<String, u64> {
    let group = |(place, number): (NumberPlace, u64)| match place.meaning() {
        Meaning::Group(group) => Some((group.to_owned(), number)),
        _ => None,
    };
    // The number closest to the file name is used.
    numbers(path).into_iter().rev().filter_map(group).collect()
}

/// Returns the best place for ranks, and the number of each path at this place; `None` if there is none.
pub(super) fn best<'p>(
    paths: impl ExactSizeIterator<Item = &'p str>,
    hosts: &[Option<String>],
) -> Option<(NumberPlace, Vec<Option<u64>>)> {
    let files = paths.len();
    let mut at: BTreeMap<NumberPlace, Vec<Option<u64>>> = BTreeMap::new();
    for (file, path) in paths.enumerate() {
        for (place, number) in numbers(path) {
            at.entry(place).or_insert_with(|| vec![None; files])[file] = Some(number);
        }
    }
    let is_on_several_hosts = hosts.iter().flatten().collect::<BTreeSet<_>>().len() > 1;
    let judged = at.into_iter().filter_map(|(place, numbers)| {
        let known: Vec<u64> = numbers.iter().copied().flatten().collect();
        let distinct = known.iter().collect::<BTreeSet<_>>().len();
        let meaning = place.meaning();
        let may_be = match meaning {
            Meaning::Rank | Meaning::ShortRank => true,
            Meaning::Number => distinct > 1,
            Meaning::OnHost => distinct > 1 || is_on_several_hosts,
            Meaning::Group(_) | Meaning::Other => false,
        };
        let spread = known.iter().max()? - known.iter().min()?;
        let is_of_most = 2 * known.len() >= files;
        let rank = (
            !is_of_most,
            meaning,
            Reverse(known.len()),
            Reverse(distinct),
            spread,
            place.above,
            Reverse(place.nth),
        );
        may_be.then_some((rank, place, numbers))
    });
    judged.min_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1))).map(|(_, place, numbers)| (place, numbers))
}
