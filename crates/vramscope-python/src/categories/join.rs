//! Joins the hooks' notes with the allocations of a snapshot.

use std::collections::{BTreeMap, HashMap};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::allocation::Allocation;
use super::clock::Line;
use super::examples;
use super::log::{Phase, Role, Switch, Tag};
use super::modules::ModuleId;
use super::steps::Step;
use super::threads::ThreadId;

/// A note within this distance of an allocation's beginning or end belongs to the allocation, in nanoseconds. PyTorch's times
/// are whole microseconds.
const NEAR: i64 = 3_000;

/// The notes in time order, with times in nanoseconds since the Unix epoch.
pub(crate) struct Notes {
    tags: Vec<Tag>,
    switches: Vec<Switch>,
    steps: Vec<Step>,
    complete_since: i64,
}

impl Notes {
    pub(crate) fn new(
        tags: &[Tag],
        switches: &[Switch],
        steps: &[Step],
        complete_since: i64,
        line: &Line,
    ) -> Self {
        Self {
            steps: steps
                .iter()
                .map(|step| Step {
                    begin: line.unix(step.begin),
                    is_example: step.is_example && step.begin >= complete_since,
                    ..*step
                })
                .collect(),
            tags: tags.iter().map(|tag| Tag { time: line.unix(tag.time), ..*tag }).collect(),
            switches: switches
                .iter()
                .map(|switch| Switch { time: line.unix(switch.time), ..*switch })
                .collect(),
            complete_since: if complete_since == i64::MIN { i64::MIN } else { line.unix(complete_since) },
        }
    }
}

/// The current module and phase of each thread that is in a phase.
#[derive(Default)]
struct Places<'a> {
    /// The most recent switch is last.
    busy: Vec<&'a Switch>,
}

impl<'a> Places<'a> {
    fn switch(&mut self, switch: &'a Switch) {
        self.busy.retain(|busy| busy.thread != switch.thread);
        if switch.phase != Phase::Other {
            self.busy.push(switch);
        }
    }

    /// Whether a backward pass runs, and nothing else.
    fn are_in_backward(&self) -> bool {
        !self.busy.is_empty() && self.busy.iter().all(|busy| busy.phase == Phase::Backward)
    }

    /// The module and phase of the thread that an event names; without a name, those of an unmarked thread.
    fn of(&self, thread: Option<ThreadId>) -> (ModuleId, Phase) {
        let is_it = |busy: &&&Switch| match thread {
            Some(thread) => busy.thread == thread,
            // If PyTorch supports names in events, at most one busy thread is unmarked.
            None => !busy.is_marked,
        };
        let place = self.busy.iter().rev().find(is_it);
        place.map_or((ModuleId::NONE, Phase::Other), |place| (place.module, place.phase))
    }
}

/// Removes and returns the thread that an event names. The name is useless outside of vramscope.
fn take_thread(event: &Bound<'_, PyDict>) -> PyResult<Option<ThreadId>> {
    let key = intern!(event.py(), "user_metadata");
    let Some(text) = event.get_item(key)? else { return Ok(None) };
    let thread = text.cast::<PyString>().ok().and_then(|text| ThreadId::of_mark(text.to_str().ok()?));
    if thread.is_some() {
        event.set_item(key, "")?;
    }
    Ok(thread)
}

/// The allocations of one device, followed through time.
struct Device<'py> {
    allocations: Vec<Allocation<'py>>,
    /// Live allocations, by address.
    live: BTreeMap<u64, usize>,
}

impl Device<'_> {
    fn note(&mut self, tag: Tag) -> bool {
        let Some((&address, &index)) = self.live.range(..=tag.address).next_back() else { return false };
        let Some(allocation) = self.allocations.get_mut(index) else { return false };
        let is_inside = tag.address - address < allocation.size.max(1);
        if is_inside {
            allocation.note(tag);
        }
        is_inside
    }
}

/// Writes each allocation's category into `snapshot`, after any text of the program itself.
pub(crate) fn write(
    snapshot: &Bound<'_, PyAny>,
    notes: &Notes,
    path: impl Fn(ModuleId) -> Option<String>,
) -> PyResult<()> {
    let py = snapshot.py();
    let traces = snapshot.get_item(intern!(py, "device_traces"))?;
    let segments = snapshot.get_item(intern!(py, "segments"))?;
    let mut texts = Texts::default();
    for (device, trace) in traces.cast::<PyList>()?.iter().enumerate() {
        let events = trace.cast::<PyList>()?;
        let blocks = active_blocks(segments.cast::<PyList>()?, device)?;
        if events.is_empty() && blocks.is_empty() {
            continue;
        }
        let device = follow(events, &blocks, notes)?;
        for allocation in &device.allocations {
            texts.write(&allocation.entry, allocation.purpose(notes.complete_since, &path))?;
        }
        for (address, block) in &blocks {
            let allocation = device.live.get(address).and_then(|&index| device.allocations.get(index));
            if let Some(allocation) = allocation.filter(|allocation| !allocation.entry.is(block)) {
                let own = allocation.entry.get_item(intern!(py, "user_metadata"))?;
                if let Some(text) = own {
                    block.set_item(intern!(py, "user_metadata"), text)?;
                }
            }
        }
    }
    Ok(())
}

/// The active blocks of a device, by address.
fn active_blocks<'py>(
    segments: &Bound<'py, PyList>,
    device: usize,
) -> PyResult<BTreeMap<u64, Bound<'py, PyDict>>> {
    let py = segments.py();
    let mut active = BTreeMap::new();
    for segment in segments.iter() {
        if segment.get_item(intern!(py, "device"))?.extract::<usize>()? != device {
            continue;
        }
        let mut next: u64 = segment.get_item(intern!(py, "address"))?.extract()?;
        for block in segment.get_item(intern!(py, "blocks"))?.cast::<PyList>()?.iter() {
            let block = block.cast_into::<PyDict>()?;
            let address = next;
            next += number(&block, intern!(py, "size"))?;
            let state = block.get_item(intern!(py, "state"))?;
            if state.is_some_and(|state| state.eq("active_allocated").unwrap_or(false)) {
                active.insert(address, block);
            }
        }
    }
    Ok(active)
}

fn number(entry: &Bound<'_, PyDict>, key: &Bound<'_, PyString>) -> PyResult<u64> {
    entry.get_item(key)?.map_or(Ok(0), |value| value.extract())
}

fn follow<'py>(
    events: &Bound<'py, PyList>,
    blocks: &BTreeMap<u64, Bound<'py, PyDict>>,
    notes: &Notes,
) -> PyResult<Device<'py>> {
    let py = events.py();
    let mut device = Device { allocations: Vec::new(), live: BTreeMap::new() };
    let allocated_later = later_blocks(events)?;
    for (&address, block) in blocks {
        if !allocated_later.contains_key(&address) {
            device.live.insert(address, device.allocations.len());
            let size = number(block, intern!(py, "size"))?;
            device.allocations.push(Allocation {
                entry: block.clone(),
                begin: i64::MIN,
                size,
                made_in: None,
                tag: None,
                freed_before: None,
                is_in_doubt: false,
            });
        }
    }
    let mut tags = notes.tags.iter().copied().peekable();
    let mut switches = notes.switches.iter().peekable();
    let mut steps = notes.steps.iter().enumerate().peekable();
    let mut step: Option<(usize, &Step)> = None;
    // The step of each allocation.
    let mut step_of: Vec<Option<usize>> = vec![None; device.allocations.len()];
    let mut places = Places::default();
    let has_marks = notes.switches.iter().any(|switch| switch.is_marked);
    // Tags for addresses that are not allocated at their time. They may belong to the next allocation.
    let mut early: Vec<Tag> = Vec::new();
    for event in events.iter() {
        let event = event.cast_into::<PyDict>()?;
        let thread = if has_marks { take_thread(&event)? } else { None };
        let Some(action) = event.get_item(intern!(py, "action"))? else { continue };
        let is_alloc = action.eq(intern!(py, "alloc"))?;
        if !is_alloc && !action.eq(intern!(py, "free_requested"))? {
            continue;
        }
        let begin =
            i64::try_from(number(&event, intern!(py, "time_us"))?).unwrap_or(i64::MAX).saturating_mul(1_000);
        // The event happened at some point within this microsecond.
        let middle = begin + 500;
        while let Some(tag) = tags.next_if(|tag| tag.time < middle) {
            if !device.note(tag) {
                early.push(tag);
            }
        }
        early.retain(|tag| tag.time + NEAR >= middle);
        while let Some(switch) = switches.next_if(|switch| switch.time < middle) {
            places.switch(switch);
        }
        while let Some(begun) = steps.next_if(|(_, step)| step.begin < middle) {
            step = Some(begun);
        }
        let address = number(&event, intern!(py, "addr"))?;
        if is_alloc {
            let size = number(&event, intern!(py, "size"))?;
            let is_watched = step.is_none_or(|(_, step)| step.is_watched);
            let made_in = is_watched.then(|| places.of(thread));
            let mut allocation = Allocation {
                entry: event,
                begin,
                size,
                made_in,
                tag: None,
                freed_before: None,
                is_in_doubt: false,
            };
            early.retain(|tag| {
                let is_inside = tag.address >= address && tag.address - address < size.max(1);
                if is_inside {
                    allocation.note(*tag);
                }
                !is_inside
            });
            device.live.insert(address, device.allocations.len());
            device.allocations.push(allocation);
            step_of.push(step.map(|(index, _)| index));
        } else {
            let count = device.allocations.len();
            let freed = device.live.remove(&address).and_then(|index| device.allocations.get_mut(index));
            if let Some(freed) = freed {
                freed.freed_before = Some(count);
                // An allocation that a backward pass frees was kept for it, by autograd or by a checkpoint.
                if freed.tag.is_none()
                    && freed.made_in.is_some_and(|(_, phase)| phase == Phase::Forward)
                    && places.are_in_backward()
                {
                    freed.tag = Some(Tag { time: middle, address, owner: ModuleId::NONE, role: Role::Saved });
                }
            }
        }
    }
    for tag in tags {
        device.note(tag);
    }
    examples::tell(&mut device.allocations, &step_of, &notes.steps);
    Ok(device)
}

/// The addresses whose last event is an allocation.
fn later_blocks(events: &Bound<'_, PyList>) -> PyResult<HashMap<u64, ()>> {
    let py = events.py();
    let mut allocated = HashMap::new();
    for event in events.iter() {
        let event = event.cast_into::<PyDict>()?;
        let Some(action) = event.get_item(intern!(py, "action"))? else { continue };
        if action.eq(intern!(py, "alloc"))? {
            allocated.insert(number(&event, intern!(py, "addr"))?, ());
        } else if action.eq(intern!(py, "free_requested"))? {
            allocated.remove(&number(&event, intern!(py, "addr"))?);
        }
    }
    Ok(allocated)
}

/// Interned texts, shared by entries.
#[derive(Default)]
struct Texts {
    known: HashMap<String, Py<PyString>>,
}

impl Texts {
    fn write(&mut self, entry: &Bound<'_, PyDict>, purpose: Option<String>) -> PyResult<()> {
        let py = entry.py();
        let Some(purpose) = purpose else { return Ok(()) };
        let key = intern!(py, "user_metadata");
        let own: Option<String> = entry.get_item(key)?.map(|own| own.extract()).transpose()?;
        let text = match own.filter(|own| !own.is_empty()) {
            Some(own) => format!("{own}\n{purpose}"),
            None => purpose,
        };
        let text = self.known.entry(text).or_insert_with_key(|text| PyString::new(py, text).unbind());
        entry.set_item(key, &*text)
    }
}
