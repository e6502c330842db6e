//! The observer through which an engine records a pool's history and checks which process owns the memory.

use std::sync::Arc;

use vramscope_engine::{ArenaKey, DeviceEvent, Observer};

use crate::device::Process;
use crate::history::{DeviceHistory, When};
use crate::hooks::PoolHooks;
use crate::stacks::StackKey;
use crate::threads;

/// The observer of the engine of one device of a pool.
pub(super) struct PoolObserver {
    pub(super) history: DeviceHistory,
    pub(super) hooks: Arc<PoolHooks>,
    /// The process that owns the memory. A process forked from it neither allocates nor frees.
    pub(super) process: Process,
}

impl PoolObserver {
    pub(super) fn new(history: DeviceHistory, hooks: Arc<PoolHooks>) -> Self {
        Self { history, hooks, process: Process::this() }
    }
}

impl Observer for PoolObserver {
    type Stack = StackKey;

    fn add_arena(&self, key: ArenaKey) -> u32 {
        self.history.add_arena(key)
    }

    #[inline]
    fn is_recording(&self) -> bool {
        self.history.is_recording()
    }

    fn record(&self, arena: u32, event: DeviceEvent<StackKey>) {
        self.history.record(arena, event);
    }

    fn capture_free(&self) -> Option<StackKey> {
        self.history.capture(When::Free)
    }

    #[inline]
    fn owns_memory(&self) -> bool {
        self.process.is_this()
    }

    fn device_stream(&self, stream: u64) -> Option<u64> {
        threads::stream_to_mark(stream)
    }
}
