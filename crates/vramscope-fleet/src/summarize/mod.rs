//! Summarizes a recording with the analysis and the names of the report.

mod course;
mod holders;
mod program;

use std::sync::Arc;

use vramscope_analysis::{
    By, ByteKind, DeviceUse, Fragmentation, Frames, History, KnownBytes, LeakSuspect, Moment, OomExplanation,
    Options, Peak, Recorder, Steps, Summary, event_times, largest_request,
};
use vramscope_report::Names;
use vramscope_report::out_of_memory::{MainCause, recorded_conf};
use vramscope_trace::formats::Recording;
use vramscope_trace::{AllocatorSettings, DeviceTrace, Trace};

use crate::summary::{DeviceUsed, Leak, Oom, PeakAt, RankSummary, StepsTold, Unused};

/// Limit on the individual leaking lines.
const MOST_LEAKS: usize = 8;

/// Returns the summary of a recording.
///
/// # Errors
/// A message if nothing was recorded on any device.
pub fn summarize(recording: &Recording) -> Result<RankSummary, String> {
    let trace = &recording.trace;
    let used = (0..trace.devices.len()).filter(|&position| trace.devices[position].was_used());
    let mut used: Vec<usize> = used.collect();
    if used.iter().any(|&position| !trace.devices[position].is_host()) {
        used.retain(|&position| !trace.devices[position].is_host());
    }
    let history = match *used {
        [] => return Err("nothing was recorded on any device".to_owned()),
        [only] => History::replayed(trace, only),
        [first, ref others @ ..] => highest(trace, first, others),
    };
    let frames = Frames::of(trace);
    let names = Names { trace, frames: &frames };
    let options = Options { by: Some(By::Line), ..Options::default() };
    let answers = Summary::of_history(&history, &frames, &options);
    Ok(Made { recording, history: &history, names, answers: &answers }.summary())
}

/// Returns the history of the device with the highest peak of allocated bytes; the first of several.
fn highest(trace: &Arc<Trace>, first: usize, others: &[usize]) -> History {
    let mut highest = History::replayed(trace, first);
    for &position in others {
        let other = History::replayed(trace, position);
        if other.peaks().allocated.bytes > highest.peaks().allocated.bytes {
            highest = other;
        }
    }
    highest
}

/// The inputs of a summary.
struct Made<'r> {
    recording: &'r Recording,
    history: &'r History,
    names: Names<'r>,
    answers: &'r Summary,
}

impl Made<'_> {
    fn summary(&self) -> RankSummary {
        let Self { recording, history, names, answers } = *self;
        let (trace, device) = (history.trace(), history.device());
        let is_another = |d: &&DeviceTrace| d.was_used() && !d.is_host() && d.device != answers.device;
        let times = event_times(device).filter(|times| times.first() < times.last());
        let settings = trace.settings.as_ref().map(AllocatorSettings::in_force);
        let known = KnownBytes::of_peak(history, ByteKind::Allocated, answers.peaks.allocated.bytes);
        RankSummary {
            format: recording.format.name().to_owned(),
            device: answers.device,
            other_devices: trace.devices.iter().filter(is_another).map(|d| d.device).collect(),
            events: answers.events,
            begin_us: answers.time_us.map(|(begin, _)| begin),
            end_us: answers.time_us.map(|(_, end)| end),
            peak_allocated: self.peak(answers.peaks.allocated),
            peak_reserved: self.peak(answers.peaks.reserved),
            preexisting_bytes: answers.preexisting,
            oom: answers.ooms.first().map(|oom| self.oom(oom)),
            ooms: answers.ooms.len() + answers.unexplained_ooms.map_or(0, |unexplained| unexplained.count),
            capacity_bytes: answers
                .ooms
                .first()
                .filter(|_| !answers.quality.missing.skipped.segments())
                .and_then(OomExplanation::device_bytes),
            device_use: answers.device_use.as_ref().map(device_used),
            lines: holders::lines(&names, &answers.holders),
            categories: holders::categories(&names, &answers.categories),
            layers: holders::layers(&answers.layers, answers.counters.allocated),
            leaks: answers.leaks.iter().take(MOST_LEAKS).map(|leak| self.leak(leak)).collect(),
            more_leaks: answers.leaks.len().saturating_sub(MOST_LEAKS),
            fragmentation_at_peak: answers.fragmentation.as_ref().map(|f| self.unused(f)),
            fragmentation_at_most_reserved: self.at_most_reserved(),
            steps: steps(&answers.steps, device),
            course: course::of(history, times.as_deref()),
            release: trace.shown_release().to_string(),
            settings: settings
                .map(|settings| settings.in_conf().map(|(key, value)| (key.to_owned(), value)).collect()),
            program: program::of(&names),
            quality: answers.quality,
            peak_at_least: known.least,
            peak_at_most: known.most,
            overflowed: names.overflowed(answers.device),
            recorder: Recorder::of(recording),
            notices: recording.notices.clone(),
        }
    }

    fn peak(&self, peak: Peak) -> PeakAt {
        let event = peak.moment.event();
        let time_us = event.and_then(|event| self.history.device().events.time(event));
        PeakAt { bytes: peak.bytes, event, time_us }
    }

    fn oom(&self, oom: &OomExplanation) -> Oom {
        let line = oom.stack.and_then(|stack| self.names.frames.own_frame(self.names.trace, stack));
        Oom {
            event: oom.event,
            time_us: oom.time_us,
            requested_bytes: oom.request.bytes,
            device_free_bytes: oom.device_free,
            allocated_bytes: oom.counters.allocated,
            reserved_bytes: oom.counters.reserved,
            enough_in_total: oom.enough_in_total(),
            at_limit: oom.at_limit,
            line: line.map(|line| self.names.frame(line).into()),
            main_cause: MainCause::of(&self.names, recorded_conf(self.names.trace), oom),
            remedy: self.answers.remedy.clone(),
            best_setting: self.answers.best_setting.clone(),
            growth_per_step: self.answers.growth_per_step,
        }
    }

    fn leak(&self, leak: &LeakSuspect) -> Leak {
        let steps = self.answers.steps.steps.len() as u64;
        Leak {
            name: self.names.frame(leak.line).into(),
            place: Some(holders::place(&self.names, leak.line)),
            kept: leak.kept,
            kept_bytes: leak.kept_bytes,
            bytes_a_step: leak.kept_bytes.checked_div(steps),
        }
    }

    fn at_most_reserved(&self) -> Option<Unused> {
        let (moment, request) = (self.answers.peaks.reserved.moment, largest_request(self.history)?);
        Some(self.unused(&Fragmentation::at(self.history, moment, request)))
    }

    fn unused(&self, f: &Fragmentation) -> Unused {
        Unused {
            event: f.moment.event(),
            reserved_bytes: self.history.counters_at(f.moment).reserved,
            internal_bytes: f.internal,
            external_bytes: f.external,
            whole_segments_bytes: f.whole_segments,
            unusable_bytes: f.unusable_bytes(),
        }
    }
}

/// Returns the highest count of the driver.
fn device_used(device_use: &DeviceUse) -> DeviceUsed {
    let highest = &device_use.highest;
    DeviceUsed {
        time_us: highest.time_us,
        used_bytes: highest.used,
        total_bytes: highest.total,
        rest_bytes: highest.rest(),
    }
}

/// Returns the summary of the steps.
fn steps(steps: &Steps, device: &DeviceTrace) -> Option<StepsTold> {
    let typical = &steps.steps[steps.typical()?];
    let time = |moment: Moment| device.events.time(moment.index().min(device.events.len().checked_sub(1)?));
    let typical_us = time(typical.to).zip(time(typical.from)).map(|(to, from)| to.saturating_sub(from));
    Some(StepsTold { count: steps.steps.len(), typical_us, typical_peak_bytes: typical.bytes.peak })
}
