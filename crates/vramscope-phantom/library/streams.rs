//! Streams and events. All work completes immediately, or when the program waits for it (`timeline`). So waits return at once, except at
//! barriers between ranks.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use crate::asks;
use crate::dnn::backend;
use crate::graphs::{self, Point};
use crate::handles::new_handle;
use crate::machine::{lock, machine};
use crate::memory::async_pool::at_synchronization;
use crate::nccl::{Barrier, barrier_before_event, wait_for_barriers};
use crate::out::Out;
use crate::python;
use crate::state::Noticed;
use crate::status::{Answer, Refusal};
use crate::threads::use_current_device;
use crate::timeline::{self, Position};

#[derive(Clone)]
struct Event {
    /// When it was recorded, and the time of cuDNN's plans until then, in nanoseconds.
    recorded: Option<(Instant, u64)>,
    /// The capture position at which it was recorded. Streams that wait for it join the capture.
    captured: Option<Point>,
    /// All ranks must reach this barrier before a wait for the event returns.
    barrier: Option<Arc<Barrier>>,
    /// The work before it, on the late GPU.
    position: Option<Position>,
    /// The queries for whether it completed.
    queries: u64,
}

/// Queries of one event after which the late GPU completes it: the program waits for it.
const QUERIES: u64 = 1024;

#[derive(Default)]
struct Streams {
    /// The priority of each created stream.
    priorities: HashMap<usize, c_int>,
    events: HashMap<usize, Event>,
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

/// `cuStreamGetFlags` and similar calls: all streams have the same properties.
pub(crate) fn flags(_stream: usize, flags: Out<u32>) -> Answer {
    flags.set(0)
}

/// Waits for the device, whose work is complete except at barriers.
pub(crate) fn synchronize() -> Answer {
    if graphs::is_any_captured() {
        return Err(Refusal::Capturing);
    }
    wait();
    timeline::finish_all();
    Ok(())
}

/// Waits for a stream, whose work is complete except at barriers.
pub(crate) fn synchronize_stream(stream: usize) -> Answer {
    if graphs::is_captured(stream) {
        return Err(Refusal::Capturing);
    }
    wait();
    timeline::finish_stream(stream);
    Ok(())
}

/// Waits for other ranks at outstanding barriers. All other work is complete.
fn wait() {
    wait_for_barriers();
    at_synchronization();
}

/// Calls a host function that waits for a stream: it runs immediately.
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
    lock(&STREAMS)
        .events
        .insert(new, Event { recorded: None, captured: None, barrier: None, position: None, queries: 0 });
    event.set(new)
}

pub(crate) fn destroy_event(event: usize) -> Answer {
    lock(&STREAMS).events.remove(&event).map(drop).ok_or(Refusal::InvalidHandle)
}

pub(crate) fn record(event: usize, stream: usize) -> Answer {
    let mut streams = lock(&STREAMS);
    let event = streams.events.get_mut(&event).ok_or(Refusal::InvalidHandle)?;
    *event = Event {
        recorded: Some((Instant::now(), backend::plan_time())),
        captured: graphs::point(stream),
        barrier: barrier_before_event(stream),
        position: timeline::end(stream),
        queries: 0,
    };
    Ok(())
}

pub(crate) fn record_with_flags(event: usize, stream: usize, _flags: u32) -> Answer {
    record(event, stream)
}

/// Whether the work before an event is done.
pub(crate) fn query_event(event: usize) -> Answer {
    asks::notice_crossing();
    let mut streams = lock(&STREAMS);
    let event = streams.events.get_mut(&event).ok_or(Refusal::InvalidHandle)?;
    event.queries += 1;
    if event.queries > QUERIES {
        timeline::finish(event.position);
    }
    // Not whether other ranks came to a barrier: the answer would differ from run to run.
    ready(timeline::is_done(event.position))
}

/// Whether all work of a stream is done.
pub(crate) fn query_stream(stream: usize) -> Answer {
    let end = timeline::end(stream);
    let is_done = timeline::is_done(end);
    // A program that asks again waits for it.
    timeline::finish(end);
    ready(is_done)
}

fn ready(is_done: bool) -> Answer {
    if is_done { Ok(()) } else { Err(Refusal::NotReady) }
}

pub(crate) fn synchronize_event(event: usize) -> Answer {
    let event = lock(&STREAMS).events.get(&event).ok_or(Refusal::InvalidHandle)?.clone();
    if event.barrier.is_some() {
        wait_for_barriers();
    }
    timeline::finish(event.position);
    Ok(())
}

/// The time between two events. With plans of cuDNN between them, it is their modeled time: the program may choose the fastest.
pub(crate) fn elapsed(milliseconds: Out<f32>, start: usize, end: usize) -> Answer {
    let streams = lock(&STREAMS);
    let recorded =
        |event| streams.events.get(&event).and_then(|event| event.recorded).ok_or(Refusal::InvalidHandle);
    let ((start, plans_before), (end, plans)) = (recorded(start)?, recorded(end)?);
    drop(streams);
    let time = if plans > plans_before {
        let line = python::calling_line();
        machine().notice_line(Noticed::Timed, line.as_deref().unwrap_or("the program"));
        Duration::from_nanos(plans - plans_before)
    } else {
        end.saturating_duration_since(start)
    };
    milliseconds.set(time.as_secs_f32() * 1e3)
}

/// Makes a stream wait for an event. During a capture, the stream joins it.
pub(crate) fn wait_event(stream: usize, event: usize, _flags: u32) -> Answer {
    let event = lock(&STREAMS).events.get(&event).ok_or(Refusal::InvalidHandle)?.clone();
    match event.captured {
        Some(point) => graphs::wait(stream, &point),
        None => timeline::wait(stream, event.position),
    }
    Ok(())
}
