use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Segments have 32 places each. A place is free, unmapped or in use.
const PLACES: usize = 32;

proptest! {
    #[test]
    fn the_place_to_grow_equals_that_of_a_walk_over_all_blocks(
        steps in prop::collection::vec((0usize..4 * PLACES, 0u8..3), 1..120),
        size in 1u64..12,
    ) {
        let mut places = [2u8; 4 * PLACES];
        let (mut unmapped, mut there) = (UnmappedBlocks::default(), BTreeMap::new());
        for (place, what) in steps {
            places[place] = what;
            // Rebuild all blocks: start, end and state.
            let mut blocks: Vec<(u64, u64, u8)> = Vec::new();
            for (at, &what) in places.iter().enumerate() {
                match blocks.last_mut() {
                    Some(last) if at % PLACES > 0 && last.2 == what => last.1 += 1,
                    _ => blocks.push((at as u64, at as u64 + 1, what)),
                }
            }
            let beside = |a: &(u64, u64, u8), b: &(u64, u64, u8)| a.1 == b.0 && !b.0.is_multiple_of(PLACES as u64);
            let now: BTreeMap<u64, u64> = blocks.iter().filter(|b| b.2 == 1).map(|b| (b.0, b.1)).collect();
            for (&address, _) in there.iter().filter(|&(a, end)| now.get(a) != Some(end)) {
                unmapped.remove(address);
            }
            for (&address, &end) in now.iter().filter(|&(a, end)| there.get(a) != Some(end)) {
                unmapped.insert(address, end - address, BlockKey::new(address as usize));
            }
            there = now;
            for (i, block) in blocks.iter().enumerate().filter(|(_, b)| b.2 == 1) {
                let before = i.checked_sub(1).map(|i| &blocks[i]).filter(|b| b.2 == 0 && beside(b, block));
                let after = blocks.get(i + 1).filter(|b| b.2 == 0 && beside(block, b));
                unmapped.set_reach(block.0, (before.map_or(block.0, |b| b.0), after.map_or(block.1, |b| b.1)));
            }

            let walked = blocks.iter().enumerate().filter(|(_, b)| b.2 == 1).find(|&(i, block)| {
                let start = i.checked_sub(1).filter(|&p| blocks[p].2 < 2 && beside(&blocks[p], block)).unwrap_or(i);
                let mut end = start;
                while blocks.get(end + 1).is_some_and(|b| b.2 < 2 && beside(&blocks[end], b)) {
                    end += 1;
                }
                blocks[end].1 - blocks[start].0 >= size
            });
            let expected = walked.map(|(_, block)| BlockKey::new(block.0 as usize));
            prop_assert_eq!(unmapped.first_of(size), expected);
            for place in 0..4 * PLACES as u64 {
                let key = there.contains_key(&place).then(|| BlockKey::new(place as usize));
                prop_assert_eq!(unmapped.get(place), key);
            }
        }
    }
}
