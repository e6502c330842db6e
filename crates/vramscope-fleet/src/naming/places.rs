//! Places in names where numbers stand.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::words::{Meaning, meaning};

/// Digits of the longest number that is taken for a rank: more are a time or a process.
const MOST_DIGITS: usize = 6;

/// Where in a path a number stands: names of one run have it at the same place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// 0 is the file's name, 1 that of its folder, and so on.
    above: usize,
    /// The words before it, back to the number before, in small letters with `_` between them.
    before: String,
    /// How many numbers behind the same words stand before it in the same name.
    nth: usize,
}

impl Place {
    /// As what follows "ranks by".
    pub(super) fn in_words(&self) -> String {
        let where_ = match self.above {
            0 => "in the names of the files".to_owned(),
            1 => "in the names of their folders".to_owned(),
            n => format!("in the names of the folders {n} above them"),
        };
        match self.before.as_str() {
            "" => format!("the number {where_}"),
            word => format!("the number behind \"{word}\" {where_}"),
        }
    }

    /// Numbers there are those of a host.
    pub(super) fn is_local(&self) -> bool {
        self.meaning() == Meaning::OnHost
    }

    fn meaning(&self) -> Meaning {
        meaning(&self.before)
    }
}

/// The numbers of a path, each with its place.
fn numbers(path: &str) -> Vec<(Place, u64)> {
    let mut found: Vec<(Place, u64)> = Vec::new();
    for (above, name) in path.rsplit('/').enumerate() {
        let name = if above == 0 { without_ending(name) } else { name };
        let mut rest = name;
        while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
            let digits = rest[start..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - start);
            let before = words(&rest[..start]);
            let number = rest[start..start + digits].parse().ok().filter(|_| digits <= MOST_DIGITS);
            let nth = found.iter().filter(|(p, _)| p.above == above && p.before == before).count();
            if let Some(number) = number {
                found.push((Place { above, before, nth }, number));
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

/// A file's name without what says how it is written: `.json.gz`.
fn without_ending(name: &str) -> &str {
    name.split_once('.').map_or(name, |(stem, ending)| {
        // `rank.3.pickle` has its number between dots.
        let end = ending.rfind(|c: char| c.is_ascii_digit()).map_or(stem.len(), |at| stem.len() + 2 + at);
        &name[..end]
    })
}

/// The numbers of the groups that a path names.
pub(super) fn groups(path: &str) -> BTreeMap<String, u64> {
    let group = |(place, number): (Place, u64)| match place.meaning() {
        Meaning::Group(group) => Some((group.to_owned(), number)),
        _ => None,
    };
    // What stands nearest to the file counts.
    numbers(path).into_iter().rev().filter_map(group).collect()
}

/// The place that tells ranks best, and the number of each path there; `None` where there is none.
pub(super) fn best<'p>(
    paths: impl ExactSizeIterator<Item = &'p str>,
    hosts: &[Option<String>],
) -> Option<(Place, Vec<Option<u64>>)> {
    let files = paths.len();
    let mut at: BTreeMap<Place, Vec<Option<u64>>> = BTreeMap::new();
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
