//! The main findings about a fleet as sentences: problems, and unusual ranks with the reasons. Text and page show the same sentences.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use vramscope_basics::units::{bytes, count, counted, duration};
use vramscope_report::{Shown, fit};

use crate::fleet::{Differs, Fleet, Kind, LeakOfFleet, OomOfRank, Relation};
use crate::numbers::ranks;

/// Limit on the kinds with a sentence each.
const MOST_KINDS: usize = 10;

/// Limit on the leaks with a sentence each.
const MOST_LEAKS: usize = 3;

/// A sentence about a fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// The sentence.
    pub text: String,
    /// Whether it states that no rank has a problem.
    pub is_good: bool,
}

/// Returns the sentences, most urgent first. The name of a line or file takes at most `room` columns.
#[must_use]
pub fn sentences(fleet: &Fleet, room: usize) -> Vec<Sentence> {
    let mut said = Vec::new();
    said.extend(first_out_of_memory(fleet));
    let unusual = || fleet.kinds.iter().filter(|kind| !kind.is_usual);
    said.extend(unusual().take(MOST_KINDS).map(|kind| unlike(fleet, kind, room)));
    let more: usize = unusual().skip(MOST_KINDS).map(|kind| kind.ranks.len()).sum();
    if more > 0 {
        said.push(format!("{} more ranks differ from the others.", count(more as u64)));
    }
    said.extend(fleet.leaks.iter().take(MOST_LEAKS).map(|leak| suspected(leak, room)));
    if !fleet.unread.is_empty() {
        let unread: Vec<u64> = fleet.unread.iter().map(|rank| rank.rank).collect();
        said.push(format!("{} could not be read.", capital(&ranks(&unread))));
    }
    if !fleet.missing_ranks.is_empty() {
        let is = if fleet.missing_ranks.len() == 1 { "is" } else { "are" };
        said.push(format!("{} {is} missing: there is no recording.", capital(&ranks(&fleet.missing_ranks))));
    }
    if said.is_empty() {
        return vec![Sentence { text: all_is_well(fleet), is_good: true }];
    }
    said.into_iter().map(|text| Sentence { text, is_good: false }).collect()
}

/// A rank with a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Different {
    /// The rank's number.
    pub rank: u64,
    /// A usual rank to compare it with.
    pub beside: Option<u64>,
    /// The reasons, one sentence each.
    pub reasons: Vec<String>,
}

/// Returns the ranks with problems, out-of-memory failures first. An unusual kind is represented by its median rank, a leak by the rank
/// that retained the most bytes. Names take at most `room` columns.
#[must_use]
pub fn different(fleet: &Fleet, room: usize) -> Vec<Different> {
    let is_alone = fleet.out_of_memory.len() == 1;
    let failed = fleet.out_of_memory.iter().map(|oom| (oom.rank, failed(oom, is_alone)));
    let unusual = fleet.kinds.iter().filter(|kind| !kind.is_usual);
    let unusual = unusual.map(|kind| (kind.example_rank, unlike(fleet, kind, room)));
    let leaking = fleet.leaks.iter().filter(|leak| !leak.is_everywhere);
    let leaking = leaking.map(|leak| (leak.worst_rank, suspected(leak, room)));
    let kind_of: BTreeMap<u64, usize> = kinds_of_ranks(fleet).collect();
    let mut found: Vec<Different> = Vec::new();
    let mut places: BTreeMap<u64, usize> = BTreeMap::new();
    for (rank, reason) in failed.chain(unusual).chain(leaking) {
        let place = *places.entry(rank).or_insert(found.len());
        if place == found.len() {
            let usual = kind_of.get(&rank).and_then(|&kind| fleet.usual_kind(kind));
            // For an example rank, the largest other kind.
            let beside = usual.into_iter().chain(&fleet.kinds).find(|kind| kind.example_rank != rank);
            found.push(Different { rank, beside: beside.map(|kind| kind.example_rank), reasons: Vec::new() });
        }
        found[place].reasons.push(reason);
    }
    found
}

/// Returns each rank that could be read, with the index of its kind.
pub fn kinds_of_ranks(fleet: &Fleet) -> impl Iterator<Item = (u64, usize)> {
    let kinds = fleet.kinds.iter().enumerate();
    kinds.flat_map(|(position, kind)| kind.ranks.iter().map(move |&rank| (rank, position)))
}

/// Returns a name from a recording or a file, made safe to print.
pub(crate) fn shown(text: &str) -> String {
    Shown::of(text).into()
}

/// Returns a name for a sentence, in at most `room` columns.
pub(crate) fn named(name: &str, room: usize) -> String {
    fit(&shown(name), room)
}

/// Formats a signed size: `+1.62 GiB`, `-1.62 GiB`.
pub(crate) fn signed(bytes_more: i128) -> String {
    let sign = if bytes_more < 0 { "-" } else { "+" };
    let size = u64::try_from(bytes_more.unsigned_abs()).unwrap_or(u64::MAX);
    format!("{sign}{}", bytes(size))
}

/// Returns a text with its first letter in upper case, such as `Rank 13`.
pub(crate) fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}

/// Formats a category: `optimizer state`.
pub(crate) fn words_of(category: &Differs) -> String {
    shown(&category.name).replace('_', " ")
}

/// Returns the group or host that has exactly the ranks of a kind.
pub(crate) fn group(fleet: &Fleet, kind: &Kind) -> Option<String> {
    let groups = fleet.imbalances.iter().flat_map(|imbalances| &imbalances.groups);
    let group = groups.clone().find(|group| group.ranks == kind.ranks);
    if let Some(group) = group.filter(|group| group.ranks.len() > 1) {
        return Some(format!("all of {} {}", group.group, group.number));
    }
    let host = fleet.hosts.iter().find(|(_, ranks)| **ranks == kind.ranks && ranks.len() > 1);
    host.map(|(host, _)| format!("all of {}", shown(host)))
}

fn all_is_well(fleet: &Fleet) -> String {
    let peak = fleet.peak_allocated.map_or(0, |spread| spread.highest.bytes);
    let kinds = fleet.kinds.len();
    let alike = if kinds < 2 {
        "which all match".to_owned()
    } else {
        format!("of {kinds} kinds with many ranks each")
    };
    format!(
        "No request failed and no leak is suspected on {}, {alike}; the highest peak is {}.",
        counted(fleet.read_count as u64, "rank"),
        bytes(peak)
    )
}

fn suspected(leak: &LeakOfFleet, room: usize) -> String {
    let where_ = if leak.is_everywhere { "every rank".to_owned() } else { ranks(&leak.ranks) };
    format!("Leak suspected on {where_}: {} retained {}.", named(&leak.name, room), bytes(leak.kept_bytes))
}

/// States that a rank ran out of memory, and its time relative to other failures.
fn failed(oom: &OomOfRank, is_alone: bool) -> String {
    let when = match oom.after_first_us {
        Some(0) if !is_alone => ", the first".to_owned(),
        Some(later) if !is_alone => format!(", {} after the first", duration(later)),
        _ => String::new(),
    };
    let (asked, free) = (bytes(oom.oom.requested_bytes), bytes(oom.oom.device_free_bytes));
    format!("Rank {} ran out of memory{when}: it requested {asked}, and {free} was free.", oom.rank)
}

/// Returns the difference between a kind and the usual kinds, in a sentence.
fn unlike(fleet: &Fleet, kind: &Kind, room: usize) -> String {
    let who = capital(&ranks(&kind.ranks));
    let group = group(fleet, kind).map(|group| format!(" ({group})")).unwrap_or_default();
    let (verb, peaks) = if kind.ranks.len() == 1 { ("differs", "peaks") } else { ("differ", "peak") };
    if let Some(program) = program(fleet, kind, room) {
        return format!("{who}{group} {verb} from the others: {program}.");
    }
    let other = kind.compared_with.and_then(|other| fleet.kinds.get(other));
    let Some(other) = other else { return format!("{who}{group} {verb} from the others.") };
    let more = i128::from(kind.peak_allocated_bytes) - i128::from(other.peak_allocated_bytes);
    let percent = more as f64 * 100.0 / (other.peak_allocated_bytes.max(1)) as f64;
    let others = if fleet.kinds.iter().filter(|kind| kind.is_usual).count() == 1 {
        "the others".to_owned()
    } else {
        format!("{} and similar ranks", ranks(&[other.example_rank]))
    };
    let why = match (kind.lines.first(), kind.categories.first()) {
        (Some(line), Some(category)) => {
            format!(
                "; {} at {} ({} {})",
                signed(line.by()),
                named(&line.name, room),
                signed(category.by()),
                words_of(category)
            )
        }
        (Some(line), None) => format!("; {} at {}", signed(line.by()), named(&line.name, room)),
        (None, Some(category)) => format!("; {} {}", signed(category.by()), words_of(category)),
        (None, None) => String::new(),
    };
    format!(
        "{who}{group} {peaks} at {}, {percent:+.1}% compared with {others}{why}.",
        bytes(kind.peak_allocated_bytes)
    )
}

/// Returns the program of a kind, if it differs from the program of most ranks.
fn program(fleet: &Fleet, kind: &Kind, room: usize) -> Option<String> {
    let programs = &fleet.mixed.programs;
    let of = programs.iter().find(|program| program.ranks.contains(&kind.example_rank))?;
    let files = named(&of.files.join(", "), room);
    match of.relation {
        Relation::Same => None,
        Relation::OtherVersion => Some(format!("another version of the program ({files})")),
        Relation::Other => Some(format!("another program ({files})")),
    }
}

/// Returns the first ranks that ran out of memory, in a sentence.
fn first_out_of_memory(fleet: &Fleet) -> Option<String> {
    let first = fleet.out_of_memory.first()?;
    let Some(second) = fleet.out_of_memory.get(1) else {
        return Some(format!("Rank {} ran out of memory.", first.rank));
    };
    let mut text = format!("{} ranks ran out of memory: ", count(fleet.out_of_memory.len() as u64));
    let _ = match (first.after_first_us, second.after_first_us) {
        (Some(_), Some(later)) => {
            write!(text, "rank {} first, rank {} {} later", first.rank, second.rank, duration(later))
        }
        _ => write!(text, "rank {}, rank {}, at unknown times", first.rank, second.rank),
    };
    let more = fleet.out_of_memory.len() - 2;
    if more > 0 {
        let _ = write!(text, ", and {} more", count(more as u64));
    }
    Some(text + ".")
}
