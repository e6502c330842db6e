//! The GPUs that a program sees, and the report about a run on them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::state::{Counter, Fact, Noticed, State};

/// A GPU as a program sees it. Sizes are in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhantomGpu {
    /// The driver's name for the GPU, such as `NVIDIA H100 80GB HBM3`. Longer names are cut after 63 bytes.
    pub name: String,
    /// The memory that the driver reports, in bytes.
    pub total_bytes: u64,
    /// Bytes that the context of a process takes.
    pub context_bytes: u64,
    /// The compute capability as `10 * major + minor`: 90 is 9.0.
    pub compute_capability: u32,
    /// The number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// The maximum number of threads on a multiprocessor.
    pub threads_per_multiprocessor: u32,
    /// The maximum number of blocks on a multiprocessor.
    pub blocks_per_multiprocessor: u32,
    /// Bytes of shared memory on a multiprocessor.
    pub shared_per_multiprocessor_bytes: u64,
    /// The maximum number of bytes of shared memory per block.
    pub shared_per_block_bytes: u64,
    /// Bytes of the L2 cache.
    pub l2_bytes: u64,
    /// Width of the memory bus, in bits.
    pub bus_bits: u32,
    /// Whether the GPU shares the host's memory.
    pub is_integrated: bool,
    /// The division into MIG instances; `None` if the GPU is not divided. The other fields are those of one instance.
    pub mig: Option<PhantomMig>,
}

/// The division of a GPU into MIG instances of equal size. Programs see the first instance as the GPU, and NVML lists the others as unused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhantomMig {
    /// The number of instances, 1 to 7.
    pub instances: u32,
    /// The memory of the whole GPU, in bytes.
    pub whole_bytes: u64,
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
                (Fact::MigInstances, self.mig.map_or(0, |mig| mig.instances.min(7).into())),
                (Fact::WholeBytes, self.mig.map_or(0, |mig| mig.whole_bytes)),
            ],
        );
    }
}

/// Memory of a GPU in use by all processes together, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuUse {
    /// The GPU's memory.
    pub total_bytes: u64,
    /// The context of one process.
    pub context_bytes: u64,
    /// In use now.
    pub used_bytes: u64,
    /// The peak use.
    pub peak_bytes: u64,
    /// The peak use by NCCL's communicators, by a model.
    pub peak_communication_bytes: u64,
    /// The machine code of the libraries of one process, by a model; 0 if modules are loaded lazily.
    pub module_bytes: u64,
}

/// Counts over all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineCounts {
    /// Launches of kernels and of library operations. None computes anything.
    pub launches: u64,
    /// Copies of at most 8 bytes of computed data from a GPU to the host: for example by `.item()`, or the number of
    /// elements that `nonzero` found. A program that branches on these values may behave differently on a real GPU.
    pub values_read: u64,
    /// Larger copies of computed data from a GPU to the host.
    pub results_read: u64,
    /// NCCL operations. They return at once.
    pub collectives: u64,
    /// Requests for device memory that failed.
    pub out_of_memory: u64,
    /// Processes that ended without freeing their device memory, mostly because they were killed.
    pub killed: u64,
    /// Processes that created a context on any GPU.
    pub processes: u64,
    /// Whether PyTorch's allocator kept freed memory until other streams are done with it, so that its peak depends on how far the GPU is.
    pub crosses_streams: bool,
}

/// Why the phantom does not execute a call as a GPU would.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnansweredKind {
    /// The call is unknown. It returned "not supported".
    Unknown,
    /// The call is known but not implemented. It returned "not supported".
    Refused,
    /// The memory that a library would take is unknown, and counts 0 bytes.
    LeftOut,
    /// The memory that a library would take follows from a model.
    Modeled,
}

/// A call that the phantom did not execute as a GPU would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered {
    /// The name of the function, or what it returns, in at most 64 bytes.
    pub name: String,
    /// The number of calls.
    pub calls: u64,
    /// Why.
    pub kind: UnansweredKind,
}

/// A line of a Python program that read computed data from a GPU. On a phantom GPU no kernel computes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadAt {
    /// The file, relative to the folder in which the program ran, and the line number.
    pub line: String,
    /// The number of reads.
    pub reads: u64,
}

/// A line of a Python program that measured the time of cuDNN's plans, to choose one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedAt {
    /// The file, relative to the folder in which the program ran, and the line number. `the program` on threads without Python.
    pub line: String,
    /// The number of measurements.
    pub plans: u64,
}

/// A place in a program that queried a GPU's total or free memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedAt {
    /// The Python file, relative to the folder in which the program ran, and the line number. Without Python, the
    /// calling library.
    pub line: String,
    /// The number of queries.
    pub calls: u64,
}

/// A report about the machine so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineReport {
    /// The memory use of each GPU.
    pub gpus: Vec<GpuUse>,
    /// Counts over all processes.
    pub counts: MachineCounts,
    /// Calls that the phantom did not execute as a GPU would, in the order of their first call.
    pub unanswered: Vec<Unanswered>,
    /// Lines that read computed data, in the order of their first read.
    pub read_at: Vec<ReadAt>,
    /// Lines that queried a GPU's total or free memory (`cudaMemGetInfo`, NVML, PyTorch's `total_memory`), in the order of
    /// their first query. Queries by PyTorch's allocator are excluded. A program may size its work by the result.
    pub asked_memory_at: Vec<AskedAt>,
    /// Lines that measured the time of cuDNN's plans, with the number of plans, in the order of their first measurement. The fastest one
    /// on a real GPU is unknown ([`PhantomOptions::large_workspaces`](crate::PhantomOptions)).
    pub timed_at: Vec<TimedAt>,
    /// Flags of Python interpreters (`isolated`, `no_site`, `ignore_environment`) that prevented them from importing
    /// `sitecustomize`.
    pub unrecorded: Vec<String>,
    /// The names of kernels that were launched, and whose parameters are unknown: the first 64 bytes of each. Empty unless a recorder takes
    /// accesses.
    pub unknown_kernels: Vec<String>,
}

impl MachineReport {
    /// Returns the report from the words of a run's state file. `None` if the words are not a valid state.
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
                module_bytes: fact(Fact::ModuleBytes),
            }
        };
        let count = |counter| state.counter(counter).load(Ordering::Relaxed);
        let noticed = state.noticed();
        let of = |wanted: &'static [Noticed]| {
            noticed.iter().filter(move |(what, ..)| wanted.contains(what)).cloned()
        };
        let unanswered = |(what, name, calls): &(Noticed, String, u64)| {
            let kind = match what {
                Noticed::Unknown => UnansweredKind::Unknown,
                Noticed::Refused => UnansweredKind::Refused,
                Noticed::LeftOut => UnansweredKind::LeftOut,
                Noticed::Modeled => UnansweredKind::Modeled,
                _ => return None,
            };
            Some(Unanswered { name: name.clone(), calls: *calls, kind })
        };
        Some(Self {
            gpus: (0..state.devices()).map(gpu).collect(),
            counts: MachineCounts {
                launches: count(Counter::Launches),
                values_read: count(Counter::ValuesRead),
                results_read: count(Counter::ResultsRead),
                collectives: count(Counter::Collectives),
                out_of_memory: count(Counter::OutOfMemory),
                killed: count(Counter::Killed) + state.dead() as u64,
                processes: count(Counter::Processes),
                crosses_streams: count(Counter::Crossings) > 0,
            },
            unanswered: noticed.iter().filter_map(unanswered).collect(),
            read_at: of(&[Noticed::Read]).map(|(_, line, reads)| ReadAt { line, reads }).collect(),
            timed_at: of(&[Noticed::Timed]).map(|(_, line, plans)| TimedAt { line, plans }).collect(),
            asked_memory_at: of(&[Noticed::AskedMemory])
                .map(|(_, line, calls)| AskedAt { line, calls })
                .collect(),
            unrecorded: of(&[Noticed::Unrecorded]).map(|(_, setting, _)| setting).collect(),
            unknown_kernels: of(&[Noticed::UnknownParameters]).map(|(_, name, _)| name).collect(),
        })
    }
}
