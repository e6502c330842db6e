use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn free_blocks_are_an_ordered_set(steps in prop::collection::vec((any::<bool>(), 0u64..8, 0u64..4), 0..60), from in 0u64..9) {
        let (mut blocks, mut plain) = (FreeBlocks::default(), BTreeMap::new());
        for (insert, size, address) in steps {
            let key = (size, 0, address);
            let block = BlockKey::new((size * 10 + address) as usize);
            if insert && !plain.contains_key(&key) {
                blocks.insert(key, block);
                plain.insert(key, block);
            } else if plain.remove(&key).is_some() {
                blocks.remove(key);
            }
            prop_assert_eq!(blocks.len(), plain.len());
            prop_assert_eq!(blocks.iter().collect::<Vec<_>>(), plain.values().copied().collect::<Vec<_>>());
            let expected: Vec<_> = plain.range((from, 0, 0)..).map(|(_, &b)| b).collect();
            prop_assert_eq!(blocks.first_of(from), expected.first().copied());
            prop_assert_eq!(blocks.from(from).collect::<Vec<_>>(), expected);
            let below: Vec<_> = plain.range(..(from, 0, 0)).rev().map(|(_, &b)| b).collect();
            prop_assert_eq!(blocks.below(from).collect::<Vec<_>>(), below);
        }
    }

    /// A block that was not added since the last release is not visited, unless as many were.
    #[test]
    fn a_release_visits_the_added_blocks(steps in prop::collection::vec((0u8..12, 0u64..4, 0u64..40), 0..200)) {
        let (mut blocks, mut plain, mut added) = (FreeBlocks::default(), BTreeMap::new(), BTreeMap::new());
        for (what, size, address) in steps {
            let search_key = (size, 0, address);
            let block = BlockKey::new((size * 100 + address) as usize);
            if what == 0 {
                let taken = blocks.take_added();
                prop_assert!(added.values().all(|key| taken.contains(key)));
                let in_order: Vec<_> = plain.values().copied().filter(|key| taken.contains(key)).collect();
                prop_assert_eq!(&taken, &in_order);
                added.clear();
                prop_assert!(blocks.take_added().len() <= 1);
            } else if what < 8 && !plain.contains_key(&search_key) {
                blocks.insert(search_key, block);
                plain.insert(search_key, block);
                added.insert(search_key, block);
            } else if plain.remove(&search_key).is_some() {
                added.remove(&search_key);
                blocks.remove(search_key);
            }
        }
    }
}
