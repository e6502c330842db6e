//! The state that all processes on phantom GPUs share: the GPUs, the memory held by each process, and the calls to
//! report. It is a file of 64-bit words. It survives the end of a process, and the command reads it with ordinary
//! reads.
//!
//! The phantom library compiles this file too: it is the only format that both sides share.

#![allow(dead_code, reason = "the library and the command each use a part")]

use std::sync::atomic::{AtomicU64, Ordering};

/// The first word of the file: the format and its version.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"phantom1");

/// The maximum number of GPUs.
pub(crate) const DEVICES: usize = 16;

/// The maximum number of processes with memory at the same time.
pub(crate) const PROCESSES: usize = 256;

/// The maximum number of recorded names.
pub(crate) const CALLS: usize = 512;

/// Words per text: 64 bytes, padded with zeros.
const TEXT: usize = 8;

/// The maximum number of bytes of a name.
pub(crate) const NAME_BYTES: usize = 8 * TEXT;

const HEADER: usize = 0;
const HEADER_WORDS: usize = 8;
const COUNTERS: usize = HEADER + HEADER_WORDS;
const COUNTER_WORDS: usize = 24;
const DEVICE: usize = COUNTERS + COUNTER_WORDS;
const DEVICE_WORDS: usize = 32 + TEXT;
const PROCESS: usize = DEVICE + DEVICES * DEVICE_WORDS;
const PROCESS_WORDS: usize = 2 + DEVICES * Purpose::ALL.len();
const CALL: usize = PROCESS + PROCESSES * PROCESS_WORDS;
const CALL_WORDS: usize = 2 + TEXT;

/// The size of the file, in words.
pub(crate) const WORDS: usize = CALL + CALLS * CALL_WORDS;

/// The purpose of device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Memory that the program allocated: for PyTorch, the segments of its allocator.
    Memory,
    /// The CUDA context of the process, with the size in the GPU's profile.
    Context,
    /// NCCL's memory for a communicator, by a model.
    Communication,
    /// The machine code of the program's libraries, if it is loaded eagerly, by a model.
    Modules,
}

impl Purpose {
    /// Every purpose, in the order of the numbers.
    pub(crate) const ALL: [Self; 4] = [Self::Memory, Self::Context, Self::Communication, Self::Modules];
}

/// Counters over all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counter {
    /// Launches of kernels and of library operations, which compute nothing.
    Launches,
    /// Copies of at most [`VALUE_BYTES`] of computed data from a device to the host. A program may branch on them.
    ValuesRead,
    /// Larger copies of computed data.
    ResultsRead,
    /// NCCL operations. They return at once.
    Collectives,
    /// Requests for device memory that failed.
    OutOfMemory,
    /// Processes that ended without freeing their memory, mostly because they were killed.
    Killed,
    /// Processes that created a context on any device.
    Processes,
    /// 1 if PyTorch's allocator kept freed memory until other streams are done with it.
    Crossings,
}

/// Copies up to this size are always kept: shapes, counts and pickled objects, on which programs branch.
pub(crate) const KEPT_BYTES: u64 = 64 << 10;

/// The maximum size of a single value: of `.item()`, or the number of elements that `nonzero` found.
pub(crate) const VALUE_BYTES: usize = 8;

/// A fact about a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fact {
    /// Memory that the driver reports, in bytes.
    TotalBytes,
    /// Bytes of a process's context.
    ContextBytes,
    /// Bytes in use by all processes now.
    UsedBytes,
    /// The peak of the bytes in use.
    PeakBytes,
    /// The compute capability, as `10 * major + minor`.
    ComputeCapability,
    /// The number of streaming multiprocessors.
    Multiprocessors,
    /// The maximum number of threads on a multiprocessor.
    ThreadsPerMultiprocessor,
    /// The maximum number of blocks on a multiprocessor.
    BlocksPerMultiprocessor,
    /// Bytes of shared memory on a multiprocessor.
    SharedPerMultiprocessor,
    /// The maximum number of bytes of shared memory per block.
    SharedPerBlock,
    /// Bytes of the L2 cache.
    L2Bytes,
    /// Width of the memory bus, in bits.
    BusBits,
    /// 1 if the GPU shares the host's memory.
    Integrated,
    /// The number of MIG instances; 0 if the GPU is not divided.
    MigInstances,
    /// The memory of the whole GPU, if it is divided.
    WholeBytes,
    /// Bytes in use by communicators now.
    CommunicationBytes,
    /// The peak of the bytes in use by communicators.
    PeakCommunicationBytes,
    /// Bytes of the machine code of the program's libraries, of the process with the most; 0 if it is loaded lazily.
    ModuleBytes,
}

/// Events that are reported to the user by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noticed {
    /// A call that the function table lacks.
    Unknown,
    /// A call that the function table refuses.
    Refused,
    /// A line of a Python program that read computed data.
    Read,
    /// A line or library that queried a device's total or free memory.
    AskedMemory,
    /// A flag of a Python interpreter that prevents it from importing `sitecustomize`.
    Unrecorded,
    /// A kernel whose parameters are unknown, so that its accesses are, too.
    UnknownParameters,
    /// Memory of a library that counts 0 bytes, or the call that asks for its size.
    LeftOut,
    /// Memory of a library whose size follows from a model.
    Modeled,
    /// A line of a Python program that measured the time of cuDNN's plans.
    Timed,
}

/// The words, mapped by the library or read from the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct State<'a>(&'a [AtomicU64]);

impl<'a> State<'a> {
    /// Returns the state in `words`. `None` if the words are not a valid state.
    pub(crate) fn new(words: &'a [AtomicU64]) -> Option<Self> {
        (words.len() == WORDS && words[HEADER].load(Ordering::Relaxed) == MAGIC).then_some(Self(words))
    }

    /// Initializes a state without devices in `words`. There must be [`WORDS`] of them, all zero.
    pub(crate) fn begin(words: &'a [AtomicU64], cuda_version: u64, random_values: Option<u64>) -> Self {
        let state = Self(words);
        state.0[HEADER + 2].store(cuda_version, Ordering::Relaxed);
        state.0[HEADER + 3].store(random_values.map_or(0, |seed| seed.saturating_add(1)), Ordering::Relaxed);
        state.0[HEADER].store(MAGIC, Ordering::Release);
        state
    }

    /// Adds a GPU. GPUs beyond [`DEVICES`] are dropped.
    pub(crate) fn add_device(&self, name: &str, facts: &[(Fact, u64)]) {
        let device = self.devices();
        if device < DEVICES {
            self.store_text(DEVICE + device * DEVICE_WORDS + 32, name);
            facts.iter().for_each(|&(fact, value)| self.fact(device, fact).store(value, Ordering::Relaxed));
            self.0[HEADER + 1].store(device as u64 + 1, Ordering::Release);
        }
    }

    /// Returns the number of GPUs.
    pub(crate) fn devices(&self) -> usize {
        (self.0[HEADER + 1].load(Ordering::Acquire) as usize).min(DEVICES)
    }

    /// Returns the newest CUDA release that the driver supports, as `1000 * major + 10 * minor`; 0 for the program's
    /// own release.
    pub(crate) fn cuda_version(&self) -> u64 {
        self.0[HEADER + 2].load(Ordering::Relaxed)
    }

    /// Returns the seed of random values. `None` if values read as zeros.
    pub(crate) fn random_values(&self) -> Option<u64> {
        self.0[HEADER + 3].load(Ordering::Relaxed).checked_sub(1)
    }

    /// Pretends the other ranks of every communicator.
    pub(crate) fn pretend_ranks(&self) {
        self.0[HEADER + 4].store(1, Ordering::Relaxed);
    }

    /// Whether the other ranks of every communicator are pretended.
    pub(crate) fn is_pretended(&self) -> bool {
        self.0[HEADER + 4].load(Ordering::Relaxed) != 0
    }

    /// Makes the GPUs late: work is done only when the program waits for it.
    pub(crate) fn be_late(&self) {
        self.0[HEADER + 6].store(1, Ordering::Relaxed);
    }

    /// Whether work is done only when the program waits for it.
    pub(crate) fn is_late(&self) -> bool {
        self.0[HEADER + 6].load(Ordering::Relaxed) != 0
    }

    /// Discards the contents of copies to devices beyond [`KEPT_BYTES`].
    pub(crate) fn keep_no_contents(&self) {
        self.0[HEADER + 5].store(1, Ordering::Relaxed);
    }

    /// Whether contents of copies to devices are kept.
    pub(crate) fn keeps_contents(&self) -> bool {
        self.0[HEADER + 5].load(Ordering::Relaxed) == 0
    }

    /// Lets the plan of cuDNN with the largest workspace be the fastest.
    pub(crate) fn prefer_large_workspaces(&self) {
        self.0[HEADER + 6].store(1, Ordering::Relaxed);
    }

    /// Whether the plan of cuDNN with the largest workspace is the fastest, instead of the one with the smallest.
    pub(crate) fn prefers_large_workspaces(&self) -> bool {
        self.0[HEADER + 6].load(Ordering::Relaxed) != 0
    }

    /// Returns a fact about an existing device.
    pub(crate) fn fact(&self, device: usize, fact: Fact) -> &'a AtomicU64 {
        &self.0[DEVICE + device * DEVICE_WORDS + fact as usize]
    }

    /// Returns the name of an existing device.
    pub(crate) fn name(&self, device: usize) -> String {
        self.text(DEVICE + device * DEVICE_WORDS + 32)
    }

    /// Returns the value of a counter.
    pub(crate) fn counter(&self, counter: Counter) -> &'a AtomicU64 {
        &self.0[COUNTERS + counter as usize]
    }

    /// Returns the id of the process in a slot; 0 for a free slot.
    pub(crate) fn process_id(&self, place: usize) -> &'a AtomicU64 {
        &self.0[PROCESS + place * PROCESS_WORDS]
    }

    /// Returns the start time of the process in a slot, in clock ticks since the machine booted. It distinguishes
    /// reused ids.
    pub(crate) fn process_start(&self, place: usize) -> &'a AtomicU64 {
        &self.0[PROCESS + place * PROCESS_WORDS + 1]
    }

    /// Returns the id of the process in a slot, and whether it still runs; `None` for a free slot. A process that has just taken its slot
    /// has no start time yet.
    pub(crate) fn process(&self, place: usize) -> Option<(u64, bool)> {
        let id = self.process_id(place).load(Ordering::Acquire);
        let began = self.process_start(place).load(Ordering::Acquire);
        (id != 0).then(|| (id, start_of(id).is_some_and(|start| began == 0 || start == began)))
    }

    /// Returns the processes that hold memory and still run.
    pub(crate) fn running(&self) -> Vec<u32> {
        let processes = (0..PROCESSES).filter_map(|place| self.process(place));
        processes.filter(|&(_, runs)| runs).filter_map(|(id, _)| u32::try_from(id).ok()).collect()
    }

    /// Returns the number of processes that ended without freeing their memory, and that [`Counter::Killed`] does not
    /// count yet.
    pub(crate) fn dead(&self) -> usize {
        (0..PROCESSES).filter_map(|place| self.process(place)).filter(|&(_, runs)| !runs).count()
    }

    /// Returns the bytes of a device that the process in a slot holds for a purpose.
    pub(crate) fn held(&self, place: usize, device: usize, purpose: Purpose) -> &'a AtomicU64 {
        &self.0[PROCESS + place * PROCESS_WORDS + 2 + device * Purpose::ALL.len() + purpose as usize]
    }

    /// Records an occurrence of a name. Returns whether it is the first.
    pub(crate) fn notice(&self, what: Noticed, name: &str) -> bool {
        let wanted = text_words(name);
        for place in 0..CALLS {
            let at = CALL + place * CALL_WORDS;
            let kind = &self.0[at];
            let free = kind.compare_exchange(0, CLAIMED, Ordering::AcqRel, Ordering::Acquire);
            if free.is_ok() {
                self.store_words(at + 2, &wanted);
                self.0[at + 1].store(1, Ordering::Relaxed);
                kind.store(what as u64 + 1, Ordering::Release);
                return true;
            }
            // Another thread may be writing the name; it finishes shortly.
            while kind.load(Ordering::Acquire) == CLAIMED {
                std::hint::spin_loop();
            }
            if kind.load(Ordering::Acquire) == what as u64 + 1 && self.words(at + 2) == wanted {
                self.0[at + 1].fetch_add(1, Ordering::Relaxed);
                return false;
            }
        }
        false
    }

    /// Returns the recorded names with their counts, in the order of their first occurrence.
    pub(crate) fn noticed(&self) -> Vec<(Noticed, String, u64)> {
        let call = |place: usize| {
            let at = CALL + place * CALL_WORDS;
            let what = match self.0[at].load(Ordering::Acquire) {
                1 => Noticed::Unknown,
                2 => Noticed::Refused,
                3 => Noticed::Read,
                4 => Noticed::AskedMemory,
                5 => Noticed::Unrecorded,
                6 => Noticed::UnknownParameters,
                7 => Noticed::LeftOut,
                8 => Noticed::Modeled,
                9 => Noticed::Timed,
                _ => return None,
            };
            Some((what, self.text(at + 2), self.0[at + 1].load(Ordering::Relaxed)))
        };
        (0..CALLS).filter_map(call).collect()
    }

    fn words(&self, at: usize) -> [u64; TEXT] {
        std::array::from_fn(|i| self.0[at + i].load(Ordering::Relaxed))
    }

    fn text(&self, at: usize) -> String {
        let bytes: Vec<u8> = self.words(at).iter().flat_map(|word| word.to_le_bytes()).collect();
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    fn store_text(&self, at: usize, text: &str) {
        self.store_words(at, &text_words(text));
    }

    fn store_words(&self, at: usize, words: &[u64; TEXT]) {
        for (i, &word) in words.iter().enumerate() {
            self.0[at + i].store(word, Ordering::Relaxed);
        }
    }
}

/// Returns the start time of a process, in clock ticks since the machine booted. `None` if it does not run.
pub(crate) fn start_of(id: u64) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name, in parentheses, may contain spaces and parentheses. The process state follows. A zombie holds no memory.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    (fields.next()? != "Z").then(|| fields.nth(18)?.parse().ok()).flatten()
}

/// Marks an entry whose name is being written.
const CLAIMED: u64 = u64::MAX;

/// Returns the first 64 bytes of a text.
fn text_words(text: &str) -> [u64; TEXT] {
    let mut bytes = [0; TEXT * 8];
    let kept = text.len().min(bytes.len());
    bytes[..kept].copy_from_slice(&text.as_bytes()[..kept]);
    std::array::from_fn(|i| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[i * 8..i * 8 + 8]);
        u64::from_le_bytes(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Vec<AtomicU64> {
        (0..WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn the_shared_state_returns_what_was_written() {
        let words = words();
        assert!(State::new(&words).is_none());
        let state = State::begin(&words, 13_000, Some(0));
        state.add_device("NVIDIA H100 80GB HBM3", &[(Fact::TotalBytes, 1 << 36), (Fact::Integrated, 1)]);
        let state = State::new(&words).unwrap();
        assert_eq!((state.devices(), state.cuda_version(), state.random_values()), (1, 13_000, Some(0)));
        assert_eq!(state.name(0), "NVIDIA H100 80GB HBM3");
        assert_eq!(state.fact(0, Fact::TotalBytes).load(Ordering::Relaxed), 1 << 36);
        assert_eq!(state.fact(0, Fact::Integrated).load(Ordering::Relaxed), 1);
    }

    #[test]
    fn places_do_not_overlap() {
        let words = words();
        let state = State::begin(&words, 0, None);
        let mut places: Vec<*const AtomicU64> = Vec::new();
        for device in 0..DEVICES {
            places.push(state.fact(device, Fact::Integrated));
        }
        for place in 0..PROCESSES {
            places.extend([state.process_id(place), state.process_start(place)].map(|a| a as *const _));
            for device in 0..DEVICES {
                places.extend(Purpose::ALL.map(|p| state.held(place, device, p) as *const AtomicU64));
            }
        }
        places.push(state.counter(Counter::Killed));
        let all = places.len();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), all);
    }

    #[test]
    fn a_process_without_a_start_time_runs() {
        let words = words();
        let state = State::begin(&words, 0, None);
        let own = std::process::id();
        state.process_id(0).store(own.into(), Ordering::Relaxed);
        assert_eq!((state.running(), state.dead()), (vec![own], 0));
        // Another process had this id before.
        state.process_start(0).store(1, Ordering::Relaxed);
        assert_eq!((state.running(), state.dead()), (vec![], 1));
        state.process_start(0).store(start_of(own.into()).unwrap(), Ordering::Relaxed);
        assert_eq!((state.running(), state.dead()), (vec![own], 0));
    }

    #[test]
    fn a_call_is_noticed_once_and_counted() {
        let words = words();
        let state = State::begin(&words, 0, None);
        assert!(state.notice(Noticed::Unknown, "cudaFrobnicate"));
        assert!(!state.notice(Noticed::Unknown, "cudaFrobnicate"));
        assert!(state.notice(Noticed::Refused, "cudaIpcGetMemHandle"));
        assert_eq!(
            state.noticed(),
            [
                (Noticed::Unknown, "cudaFrobnicate".to_owned(), 2),
                (Noticed::Refused, "cudaIpcGetMemHandle".to_owned(), 1),
            ]
        );
    }
}
