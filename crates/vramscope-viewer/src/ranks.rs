//! All ranks of a job, as the page is told of them: what a fleet says, in the order and the words in which the command prints it.

use std::collections::{BTreeMap, BTreeSet};

use vramscope_fleet::{CELLS, Course, Fleet, FleetAnswers, RankRow, different, kinds_of_ranks, told};

use crate::columns::{Answer, Columns};
use crate::protocol::{DifferentRank, KindOfRanks, RankTold, Ranks};

/// The most columns that the name of a line or a file takes in a sentence.
const ROOM: usize = 60;

/// What the page is told of all ranks of a job.
///
/// # Errors
/// Where it cannot be written as JSON.
pub fn ranks_answer(answers: &FleetAnswers<'_>) -> Answer {
    let fleet = answers.fleet;
    let sentences = told(fleet, ROOM);
    let (scale_bytes, scale) = scale(fleet);
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
    Columns::answer(|columns| Ranks {
        paths: answers.paths,
        ranks_by: answers.rule,
        notes: answers.notes,
        read: fleet.read_count,
        is_well: sentences.iter().all(|sentence| sentence.is_good),
        told: sentences.into_iter().map(|sentence| sentence.text).collect(),
        scale_bytes,
        scale,
        kinds: fleet.kinds.iter().map(kind).collect(),
        groups: groups.into_iter().collect(),
        ranks: fleet.ranks.iter().map(|row| rank(fleet, row, kinds.get(&row.rank.number).copied())).collect(),
        different: different.collect(),
        allocated: columns.sizes(course(fleet, |course| &course.allocated_bytes)),
        reserved: columns.sizes(course(fleet, |course| &course.reserved_bytes)),
        cells: CELLS,
    })
}

/// The upper end of the scale of bytes, and what it is.
fn scale(fleet: &Fleet) -> (u64, &'static str) {
    let peak = fleet.peak_reserved.iter().chain(&fleet.peak_allocated).map(|spread| spread.highest.bytes);
    let peak = peak.max().unwrap_or(0);
    match fleet.card {
        Some(card) if card.capacity_bytes >= peak => (card.capacity_bytes, "the memory of the card"),
        _ => (peak, "the highest peak"),
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

/// A column of the courses of all ranks, one after the other.
fn course(fleet: &Fleet, of: fn(&Course) -> &[u64]) -> impl Iterator<Item = u64> {
    fleet.ranks.iter().flat_map(move |row| {
        let known = row.summary.as_deref().map_or(&[][..], |summary| of(&summary.course));
        (0..CELLS).map(|cell| known.get(cell).copied().unwrap_or(0))
    })
}
