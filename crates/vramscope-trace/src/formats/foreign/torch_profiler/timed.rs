//! The operators, kernels and annotations of a trace, without its stacks.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::super::super::window::Window;
use super::super::{FREE, LONGEST_NAME, PER_BYTE};
use super::launches::{IDS, Ids, link, number};
use super::rows::{self, Row, Sink, Stopped};
use crate::error::ReadError;
use crate::ids::LaunchId;
use crate::operators::{LaneKind, MemoryChange, OperatorLane, OperatorSpan, OperatorTrace};

/// Maximum number of lanes; those with the most spans remain. A machine has eight devices of some streams, and some threads.
const MOST_LANES: usize = 64;

/// Approximate memory of a lane and its entry in the table of lanes, in bytes.
const LANE: usize = 2 * (size_of::<OperatorLane>() + size_of::<Key>() + size_of::<usize>());

/// Reads the timed events of a trace. Rows of other kinds are skipped.
pub(in crate::formats) fn read_operators(stream: Window<'_>) -> Result<OperatorTrace, ReadError> {
    let mut timed = Timed { most_memory: stream.most_memory(), ..Timed::default() };
    let (read, bytes) = rows::read(stream, &mut timed);
    match read {
        Ok(()) => timed.finish(bytes),
        Err(Stopped::Error(error)) => Err(error),
        Err(Stopped::Invalid(e)) => Err(ReadError::DamagedOperators { offset: bytes, what: e.to_string() }),
    }
}

/// What tells lanes apart: the kind, the thread or the device, and the stream.
type Key = (LaneKind, i64, Option<i64>);

/// The spans and memory events so far. Times are nanoseconds since the base time.
#[derive(Default)]
struct Timed {
    trace: OperatorTrace,
    lanes: HashMap<Key, usize>,
    threads: HashMap<i64, String>,
    /// The numbers of spans. While the trace is read, [`OperatorSpan::launch`] is a position in it.
    ids: Vec<Ids>,
    base_ns: i64,
    spans: usize,
    names_of_threads: usize,
    events: u64,
    most_memory: u64,
}

impl Timed {
    /// Fails if the events so far take more memory than a file of `read` bytes may take, or than the caller allows.
    fn check_memory(&self, read: u64) -> Result<(), ReadError> {
        // Vectors grow by doubling.
        let memory = self.trace.names.memory()
            + 2 * self.spans * size_of::<OperatorSpan>()
            + self.ids.len() * IDS
            + 2 * self.trace.memory.len() * size_of::<MemoryChange>()
            + self.trace.lanes.len() * LANE
            + self.names_of_threads;
        if memory as u64 > self.most_memory {
            return Err(ReadError::Memory { most: self.most_memory });
        }
        if memory as u64 > FREE + PER_BYTE * read {
            let what = format!("the bytes read so far would take more than {PER_BYTE} times as much memory");
            return Err(ReadError::DamagedOperators { offset: read, what });
        }
        Ok(())
    }

    fn push(&mut self, key: Key, row: &Row, ids: Option<Ids>) -> Result<(), ReadError> {
        let begin = row.ts;
        let is_call = matches!(ids, Some(Ids::Call { .. }));
        let launch = ids.map(|ids| {
            self.ids.push(ids);
            LaunchId::new(self.ids.len() - 1)
        });
        let launch = launch.transpose()?;
        let name = self.trace.names.intern(&row.name[..row.name.floor_char_boundary(LONGEST_NAME)])?;
        let (start_ns, end_ns) = (nanoseconds(begin), nanoseconds(begin + row.dur.max(0.0)));
        let lanes = &mut self.trace.lanes;
        let at = *self.lanes.entry(key).or_insert_with(|| {
            let (kind, of, stream) = key;
            lanes.push(OperatorLane { kind, of, stream, thread_name: String::new(), spans: Vec::new() });
            lanes.len() - 1
        });
        lanes[at].spans.push(OperatorSpan { start_ns, end_ns, name, launch, is_call });
        self.spans += 1;
        Ok(())
    }

    fn finish(mut self, read: u64) -> Result<OperatorTrace, ReadError> {
        self.check_memory(read)?;
        let mut trace = self.trace;
        let base = self.base_ns;
        trace.lanes.sort_by_key(|lane| Reverse(lane.spans.len()));
        trace.left_out = trace.left_out.saturating_add(trace.lanes.len().saturating_sub(MOST_LANES));
        trace.lanes.truncate(MOST_LANES);
        trace.lanes.sort_by_key(|lane| lane.kind);
        for lane in &mut trace.lanes {
            for span in &mut lane.spans {
                span.start_ns = span.start_ns.saturating_add(base);
                span.end_ns = span.end_ns.saturating_add(base);
            }
            lane.spans.sort_by_key(|span| (span.start_ns, Reverse(span.end_ns)));
            if lane.stream.is_none()
                && let Some(name) = self.threads.remove(&lane.of)
            {
                lane.thread_name.clone_from(&name);
                // A thread may have several lanes.
                self.threads.insert(lane.of, name);
            }
        }
        trace.launches = link(&mut trace.lanes, &self.ids)?;
        for change in &mut trace.memory {
            change.at_ns = change.at_ns.saturating_add(base);
        }
        trace.memory.sort_by_key(|change| change.at_ns);
        Ok(trace)
    }
}

/// Converts microseconds; the result saturates.
fn nanoseconds(us: f64) -> i64 {
    (us * 1000.0).round() as i64
}

impl Sink for Timed {
    fn base(&mut self, ns: i64) {
        self.base_ns = ns;
    }

    fn left_out(&mut self, lanes: usize) {
        self.trace.left_out = lanes;
    }

    fn row(&mut self, row: Row) -> Result<(), ReadError> {
        self.events += 1;
        if self.events.is_multiple_of(1024) {
            // An event has at least 40 bytes.
            self.check_memory(self.events * 40)?;
        }
        let is_finite = row.ts.is_finite() && row.dur.is_finite() && row.ts.abs() < 1e17;
        if !is_finite {
            return Ok(());
        }
        let thread = row.tid.0.unwrap_or(0);
        let args = row.args.as_ref();
        let stream = args.and_then(|args| args.stream.0).or(row.tid.0).unwrap_or(0);
        let device = args.and_then(|args| args.device.0).unwrap_or(0);
        let (external, correlation) =
            args.map_or((0, 0), |args| (number(&args.external), number(&args.correlation)));
        let kernel = Ids::Kernel { correlation, external };
        let is_nccl = |name: &str| name.starts_with("ncclDevKernel") || name.starts_with("ncclKernel");
        let (key, ids) = match (&*row.ph, &*row.cat) {
            (_, _) if row.name == "[memory]" => {
                self.memory(&row, thread);
                return Ok(());
            }
            ("M", _) if row.name == "thread_name" => {
                if let (Some(id), Some(name)) = (row.tid.0, args.and_then(|args| args.name.0.as_ref())) {
                    let name = &name[..name.floor_char_boundary(LONGEST_NAME)];
                    self.names_of_threads += name.len() + 64;
                    // Kineto writes the name of the system first, then that of the process.
                    self.threads.entry(id).or_insert_with(|| name.to_owned());
                }
                return Ok(());
            }
            ("X", "user_annotation") => ((LaneKind::Annotations, thread, None), None),
            ("X", "python_function") => ((LaneKind::Python, thread, None), None),
            // `xpu_runtime`, `mtia_ccp_events` and so on follow the same scheme, one for each accelerator.
            ("X", "cpu_op") => ((LaneKind::Operators, thread, None), Some(Ids::Operator { external })),
            ("X", cat) if cat.ends_with("_runtime") || cat.ends_with("_driver") => {
                ((LaneKind::Operators, thread, None), Some(Ids::Call { correlation }))
            }
            ("X", "gpu_user_annotation") => ((LaneKind::DeviceAnnotations, device, Some(stream)), None),
            ("X", "kernel") if is_nccl(&row.name) => ((LaneKind::Nccl, device, None), Some(kernel)),
            ("X", "kernel" | "gpu_memcpy" | "gpu_memset") => {
                ((LaneKind::Kernels, device, Some(stream)), Some(kernel))
            }
            _ => return Ok(()),
        };
        self.push(key, &row, ids)
    }
}

impl Timed {
    fn memory(&mut self, row: &Row, thread: i64) {
        let Some(args) = &row.args else { return };
        let (Some(bytes), Some(kind)) = (args.bytes.0, args.device_type.0) else { return };
        // `c10::DeviceType::CPU` is 0.
        if kind == 0 || bytes == 0 {
            return;
        }
        self.trace.memory.push(MemoryChange {
            at_ns: nanoseconds(row.ts),
            thread,
            device: args.memory_device.0.unwrap_or(0).max(0),
            address: args.address.0.unwrap_or(0).cast_unsigned(),
            bytes,
        });
    }
}

#[cfg(test)]
mod tests;
