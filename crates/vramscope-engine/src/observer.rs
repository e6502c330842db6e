//! What the program around an engine is asked and told.

use std::convert::Infallible;
use std::fmt::Debug;

use vramscope_trace::Action;

use crate::arena_key::ArenaKey;
use crate::policy::Class;

/// The program around an engine: it may record what happens, know stacks, and have streams with names of its own.
/// [`Unobserved`] is a program that does nothing of it.
pub trait Observer: Send + Sync + Sized {
    /// Names a stack that the program has captured.
    type Stack: Copy + Debug + Send + Sync;

    /// An arena is made. Returns the number by which its events are told.
    fn add_arena(&self, key: ArenaKey) -> u32;

    /// Events are wanted now.
    fn is_recording(&self) -> bool;

    /// Something happened. It is told under the lock under which it happened, so that the order of events is that of
    /// the bytes; it must not call the engine.
    fn record(&self, arena: u32, event: DeviceEvent<Self::Stack>);

    /// The calling thread's stack, for memory that goes back to the device.
    fn capture_free(&self) -> Option<Self::Stack>;

    /// The memory is the calling process' own; it is not in a process that was forked from its owner, and then nothing
    /// goes back to the device.
    fn owns_memory(&self) -> bool;

    /// The device's name of a stream that uses a block; `None` where the calling thread cannot name it.
    fn device_stream(&self, stream: u64) -> Option<u64>;
}

/// Something that happened on a device.
#[derive(Debug, Clone, Copy)]
pub struct DeviceEvent<Stack> {
    /// What.
    pub action: Action,
    /// Of the block, or of the segment.
    pub class: Class,
    /// First byte; of [`Action::Oom`], the bytes that the device had free.
    pub address: u64,
    /// Bytes, as in [`Event::size`](vramscope_trace::Event::size).
    pub size: u64,
    /// Bytes of the block, of what happens to blocks; else 0.
    pub block_size: u64,
    /// Where it was asked for.
    pub stack: Option<Stack>,
}

/// Nobody records what happens, no stacks are known, and streams are called what the device calls them.
#[derive(Debug, Default, Clone, Copy)]
pub struct Unobserved;

impl Observer for Unobserved {
    type Stack = Infallible;

    fn add_arena(&self, _: ArenaKey) -> u32 {
        0
    }

    #[inline]
    fn is_recording(&self) -> bool {
        false
    }

    fn record(&self, _: u32, _: DeviceEvent<Infallible>) {}

    fn capture_free(&self) -> Option<Infallible> {
        None
    }

    fn owns_memory(&self) -> bool {
        true
    }

    fn device_stream(&self, stream: u64) -> Option<u64> {
        Some(stream)
    }
}
