//! Streams, events, and what is captured into graphs. Everything is done at once, so that nobody waits.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{LazyLock, Mutex};
use std::time::Instant;

use crate::calls::launches;
use crate::handles::new_handle;
use crate::machine::lock;
use crate::memory::async_pool::at_synchronization;
use crate::out::Out;
use crate::status::{Answer, Refusal};
use crate::threads::use_current_device;
use crate::version;

/// A capture under way: `id` is its own, `graph` the handle that it will end as.
#[derive(Debug, Clone, Copy)]
struct Capture {
    id: u64,
    graph: usize,
    /// The stream that it began on.
    origin: usize,
    /// Launches of this process until then.
    launches: u64,
}

#[derive(Debug, Clone, Copy)]
struct Event {
    recorded: Option<Instant>,
    /// The capture it was recorded in: streams that wait for it are captured, too.
    capture: Option<Capture>,
}

#[derive(Default)]
struct Streams {
    /// The priority of each stream that was made.
    priorities: HashMap<usize, c_int>,
    events: HashMap<usize, Event>,
    /// Streams that are being captured.
    captures: HashMap<usize, Capture>,
    /// How much was launched in each graph.
    nodes: HashMap<usize, u64>,
    last_capture: u64,
}

static STREAMS: LazyLock<Mutex<Streams>> = LazyLock::new(Mutex::default);

pub(crate) fn create(stream: Out<usize>) -> Answer {
    create_with_priority(stream, 0, 0)
}

pub(crate) fn create_with_flags(stream: Out<usize>, flags: u32) -> Answer {
    create_with_priority(stream, flags, 0)
}

pub(crate) fn create_with_priority(stream: Out<usize>, _flags: u32, priority: c_int) -> Answer {
    use_current_device()?;
    let new = new_handle();
    lock(&STREAMS).priorities.insert(new, priority);
    stream.set(new)
}

pub(crate) fn destroy(stream: usize) -> Answer {
    lock(&STREAMS).priorities.remove(&stream).map(drop).ok_or(Refusal::InvalidHandle)
}

pub(crate) fn priority(stream: usize, priority: Out<c_int>) -> Answer {
    priority.set(lock(&STREAMS).priorities.get(&stream).copied().unwrap_or(0))
}

/// `cuStreamGetFlags`, `cuStreamGetCtx` ...: nothing distinguishes streams.
pub(crate) fn flags(_stream: usize, flags: Out<u32>) -> Answer {
    flags.set(0)
}

/// Waits for the device, which is done.
pub(crate) fn synchronize() -> Answer {
    if !lock(&STREAMS).captures.is_empty() {
        return Err(Refusal::Capturing);
    }
    crate::nccl::wait_for_barriers();
    at_synchronization();
    Ok(())
}

/// Waits for a stream, which is done.
pub(crate) fn synchronize_stream(stream: usize) -> Answer {
    if lock(&STREAMS).captures.contains_key(&stream) {
        return Err(Refusal::Capturing);
    }
    at_synchronization();
    Ok(())
}

/// Work of the host that waits for a stream: it is done at once.
pub(crate) fn host_function(
    _stream: usize,
    function: extern "C" fn(*mut c_void),
    data: *mut c_void,
) -> Answer {
    function(data);
    Ok(())
}

pub(crate) fn callback(
    stream: usize,
    function: extern "C" fn(usize, c_int, *mut c_void),
    data: *mut c_void,
    _flags: u32,
) -> Answer {
    function(stream, 0, data);
    Ok(())
}

// ---- events ----

pub(crate) fn create_event(event: Out<usize>) -> Answer {
    create_event_with_flags(event, 0)
}

pub(crate) fn create_event_with_flags(event: Out<usize>, _flags: u32) -> Answer {
    let new = new_handle();
    lock(&STREAMS).events.insert(new, Event { recorded: None, capture: None });
    event.set(new)
}

pub(crate) fn destroy_event(event: usize) -> Answer {
    lock(&STREAMS).events.remove(&event).map(drop).ok_or(Refusal::InvalidHandle)
}

pub(crate) fn record(event: usize, stream: usize) -> Answer {
    let mut streams = lock(&STREAMS);
    let capture = streams.captures.get(&stream).copied();
    let event = streams.events.get_mut(&event).ok_or(Refusal::InvalidHandle)?;
    *event = Event { recorded: Some(Instant::now()), capture };
    Ok(())
}

pub(crate) fn record_with_flags(event: usize, stream: usize, _flags: u32) -> Answer {
    record(event, stream)
}

/// An event that was recorded has happened.
pub(crate) fn query_event(event: usize) -> Answer {
    lock(&STREAMS).events.get(&event).map(drop).ok_or(Refusal::InvalidHandle)
}

pub(crate) fn elapsed(milliseconds: Out<f32>, start: usize, end: usize) -> Answer {
    let streams = lock(&STREAMS);
    let recorded =
        |event| streams.events.get(&event).and_then(|event| event.recorded).ok_or(Refusal::InvalidHandle);
    let (start, end) = (recorded(start)?, recorded(end)?);
    milliseconds.set(end.saturating_duration_since(start).as_secs_f32() * 1e3)
}

/// A stream waits for an event. In a capture the stream becomes part of it.
pub(crate) fn wait_event(stream: usize, event: usize, _flags: u32) -> Answer {
    let mut streams = lock(&STREAMS);
    let capture = streams.events.get(&event).ok_or(Refusal::InvalidHandle)?.capture;
    if let Some(capture) = capture
        && streams.captures.values().any(|under_way| under_way.id == capture.id)
    {
        streams.captures.entry(stream).or_insert(capture);
    }
    Ok(())
}

// ---- graphs ----

/// `cudaStreamCaptureStatusActive`.
const ACTIVE: c_int = 1;

pub(crate) fn begin_capture(stream: usize, _mode: c_int) -> Answer {
    let mut streams = lock(&STREAMS);
    if stream == 0 || streams.captures.contains_key(&stream) {
        return Err(Refusal::IllegalState);
    }
    streams.last_capture += 1;
    let capture =
        Capture { id: streams.last_capture, graph: new_handle(), origin: stream, launches: launches() };
    streams.captures.insert(stream, capture);
    Ok(())
}

pub(crate) fn end_capture(stream: usize, graph: Out<usize>) -> Answer {
    let mut streams = lock(&STREAMS);
    let capture = streams.captures.get(&stream).copied();
    let capture = capture.filter(|capture| capture.origin == stream).ok_or(Refusal::IllegalState)?;
    streams.captures.retain(|_, under_way| under_way.id != capture.id);
    streams.nodes.insert(capture.graph, launches() - capture.launches);
    graph.set(capture.graph)
}

pub(crate) fn is_capturing(stream: usize, status: Out<c_int>) -> Answer {
    let active = lock(&STREAMS).captures.contains_key(&stream);
    status.set(if active { ACTIVE } else { 0 })
}

/// `cudaStreamGetCaptureInfo` of CUDA 12: a status and an id; of CUDA 13: what `_v2` and `_v3` said before, too.
pub(crate) fn capture_info(
    stream: usize,
    status: Out<c_int>,
    id: Out<u64>,
    graph: Out<usize>,
    dependencies: Out<usize>,
    edges: Out<usize>,
    count: Out<usize>,
) -> Answer {
    let capture = lock(&STREAMS).captures.get(&stream).copied();
    status.set(if capture.is_some() { ACTIVE } else { 0 })?;
    let Some(capture) = capture else { return Ok(()) };
    id.set_if_wanted(capture.id);
    if version::runtime() >= 13_000 {
        graph.set_if_wanted(capture.graph);
        dependencies.set_if_wanted(0);
        edges.set_if_wanted(0);
        count.set_if_wanted(0);
    }
    Ok(())
}

/// `cudaStreamGetCaptureInfo_v2` of CUDA 12.
pub(crate) fn capture_info_v2(
    stream: usize,
    status: Out<c_int>,
    id: Out<u64>,
    graph: Out<usize>,
    dependencies: Out<usize>,
    count: Out<usize>,
) -> Answer {
    let capture = lock(&STREAMS).captures.get(&stream).copied();
    status.set(if capture.is_some() { ACTIVE } else { 0 })?;
    if let Some(capture) = capture {
        id.set_if_wanted(capture.id);
        graph.set_if_wanted(capture.graph);
        dependencies.set_if_wanted(0);
        count.set_if_wanted(0);
    }
    Ok(())
}

/// How a thread's calls are watched while something is captured: nothing is forbidden, and the last mode is given back.
pub(crate) fn exchange_capture_mode(mode: Out<c_int>) -> Answer {
    mode.set(0)
}

/// `cudaGraphInstantiate` and its siblings.
pub(crate) fn instantiate(executable: Out<usize>, _graph: usize) -> Answer {
    executable.set(new_handle())
}

/// A graph's nodes: what was launched while it was captured. Who asks for the nodes themselves gets none.
pub(crate) fn graph_nodes(graph: usize, nodes: usize, count: Out<usize>) -> Answer {
    let launched = lock(&STREAMS).nodes.get(&graph).copied().unwrap_or(0);
    count.set(if nodes == 0 { launched as usize } else { 0 })
}

/// A picture of a graph, which is an empty one.
pub(crate) fn draw_graph(_graph: usize, path: *const c_char, _flags: u32) -> Answer {
    let path = crate::out::text(path).ok_or(Refusal::InvalidValue)?;
    std::fs::write(path, "digraph {}\n").map_err(|_| Refusal::InvalidValue)
}
