//! Combines all ranks: a pure function of their summaries that does not depend on their order.

mod causes;
mod imbalance;
mod kinds;
mod largest_rank;
mod mixed;
mod spread;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

pub use causes::{LeakOfFleet, OomOfRank, UnusedOfFleet, UnusedOfRank};
pub use imbalance::{GroupPeaks, Imbalance, Imbalances};
pub use kinds::{Differs, Kind};
pub use largest_rank::Card;
pub use mixed::{Mixed, ProgramOf, Relation, Variety};
pub use spread::{PeakOfRank, Spread};

use crate::rows::RankRow;
use crate::summary::RankSummary;

/// The combined ranks. Sizes are in bytes, times in microseconds since the Unix epoch; lists of ranks are sorted.
#[derive(Debug, Clone, PartialEq)]
pub struct Fleet {
    /// The number of ranks with a recording.
    pub rank_count: usize,
    /// The number of these that could be read.
    pub read_count: usize,
    /// The hosts in file names, with their ranks.
    pub hosts: BTreeMap<String, Vec<u64>>,
    /// Ranks that could not be read.
    pub unread: Vec<UnreadRank>,
    /// Rank numbers below the highest without a file.
    pub missing_ranks: Vec<u64>,
    /// The peaks of allocated bytes; `None` if no recording could be read.
    pub peak_allocated: Option<Spread>,
    /// The peaks of reserved bytes.
    pub peak_reserved: Option<Spread>,
    /// The driver's highest counts of the memory of each rank's device, by all processes; `None` without a log that has them.
    pub device_used: Option<Spread>,
    /// The parts of these that no recording explains: contexts, kernels and other processes.
    pub device_rest: Option<Spread>,
    /// Groups of ranks that match, largest first.
    pub kinds: Vec<Kind>,
    /// The excess of the highest peak of allocated bytes over the mean.
    pub imbalances: Option<Imbalances>,
    /// Ranks that ran out of memory, sorted by time; ranks without a time are last.
    pub out_of_memory: Vec<OomOfRank>,
    /// Lines that leak, sorted by number of ranks, most first.
    pub leaks: Vec<LeakOfFleet>,
    /// Unusable memory at the peak of reserved bytes.
    pub fragmentation: Option<UnusedOfFleet>,
    /// The need of the largest rank compared with the GPU, if its size is known.
    pub card: Option<Card>,
    /// Properties that differ between ranks.
    pub mixed: Mixed,
    /// Ranks whose recordings lack events, at the beginning, at the end, where the file is damaged, or all: their peaks may have been
    /// others.
    pub peaks_not_known: Vec<u64>,
    /// Ranks whose allocated bytes are partly inferred.
    pub not_exact: Vec<u64>,
    /// Ranks that used further devices, which are not included here.
    pub several_devices: Vec<u64>,
    /// All ranks, sorted.
    pub ranks: Vec<RankRow>,
}

/// A rank whose recording could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnreadRank {
    /// The rank's number.
    pub rank: u64,
    /// The file.
    pub file: String,
    /// The reason, as a message.
    pub reason: String,
}

/// A rank that could be read.
#[derive(Debug, Clone, Copy)]
struct ReadRank<'r> {
    number: u64,
    groups: &'r BTreeMap<String, u64>,
    summary: &'r RankSummary,
}

/// Limit on the listed missing ranks, because file names may contain any number.
const MOST_MISSING: usize = 10_000;

impl Fleet {
    /// Combines these ranks. `card_bytes` is the memory of the GPU, if given.
    pub fn of(mut ranks: Vec<RankRow>, card_bytes: Option<u64>) -> Self {
        ranks.sort_by(|a, b| (&a.rank, &a.file).cmp(&(&b.rank, &b.file)));
        let read: Vec<ReadRank<'_>> = ranks
            .iter()
            .filter_map(|row| {
                let summary = row.summary.as_deref().ok()?;
                Some(ReadRank { number: row.rank.number, groups: &row.rank.groups, summary })
            })
            .collect();
        let those = |test: fn(&RankSummary) -> bool| {
            read.iter().filter(|r| test(r.summary)).map(|r| r.number).collect()
        };
        let mut hosts: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for row in &ranks {
            if let Some(host) = &row.rank.host {
                hosts.entry(host.clone()).or_default().push(row.rank.number);
            }
        }
        let device_use = || read.iter().filter_map(|r| Some((r.summary.device_use?, r.number)));
        let unread = ranks.iter().filter_map(|row| {
            let reason = row.summary.as_ref().err()?.clone();
            Some(UnreadRank { rank: row.rank.number, file: row.file.clone(), reason })
        });
        Self {
            rank_count: ranks.len(),
            read_count: read.len(),
            hosts,
            unread: unread.collect(),
            missing_ranks: missing(&ranks),
            peak_allocated: Spread::of(read.iter().map(|r| (r.summary.peak_allocated.bytes, r.number))),
            peak_reserved: Spread::of(read.iter().map(|r| (r.summary.peak_reserved.bytes, r.number))),
            device_used: Spread::of(device_use().map(|(of, number)| (of.used_bytes, number))),
            device_rest: Spread::of(
                device_use().map(|(of, number)| (of.rest_bytes.max(0).unsigned_abs(), number)),
            ),
            kinds: kinds::kinds(&read),
            imbalances: imbalance::imbalances(&read),
            out_of_memory: causes::out_of_memory(&read),
            leaks: causes::leaks(&read),
            fragmentation: causes::unused(&read),
            card: Card::of(&read, card_bytes),
            mixed: Mixed::of(&read),
            peaks_not_known: those(|s| s.peak_at_most != Some(s.peak_allocated.bytes)),
            not_exact: those(|s| !s.is_exact()),
            several_devices: those(|s| !s.other_devices.is_empty()),
            ranks,
        }
    }
}

impl Fleet {
    /// Returns the usual kind that the kind at `position` is compared with; the kind itself if it is usual.
    pub fn usual_kind(&self, position: usize) -> Option<&Kind> {
        let kind = self.kinds.get(position)?;
        if kind.is_usual { Some(kind) } else { self.kinds.get(kind.compared_with?) }
    }
}

/// Numbers below the highest that do not occur.
fn missing(ranks: &[RankRow]) -> Vec<u64> {
    let there: BTreeSet<u64> = ranks.iter().map(|row| row.rank.number).collect();
    let highest = there.last().copied().unwrap_or(0);
    (0..highest).filter(|number| !there.contains(number)).take(MOST_MISSING).collect()
}

#[cfg(test)]
mod tests;
