//! The machine that a program sees, and what became of it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::state::{Counter, Fact, Noticed, State};

/// A GPU as a program sees it. Sizes are in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhantomGpu {
    /// The driver's name for it, such as `NVIDIA H100 80GB HBM3`; at most 63 bytes are kept.
    pub name: String,
    /// Its memory as the driver reports it.
    pub total_bytes: u64,
    /// What a process's context takes of it.
    pub context_bytes: u64,
    /// Ten times the major number of its compute capability, and the minor: 90 is 9.0.
    pub compute_capability: u32,
    /// Its streaming multiprocessors.
    pub multiprocessors: u32,
    /// Threads that one of them holds.
    pub threads_per_multiprocessor: u32,
    /// Blocks that one of them holds.
    pub blocks_per_multiprocessor: u32,
    /// Shared memory of one of them.
    pub shared_per_multiprocessor_bytes: u64,
    /// Shared memory that a block may ask for.
    pub shared_per_block_bytes: u64,
    /// The second cache.
    pub l2_bytes: u64,
    /// Bits of the memory's bus.
    pub bus_bits: u32,
    /// It has no memory of its own, but the host's.
    pub is_integrated: bool,
}

impl PhantomGpu {
    pub(crate) fn add_to(&self, state: State<'_>) {
        state.add_device(
            &self.name,
            &[
                (Fact::TotalBytes, self.total_bytes),
                (Fact::ContextBytes, self.context_bytes),
                (Fact::ComputeCapability, self.compute_capability.into()),
                (Fact::Multiprocessors, self.multiprocessors.into()),
                (Fact::ThreadsPerMultiprocessor, self.threads_per_multiprocessor.into()),
                (Fact::BlocksPerMultiprocessor, self.blocks_per_multiprocessor.into()),
                (Fact::SharedPerMultiprocessor, self.shared_per_multiprocessor_bytes),
                (Fact::SharedPerBlock, self.shared_per_block_bytes),
                (Fact::L2Bytes, self.l2_bytes),
                (Fact::BusBits, self.bus_bits.into()),
                (Fact::Integrated, self.is_integrated.into()),
            ],
        );
    }
}

/// How much of a GPU was held, by all processes together, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuUse {
    /// All of it.
    pub total_bytes: u64,
    /// What a process's context takes.
    pub context_bytes: u64,
    /// Held now.
    pub used_bytes: u64,
    /// The most that was held at any time.
    pub peak_bytes: u64,
    /// The most that NCCL's communicators held at any time, by a model.
    pub peak_communication_bytes: u64,
}

/// What was counted over all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Kernels and operations of libraries that were asked for. None computed anything.
    pub launches: u64,
    /// Copies of at most 8 bytes from a GPU to the host of what a kernel would have computed: of `.item()`, or of how many
    /// elements `nonzero` found. A program that branches on them may go another way than on a GPU.
    pub values_read: u64,
    /// Larger such copies.
    pub results_read: u64,
    /// Operations of NCCL; they returned at once.
    pub collectives: u64,
    /// Requests for device memory that failed.
    pub out_of_memory: u64,
    /// Processes that ended without giving back what they held: killed, mostly.
    pub killed: u64,
    /// Processes that made a context on any GPU, those that ended included.
    pub processes: u64,
}

/// A call that the phantom did not answer as a GPU would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered {
    /// The function.
    pub name: String,
    /// How often it was called.
    pub calls: u64,
    /// The phantom knows it and does not do it; else it does not know it.
    pub is_refused: bool,
}

/// A line of a Python program where it read from a GPU what a kernel would have computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadAt {
    /// The file, from the folder in which the program ran, and the line.
    pub line: String,
    /// How often.
    pub reads: u64,
}

/// Where a program asked how much memory a GPU has or has free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedAt {
    /// The Python file, from the folder in which the program ran, and the line; where no Python ran, the library that called.
    pub line: String,
    /// How often.
    pub calls: u64,
}

/// What became of the machine until now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineReport {
    /// Each GPU.
    pub gpus: Vec<GpuUse>,
    /// What was counted.
    pub counts: Counts,
    /// Calls without an answer, in the order in which they were first met.
    pub unanswered: Vec<Unanswered>,
    /// Where the program read what a kernel would have computed, in the order in which these lines were first met.
    pub read_at: Vec<ReadAt>,
    /// Where the program asked how much memory a GPU has or has free (`cudaMemGetInfo`, NVML, PyTorch's `total_memory`), in the order of
    /// the first call. Calls of PyTorch's allocator are left out. A program that asked may size itself by the answer.
    pub asked_memory_at: Vec<AskedAt>,
    /// Settings of Python interpreters (`isolated`, `no_site`, `ignore_environment`) under which they import no `sitecustomize`.
    pub unrecorded: Vec<String>,
}

impl MachineReport {
    /// What the words of a run's file say; `None` where they are none.
    pub(crate) fn of(words: &[AtomicU64]) -> Option<Self> {
        let state = State::new(words)?;
        let gpu = |device: usize| {
            let fact = |fact| state.fact(device, fact).load(Ordering::Relaxed);
            GpuUse {
                total_bytes: fact(Fact::TotalBytes),
                context_bytes: fact(Fact::ContextBytes),
                used_bytes: fact(Fact::UsedBytes),
                peak_bytes: fact(Fact::PeakBytes),
                peak_communication_bytes: fact(Fact::PeakCommunicationBytes),
            }
        };
        let count = |counter| state.counter(counter).load(Ordering::Relaxed);
        let noticed = state.noticed();
        let of = |wanted: &'static [Noticed]| {
            noticed.iter().filter(move |(what, ..)| wanted.contains(what)).cloned()
        };
        let unanswered =
            |(what, name, calls)| Unanswered { name, calls, is_refused: what == Noticed::Refused };
        Some(Self {
            gpus: (0..state.devices()).map(gpu).collect(),
            counts: Counts {
                launches: count(Counter::Launches),
                values_read: count(Counter::ValuesRead),
                results_read: count(Counter::ResultsRead),
                collectives: count(Counter::Collectives),
                out_of_memory: count(Counter::OutOfMemory),
                killed: count(Counter::Killed) + state.dead() as u64,
                processes: count(Counter::Processes),
            },
            unanswered: of(&[Noticed::Unknown, Noticed::Refused]).map(unanswered).collect(),
            read_at: of(&[Noticed::Read]).map(|(_, line, reads)| ReadAt { line, reads }).collect(),
            asked_memory_at: of(&[Noticed::AskedMemory])
                .map(|(_, line, calls)| AskedAt { line, calls })
                .collect(),
            unrecorded: of(&[Noticed::Unrecorded]).map(|(_, setting, _)| setting).collect(),
        })
    }
}
