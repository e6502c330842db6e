//! JSON of `vramscope fleet --json`.

use serde::ser::{Serialize, SerializeStruct, Serializer};
use vramscope_report::Advice;

use crate::answers::FleetAnswers;
use crate::budgets::{Status, Verdict};
use crate::fleet::{Fleet, OomOfRank};
use crate::rows::RankRow;
use crate::summary::{Oom, RankSummary};

/// Serializes variables under their own names.
macro_rules! fields {
    ($out:ident: $($field:ident),*) => {
        $($out.serialize_field(stringify!($field), $field)?;)*
    };
}

/// The output of `vramscope fleet --json`.
#[derive(Debug)]
pub struct FleetJson<'f> {
    paths: &'f [String],
    ranks_by: &'f str,
    notes: &'f [String],
    /// Whether all budgets are kept; false if one is unknown; null if none was set.
    kept: Option<bool>,
    budgets: &'f [Verdict],
    fleet: &'f Fleet,
    advice: Advice,
}

impl<'f> FleetJson<'f> {
    /// The output for `answers`.
    #[must_use]
    pub fn new(answers: &FleetAnswers<'f>) -> Self {
        let FleetAnswers { paths, rule, notes, fleet, verdicts, advice } = *answers;
        let kept = verdicts.iter().all(|verdict| verdict.status == Status::Kept);
        let kept = (!verdicts.is_empty()).then_some(kept);
        Self { paths, ranks_by: rule, notes, kept, budgets: verdicts, fleet, advice }
    }
}

impl Serialize for FleetJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { paths, ranks_by, notes, kept, budgets, fleet, advice } = self;
        let Fleet {
            rank_count,
            read_count,
            hosts,
            unread,
            missing_ranks,
            peak_allocated,
            peak_reserved,
            kinds,
            imbalances,
            out_of_memory,
            leaks,
            fragmentation,
            card,
            mixed,
            peaks_not_known,
            not_exact,
            several_devices,
            ranks,
        } = *fleet;
        let (out_of_memory, ranks) = (&told(out_of_memory, advice), &told(ranks, advice));
        let mut out = serializer.serialize_struct("FleetJson", 23)?;
        fields!(out: paths, ranks_by, notes, kept, budgets);
        fields!(out: rank_count, read_count, hosts, unread, missing_ranks, peak_allocated, peak_reserved);
        fields!(out: kinds, imbalances, out_of_memory, leaks, fragmentation, card, mixed);
        fields!(out: peaks_not_known, not_exact, several_devices, ranks);
        out.end()
    }
}

/// A part of an answer, with its sentences.
struct Told<'f, T> {
    of: &'f T,
    advice: &'f Advice,
}

fn told<'f, T>(all: impl IntoIterator<Item = &'f T>, advice: &'f Advice) -> Vec<Told<'f, T>> {
    all.into_iter().map(|of| Told { of, advice }).collect()
}

impl Serialize for Told<'_, RankRow> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let RankRow { rank, file, summary } = self.of;
        let mut row = serializer.serialize_struct("RankRow", 6)?;
        row.serialize_field("rank", &rank.number)?;
        row.serialize_field("host", &rank.host)?;
        row.serialize_field("groups", &rank.groups)?;
        row.serialize_field("file", file)?;
        row.serialize_field("unread_because", &summary.as_ref().err())?;
        let summary = summary.as_deref().ok().map(|of| Told { of, advice: self.advice });
        row.serialize_field("summary", &summary)?;
        row.end()
    }
}

impl Serialize for Told<'_, RankSummary> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let summary = self.of;
        let RankSummary {
            format,
            device,
            other_devices,
            events,
            begin_us,
            end_us,
            peak_allocated,
            peak_reserved,
            preexisting_bytes,
            oom,
            ooms,
            capacity_bytes,
            lines,
            categories,
            layers,
            leaks,
            more_leaks,
            fragmentation_at_peak,
            fragmentation_at_most_reserved,
            steps,
            course,
            release,
            settings,
            program,
            quality: _,
            overflowed: _,
            recorder: _,
            notices,
        } = summary;
        let oom = &oom.as_ref().map(|of| Told { of, advice: self.advice });
        let (is_exact, events_dropped) = (&summary.is_exact(), &summary.events_dropped());
        let doubts = &summary.doubts(self.advice);
        let notices = notices.to_string();
        let notices = &notices.lines().collect::<Vec<_>>();
        let mut out = serializer.serialize_struct("RankSummary", 28)?;
        fields!(out: format, device, other_devices, events, begin_us, end_us, peak_allocated, peak_reserved);
        fields!(out: preexisting_bytes, oom, ooms, capacity_bytes, lines, categories, layers, leaks, more_leaks);
        fields!(out: fragmentation_at_peak, fragmentation_at_most_reserved, steps, course, release, settings);
        fields!(out: program, is_exact, events_dropped, doubts, notices);
        out.end()
    }
}

impl Serialize for Told<'_, Oom> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Oom", 11)?;
        oom_fields(&mut out, self.of, self.advice)?;
        out.end()
    }
}

impl Serialize for Told<'_, OomOfRank> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let OomOfRank { rank, after_first_us, into_recording_us, oom, more } = self.of;
        let mut out = serializer.serialize_struct("OomOfRank", 15)?;
        fields!(out: rank, after_first_us, into_recording_us);
        oom_fields(&mut out, oom, self.advice)?;
        fields!(out: more);
        out.end()
    }
}

fn oom_fields<S: SerializeStruct>(out: &mut S, oom: &Oom, advice: &Advice) -> Result<(), S::Error> {
    let Oom {
        event,
        time_us,
        requested_bytes,
        device_free_bytes,
        allocated_bytes,
        reserved_bytes,
        enough_in_total,
        at_limit,
        line,
        main_cause: _,
        remedy: _,
        best_setting: _,
        growth_per_step: _,
    } = oom;
    let (verdict, remedy) = (&oom.verdict(), &oom.changes(advice));
    fields!(out: event, time_us, requested_bytes, device_free_bytes, allocated_bytes, reserved_bytes);
    fields!(out: enough_in_total, at_limit, line, verdict, remedy);
    Ok(())
}
