//! The report: the peak or another event, or a range of events.

use std::ops::Range;

use regex::Regex;
use serde::{Deserialize, Serialize};
use vramscope_analysis::{
    AllocationCategories, By, Cancel, History, IntervalOptions, IntervalSummary, Options, Steps, Summary,
    When,
};
use vramscope_report::{
    Answers, IntervalAnswers, IntervalJson, ROWS, ReportJson, TextOptions, interval_report, report,
};
use vramscope_trace::Phase;

use crate::error::{Result, SessionError};
use crate::session::Session;
use crate::values::{self, At};

/// A question for the report.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS), ts(optional_fields = nullable))]
#[serde(default, deny_unknown_fields)]
pub struct ReportRequest {
    /// Only this device
    #[cfg_attr(feature = "command", arg(long, value_name = "N"))]
    pub device: Option<i64>,
    /// Report the allocations live after event EVENT (counted from 0) instead of at the peak, or those at the end of the
    /// recording, as `end`; or, as FIRST..LAST, the allocations and frees of these events, both ends included; or those of a step or
    /// of one of its phases, as `step:2`, `forward:2`, `backward:2`, `optimizer:2` or `zero_grad:2`
    #[cfg_attr(feature = "command", arg(long, value_name = "EVENT"))]
    #[cfg_attr(feature = "schema", schemars(schema_with = "values::schema::number_or_text"))]
    #[cfg_attr(test, ts(as = "Option<String>"))]
    #[serde(alias = "event", deserialize_with = "values::in_json_at")]
    pub at: Option<At>,
    /// Group live allocations by this key, instead of showing the tree of calls
    #[cfg_attr(feature = "command", arg(long, value_parser = values::command::by()))]
    #[cfg_attr(feature = "schema", schemars(schema_with = "values::schema::by"))]
    #[cfg_attr(test, ts(as = "Option<String>"))]
    #[serde(deserialize_with = "values::in_json_by")]
    pub by: Option<By>,
    /// Keep only stacks with a frame that matches; a frame is matched as `file:line function`
    #[cfg_attr(feature = "command", arg(long, value_name = "REGEX"))]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[cfg_attr(test, ts(as = "Option<String>"))]
    #[serde(deserialize_with = "values::in_json_filter")]
    pub filter: Option<Regex>,
    /// Bytes that the program may use on the device, with its CUDA context, as 24GiB: estimate changes to the program
    /// that lower its peak [default: the device's size, if a request failed]
    #[cfg_attr(
        feature = "command",
        arg(long, value_name = "SIZE", value_parser = values::size, allow_hyphen_values = true)
    )]
    #[cfg_attr(feature = "schema", schemars(schema_with = "values::schema::number_or_text"))]
    #[cfg_attr(test, ts(as = "Option<u64>"))]
    #[serde(deserialize_with = "values::in_json_size")]
    pub budget: Option<u64>,
    /// Limit on the rows of each list
    #[cfg_attr(
        feature = "command",
        arg(long, value_name = "N", help = "Rows of each list [default: 10; with --json all]")
    )]
    #[serde(alias = "rows")]
    pub top: Option<usize>,
}

impl ReportRequest {
    /// The first given argument that needs allocations, which a log of samples does not have.
    #[must_use]
    pub fn needs_allocations(&self) -> Option<&'static str> {
        let Self { at, by, filter, budget, .. } = self;
        let given = [
            (by.is_some(), "by"),
            (at.is_some(), "at"),
            (filter.is_some(), "filter"),
            (budget.is_some(), "budget"),
        ];
        given.into_iter().find_map(|(is_given, name)| is_given.then_some(name))
    }

    /// The options of the analysis, for the state after `at` or at the peak.
    pub(crate) fn options(&self, at: Option<When>) -> Options {
        Options { at, by: self.by, filter: self.filter.clone(), budget: self.budget }
    }
}

/// The report's answer.
#[derive(Debug)]
pub enum ReportAnswer<'s> {
    /// At the peak, or after one event.
    State(Answers<'s>),
    /// For a range of events.
    Interval(IntervalAnswers<'s>),
}

/// The report's answer as JSON.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum ReportAnswerJson {
    State(ReportJson),
    Interval(IntervalJson),
}

impl ReportAnswer<'_> {
    /// The answer as `vramscope report --json` writes it.
    #[must_use]
    pub fn json(&self) -> impl Serialize + use<> {
        match self {
            Self::State(answers) => ReportAnswerJson::State(ReportJson::new(answers)),
            Self::Interval(answers) => ReportAnswerJson::Interval(IntervalJson::new(answers)),
        }
    }

    /// The answer as text in lines of `width` columns. `full_stacks`: every row is followed by all frames of its stack.
    #[must_use]
    pub fn text(&self, width: usize, full_stacks: bool) -> String {
        let (Self::State(Answers { top, .. }) | Self::Interval(IntervalAnswers { top, .. })) = self;
        let options = TextOptions { width, top: top.unwrap_or(ROWS).max(1), full_stacks };
        match self {
            Self::State(answers) => report(answers, options),
            Self::Interval(answers) => interval_report(answers, options),
        }
    }
}

impl Session {
    /// Reports the requested device, or all devices.
    ///
    /// # Errors
    /// There is no such device or event, or the request was cancelled.
    pub fn report(&self, request: &ReportRequest, cancel: &Cancel) -> Result<ReportAnswer<'_>> {
        let positions = self.devices(request.device)?;
        let at = match request.at {
            Some(At::Events(..)) if request.budget.is_some() => {
                let [budget, at] = ["budget", "at"].map(|name| self.advice().option(name));
                return Err(SessionError::Argument(format!(
                    "{budget} is about the whole recording, not about a range of {at}"
                )));
            }
            Some(At::Events(first, last)) => {
                self.check_event(&positions, Some(last.unwrap_or(first)))?;
                return self.interval(&positions, (first, last), request, cancel).map(ReportAnswer::Interval);
            }
            Some(At::Step(number, phase)) => {
                return self.step(&positions, number, phase, request, cancel).map(ReportAnswer::Interval);
            }
            Some(At::State(when)) => Some(when),
            None => None,
        };
        self.check_moment(&positions, at)?;
        self.state(&positions, at, request, cancel).map(ReportAnswer::State)
    }

    fn state(
        &self,
        positions: &[usize],
        at: Option<When>,
        request: &ReportRequest,
        cancel: &Cancel,
    ) -> Result<Answers<'_>> {
        let options = request.options(at);
        let summary = |&position: &usize| self.summary(position, &options, cancel);
        Ok(Answers {
            file: self.name(),
            recording: self.recording(),
            frames: self.frames(),
            devices: positions.iter().map(summary).collect::<Result<_>>()?,
            by: options.by,
            at,
            top: request.top,
            advice: *self.advice(),
        })
    }

    /// The summary of the device at a position.
    pub(crate) fn summary(&self, position: usize, options: &Options, cancel: &Cancel) -> Result<Summary> {
        let history = self.history(position, cancel)?;
        Summary::of_history_unless(&history, self.frames(), options, cancel).ok_or(SessionError::Cancelled)
    }

    fn interval(
        &self,
        positions: &[usize],
        (first, last): (usize, Option<usize>),
        request: &ReportRequest,
        cancel: &Cancel,
    ) -> Result<IntervalAnswers<'_>> {
        let mut devices = Vec::new();
        for &position in positions {
            let history = self.history(position, cancel)?;
            let last = last.unwrap_or(history.device().events.len().saturating_sub(1));
            devices.extend(self.interval_of(&history, first..last + 1, request, cancel)?);
        }
        Ok(self.interval_answers(devices, request))
    }

    /// The events of a step, or of its phase, on each device that has it.
    fn step(
        &self,
        positions: &[usize],
        number: usize,
        phase: Option<Phase>,
        request: &ReportRequest,
        cancel: &Cancel,
    ) -> Result<IntervalAnswers<'_>> {
        let mut devices = Vec::new();
        let mut refused = None;
        for &position in positions {
            let history = self.history(position, cancel)?;
            match part_of_step(&history, number, phase) {
                Ok(events) => devices.extend(self.interval_of(&history, events, request, cancel)?),
                Err(why) => refused = Some(SessionError::Missing(why)),
            }
        }
        match refused.filter(|_| devices.is_empty()) {
            Some(refused) => Err(refused),
            None => Ok(self.interval_answers(devices, request)),
        }
    }

    fn interval_of(
        &self,
        history: &History,
        events: Range<usize>,
        request: &ReportRequest,
        cancel: &Cancel,
    ) -> Result<Option<IntervalSummary>> {
        let options = IntervalOptions {
            first: events.start,
            last: events.end.saturating_sub(1),
            by: request.by.unwrap_or(By::Line),
            filter: request.filter.clone(),
        };
        let summary = IntervalSummary::of(history, self.frames(), &options, cancel);
        if cancel.is_cancelled() { Err(SessionError::Cancelled) } else { Ok(summary) }
    }

    fn interval_answers(
        &self,
        devices: Vec<IntervalSummary>,
        request: &ReportRequest,
    ) -> IntervalAnswers<'_> {
        IntervalAnswers {
            file: self.name(),
            recording: self.recording(),
            frames: self.frames(),
            devices,
            by: request.by.unwrap_or(By::Line),
            top: request.top,
            advice: *self.advice(),
        }
    }
}

/// Returns the events of a step, counted from 1, or of its phase.
fn part_of_step(
    history: &History,
    number: usize,
    phase: Option<Phase>,
) -> std::result::Result<Range<usize>, String> {
    let steps = Steps::of(history, &AllocationCategories::of(history));
    let device = history.device().device;
    let index = number.saturating_sub(1);
    let Some(step) = steps.steps.get(index) else {
        return Err(match steps.steps.len() {
            0 => format!("no steps were found on device {device}; give a range of events, as 10..99"),
            known => format!("device {device} has {known} steps; there is no step {number}"),
        });
    };
    let Some(phase) = phase else { return Ok(step.from.index()..step.to.index()) };
    let ranges = steps.phases_of(Some(index)).filter(|part| part.phase == phase);
    let ranges: Vec<Range<usize>> = ranges.map(|part| part.from.index()..part.to.index()).collect();
    let name = phase.name();
    match &ranges[..] {
        [range] => Ok(range.clone()),
        [] => Err(format!(
            "step {number} of device {device} has no known {name} phase; step:{number} reports all of it"
        )),
        several => {
            let events = several.iter().take(MOST_RANGES).map(|r| format!("{}..{}", r.start, r.end - 1));
            let events: Vec<String> = events.collect();
            let more = if several.len() > MOST_RANGES { " ..." } else { "" };
            let several = several.len();
            let events = events.join(", ");
            Err(format!(
                "step {number} of device {device} has {several} {name} phases; give one of these ranges: {events}{more}"
            ))
        }
    }
}

/// The most ranges of events in an error.
const MOST_RANGES: usize = 8;

#[cfg(test)]
mod tests {
    use vramscope_trace::formats::log::{LogDriverEvent, LogEvent, LogWriter};
    use vramscope_trace::{Action, DriverMemory, MemoryReading, SegmentKind};

    use super::*;
    use crate::ADVICE;

    /// A library allocates memory after the last event of PyTorch's allocator.
    fn session() -> Session {
        let mut log = LogWriter::create(Vec::new()).unwrap();
        log.process();
        log.event(&LogEvent {
            device: 0,
            action: Action::Alloc,
            address_or_free: 1 << 40,
            size: 512,
            block_size: 512,
            time_us: 10,
            stack: None,
            stream: 0,
            pool: None,
            user_metadata: None,
            kind: SegmentKind::Unknown,
            unknown_action: None,
        });
        log.reading(&MemoryReading { time_us: 11, used: 700, total: 9000, ..MemoryReading::default() });
        log.driver_event(&LogDriverEvent {
            device: 0,
            memory: DriverMemory::Device,
            is_free: false,
            address: 1 << 41,
            size: 64,
            time_us: 20,
            library: "libnccl.so.2",
            stack: None,
        });
        log.reading(&MemoryReading { time_us: 21, used: 900, total: 9000, ..MemoryReading::default() });
        let recording = vramscope_trace::formats::read(&log.finish().unwrap()[..]).unwrap();
        Session::new("run.vramscope".to_owned(), recording, ADVICE)
    }

    #[test]
    fn the_end_is_after_the_events_of_other_libraries() {
        let session = session();
        let at = |at: &str| {
            let request = ReportRequest { at: Some(at.parse().unwrap()), ..ReportRequest::default() };
            let ReportAnswer::State(answers) = session.report(&request, &Cancel::default()).unwrap() else {
                panic!("not a state")
            };
            let [summary] = &answers.devices[..] else { panic!("not one device") };
            let library = summary.libraries.as_ref().unwrap()[0].bytes;
            let used = summary.device_use.unwrap().here.map(|here| here.used);
            (summary.counters.allocated, library, used)
        };
        assert_eq!(at("0"), (512, 0, None));
        assert_eq!(at("end"), (512, 64, Some(900)));
    }

    #[test]
    fn a_range_may_go_to_the_end() {
        let session = session();
        let request = ReportRequest { at: Some("0..end".parse().unwrap()), ..ReportRequest::default() };
        let answer = session.report(&request, &Cancel::default()).unwrap();
        let ReportAnswer::Interval(answers) = answer else { panic!("not an interval") };
        assert_eq!(answers.devices[0].totals.groups.len(), 1);
        let request = ReportRequest { at: Some("1..end".parse().unwrap()), ..ReportRequest::default() };
        let refused = session.report(&request, &Cancel::default()).unwrap_err();
        assert!(refused.about("run.vramscope").contains("has no event 1"));
    }

    #[test]
    fn a_phase_is_that_of_one_step() {
        let file = std::fs::File::open("../../examples/leak.pickle").unwrap();
        let session =
            Session::new("run.pickle".to_owned(), vramscope_trace::formats::read(file).unwrap(), ADVICE);
        let report = |session: &Session, at: &str| {
            let request = ReportRequest { at: Some(at.parse().unwrap()), ..ReportRequest::default() };
            match session.report(&request, &Cancel::default()) {
                Ok(ReportAnswer::Interval(answers)) => {
                    let part = answers.devices[0].part;
                    Ok((part.from.index(), part.to.index()))
                }
                Ok(ReportAnswer::State(_)) => panic!("not an interval"),
                Err(refused) => Err(refused.about("run.pickle")),
            }
        };
        assert_eq!(report(&session, "backward:2"), Ok((70, 87)));
        assert_eq!(report(&session, "step:2"), Ok((48, 95)));
        // The step of SGD allocates nothing.
        assert!(report(&session, "optimizer:2").unwrap_err().contains("no known optimizer phase; step:2"));
        assert!(report(&session, "forward:31").unwrap_err().contains("has 30 steps; there is no step 31"));
        let other = self::session();
        assert!(report(&other, "forward:1").unwrap_err().contains("no steps were found on device 0"));
    }
}
