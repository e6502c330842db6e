//! What is not the same on all ranks of a job, and should be: releases, settings, programs.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::ReadRank;
use crate::summary::Program;

/// What differs between ranks; each list has all values where there are several, and is empty where all ranks have the same.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Mixed {
    /// Releases of PyTorch, as far as recordings show them.
    pub releases: Vec<Variety>,
    /// Settings of the allocator, as `PYTORCH_CUDA_ALLOC_CONF` has them: those that are not the same on all ranks.
    pub settings: Vec<Variety>,
    /// Programs.
    pub programs: Vec<ProgramOf>,
}

/// A value that some ranks have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Variety {
    /// The value; `None` where recordings do not say it.
    pub value: Option<String>,
    /// The ranks.
    pub ranks: Vec<u64>,
}

/// A program that some ranks ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProgramOf {
    /// How it stands to the one that most ranks ran.
    pub relation: Relation,
    /// Some of its files.
    pub files: Vec<String>,
    /// The ranks.
    pub ranks: Vec<u64>,
}

/// How a program stands to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// It is that one.
    Same,
    /// It has functions of it, and none of its lines: another version.
    OtherVersion,
    /// It has nothing of it: another program.
    Other,
}

impl Mixed {
    pub(super) fn of(ranks: &[ReadRank<'_>]) -> Self {
        Self {
            releases: several(ranks.iter().map(|rank| (Some(rank.summary.release.clone()), rank.number))),
            settings: settings(ranks),
            programs: programs(ranks),
        }
    }
}

/// The values, those of most ranks first; none where there is only one.
fn several(values: impl Iterator<Item = (Option<String>, u64)>) -> Vec<Variety> {
    let mut ranks: BTreeMap<Option<String>, Vec<u64>> = BTreeMap::new();
    for (value, rank) in values {
        ranks.entry(value).or_default().push(rank);
    }
    let mut several: Vec<Variety> =
        ranks.into_iter().map(|(value, ranks)| Variety { value, ranks }).collect();
    several.sort_by_key(|variety| Reverse(variety.ranks.len()));
    if several.len() > 1 { several } else { Vec::new() }
}

/// The settings that differ.
fn settings(ranks: &[ReadRank<'_>]) -> Vec<Variety> {
    let all: Vec<&BTreeMap<String, String>> =
        ranks.iter().filter_map(|rank| rank.summary.settings.as_ref()).collect();
    let is_shared =
        |key: &String, value: &String| all.iter().all(|settings| settings.get(key) == Some(value));
    let shared: BTreeMap<&String, &String> =
        all.first().into_iter().copied().flatten().filter(|(key, value)| is_shared(key, value)).collect();
    let own = |settings: &BTreeMap<String, String>| {
        let own = settings.iter().filter(|(key, _)| !shared.contains_key(key));
        own.map(|(key, value)| format!("{key}:{value}")).collect::<Vec<_>>().join(",")
    };
    several(ranks.iter().map(|rank| (rank.summary.settings.as_ref().map(own), rank.number)))
}

/// Two rising lists of hashes have one in common.
fn share(a: &[u64], b: &[u64]) -> bool {
    a.iter().any(|hash| b.contains(hash))
}

/// The programs, that of most ranks first; none where there is only one. Ranks whose recordings know no lines are of none.
fn programs(ranks: &[ReadRank<'_>]) -> Vec<ProgramOf> {
    // Each with the first rank that was found to run it.
    let mut programs: Vec<(&Program, Vec<u64>)> = Vec::new();
    for rank in ranks.iter().filter(|rank| !rank.summary.program.sketch.is_empty()) {
        let program = &rank.summary.program;
        match programs.iter_mut().find(|(first, _)| share(&first.sketch, &program.sketch)) {
            Some((_, ranks)) => ranks.push(rank.number),
            None => programs.push((program, vec![rank.number])),
        }
    }
    programs.sort_by_key(|(_, ranks)| Reverse(ranks.len()));
    let Some(&(most, _)) = programs.first() else { return Vec::new() };
    let told = programs.iter().enumerate().map(|(number, (program, ranks))| ProgramOf {
        relation: match number {
            0 => Relation::Same,
            _ if share(&most.functions, &program.functions) => Relation::OtherVersion,
            _ => Relation::Other,
        },
        files: program.files.clone(),
        ranks: ranks.clone(),
    });
    if programs.len() > 1 { told.collect() } else { Vec::new() }
}
