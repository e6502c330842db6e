//! Problems and their ranks: out of memory, leaks, reserved memory that is not usable.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::ReadRank;
use crate::summary::Oom;

/// A rank that ran out of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OomOfRank {
    /// The rank's number.
    pub rank: u64,
    /// Time after the first failing rank in microseconds; `None` if times are not recorded.
    pub after_first_us: Option<i64>,
    /// Time after the first event of its recording in microseconds.
    pub into_recording_us: Option<i64>,
    /// The first failed request.
    pub oom: Oom,
    /// The number of further failed requests.
    pub more: usize,
}

/// A line that leaks on some ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeakOfFleet {
    /// The line.
    pub name: String,
    /// The ranks on which it leaks.
    pub ranks: Vec<u64>,
    /// Whether it leaks on every rank that could be read.
    pub is_everywhere: bool,
    /// The rank on which it retained the most bytes.
    pub worst_rank: u64,
    /// Retained bytes on that rank.
    pub kept_bytes: u64,
    /// Average retained bytes per step on that rank; `None` if no steps are known.
    pub bytes_a_step: Option<u64>,
}

/// Unusable memory at the peak of reserved bytes, over all ranks: free memory that could not serve one more of the run's largest requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnusedOfFleet {
    /// The number of compared ranks.
    pub ranks: usize,
    /// The rank with the median share; the lower one of two.
    pub median: UnusedOfRank,
    /// The rank with the largest share.
    pub highest: UnusedOfRank,
    /// Ranks whose share is at least five percent of the reserved bytes above the median.
    pub above: Vec<u64>,
}

/// The unusable part of a rank's reserved bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnusedOfRank {
    /// The rank's number.
    pub rank: u64,
    /// Unusable bytes.
    pub unusable_bytes: u64,
    /// Reserved bytes.
    pub reserved_bytes: u64,
    /// Unusable bytes in percent of reserved bytes.
    pub percent: f64,
}

/// The excess over the median from which a rank is listed, in percent of the reserved bytes.
const WORTH_A_WORD: f64 = 5.0;

pub(super) fn out_of_memory(ranks: &[ReadRank<'_>]) -> Vec<OomOfRank> {
    let mut ooms: Vec<(&ReadRank<'_>, &Oom)> =
        ranks.iter().filter_map(|rank| Some((rank, rank.summary.oom.as_ref()?))).collect();
    ooms.sort_by_key(|(rank, oom)| (oom.time_us.is_none(), oom.time_us, rank.number));
    let first = ooms.first().and_then(|(_, oom)| oom.time_us);
    let since = |time: Option<i64>, from: Option<i64>| Some(time?.saturating_sub(from?));
    ooms.into_iter()
        .map(|(rank, oom)| OomOfRank {
            rank: rank.number,
            after_first_us: since(oom.time_us, first),
            into_recording_us: since(oom.time_us, rank.summary.begin_us),
            oom: oom.clone(),
            more: rank.summary.ooms.saturating_sub(1),
        })
        .collect()
}

pub(super) fn leaks(ranks: &[ReadRank<'_>]) -> Vec<LeakOfFleet> {
    let mut of_line: BTreeMap<&str, LeakOfFleet> = BTreeMap::new();
    for rank in ranks {
        for leak in &rank.summary.leaks {
            let here =
                of_line.entry(leak.place.as_deref().unwrap_or(&leak.name)).or_insert_with(|| LeakOfFleet {
                    name: leak.name.clone(),
                    ranks: Vec::new(),
                    is_everywhere: false,
                    worst_rank: rank.number,
                    kept_bytes: 0,
                    bytes_a_step: None,
                });
            here.ranks.push(rank.number);
            if leak.kept_bytes > here.kept_bytes {
                here.worst_rank = rank.number;
                here.kept_bytes = leak.kept_bytes;
                here.bytes_a_step = leak.bytes_a_step;
            }
        }
    }
    let mut leaks: Vec<LeakOfFleet> = of_line.into_values().collect();
    for leak in &mut leaks {
        leak.is_everywhere = leak.ranks.len() == ranks.len();
    }
    leaks.sort_by_key(|leak| (Reverse(leak.ranks.len()), Reverse(leak.kept_bytes), leak.name.clone()));
    leaks
}

pub(super) fn unused(ranks: &[ReadRank<'_>]) -> Option<UnusedOfFleet> {
    let of = |rank: &ReadRank<'_>| {
        let unused =
            rank.summary.fragmentation_at_most_reserved.filter(|unused| unused.reserved_bytes > 0)?;
        let percent = unused.unusable_bytes as f64 * 100.0 / unused.reserved_bytes as f64;
        Some(UnusedOfRank {
            rank: rank.number,
            unusable_bytes: unused.unusable_bytes,
            reserved_bytes: unused.reserved_bytes,
            percent: (percent * 100.0).round() / 100.0,
        })
    };
    let mut unused: Vec<UnusedOfRank> = ranks.iter().filter_map(of).collect();
    unused.sort_by(|a, b| a.percent.total_cmp(&b.percent).then(b.rank.cmp(&a.rank)));
    let ranks = unused.len();
    let median = *unused.get(ranks.checked_sub(1)? / 2)?;
    let mut above: Vec<u64> =
        unused.iter().filter(|u| u.percent >= median.percent + WORTH_A_WORD).map(|u| u.rank).collect();
    above.sort_unstable();
    Some(UnusedOfFleet { ranks, median, highest: *unused.last()?, above })
}
