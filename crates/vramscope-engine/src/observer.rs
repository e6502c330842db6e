//! [`Observer`]: what an engine tells and asks the program around it.

use std::convert::Infallible;
use std::fmt::Debug;

use vramscope_trace::Action;

use crate::arena_key::ArenaKey;
use crate::policy::Class;

/// The program around an engine. It may record events, capture stacks, and have numbers of its own for streams.
/// [`Unobserved`] does none of this.
pub trait Observer: Send + Sync + Sized {
    /// The key of a stack that the program has captured.
    type Stack: Copy + Debug + Send + Sync;

    /// Called when an arena is made. Returns the number by which its events are reported.
    fn add_arena(&self, key: ArenaKey) -> u32;

    /// Whether events are to be reported now.
    fn is_recording(&self) -> bool;

    /// Called for an event of the arena of this number. The engine still holds the lock under which it happened, so that events
    /// come in the order in which the memory changed. The observer must not call the engine.
    fn record(&self, arena: u32, event: DeviceEvent<Self::Stack>);

    /// The calling thread's stack, for memory that goes back to the device.
    fn capture_free(&self) -> Option<Self::Stack>;

    /// Whether the memory belongs to the calling process. In a process that was forked from its owner it does not, and nothing is
    /// given back to the device.
    fn owns_memory(&self) -> bool;

    /// The device's number of a stream that uses a block; `None` where only another thread can name that stream.
    fn device_stream(&self, stream: u64) -> Option<u64>;
}

/// Something that happened on a device.
#[derive(Debug, Clone, Copy)]
pub struct DeviceEvent<Stack> {
    /// What happened.
    pub action: Action,
    /// The class of the block or segment.
    pub class: Class,
    /// The first byte of the block or segment; for [`Action::Oom`], the number of bytes that the device had free.
    pub address: u64,
    /// Bytes, as in [`Event::size`](vramscope_trace::Event::size).
    pub size: u64,
    /// Bytes of the block in events of blocks; otherwise 0.
    pub block_size: u64,
    /// The stack of the request.
    pub stack: Option<Stack>,
}

/// An observer that records nothing and captures no stacks. Streams have the device's numbers.
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
