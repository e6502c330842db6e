//! Infers the rank of each file from its bundle or its name, because recordings do not contain it.
//!
//! One rule applies to all files of a run. For names, the rank is the number at the place that differs between files. The functions are
//! pure: names and modification times are inputs.

mod meanings;
mod places;

use std::collections::BTreeMap;

use regex::Regex;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use vramscope_basics::units::counted;

/// A file that may be the recording of a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its path, with `/` as separator.
    pub name: String,
    /// Its rank, if the file's bundle contains it.
    pub told: Option<u64>,
    /// Its size in bytes; 0 if unknown.
    pub length: u64,
    /// Modification time in nanoseconds since the Unix epoch, 0 if unknown. Of two files of one rank, the newer one is used.
    pub modified_ns: i64,
}

/// A rank, and its place in the job if the names contain it.
#[derive(Debug, Default, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rank {
    /// Its number in the job, from 0.
    pub number: u64,
    /// The host, if the name contains it.
    pub host: Option<String>,
    /// Its number in each parallel group: `tp`, `pp`, `dp`, `ep`, `cp`.
    pub groups: BTreeMap<String, u64>,
}

/// The files of a run, each with its rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranks {
    /// Ranks sorted by number, each once, with the index of its file.
    pub files: Vec<(Rank, usize)>,
    /// The source of the rank numbers; completes "ranks by".
    pub rule: String,
    /// Notes about files that were left out, one line each.
    pub notes: Vec<String>,
}

/// Why no rank was found.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoRank {
    /// The pattern matches no name.
    #[error("--rank {pattern} matches no number in {files}, for example {example}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The number of files, in words.
        files: String,
        /// The name of one of the files.
        example: String,
    },
    /// No name has a number that differs.
    #[error(
        "no rank in the names of {files}, for example {example}: expected a number that differs, as in rank3, rank_03, r3, snapshot_3 or host-a/3; give --rank REGEX, whose first group is the number"
    )]
    Names {
        /// The number of files, in words.
        files: String,
        /// The name of one of the files.
        example: String,
    },
}

/// The rank number of each file, if it has one.
struct Numbered {
    numbers: Vec<Option<u64>>,
    rule: String,
    /// Whether ranks count from 0 on each host.
    is_local: bool,
}

/// Limit on the names in a note.
const NAMES: usize = 3;

/// Infers the rank of each file: from the first group of `pattern` if given, else from the files' bundles, else from the place of a number
/// that differs between the names.
///
/// # Errors
/// No file has a rank.
pub fn ranks(files: &[Candidate], pattern: Option<&Regex>) -> Result<Ranks, NoRank> {
    let hosts: Vec<Option<String>> = files.iter().map(|file| meanings::host(&file.name)).collect();
    let groups: Vec<BTreeMap<String, u64>> = files.iter().map(|file| places::groups(&file.name)).collect();
    let how_many = || counted(files.len() as u64, "file");
    let example = || files.first().map_or(String::new(), |file| file.name.clone());
    let found = match pattern {
        Some(pattern) => by_pattern(files, pattern).ok_or_else(|| NoRank::Pattern {
            pattern: pattern.to_string(),
            files: how_many(),
            example: example(),
        }),
        None => by_what_is_told(files)
            .or_else(|| by_place(files, &hosts))
            .or_else(|| by_groups(&groups))
            .or_else(|| alone(files))
            .ok_or_else(|| NoRank::Names { files: how_many(), example: example() }),
    }?;
    let Numbered { mut numbers, mut rule, is_local } = found;
    let mut notes = Vec::new();
    if is_local || repeats_on_hosts(&numbers, &hosts) {
        numbers = over_hosts(&numbers, &hosts);
        rule += ", counted on from host to host in the order of their names";
    }
    let unnumbered = (0..files.len()).filter(|&at| numbers[at].is_none());
    notes.extend(left_out(files, &unnumbered.collect::<Vec<_>>()));
    let mut of_rank: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (at, number) in numbers.iter().enumerate() {
        if let Some(number) = number {
            of_rank.entry(*number).or_default().push(at);
        }
    }
    let mut chosen = Vec::with_capacity(of_rank.len());
    let mut doubled = Vec::new();
    for (number, mut several) in of_rank {
        several.sort_by_key(|&at| (files[at].modified_ns, &files[at].name));
        if let [older @ .., newest] = several.as_slice() {
            for &older in older {
                let (older, newest) = (&files[older].name, &files[*newest].name);
                doubled.push(format!(
                    "rank {number} has two files: {newest} is used, because it is newer than {older}"
                ));
            }
            let rank = Rank { number, host: hosts[*newest].clone(), groups: groups[*newest].clone() };
            chosen.push((rank, *newest));
        }
    }
    let more = doubled.len().saturating_sub(NAMES);
    notes.extend(doubled.into_iter().take(NAMES));
    if more > 0 {
        notes.push(format!(
            "{} more are left out, because newer files have the same rank",
            counted(more as u64, "file")
        ));
    }
    Ok(Ranks { files: chosen, rule, notes })
}

/// Returns a note about files without a rank.
fn left_out(files: &[Candidate], which: &[usize]) -> Option<String> {
    let named: Vec<&str> = which.iter().take(NAMES).map(|&at| files[at].name.as_str()).collect();
    let more = which.len().saturating_sub(NAMES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let (is, has) = if which.len() == 1 { ("is", "it has") } else { ("are", "they have") };
    (!which.is_empty()).then(|| {
        format!(
            "{} {is} left out, because {has} no rank there: {}{more}",
            counted(which.len() as u64, "file"),
            named.join(", ")
        )
    })
}

fn by_pattern(files: &[Candidate], pattern: &Regex) -> Option<Numbered> {
    let number = |file: &Candidate| pattern.captures(&file.name)?.get(1)?.as_str().parse().ok();
    let numbers: Vec<Option<u64>> = files.iter().map(number).collect();
    numbers.iter().any(Option::is_some).then(|| Numbered {
        numbers,
        rule: format!("--rank {pattern}"),
        is_local: false,
    })
}

/// Uses the ranks in bundles, if any file has one.
fn by_what_is_told(files: &[Candidate]) -> Option<Numbered> {
    let numbers: Vec<Option<u64>> = files.iter().map(|file| file.told).collect();
    numbers.iter().any(Option::is_some).then(|| Numbered {
        numbers,
        rule: "their launcher's variables in environment.json next to them".to_owned(),
        is_local: false,
    })
}

/// Uses the best place with a number in the names.
fn by_place(files: &[Candidate], hosts: &[Option<String>]) -> Option<Numbered> {
    let (place, numbers) = places::best(files.iter().map(|file| file.name.as_str()), hosts)?;
    Some(Numbered { numbers, rule: place.in_words(), is_local: place.is_local() })
}

/// Uses the order of the parallel groups, if their numbers in the names identify each file.
fn by_groups(groups: &[BTreeMap<String, u64>]) -> Option<Numbered> {
    // Slowest-changing dimension first, as in PyTorch's and Megatron's meshes.
    let key = |of: &BTreeMap<String, u64>| ["pp", "dp", "ep", "cp", "tp"].map(|name| of.get(name).copied());
    let mut keys: Vec<_> = groups.iter().filter(|of| !of.is_empty()).map(key).collect();
    keys.sort_unstable();
    let before = keys.len();
    keys.dedup();
    if keys.len() < 2 || keys.len() < before {
        return None;
    }
    let number = |of: &BTreeMap<String, u64>| keys.binary_search(&key(of)).ok().map(|at| at as u64);
    Some(Numbered {
        numbers: groups.iter().map(number).collect(),
        rule: "the order of their groups (pp, dp, ep, cp, tp), because their names have no other number"
            .to_owned(),
        is_local: false,
    })
}

/// Numbers a single file as rank 0, independent of its name.
fn alone(files: &[Candidate]) -> Option<Numbered> {
    (files.len() == 1).then(|| Numbered {
        numbers: vec![Some(0)],
        rule: "being the only file".to_owned(),
        is_local: false,
    })
}

/// Whether hosts share numbers, and no host has a number twice.
fn repeats_on_hosts(numbers: &[Option<u64>], hosts: &[Option<String>]) -> bool {
    let mut on_hosts: Vec<_> =
        numbers.iter().zip(hosts).filter_map(|(number, host)| Some(((*number)?, host.as_ref()?))).collect();
    on_hosts.sort_unstable();
    let is_once = on_hosts.windows(2).all(|two| two[0] != two[1]);
    is_once && on_hosts.windows(2).any(|two| two[0].0 == two[1].0)
}

/// Makes local numbers global, host by host. Each host gets as many numbers as the host with the most ranks.
fn over_hosts(numbers: &[Option<u64>], hosts: &[Option<String>]) -> Vec<Option<u64>> {
    let mut names: Vec<&String> = hosts.iter().flatten().collect();
    names.sort_by_cached_key(|name| meanings::natural(name));
    names.dedup();
    let each = numbers.iter().flatten().max().map_or(1, |most| most + 1);
    let of = |(number, host): (&Option<u64>, &Option<String>)| {
        let host = host.as_ref().map_or(Some(0), |host| names.iter().position(|name| *name == host))?;
        number.map(|number| number + host as u64 * each)
    };
    numbers.iter().zip(hosts).map(of).collect()
}

#[cfg(test)]
mod tests;
