//! Properties that differ between ranks but should be the same: releases, settings, programs.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::ReadRank;
use crate::summary::Program;

/// Properties that differ between ranks. Each list has all values, and is empty if all ranks have the same value.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mixed {
    /// PyTorch releases, inferred from the recordings.
    pub releases: Vec<Variety>,
    /// Allocator settings that differ between ranks, in the form of `PYTORCH_CUDA_ALLOC_CONF`.
    pub settings: Vec<Variety>,
    /// Programs.
    pub programs: Vec<ProgramOf>,
}

/// A value of some ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Variety {
    /// The value; `None` if it is not recorded.
    pub value: Option<String>,
    /// The ranks.
    pub ranks: Vec<u64>,
}

/// A program that some ranks ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProgramOf {
    /// Its relation to the program of most ranks.
    pub relation: Relation,
    /// Some of its files.
    pub files: Vec<String>,
    /// The ranks.
    pub ranks: Vec<u64>,
}

/// The relation of a program to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// The same program.
    Same,
    /// Another version: some functions are the same, but no lines.
    OtherVersion,
    /// Another program: no functions are the same.
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

/// Returns the values, sorted by number of ranks, most first; empty if there is only one value.
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

/// Returns the settings that differ.
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

/// Whether two sorted lists of hashes have a common element.
fn share(a: &[u64], b: &[u64]) -> bool {
    a.iter().any(|hash| b.contains(hash))
}

/// Returns the programs, sorted by number of ranks, most first; empty if there is only one. Ranks without recorded lines are left out.
fn programs(ranks: &[ReadRank<'_>]) -> Vec<ProgramOf> {
    // Each program with the first rank that runs it.
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
