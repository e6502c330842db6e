//! Growth: the order in which an allocator collects garbage, takes memory from the device, releases cached memory and tries again when
//! no cached block can serve a request.

use std::sync::Arc;

use vramscope_trace::Action;

use crate::arena::Arena;
use crate::arena::BlockKey;
use crate::callbacks::AllocCallbacks;
use crate::device::DeviceError;
use crate::engine::Engine;
use crate::error::{EngineError, OutOfMemory};
use crate::observer::{DeviceEvent, Observer};
use crate::policy::{Class, LimitCheck, Reclaim};

/// A block removed from the cache for a request in progress. Dropping it returns the block to the cache; this happens when the request
/// ends early, by an error or by a panic in a hook.
pub(crate) struct HeldBlock<'a, O: Observer> {
    arena: &'a Arena<O>,
    block: BlockKey,
}

impl<'a, O: Observer> HeldBlock<'a, O> {
    pub(crate) fn block(&self) -> BlockKey {
        self.block
    }

    /// The arena of the block.
    pub(crate) fn arena(&self) -> &'a Arena<O> {
        self.arena
    }

    /// Keeps the block out of the cache, because it is now allocated.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl<O: Observer> Drop for HeldBlock<'_, O> {
    fn drop(&mut self) {
        self.arena.lock().unhold(self.block);
    }
}

/// One request that no cached block can serve. Sizes are in bytes.
struct Growth<'a, O: Observer> {
    engine: &'a Engine<O>,
    arena: &'a Arc<Arena<O>>,
    /// The arena of the plan's blocks on the same stream. Its free memory is the last resort.
    planned: Option<&'a Arc<Arena<O>>>,
    class: Class,
    rounded: u64,
    requested: u64,
    stack: Option<O::Stack>,
}

impl<O: Observer> Engine<O> {
    /// Takes memory from the device and holds a block of it.
    #[expect(clippy::too_many_arguments, reason = "the parts of one request")]
    pub(crate) fn grow<'a, C: AllocCallbacks>(
        &'a self,
        arena: &'a Arc<Arena<O>>,
        planned: Option<&'a Arc<Arena<O>>>,
        class: Class,
        rounded: u64,
        requested: u64,
        stack: Option<O::Stack>,
        callbacks: &C,
    ) -> Result<HeldBlock<'a, O>, EngineError<C::Refusal>> {
        Growth { engine: self, arena, planned, class, rounded, requested, stack }.run(callbacks)
    }

    /// Runs the callbacks that free memory. Returns false if there are none.
    fn run_callbacks(&self) -> bool {
        let callbacks = self.free_memory_callbacks();
        callbacks.iter().for_each(|callback| callback());
        !callbacks.is_empty()
    }

    /// Releases unsplit large blocks that have been free for longer than the average, until reserved bytes are below the threshold
    /// (`garbage_collect_cached_blocks`).
    fn collect_garbage(&self) -> Result<(), DeviceError> {
        let (limit, reserved) = {
            let accounts = self.core().accounts();
            (accounts.limit(), accounts.reserved_bytes())
        };
        let (Some(limit), Some(threshold)) = (limit, self.core().policy().garbage_collection_threshold)
        else {
            return Ok(());
        };
        let target = (threshold * limit as f64) as u64;
        if reserved <= target {
            return Ok(());
        }
        let stack = self.core().observer().capture_free();
        let arenas: Vec<_> = self.releasable().into_iter().filter(|a| a.key().is_default_pool()).collect();
        let mut candidates: Vec<(&Arc<Arena<O>>, BlockKey, u64)> = arenas
            .iter()
            .flat_map(|a| {
                a.lock().whole_segments(Class::Large).into_iter().map(move |(key, age)| (a, key, age))
            })
            .collect();
        let mut reclaimed = 0;
        while reclaimed < reserved - target && !candidates.is_empty() {
            let ages: u64 = candidates.iter().map(|&(_, _, age)| age).sum();
            let average = ages as f64 / candidates.len() as f64;
            let before = candidates.len();
            let mut refused = Ok(());
            candidates.retain(|&(arena, key, age)| {
                if (age as f64) < average || refused.is_err() {
                    return true;
                }
                let released = arena.lock().release_if_whole(key, stack).unwrap_or_else(|e| {
                    refused = Err(e);
                    0
                });
                reclaimed += released;
                released == 0
            });
            refused?;
            if candidates.len() == before {
                break;
            }
        }
        Ok(())
    }
}

impl<'a, O: Observer> Growth<'a, O> {
    fn run<C: AllocCallbacks>(&self, callbacks: &C) -> Result<HeldBlock<'a, O>, EngineError<C::Refusal>> {
        let policy = self.engine.core().policy();
        if policy.callbacks_first && self.engine.run_callbacks() {
            self.engine.core().count_search(self.arena.key(), self.class);
            let mut arena = self.arena.lock();
            if let Some((block, _)) = arena.find(self.class, self.rounded) {
                arena.hold(block);
                return Ok(HeldBlock { arena: self.arena, block });
            }
        }
        if self.engine.core().collects_garbage() {
            self.engine.collect_garbage()?;
        }
        if self.planned.is_some() {
            let size = if policy.expandable_segments {
                self.rounded.checked_next_multiple_of(policy.page_size(self.class))
            } else {
                Some(policy.segment_size(self.rounded))
            };
            self.engine.make_room_beside_plan(size.unwrap_or(self.rounded));
        }
        if policy.limit_check == LimitCheck::First {
            self.come_within_limit()?;
        }
        if let Some(held) = self.attempt(callbacks)? {
            return Ok(held);
        }
        for &step in policy.reclaims {
            if self.reclaim(step)?
                && let Some(held) = self.attempt(callbacks)?
            {
                return Ok(held);
            }
        }
        if let Some(arena) = self.planned
            && let Some(block) = arena.lock().hold_unplanned(self.rounded, self.arena.key().stream)
        {
            return Ok(HeldBlock { arena, block });
        }
        Err(self.out_of_memory().into())
    }

    /// Releases memory until the request fits within the limit (`_try_malloc` in CuPy).
    fn come_within_limit<R: std::error::Error>(&self) -> Result<(), EngineError<R>> {
        let core = self.engine.core();
        let want = core.policy().segment_size(self.rounded);
        if core.accounts().limit().is_some_and(|limit| want > limit) {
            return Err(self.out_of_memory().into());
        }
        for &step in core.policy().reclaims {
            if !core.exceeds_limit(want) {
                return Ok(());
            }
            self.reclaim(step)?;
        }
        if core.exceeds_limit(want) { Err(self.out_of_memory().into()) } else { Ok(()) }
    }

    /// Releases memory to the device. Returns false if this step does not apply or released too little.
    fn reclaim(&self, step: Reclaim) -> Result<bool, DeviceError> {
        let engine = self.engine;
        match step {
            Reclaim::Oversize => {
                let Some(max_split) = engine.core().policy().max_split_size else { return Ok(false) };
                let stack = self.stack;
                return self.arena.lock().release_oversize(self.class, self.rounded, max_split, stack);
            }
            // Releasing would wait for streams, which a capture forbids.
            Reclaim::Cached | Reclaim::CallbacksThenCached if engine.is_capturing() => return Ok(false),
            Reclaim::CallbacksThenCached => {
                engine.run_callbacks();
            }
            Reclaim::Cached => engine.core().accounts().count_alloc_retry(),
        }
        engine.free_all_blocks(None)?;
        Ok(true)
    }

    /// Requests memory from the device once. Returns `None` if the device is out of memory or the limit would be exceeded.
    fn attempt<C: AllocCallbacks>(
        &self,
        callbacks: &C,
    ) -> Result<Option<HeldBlock<'a, O>>, EngineError<C::Refusal>> {
        let core = self.engine.core();
        let want = core.policy().segment_size(self.rounded);
        if core.exceeds_limit(want) {
            return Ok(None);
        }
        callbacks.alloc_preprocess(want).map_err(EngineError::Refused)?;
        let (mut at, mut mapped) = (0, 0);
        let taken = {
            let mut arena = self.arena.lock();
            if core.policy().expandable_segments {
                let mut on_mapped = |address, bytes| {
                    at = if mapped == 0 { address } else { at };
                    mapped += bytes;
                };
                let expanded = arena.expand(self.class, self.rounded, self.stack, &mut on_mapped);
                expanded.map(|key| (key, at, mapped))
            } else {
                arena.add_segment(self.class, want, self.stack).map(|key| (key, arena.address_of(key), want))
            }
        };
        match taken {
            Ok((block, address, size)) => {
                let held = HeldBlock { arena: self.arena, block };
                callbacks.alloc_postprocess(size, address);
                Ok(Some(held))
            }
            Err(e) => {
                // Pages mapped before the memory ran out stay mapped, in a free block.
                let (size, address) = if mapped > 0 { (mapped, at) } else { (want, 0) };
                callbacks.alloc_postprocess(size, address);
                match e {
                    DeviceError::OutOfMemory { .. } => Ok(None),
                    e => Err(e.into()),
                }
            }
        }
    }

    /// Counts and records the failed request. Returns its error.
    fn out_of_memory(&self) -> OutOfMemory {
        let core = self.engine.core();
        let device_free = core.device().memory_info().ok().map(|info| info.free);
        let mut accounts = core.accounts();
        accounts.count_oom();
        let (total, limit) = (accounts.reserved_bytes(), accounts.limit());
        let event = DeviceEvent {
            action: Action::Oom,
            class: self.class,
            address_or_free: device_free.unwrap_or(0),
            size: self.rounded,
            block_size: 0,
            stack: self.stack,
        };
        core.record(self.arena.number(), event);
        OutOfMemory {
            device_id: core.device_id(),
            requested: self.requested,
            size: self.rounded,
            total,
            limit,
            device_free,
        }
    }
}
