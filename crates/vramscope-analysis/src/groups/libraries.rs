//! Memory beside PyTorch's allocator, by the library that took it.

use std::collections::{BTreeMap, HashMap};

use vramscope_trace::{DriverMemory, StackId, StringId, Trace};

/// What one library holds of one kind of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LibraryUse {
    /// File name of the library or program.
    pub library: StringId,
    /// The kind of memory.
    pub memory: DriverMemory,
    /// Bytes at the moment of the summary.
    pub bytes: u64,
    /// Allocations at that moment.
    pub count: u64,
    /// Highest bytes of the run.
    pub peak: u64,
    /// Bytes at the end of the recording.
    pub end: u64,
    /// Stack of the largest allocation at that moment, or of the whole run if there is none at that moment.
    pub stack: Option<StackId>,
}

/// What each library held on a device and on the host at a time (microseconds since the Unix epoch), most bytes first; `None` if the
/// recording does not have it.
pub fn libraries(trace: &Trace, device: i64, time_us: Option<i64>) -> Option<Vec<LibraryUse>> {
    let process = trace.process.as_ref()?;
    let mut groups: BTreeMap<(StringId, DriverMemory), Tally> = BTreeMap::new();
    for e in process.events.iter().filter(|e| e.device == device || e.memory.is_host()) {
        let tally = groups.entry((e.library, e.memory)).or_default();
        if time_us.is_some_and(|t| e.time_us > t) {
            tally.here.get_or_insert_with(|| Here::of(&tally.live));
        }
        if e.is_free {
            if let Some((size, _)) = tally.live.remove(&e.address) {
                tally.bytes = tally.bytes.saturating_sub(size);
            }
        } else {
            if let Some((size, _)) = tally.live.insert(e.address, (e.size, e.stack)) {
                tally.bytes = tally.bytes.saturating_sub(size);
            }
            tally.bytes = tally.bytes.saturating_add(e.size);
            tally.peak = tally.peak.max(tally.bytes);
            if tally.largest.is_none_or(|(size, _)| e.size > size) {
                tally.largest = Some((e.size, e.stack));
            }
        }
    }
    let of = |((library, memory), tally): ((StringId, DriverMemory), Tally)| {
        let here = tally.here.unwrap_or_else(|| Here::of(&tally.live));
        let stack = here.largest.or(tally.largest).and_then(|(_, stack)| stack);
        LibraryUse {
            library,
            memory,
            bytes: here.bytes,
            count: here.count,
            peak: tally.peak,
            end: tally.bytes,
            stack,
        }
    };
    let mut uses: Vec<LibraryUse> = groups.into_iter().map(of).collect();
    uses.sort_by_key(|u| std::cmp::Reverse((u.bytes, u.peak)));
    Some(uses)
}

/// An allocation: its size in bytes, and its stack.
type Sized = (u64, Option<StackId>);

#[derive(Default)]
struct Tally {
    live: HashMap<u64, Sized>,
    bytes: u64,
    peak: u64,
    largest: Option<Sized>,
    /// The state at the asked time, once an event comes after it.
    here: Option<Here>,
}

#[derive(Clone, Copy)]
struct Here {
    bytes: u64,
    count: u64,
    largest: Option<Sized>,
}

impl Here {
    fn of(live: &HashMap<u64, Sized>) -> Self {
        // The address decides between allocations of one size.
        let largest = live.iter().max_by_key(|&(&address, &(size, _))| (size, std::cmp::Reverse(address)));
        let bytes = live.values().map(|&(size, _)| size).fold(0, u64::saturating_add);
        Self { bytes, count: live.len() as u64, largest: largest.map(|(_, &sized)| sized) }
    }
}

#[cfg(test)]
mod tests {
    use vramscope_trace::{DriverEvent, ProcessEvents};

    use super::*;

    fn trace(events: &[(DriverMemory, bool, u64, u64, i64)]) -> Trace {
        let mut trace = Trace::default();
        let library = trace.strings.intern("libnccl.so.2").unwrap();
        let event = |&(memory, is_free, address, size, time_us)| {
            let device = if DriverMemory::is_host(memory) { -1 } else { 0 };
            DriverEvent { device, memory, is_free, address, size, time_us, library, stack: None }
        };
        trace.process =
            Some(ProcessEvents { events: events.iter().map(event).collect(), ..ProcessEvents::default() });
        trace
    }

    #[test]
    fn a_library_is_counted_at_the_moment_at_its_peak_and_at_the_end() {
        use DriverMemory::{Device, Pinned};
        let trace = trace(&[
            (Device, false, 0x1000, 100, 1),
            (Device, false, 0x2000, 50, 2),
            (Pinned, false, 0x1000, 7, 2),
            (Device, true, 0x1000, 100, 3),
            (Device, false, 0x3000, 10, 4),
        ]);
        let here = |device, time| {
            let uses = libraries(&trace, device, time).unwrap();
            uses.iter().map(|u| (u.bytes, u.count, u.peak, u.end)).collect::<Vec<_>>()
        };
        assert_eq!(here(0, Some(2)), [(150, 2, 150, 60), (7, 1, 7, 7)]);
        assert_eq!(here(0, Some(3)), [(50, 1, 150, 60), (7, 1, 7, 7)]);
        assert_eq!(here(0, None), [(60, 2, 150, 60), (7, 1, 7, 7)]);
        assert_eq!(here(0, Some(0)), [(0, 0, 150, 60), (0, 0, 7, 7)]);
        assert_eq!(here(1, None), [(7, 1, 7, 7)]);
        assert_eq!(libraries(&Trace::default(), 0, None), None);
    }
}
