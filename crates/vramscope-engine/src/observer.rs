//! [`Observer`]: the interface between an engine and the program around it.

use std::convert::Infallible;
use std::fmt::Debug;

use vramscope_trace::Action;

use crate::arena_key::ArenaKey;
use crate::policy::Class;

/// The program around an engine. It may record events, capture stacks, and number streams in its own way. [`Unobserved`] does none of
/// this.
pub trait Observer: Send + Sync + Sized {
    /// Key of a captured stack.
    type Stack: Copy + Debug + Send + Sync;

    /// Called when an arena is created. Returns the number under which the engine reports the arena's events.
    fn add_arena(&self, key: ArenaKey) -> u32;

    /// Whether the engine should report events now.
    fn is_recording(&self) -> bool;

    /// Called for an event of the arena with this number. The engine still holds the lock under which the event happened, so events
    /// arrive in the order in which the memory changed. The observer must not call the engine.
    fn record(&self, arena: u32, event: DeviceEvent<Self::Stack>);

    /// Returns the calling thread's stack, for memory released to the device.
    fn capture_free(&self) -> Option<Self::Stack>;

    /// Whether the memory belongs to the calling process. This is false in a child process after a fork; the child releases nothing to
    /// the device.
    fn owns_memory(&self) -> bool;

    /// Returns the device's handle of a stream that uses a block, or `None` if only another thread can name that stream.
    fn device_stream(&self, stream: u64) -> Option<u64>;
}

/// An event on a device.
#[derive(Debug, Clone, Copy)]
pub struct DeviceEvent<Stack> {
    /// Type of the event.
    pub action: Action,
    /// Class of the block or segment.
    pub class: Class,
    /// For [`Action::Oom`], the free bytes of the device; otherwise the address of the block or segment.
    pub address_or_free: u64,
    /// Size in bytes, as in [`Event::size`](vramscope_trace::Event::size).
    pub size: u64,
    /// Size of the block in bytes for block events, otherwise 0.
    pub block_size: u64,
    /// Stack of the request.
    pub stack: Option<Stack>,
}

/// An observer that records no events and captures no stacks. Streams keep the device's handles.
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
