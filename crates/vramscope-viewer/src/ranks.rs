//! All ranks of a job, for the page: the results of a fleet, in the order and wording of the command.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use vramscope_fleet::{
    CELLS, Course, Fleet, FleetAnswers, RankRow, Spread, different, kinds_of_ranks, sentences,
};

use vramscope_session::columns::{Answer, Columns, F64s};

/// All ranks of a job, with the results of `vramscope fleet`. Ranks are identified by their positions in `ranks`, which are
/// also the positions of their files.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Ranks<'f> {
    /// The paths as given on the command line.
    pub(crate) paths: &'f [String],
    /// The source of the rank numbers, as a phrase after "ranks by".
    pub(crate) ranks_by: &'f str,
    /// Skipped files and cache problems, one line each.
    pub(crate) notes: &'f [String],
    /// The number of ranks that could be read.
    pub(crate) read: usize,
    /// The summary, in sentences.
    pub(crate) told: Vec<String>,
    /// Whether the summary reports no problem.
    pub(crate) is_well: bool,
    /// The upper ends of the scales of bytes.
    pub(crate) scales: Scales,
    /// Kinds of similar ranks, largest kind first.
    pub(crate) kinds: Vec<KindOfRanks>,
    /// The names of the parallel groups of the ranks.
    pub(crate) groups: Vec<&'f str>,
    /// Every rank, in order.
    pub(crate) ranks: Vec<RankTold<'f>>,
    /// Ranks that deserve a closer look.
    pub(crate) different: Vec<DifferentRank>,
    /// The maximum of allocated bytes in equal parts of each recording, from its first event to its last: for the first rank,
    /// then for the next. Zeros for ranks that could not be read.
    #[cfg_attr(test, ts(type = "Float64Array"))]
    pub(crate) allocated: F64s,
    /// The same for reserved bytes.
    #[cfg_attr(test, ts(type = "Float64Array"))]
    pub(crate) reserved: F64s,
    /// The number of parts per recording.
    pub(crate) cells: usize,
}

/// The upper end of the scale of each kind of bytes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Scales {
    pub(crate) allocated: Scale,
    pub(crate) reserved: Scale,
}

/// The upper end of a scale of bytes: the GPU's memory if known and of use, otherwise the largest peak.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Scale {
    pub(crate) bytes: u64,
    /// The description of that value.
    pub(crate) told: &'static str,
}

/// A kind of similar ranks.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct KindOfRanks {
    /// The number of ranks.
    pub(crate) ranks: usize,
    /// Whether the kind has many ranks. Other kinds deserve a closer look.
    pub(crate) is_usual: bool,
    /// The median of the ranks' peaks of allocated bytes.
    pub(crate) peak_bytes: u64,
}

/// A rank.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct RankTold<'f> {
    /// The rank number in the job.
    pub(crate) rank: u64,
    /// The host of the rank.
    pub(crate) host: Option<&'f str>,
    /// Its number in each parallel group.
    pub(crate) groups: &'f BTreeMap<String, u64>,
    /// The file.
    pub(crate) file: &'f str,
    /// Why the file could not be read.
    pub(crate) unread_because: Option<&'f str>,
    /// Its position in `kinds`.
    pub(crate) kind: Option<usize>,
    /// The peak of allocated bytes.
    pub(crate) allocated_bytes: Option<u64>,
    /// The difference to the most similar usual kind's peak, in bytes; negative if below it.
    pub(crate) against_usual_bytes: Option<i64>,
    /// The peak of reserved bytes.
    pub(crate) reserved_bytes: Option<u64>,
    /// The requested bytes, if the rank ran out of memory.
    pub(crate) failed_bytes: Option<u64>,
    /// The part of the recording in which it ran out of memory, if known.
    pub(crate) failed_cell: Option<usize>,
    /// The line that leaks most.
    pub(crate) leak: Option<&'f str>,
}

/// A rank that deserves a closer look.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct DifferentRank {
    /// Its position in `ranks`.
    pub(crate) at: usize,
    /// The position of a usual rank for comparison.
    pub(crate) beside: Option<usize>,
    /// The reasons, one sentence each.
    pub(crate) reasons: Vec<String>,
}

/// The maximum width of a line or file name within a sentence, in columns.
const ROOM: usize = 60;

/// The page's data about all ranks of a job.
///
/// # Errors
/// Fails if it cannot be serialized as JSON.
pub fn ranks_answer(answers: &FleetAnswers<'_>) -> Answer {
    let fleet = answers.fleet;
    let sentences = sentences(fleet, ROOM);
    let kinds: BTreeMap<u64, usize> = kinds_of_ranks(fleet).collect();
    let positions: BTreeMap<u64, usize> =
        fleet.ranks.iter().enumerate().map(|(at, row)| (row.rank.number, at)).collect();
    let different = different(fleet, ROOM).into_iter().filter_map(|of| {
        let beside = of.beside.and_then(|rank| positions.get(&rank).copied());
        Some(DifferentRank { at: *positions.get(&of.rank)?, beside, reasons: of.reasons })
    });
    let kind = |kind: &vramscope_fleet::Kind| KindOfRanks {
        ranks: kind.ranks.len(),
        is_usual: kind.is_usual,
        peak_bytes: kind.peak_allocated_bytes,
    };
    let groups: BTreeSet<&str> =
        fleet.ranks.iter().flat_map(|row| row.rank.groups.keys().map(String::as_str)).collect();
    let ranks = Columns::answer(|columns| Ranks {
        paths: answers.paths,
        ranks_by: answers.rule,
        notes: answers.notes,
        read: fleet.read_count,
        is_well: sentences.iter().all(|sentence| sentence.is_good),
        told: sentences.into_iter().map(|sentence| sentence.text).collect(),
        scales: Scales {
            allocated: scale(fleet, fleet.peak_allocated.as_ref(), "the highest peak of allocated bytes"),
            reserved: scale(fleet, fleet.peak_reserved.as_ref(), "the highest peak of reserved bytes"),
        },
        kinds: fleet.kinds.iter().map(kind).collect(),
        groups: groups.into_iter().collect(),
        ranks: fleet.ranks.iter().map(|row| rank(fleet, row, kinds.get(&row.rank.number).copied())).collect(),
        different: different.collect(),
        allocated: columns.sizes(course(fleet, |course| &course.allocated_bytes)),
        reserved: columns.sizes(course(fleet, |course| &course.reserved_bytes)),
        cells: CELLS,
    });
    ranks?.bytes()
}

/// The upper end of a scale of bytes: the GPU's memory if ranks take at least half of it, because otherwise all ranks would look alike.
fn scale(fleet: &Fleet, peaks: Option<&Spread>, told: &'static str) -> Scale {
    let peak = peaks.map_or(0, |spread| spread.highest.bytes);
    match fleet.card {
        Some(card) if (peak..=peak.saturating_mul(2)).contains(&card.capacity_bytes) => {
            Scale { bytes: card.capacity_bytes, told: "the memory of the card" }
        }
        _ => Scale { bytes: peak, told },
    }
}

fn rank<'f>(fleet: &'f Fleet, row: &'f RankRow, kind: Option<usize>) -> RankTold<'f> {
    let summary = row.summary.as_deref().ok();
    let allocated = summary.map(|summary| summary.peak_allocated.bytes);
    let usual = kind.and_then(|kind| fleet.usual_kind(kind)).map(|kind| kind.peak_allocated_bytes);
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    RankTold {
        rank: row.rank.number,
        host: row.rank.host.as_deref(),
        groups: &row.rank.groups,
        file: &row.file,
        unread_because: row.summary.as_ref().err().map(String::as_str),
        kind,
        allocated_bytes: allocated,
        against_usual_bytes: allocated.zip(usual).map(|(here, usual)| signed(here) - signed(usual)),
        reserved_bytes: summary.map(|summary| summary.peak_reserved.bytes),
        failed_bytes: summary.and_then(|summary| Some(summary.oom.as_ref()?.requested_bytes)),
        failed_cell: summary.and_then(|summary| summary.oom_cell()),
        leak: summary.and_then(|summary| Some(summary.leaks.first()?.name.as_str())),
    }
}

/// A column of the courses of all ranks, one rank after the other.
fn course(fleet: &Fleet, of: fn(&Course) -> &[u64]) -> impl Iterator<Item = u64> {
    fleet.ranks.iter().flat_map(move |row| {
        let known = row.summary.as_deref().map_or(&[][..], |summary| of(&summary.course));
        (0..CELLS).map(|cell| known.get(cell).copied().unwrap_or(0))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;
    use vramscope_fleet::{Rank, summarize};
    use vramscope_report::Advice;
    use vramscope_testing::fleet::{JobPlan, base};
    use vramscope_trace::formats::read;

    use super::*;

    const RANKS: u64 = 16;

    /// A job with every kind of problem, with ranks numbered from 10.
    fn fleet(plan: &JobPlan) -> Fleet {
        let folder = tempfile::tempdir().unwrap();
        plan.write(folder.path(), &base());
        let rows = (0..RANKS).map(|number| {
            let file = std::fs::File::open(folder.path().join(plan.file(number))).unwrap();
            let recording = read(file).map_err(|e| e.to_string());
            let summary = recording.and_then(|recording| summarize(&recording));
            let groups = BTreeMap::from([("pp".to_owned(), number / 2)]);
            let rank = Rank { number: 10 + number, host: Some("a".to_owned()), groups };
            RankRow { rank, file: format!("rank{number}"), summary: summary.map(Box::new) }
        });
        Fleet::of(rows.collect(), None)
    }

    #[test]
    fn ranks_are_identified_by_their_positions() {
        let plan = JobPlan::new(RANKS, 3);
        let fleet = fleet(&plan);
        let answers = FleetAnswers {
            paths: &[],
            rule: "",
            notes: &[],
            fleet: &fleet,
            verdicts: &[],
            advice: Advice::default(),
        };
        let bytes = ranks_answer(&answers).unwrap();
        let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
        let told: Value = serde_json::from_slice(&bytes[4..4 + length]).unwrap();
        let positions = |test: &dyn Fn(&Value) -> bool| -> Vec<u64> {
            let all = told["ranks"].as_array().unwrap().iter().zip(0..);
            all.filter(|(rank, _)| test(rank)).map(|(_, at)| at).collect()
        };
        assert_eq!(told["ranks"][3]["rank"], 13);
        assert_eq!(positions(&|rank| rank["unread_because"].is_string()), plan.broken);
        let mut failed = plan.out_of_memory;
        failed.sort_unstable();
        assert_eq!(positions(&|rank| rank["failed_bytes"].is_u64()), failed);
        assert_eq!(positions(&|rank| rank["failed_cell"] == CELLS - 1), failed);
        assert_eq!(positions(&|rank| rank["leak"].is_string()), [plan.leaks]);
        let far = |rank: &Value| rank["against_usual_bytes"].as_i64().is_some_and(|by| by > 5 << 20);
        let mut unlike = plan.larger_stage.1.clone();
        unlike.push(plan.leaks);
        unlike.sort_unstable();
        assert_eq!(positions(&far), unlike);
        // One rank represents all ranks of the larger stage.
        let different = told["different"].as_array().unwrap();
        let at: Vec<u64> = different.iter().map(|one| one["at"].as_u64().unwrap()).collect();
        assert_eq!(at[..2], plan.out_of_memory);
        assert_eq!(at.len(), 4);
        assert!(at.contains(&plan.leaks) && plan.larger_stage.1.iter().any(|rank| at.contains(rank)));
        for one in different {
            let beside = one["beside"].as_u64().unwrap();
            assert!(
                told["kinds"][told["ranks"][beside as usize]["kind"].as_u64().unwrap() as usize]["is_usual"]
                    == true
            );
            assert_ne!(one["beside"], one["at"]);
        }
        // The maximum of a rank's cells is its peak.
        let column = &bytes[(4 + length).next_multiple_of(8)..];
        let cells: Vec<f64> = column[..RANKS as usize * CELLS * 8]
            .chunks(8)
            .map(|number| f64::from_le_bytes(number.try_into().unwrap()))
            .collect();
        for (rank, cells) in told["ranks"].as_array().unwrap().iter().zip(cells.chunks(CELLS)) {
            let highest = cells.iter().copied().fold(0.0, f64::max);
            assert_eq!(highest, rank["allocated_bytes"].as_f64().unwrap_or(0.0));
        }
        let highest = cells.iter().copied().fold(0.0, f64::max);
        let scale = &told["scales"]["allocated"];
        assert!(scale["bytes"].as_f64().unwrap() >= highest);
        // Without a known card, each scale ends at the peak of its own bytes.
        if scale["told"] == "the highest peak of allocated bytes" {
            assert_eq!(scale["bytes"].as_f64().unwrap(), highest);
        } else {
            assert_eq!(scale["told"], "the memory of the card");
        }
    }
}
