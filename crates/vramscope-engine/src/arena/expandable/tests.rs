#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use proptest::prelude::*;
use vramscope_trace::{PoolId, TorchSettings};

use super::*;
use crate::arena_key::ArenaKey;
use crate::callbacks::NoCallbacks;
use crate::engine::Engine;
use crate::observer::Unobserved;
use crate::{Policy, TorchRelease, VirtualDevice};

const MIB: u64 = 1 << 20;

fn engine(mib: u64) -> Engine<Unobserved> {
    let settings = TorchSettings::parse("expandable_segments:True").unwrap();
    let policy = Policy::torch(&settings, TorchRelease::new(2, 11));
    let device = Arc::new(VirtualDevice::with_capacity(mib * MIB));
    Engine::new(device, 0, policy, Unobserved).unwrap()
}

impl LockedArena<'_, Unobserved> {
    /// Like `find_expandable`, with a linear search over all unmapped blocks.
    fn walk_to_expandable(&self, class: Class, rounded: u64) -> Option<BlockKey> {
        let usable = |key: BlockKey| matches!(self.block(key).state, BlockState::Free | BlockState::Unmapped);
        self.state.unmapped[class as usize].keys().into_iter().find_map(|unmapped| {
            let first = self.block(unmapped).prev.filter(|&prev| usable(prev)).unwrap_or(unmapped);
            let blocks = self.blocks_from(Some(first)).take_while(|&(key, _)| usable(key));
            let room: u64 = blocks.map(|(_, block)| block.size).sum();
            (room >= rounded).then_some(first)
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Allocates and frees blocks of a few pages, and unmaps free memory from time to time.
    #[test]
    fn the_place_to_grow_is_the_one_that_a_walk_finds(
        steps in prop::collection::vec((0u8..8, any::<usize>(), 1u64..12, 0u64..3), 1..150),
    ) {
        let engine = engine(2000);
        let key = ArenaKey { pool: PoolId::default(), stream: 0 };
        let arena = engine.arena(key);
        let mut live = Vec::new();
        for (what, which, units, odd) in steps {
            // Small blocks have pages of 2 MiB, large blocks pages of 20 MiB.
            let size = if which % 3 == 0 { units * 80 * 1024 } else { units * 10 * MIB + odd * MIB };
            match what {
                0..4 => {
                    let rounded = engine.policy().round_size(size);
                    live.extend(engine.malloc(arena, size, rounded, None, &NoCallbacks).ok());
                }
                4..7 if !live.is_empty() => {
                    let grant = live.swap_remove(which % live.len());
                    arena.free(grant.block, None);
                }
                _ => engine.free_all_blocks(None).unwrap(),
            }
            let mut locked = arena.lock();
            for class in [Class::Small, Class::Large] {
                for rounded in [512, 2 * MIB, 7 * MIB, 20 * MIB, 45 * MIB, 100 * MIB, 333 * MIB, 2100 * MIB] {
                    let walked = locked.walk_to_expandable(class, rounded);
                    prop_assert_eq!(locked.find_expandable(class, rounded), walked);
                }
            }
        }
    }
}

#[test]
fn a_segment_with_200_000_holes_grows_without_visiting_each() {
    const HOLES: usize = 200_000;
    let engine = engine(1 << 30);
    let arena = engine.arena(ArenaKey { pool: PoolId::default(), stream: 0 });
    let malloc = |mib| {
        let grant = engine.malloc(arena, mib * MIB, mib * MIB, None, &NoCallbacks).unwrap();
        (grant.block, grant.address)
    };
    let blocks: Vec<(BlockKey, u64)> = (0..2 * HOLES).map(|_| malloc(20)).collect();
    for &(block, _) in blocks.iter().step_by(2) {
        arena.free(block, None);
    }
    engine.free_all_blocks(None).unwrap();
    assert_eq!(arena.lock().state.unmapped[Class::Large as usize].keys().len(), HOLES + 1);
    let behind = blocks[2 * HOLES - 1].1;
    // No hole is large enough.
    assert!((0..HOLES as u64).all(|i| malloc(40).1 == behind + 20 * MIB + i * 40 * MIB));
    // Each hole is used now, from the lowest address up.
    assert!(blocks.iter().step_by(2).all(|&(_, address)| malloc(20).1 == address));
}
