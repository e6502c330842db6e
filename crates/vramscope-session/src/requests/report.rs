//! The report: the peak or another event, or a range of events.

use regex::Regex;
use serde::{Deserialize, Serialize};
use vramscope_analysis::{By, Cancel, IntervalOptions, IntervalSummary, Options, Summary, When};
use vramscope_report::{Answers, ReportJson, SpanAnswers, SpanJson, TextOptions, report, span_report};

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
    /// recording, as `end`; or, as FIRST..LAST, the allocations and frees of these events, both ends included
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
        let Self { device: _, at, by, filter, top: _ } = self;
        let given = [(by.is_some(), "by"), (at.is_some(), "at"), (filter.is_some(), "filter")];
        given.into_iter().find_map(|(is_given, name)| is_given.then_some(name))
    }

    /// The options of the analysis, for the state after `at` or at the peak.
    pub(crate) fn options(&self, at: Option<When>) -> Options {
        Options { at, by: self.by, filter: self.filter.clone() }
    }
}

/// The report's answer.
#[derive(Debug)]
pub enum ReportAnswer<'s> {
    /// At the peak, or after one event.
    State(Answers<'s>),
    /// For a range of events.
    Interval(SpanAnswers<'s>),
}

/// The report's answer as JSON.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum ReportAnswerJson {
    State(ReportJson),
    Interval(SpanJson),
}

impl ReportAnswer<'_> {
    /// The answer as `vramscope report --json` writes it, with lists of at most `top` rows.
    #[must_use]
    pub fn json(&self, top: Option<usize>) -> impl Serialize + use<> {
        match self {
            Self::State(answers) => ReportAnswerJson::State(ReportJson::new(answers, top)),
            Self::Interval(answers) => ReportAnswerJson::Interval(SpanJson::new(answers, top)),
        }
    }

    /// The answer as text.
    #[must_use]
    pub fn text(&self, options: TextOptions) -> String {
        match self {
            Self::State(answers) => report(answers, options),
            Self::Interval(answers) => span_report(answers, options),
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
            Some(At::Events(first, last)) => {
                self.check_event(&positions, Some(last.unwrap_or(first)))?;
                return self.interval(&positions, (first, last), request, cancel).map(ReportAnswer::Interval);
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
    ) -> Result<SpanAnswers<'_>> {
        let by = request.by.unwrap_or(By::Line);
        let mut devices = Vec::new();
        for &position in positions {
            let history = self.history(position, cancel)?;
            let last = last.unwrap_or(history.device().events.len().saturating_sub(1));
            let options = IntervalOptions { first, last, by, filter: request.filter.clone() };
            devices.extend(IntervalSummary::of(&history, self.frames(), &options, cancel));
        }
        if cancel.is_cancelled() {
            return Err(SessionError::Cancelled);
        }
        Ok(SpanAnswers {
            file: self.name(),
            recording: self.recording(),
            frames: self.frames(),
            devices,
            by,
            advice: *self.advice(),
        })
    }
}

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
}
