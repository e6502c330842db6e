//! Answers about the operators and kernels of a trace beside the recording.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vramscope_analysis::{AlignedBy, Alignment, Axis, Cancel, Moment, OperatorClock, OperatorMemory};
use vramscope_basics::lock;
use vramscope_basics::units::counted;
use vramscope_report::count;
use vramscope_trace::formats::{Reader, Recording};
use vramscope_trace::{OperatorSpan, OperatorTrace, SpanAt, StringId};

use crate::Session;
use crate::SessionError;
use crate::questions::advice::PAGE_ADVICE;
use crate::questions::columns::{Columns, F64s, Reply, U8s, U32s};
use crate::questions::device::OpenDevice;
use crate::questions::interval::Amount;
use crate::questions::lanes::{OpenOperators, is_of_device, is_of_host, lane_names};
use crate::questions::recording::{OpenRecording, no_device};

/// The lanes of a trace beside the recording.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct OperatorLanes {
    /// The name of the trace's file.
    pub(crate) name: String,
    /// How its clock and that of the recording were related, in a sentence.
    pub(crate) told: String,
    pub(crate) lanes: Vec<OperatorLane>,
    /// The number of lanes that are left out.
    pub(crate) left_out: usize,
}

/// The spans of a thread, or of a stream.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct OperatorLane {
    /// Its number in the trace, by which queries refer to it.
    pub(crate) number: u32,
    /// A short name, and the whole.
    pub(crate) label: String,
    pub(crate) title: String,
    /// The number of rows, and of spans.
    pub(crate) rows: u32,
    pub(crate) spans: u32,
}

/// The part of the axis to draw, its number of pixel columns, and the lanes.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct OperatorWindow {
    #[cfg_attr(test, ts(type = "Axis"))]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(crate) axis: Axis,
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) width: u16,
    /// The number of a lane, and the number of its rows to draw, outermost first.
    pub(crate) lanes: Vec<[u32; 2]>,
}

/// The spans in a window, those of a row in order. Of several spans in one pixel, only the first is here.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct OperatorPicture {
    /// Distinct names.
    pub(crate) names: Vec<String>,
    pub(crate) lane: U32s,
    pub(crate) row: U8s,
    /// The index of each span in its lane.
    pub(crate) span: U32s,
    /// A position in `names`.
    pub(crate) name: U32s,
    /// The ends on the axis.
    pub(crate) from: F64s,
    pub(crate) to: F64s,
    /// Its time in microseconds, by the profiler's clock.
    pub(crate) took_us: F64s,
}

/// Requests the operators and kernels in flight at an allocation, or between two moments: during the events `from..to`, or at the event
/// before `from` if there are none.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct InFlightQuery {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The index of an allocation, which replaces the moments.
    pub(crate) allocation: Option<usize>,
}

/// Operators and kernels in flight: first those that enclose the whole interval, the innermost first, those of the host before those of
/// the device; then the others by name, most time first.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct InFlight {
    /// Whether the trace tells the thread: lanes of other threads are left out.
    pub(crate) of_thread: bool,
    /// The number of the lane, and the index of a span in it: the longest of those with this name.
    pub(crate) lane: U32s,
    pub(crate) span: U32s,
    pub(crate) name: Vec<String>,
    /// 1 if the span encloses the whole interval.
    pub(crate) encloses: U8s,
    /// The number of spans, and their time in microseconds.
    pub(crate) count: U32s,
    pub(crate) took_us: F64s,
    /// The number of rows that are left out.
    pub(crate) left_out: usize,
}

/// An operator, a kernel or an annotation, and the memory that it allocated.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct OperatorFacts {
    pub(crate) name: String,
    /// The whole name of its lane.
    pub(crate) lane: String,
    pub(crate) took_us: f64,
    /// The moments before its first event and after its last.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Its ends on the axis of events, and in microseconds after the first event; null without times.
    pub(crate) at: [f64; 2],
    pub(crate) at_us: Option<[f64; 2]>,
    pub(crate) allocated: Amount,
    /// The index of the largest allocation, and its bytes.
    pub(crate) largest: Option<usize>,
    pub(crate) largest_bytes: u64,
    /// Of these, still allocated at its end.
    pub(crate) kept: Amount,
    /// Whether only the allocations of its own thread count.
    pub(crate) of_thread: bool,
    /// The spans of its lane around it, innermost first: indices and names.
    pub(crate) around: Vec<(u32, String)>,
    /// What launched it, if it is a kernel, a copy or a fill, and the trace tells.
    pub(crate) launch: Option<LaunchFacts>,
    /// The kernels, copies and fills that it launched on this device; null for those of the device, and if the trace has no launches.
    pub(crate) kernels: Option<LaunchedKernels>,
}

/// The launch of a kernel.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct LaunchFacts {
    /// The innermost operator: its lane, its index there, and its name.
    pub(crate) operator: Option<(u32, u32, String)>,
    /// The call of the GPU's runtime, and the microseconds from its beginning to that of the kernel.
    pub(crate) call: Option<(u32, u32, String)>,
    pub(crate) waited_us: Option<f64>,
}

/// The kernels that a span launched, by name, most time first.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct LaunchedKernels {
    /// The number of all, and the sum of their times in microseconds.
    pub(crate) count: u64,
    pub(crate) took_us: f64,
    /// For each name, the lane and the index of its longest kernel, the number of its kernels, and their time in microseconds.
    pub(crate) lane: U32s,
    pub(crate) span: U32s,
    pub(crate) name: Vec<String>,
    pub(crate) number: U32s,
    pub(crate) number_us: F64s,
    /// The number of names that are left out.
    pub(crate) left_out: usize,
}

/// The maximum number of rows about operators in flight.
const MOST_IN_FLIGHT: usize = 200;

/// The maximum number of names of kernels that an operator launched.
const MOST_KERNELS: usize = 50;

/// Returns how the clocks of a trace and of a recording are related, if the trace is of the recorded run.
///
/// # Errors
/// Fails if the trace is not of the recorded run.
pub fn operators_fit(
    recording: &Recording,
    name: &str,
    trace: &OperatorTrace,
) -> Result<String, SessionError> {
    let session = Session::new(name.to_owned(), recording.clone(), PAGE_ADVICE);
    let histories = session.used_devices(None)?.into_iter();
    let histories = histories.map(|position| session.history(position, &Cancel::default()));
    let histories: Vec<_> = histories.collect::<Result<_, _>>()?;
    let aligned = Alignment::of(&histories.iter().map(|history| &**history).collect::<Vec<_>>(), trace);
    let aligned = aligned.map_err(|why| SessionError::Unanswerable(format!("{name}: {why}")))?;
    Ok(told(&aligned))
}

/// Returns the trace of `torch.profiler` that a recording has, and how their clocks are related. `name` is that of the recording.
///
/// # Errors
/// Fails if the trace cannot be read, or is not of the recorded run.
pub fn own_operators(
    name: &str,
    recording: &Recording,
) -> Result<Option<(OperatorTrace, String)>, SessionError> {
    let Some(trace) = read_own(name, recording)? else { return Ok(None) };
    let told = operators_fit(recording, name, &trace)?;
    Ok(Some((trace, told)))
}

fn read_own(name: &str, recording: &Recording) -> Result<Option<OperatorTrace>, SessionError> {
    let Some(bytes) = &recording.trace.operators else { return Ok(None) };
    let unreadable = |why| SessionError::Unanswerable(format!("{name}: {why}"));
    Reader::new(&bytes[..]).read_operators().map(Some).map_err(unreadable)
}

impl OpenRecording {
    /// Shows the operators that the recording itself has. If this fails, a fact about the file says why.
    pub(crate) fn with_own_operators(mut self) -> Self {
        let name = self.session.name().to_owned();
        let shown = read_own(&name, self.session.recording())
            .and_then(|own| own.map_or(Ok(()), |trace| self.add_operators(&name, Arc::new(trace)).map(drop)));
        if let Err(why) = shown {
            self.about.refuses_operators(&why);
        }
        self
    }

    /// Shows the operators of a trace beside the recording, in place of those of an earlier trace. Returns how their clocks were related.
    ///
    /// # Errors
    /// Fails if the trace is not of the recorded run.
    pub fn add_operators(&self, name: &str, trace: Arc<OperatorTrace>) -> Result<String, SessionError> {
        let open = OpenOperators::of(name.to_owned(), trace, &self.devices)
            .map_err(|why| SessionError::Unanswerable(format!("{name}: {why}")))?;
        let told = told(&open.alignment);
        *lock(&self.operators) = Some(Arc::new(open));
        Ok(told)
    }

    /// The name of the trace beside the recording, and the trace.
    pub fn operator_trace(&self) -> Option<(String, Arc<OperatorTrace>)> {
        self.operators().map(|open| (open.name.clone(), Arc::clone(&open.trace)))
    }

    /// The trace beside the recording.
    pub(crate) fn operators(&self) -> Option<Arc<OpenOperators>> {
        lock(&self.operators).clone()
    }

    /// The lanes of a device, if there is a trace.
    pub(crate) fn operator_lanes(&self, device: usize) -> Result<Option<OperatorLanes>, SessionError> {
        let number = self.number(device)?;
        let Some(open) = self.operators() else { return Ok(None) };
        let lanes = (0..).zip(open.trace.lanes.iter().zip(&open.lanes));
        let mut lanes: Vec<_> = lanes.filter(|(_, (lane, _))| is_of_device(lane, number)).collect();
        // The main thread begins first.
        let begin = |lane: &vramscope_trace::OperatorLane| lane.spans.first().map(|span| span.start_ns);
        lanes.sort_by_key(|(_, (lane, _))| {
            (lane.kind, lane.stream.map(|stream| (lane.of, stream)), begin(lane))
        });
        let lanes = lanes.into_iter().map(|(at, (lane, rows))| {
            let (label, title) = lane_names(lane);
            OperatorLane {
                number: at,
                label,
                title,
                rows: rows.rows.len() as u32,
                spans: lane.spans.len() as u32,
            }
        });
        Ok(Some(OperatorLanes {
            name: open.name.clone(),
            told: told(&open.alignment),
            lanes: lanes.collect(),
            left_out: open.trace.left_out,
        }))
    }

    /// The spans in a window.
    pub(crate) fn operator_picture(
        &self,
        device: usize,
        window: &OperatorWindow,
        cancel: &Cancel,
    ) -> Reply<OperatorPicture> {
        let subject = self.of_operators(device)?;
        let &OperatorWindow { axis, from, to, width, .. } = window;
        if !(from.is_finite() && to.is_finite() && from < to && width > 0) {
            return Err(SessionError::Argument("the window has no width".to_owned()));
        }
        let mut names = NamesOfPicture::default();
        let (mut lane_of, mut row_of, mut span_of, mut name_of) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut begins, mut ends, mut took) = (Vec::new(), Vec::new(), Vec::new());
        let pixel = (to - from) / f64::from(width);
        for &[number, most] in &window.lanes {
            let at = number as usize;
            let (Some(lane), Some(rows)) = (subject.open.trace.lanes.get(at), subject.open.lanes.get(at))
            else {
                return Err(SessionError::Argument(format!("no lane {number}")));
            };
            for (row, spans) in (0_u8..).zip(rows.rows.iter().take(most as usize)) {
                if cancel.is_cancelled() {
                    return Err(SessionError::Cancelled);
                }
                // The right end of the last span, on the axis.
                let mut full = from;
                let mut next = spans.first_reaching(subject.clock.time_at(axis, from));
                while let Some(index) = spans.get(next) {
                    let span = lane.spans[index];
                    let ends_at = |ns| subject.clock.position(axis, ns);
                    let (Some(begin), Some(end)) = (ends_at(span.start_ns), ends_at(span.end_ns)) else {
                        break;
                    };
                    if begin > to {
                        break;
                    }
                    let right = end.max(begin.max(from) + pixel);
                    if end >= from && right > full + pixel / 2.0 {
                        lane_of.push(number);
                        row_of.push(row);
                        span_of.push(index as u32);
                        name_of.push(names.position(span.name));
                        begins.push(begin);
                        ends.push(end);
                        took.push(microseconds(span.end_ns - span.start_ns));
                        full = right;
                    }
                    next = (next + 1).max(spans.first_reaching(subject.clock.time_at(axis, full)));
                }
            }
        }
        let names = names.all.iter().map(|&name| subject.open.trace.names.get(name).to_owned()).collect();
        Columns::answer(|columns| OperatorPicture {
            names,
            lane: columns.u32(lane_of),
            row: columns.u8(row_of),
            span: columns.u32(span_of),
            name: columns.u32(name_of),
            from: columns.f64(begins),
            to: columns.f64(ends),
            took_us: columns.f64(took),
        })
    }

    /// The operators in flight at an allocation or in an interval.
    pub(crate) fn in_flight(&self, device: usize, query: &InFlightQuery, cancel: &Cancel) -> Reply<InFlight> {
        let subject = self.of_operators(device)?;
        let Subject { open, clock, device, number } = &subject;
        let (from, to) = (device.moment(query.from)?, device.moment(query.to)?);
        // The events, as an inclusive range.
        let (first, last, of_one) = match query.allocation {
            Some(id) => {
                let all = &device.history().allocations;
                let a = all.get(id).ok_or_else(|| SessionError::Argument(format!("no allocation {id}")))?;
                (a.from.event(), a.from.event(), true)
            }
            None if from < to => (Some(from.index()), to.event(), false),
            None => (from.event(), from.event(), true),
        };
        let time = |event: Option<usize>| event.and_then(|event| clock.time(event));
        let thread = first.filter(|_| of_one).and_then(|event| clock.thread(event));
        let mut rows: Vec<InFlightRow> = Vec::new();
        if let (Some(from_ns), Some(to_ns)) = (time(first), time(last)) {
            for (at, (lane, spans)) in (0_u32..).zip(open.trace.lanes.iter().zip(&open.lanes)) {
                let is_other = is_of_host(lane.kind) && thread.is_some_and(|thread| thread != lane.of);
                if is_other || !is_of_device(lane, *number) {
                    continue;
                }
                if cancel.is_cancelled() {
                    return Err(SessionError::Cancelled);
                }
                let mut by_name: HashMap<StringId, usize> = HashMap::new();
                for index in spans.between(lane, from_ns, to_ns) {
                    let span = lane.spans[index];
                    let encloses = span.start_ns <= from_ns && to_ns <= span.end_ns;
                    let inside_ns = span.end_ns.min(to_ns) - span.start_ns.max(from_ns);
                    let whole_ns = span.end_ns - span.start_ns;
                    let took_ns = if of_one { whole_ns } else { inside_ns };
                    let row = InFlightRow {
                        lane: at,
                        span: index as u32,
                        name: span.name,
                        encloses,
                        count: 1,
                        took_ns,
                        longest_ns: whole_ns,
                    };
                    if encloses {
                        rows.push(row);
                        continue;
                    }
                    let place = *by_name.entry(span.name).or_insert(rows.len());
                    match rows.get_mut(place) {
                        Some(known) => known.add(&row),
                        None => rows.push(row),
                    }
                }
            }
        }
        // The innermost is the shortest of those that enclose the interval.
        rows.sort_by_key(|row| {
            let is_of_host = is_of_host(open.trace.lanes[row.lane as usize].kind);
            let by_time = if row.encloses { row.longest_ns } else { row.took_ns.saturating_neg() };
            (!row.encloses, row.encloses && !is_of_host, by_time)
        });
        let left_out = rows.len().saturating_sub(MOST_IN_FLIGHT);
        rows.truncate(MOST_IN_FLIGHT);
        let name = |row: &InFlightRow| open.trace.names.get(row.name).to_owned();
        Columns::answer(|columns| InFlight {
            of_thread: thread.is_some(),
            lane: columns.u32(rows.iter().map(|row| row.lane)),
            span: columns.u32(rows.iter().map(|row| row.span)),
            name: rows.iter().map(name).collect(),
            encloses: columns.u8(rows.iter().map(|row| row.encloses.into())),
            count: columns.u32(rows.iter().map(|row| row.count)),
            took_us: columns.f64(rows.iter().map(|row| microseconds(row.took_ns))),
            left_out,
        })
    }

    /// An operator, and the memory that it allocated.
    pub(crate) fn operator(&self, device: usize, lane: usize, span: usize) -> Reply<OperatorFacts> {
        let Subject { open, clock, device, number } = &self.of_operators(device)?;
        let none = || SessionError::Argument(format!("no span {span} in lane {lane}"));
        let at = SpanAt { lane: lane as u32, span: span as u32 };
        let (of, found) = open.trace.span(at).ok_or_else(none)?;
        let ends = (found.start_ns, found.end_ns);
        let history = device.history();
        let memory: OperatorMemory = clock.memory(history, ends, is_of_host(of.kind).then_some(of.of));
        let (from, to): (Moment, Moment) = clock.moments(ends.0, ends.1);
        let place = |axis| Some([clock.position(axis, ends.0)?, clock.position(axis, ends.1)?]);
        let around = open.lanes[lane].between(of, ends.0, ends.1).filter(|&other| {
            let other_span = of.spans[other];
            other != span
                && open.lanes[lane].row[other] < open.lanes[lane].row[span]
                && other_span.start_ns <= ends.0
                && ends.1 <= other_span.end_ns
        });
        let name = |span: usize| open.trace.names.get(of.spans[span].name).to_owned();
        let around: Vec<_> = around.take(MOST_IN_FLIGHT).map(|other| (other as u32, name(other))).collect();
        let kernels = (is_of_host(of.kind) && open.has_launches())
            .then(|| KernelSum::of(open.launched(of.of, ends.0, ends.1), *number));
        Columns::answer(|columns| OperatorFacts {
            name: name(span),
            lane: lane_names(of).1,
            took_us: microseconds(ends.1 - ends.0),
            from: from.index(),
            to: to.index(),
            at: place(Axis::Events).unwrap_or_default(),
            at_us: place(Axis::Time),
            allocated: Amount { bytes: memory.bytes, count: memory.count },
            largest: memory.largest,
            largest_bytes: memory.largest.map_or(0, |id| history.allocations[id].size),
            kept: Amount { bytes: memory.kept_bytes, count: memory.kept_count },
            of_thread: memory.of_thread,
            around,
            launch: launch_of(&open.trace, found),
            kernels: kernels.map(|sum| sum.answer(&open.trace, columns)),
        })
    }

    fn of_operators(&self, position: usize) -> Result<Subject<'_>, SessionError> {
        let (device, number) = (self.device(position)?, self.number(position)?);
        let none = || SessionError::Argument("no trace is open beside this recording".to_owned());
        let open = self.operators().ok_or_else(none)?;
        let clock = open.alignment.clocks.get(position).cloned().ok_or_else(|| no_device(position))?;
        Ok(Subject { open, clock, device, number })
    }
}

/// The launch of a kernel, if the trace tells.
fn launch_of(trace: &OperatorTrace, kernel: OperatorSpan) -> Option<LaunchFacts> {
    // A call has none itself.
    let launch = trace.launches.get(kernel.launch?.index())?;
    let named = |at: SpanAt| Some((at.lane, at.span, trace.names.get(trace.span(at)?.1.name).to_owned()));
    let begun = launch.call.and_then(|at| trace.span(at)).map(|(_, call)| call.start_ns);
    Some(LaunchFacts {
        operator: launch.operator.and_then(named),
        call: launch.call.and_then(named),
        waited_us: begun.map(|at| microseconds(kernel.start_ns.saturating_sub(at))),
    })
}

/// The kernels that a span launched, summed up.
#[derive(Default)]
struct KernelSum {
    count: u64,
    took_ns: i64,
    rows: Vec<KernelRow>,
}

/// The kernels of one name.
struct KernelRow {
    name: StringId,
    longest: SpanAt,
    longest_ns: i64,
    count: u32,
    took_ns: i64,
}

impl KernelSum {
    /// Sums up the kernels on a device.
    fn of<'t>(
        kernels: impl Iterator<Item = (SpanAt, &'t vramscope_trace::OperatorLane, OperatorSpan)>,
        device: i64,
    ) -> Self {
        let mut sum = Self::default();
        let mut by_name: HashMap<StringId, usize> = HashMap::new();
        for (at, _, kernel) in kernels.filter(|(_, lane, _)| is_of_device(lane, device)) {
            let took_ns = kernel.end_ns.saturating_sub(kernel.start_ns);
            sum.count += 1;
            sum.took_ns = sum.took_ns.saturating_add(took_ns);
            let next = sum.rows.len();
            let place = *by_name.entry(kernel.name).or_insert(next);
            if place == next {
                let row = KernelRow { name: kernel.name, longest: at, longest_ns: -1, count: 0, took_ns: 0 };
                sum.rows.push(row);
            }
            let row = &mut sum.rows[place];
            row.count += 1;
            row.took_ns = row.took_ns.saturating_add(took_ns);
            if took_ns > row.longest_ns {
                (row.longest, row.longest_ns) = (at, took_ns);
            }
        }
        // Stable: equal times keep the order of the launches.
        sum.rows.sort_by_key(|row| Reverse(row.took_ns));
        sum
    }

    fn answer(mut self, trace: &OperatorTrace, columns: &mut Columns) -> LaunchedKernels {
        let left_out = self.rows.len().saturating_sub(MOST_KERNELS);
        self.rows.truncate(MOST_KERNELS);
        LaunchedKernels {
            count: self.count,
            took_us: microseconds(self.took_ns),
            lane: columns.u32(self.rows.iter().map(|row| row.longest.lane)),
            span: columns.u32(self.rows.iter().map(|row| row.longest.span)),
            name: self.rows.iter().map(|row| trace.names.get(row.name).to_owned()).collect(),
            number: columns.u32(self.rows.iter().map(|row| row.count)),
            number_us: columns.f64(self.rows.iter().map(|row| microseconds(row.took_ns))),
            left_out,
        }
    }
}

/// A trace beside a device.
struct Subject<'f> {
    open: Arc<OpenOperators>,
    clock: Arc<OperatorClock>,
    device: &'f OpenDevice,
    number: i64,
}

/// A span in flight, or those of one name.
struct InFlightRow {
    lane: u32,
    span: u32,
    name: StringId,
    encloses: bool,
    count: u32,
    took_ns: i64,
    longest_ns: i64,
}

impl InFlightRow {
    fn add(&mut self, other: &Self) {
        self.count += 1;
        self.took_ns = self.took_ns.saturating_add(other.took_ns);
        if other.longest_ns > self.longest_ns {
            (self.span, self.longest_ns) = (other.span, other.longest_ns);
        }
    }
}

/// The distinct names of a picture.
#[derive(Default)]
struct NamesOfPicture {
    all: Vec<StringId>,
    index: HashMap<StringId, u32>,
}

impl NamesOfPicture {
    fn position(&mut self, name: StringId) -> u32 {
        *self.index.entry(name).or_insert_with(|| {
            self.all.push(name);
            (self.all.len() - 1) as u32
        })
    }
}

fn microseconds(ns: i64) -> f64 {
    ns as f64 / 1000.0
}

/// How the clocks were related, in one or two sentences.
fn told(aligned: &Alignment) -> String {
    let Alignment { by, offset_ns, matched, compared, other_places, .. } = aligned;
    let found = format!(
        "{} of {} allocations of the trace are in the recording",
        count(*matched as u64),
        count(*compared as u64)
    );
    let seconds = |ns: &i64| microseconds(*ns).abs() / 1e6;
    let how = match (by, offset_ns) {
        (AlignedBy::Clock, _) if *compared == 0 => {
            "Aligned by the clock of both files; the trace has no memory events to check it.".to_owned()
        }
        (AlignedBy::Clock, offset) => {
            let apart = microseconds(offset.unwrap_or(0)).abs();
            format!("Aligned by the clock of both files: {found}, {apart:.1} us apart.")
        }
        (AlignedBy::Sequence, Some(offset)) => format!(
            "Aligned by the order of allocations, because the clocks differ by {:.3} s: {found}.",
            seconds(offset)
        ),
        (AlignedBy::Sequence, None) => {
            format!("Aligned by the order of allocations, because the recording has no times: {found}.")
        }
    };
    if *other_places == 0 {
        return how;
    }
    let places = counted(*other_places as u64, "other place");
    format!("{how} Uncertain: the program repeats itself, and the trace also fits {places} in part.")
}
