//! What a recorder records, and how much of it is kept.

use std::time::Duration;

/// Device memory of a process at which its log is copied: that of PyTorch's segments and of other libraries together, on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyAt {
    /// Bytes.
    Bytes(u64),
    /// Percent of the device's total memory.
    Percent(u8),
}

/// Which frames the stacks of a log have.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum RecordedStacks {
    /// No stacks.
    None,
    /// Python frames, of CPython 3.11, 3.12 and 3.13.
    #[default]
    Python,
    /// Python frames, then native frames (on x86-64).
    All,
    /// Python frames, for allocations and frees of at least this many bytes. Calls of the driver that do not say their size have stacks too.
    Large(u64),
}

/// Options of a [`RecorderRun`](crate::RecorderRun).
#[derive(Debug, Default, Clone, Copy)]
#[non_exhaustive]
pub struct RecorderOptions {
    /// Which frames stacks have.
    pub stacks: RecordedStacks,
    /// Maximum bytes of the logs of one process; `None` for no limit. A process then has two logs, and the oldest events are deleted. A
    /// log that begins with much live memory may be larger: it has at least as many bytes of new events.
    pub keep: Option<u64>,
    /// Device memory at which the log of a process is copied, once; see [`RecorderRun::copies`](crate::RecorderRun::copies).
    pub copy_at: Option<CopyAt>,
    /// Whether the accesses of allocations are recorded, on a phantom GPU. Logs with [`keep`](Self::keep) have none, because the numbers of
    /// their events would be those of an earlier log.
    pub accesses: bool,
    /// How often logs are written to the disk, so that they survive a power cut; `None` leaves this to the system.
    pub sync: Option<Duration>,
    /// Whether logs of earlier runs are replaced. Otherwise, a log whose name is taken gets a number, as `run-rank0-2.vramscope`.
    pub replaces: bool,
}

impl RecorderOptions {
    /// Smallest value of [`keep`](Self::keep): 1 MiB.
    pub const LEAST_KEPT: u64 = 1 << 20;

    pub(crate) fn with_accesses(&self) -> bool {
        self.accesses && self.keep.is_none()
    }
}
