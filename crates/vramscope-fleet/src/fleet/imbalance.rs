//! The imbalance between ranks, and between parallel groups.

use std::collections::BTreeMap;

use serde::Serialize;

use super::ReadRank;
use super::spread::mean;

/// The excess of the highest value over the mean: (highest - mean) / mean.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Imbalance {
    /// The highest value.
    pub highest_bytes: u64,
    /// The mean, rounded down.
    pub mean_bytes: u64,
    /// The excess in percent of the mean.
    pub percent: f64,
}

/// The imbalance of the peaks of allocated bytes: over all ranks, and for each parallel group in file names.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Imbalances {
    /// Over all ranks.
    pub all: Imbalance,
    /// Imbalance between the means of the groups, by `tp`, `pp` and so on. A large value shows the source of the imbalance.
    pub between: BTreeMap<String, Imbalance>,
    /// Within each group.
    pub groups: Vec<GroupPeaks>,
}

/// The peaks of a group, for example of pipeline stage 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupPeaks {
    /// `tp`, `pp`, `dp`, `ep` or `cp`.
    pub group: String,
    /// The number of the group.
    pub number: u64,
    /// The ranks in it.
    pub ranks: Vec<u64>,
    /// The imbalance among these ranks.
    pub within: Imbalance,
}

impl Imbalance {
    fn of(peaks: &[u64]) -> Option<Self> {
        let (highest, mean) = (*peaks.iter().max()?, mean(peaks)?);
        let above = (highest - mean) as f64;
        let percent = if mean == 0 { 0.0 } else { above * 100.0 / mean as f64 };
        Some(Self { highest_bytes: highest, mean_bytes: mean, percent: (percent * 100.0).round() / 100.0 })
    }
}

pub(super) fn imbalances(ranks: &[ReadRank<'_>]) -> Option<Imbalances> {
    let peaks =
        |ranks: &[ReadRank<'_>]| ranks.iter().map(|r| r.summary.peak_allocated.bytes).collect::<Vec<_>>();
    let mut of_group: BTreeMap<(&str, u64), Vec<ReadRank<'_>>> = BTreeMap::new();
    for rank in ranks {
        for (group, number) in rank.groups {
            of_group.entry((group, *number)).or_default().push(*rank);
        }
    }
    let mut means: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    let mut groups = Vec::new();
    for ((group, number), ranks) in &of_group {
        let Some(within) = Imbalance::of(&peaks(ranks)) else { continue };
        means.entry(group).or_default().push(within.mean_bytes);
        let ranks = ranks.iter().map(|rank| rank.number).collect();
        groups.push(GroupPeaks { group: (*group).to_owned(), number: *number, ranks, within });
    }
    let between = means.into_iter().filter(|(_, means)| means.len() > 1);
    let between = between.filter_map(|(group, means)| Some((group.to_owned(), Imbalance::of(&means)?)));
    let between: BTreeMap<String, Imbalance> = between.collect();
    groups.retain(|group| between.contains_key(&group.group));
    Some(Imbalances { all: Imbalance::of(&peaks(ranks))?, between, groups })
}
