//! Checks packings with a validator that shares no code with the implementation.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Effort, Item, Packing, pack};

const QUICK: Effort = Effort { sweep_items: 2_000, search_items: 64, search_steps: 20_000 };

fn item(from: u32, to: u32, size: u64) -> Item {
    Item { from, to, size }
}

fn is_live(item: &Item, time: u32) -> bool {
    item.size > 0 && item.from <= time && time < item.to
}

/// Checks all pairs and all starts: slow but simple.
fn check(items: &[Item], packing: &Packing) {
    assert_eq!(packing.offsets.len(), items.len());
    let rows = items.iter().zip(&packing.offsets).collect::<Vec<_>>();
    let mut height = 0;
    for (index, &(a, &at)) in rows.iter().enumerate() {
        if a.size == 0 || a.from >= a.to {
            assert_eq!(at, 0, "{a:?} takes no room");
            continue;
        }
        let top = at.checked_add(a.size).expect("tops fit into 64 bits");
        height = height.max(top);
        for &(b, &other) in &rows[index + 1..] {
            let together = is_live(b, a.from) || is_live(b, b.from) && is_live(a, b.from);
            let apart = top <= other || other + b.size <= at;
            assert!(!together || apart, "{a:?} at {at} and {b:?} at {other} overlap");
        }
    }
    let load = |time| items.iter().filter(|item| is_live(item, time)).map(|item| item.size).sum::<u64>();
    let peak = items.iter().map(|item| load(item.from)).max().unwrap_or(0);
    assert_eq!(packing.height, height);
    assert_eq!(packing.lower_bound, peak);
    assert!(packing.height >= peak);
}

/// Returns the lowest possible height: tries all orders, with each item on top of the items that it overlaps.
fn least_height(items: &[Item], placed: &mut Vec<(usize, u64)>, height: u64) -> u64 {
    let overlap = |a: &Item, b: &Item| is_live(a, b.from) || is_live(b, a.from);
    let mut least = u64::MAX;
    for (index, item) in items.iter().enumerate() {
        if placed.iter().any(|&(other, _)| other == index) {
            continue;
        }
        let below = placed.iter().filter(|&&(other, _)| overlap(item, &items[other])).map(|&(_, top)| top);
        let top = below.max().unwrap_or(0) + item.size;
        placed.push((index, top));
        least = least.min(least_height(items, placed, height.max(top)));
        placed.pop();
    }
    if placed.len() == items.len() { height } else { least }
}

fn some_items(most: usize, last: u32, size: u64) -> impl Strategy<Value = Vec<Item>> {
    vec((0..last, 0..last, 0..size).prop_map(|(from, to, size)| item(from, to, size)), 0..most)
}

proptest! {
    #[test]
    fn no_two_items_overlap_in_time_and_bytes(items in some_items(60, 40, 50)) {
        check(&items, &pack(&items, QUICK));
    }

    #[test]
    fn sweeps_alone_are_valid_too(items in some_items(400, 300, 1 << 20)) {
        check(&items, &pack(&items, Effort { search_items: 0, ..QUICK }));
    }

    #[test]
    fn few_items_are_packed_as_low_as_any_order_can(
        items in vec((0_u32..8, 1_u32..8, 1_u64..9).prop_map(|(from, more, size)| item(from, from + more, size)), 1..7)
    ) {
        let packing = pack(&items, Effort::default());
        check(&items, &packing);
        prop_assert!(packing.is_optimal());
        prop_assert_eq!(packing.height, least_height(&items, &mut Vec::new(), 0));
    }

    #[test]
    fn items_of_any_size_and_time_are_packed(
        rows in vec((any::<u32>(), any::<u32>(), any::<u64>(), 0_u32..64), 0..40)
    ) {
        let items = rows.iter().map(|&(from, to, size, shift)| item(from, to, size >> shift)).collect::<Vec<_>>();
        let packing = pack(&items, QUICK);
        prop_assert!(packing.height >= packing.lower_bound);
        if packing.height < u64::MAX {
            check(&items, &packing);
        }
    }
}

#[test]
fn items_without_bytes_or_lifetime_need_no_room() {
    for items in [vec![], vec![item(3, 3, 8)], vec![item(5, 2, 8)], vec![item(0, 9, 0)]] {
        let packing = pack(&items, Effort::default());
        check(&items, &packing);
        assert!(packing.is_optimal());
    }
}

#[test]
fn items_that_follow_each_other_share_their_bytes() {
    let items = [item(0, 5, 512), item(5, 9, 512), item(9, 10, 512)];
    assert_eq!(pack(&items, Effort::default()).offsets, [0, 0, 0]);
}

#[test]
fn more_bytes_than_64_bits_count_saturate() {
    let items = [item(0, 9, u64::MAX), item(0, 9, u64::MAX), item(9, 12, u64::MAX)];
    let packing = pack(&items, Effort::default());
    assert_eq!((packing.height, packing.lower_bound), (u64::MAX, u64::MAX));
}

#[test]
fn a_bound_that_cannot_be_reached_is_proven_so() {
    let items = [(6, 9, 3), (1, 5, 4), (1, 3, 4), (4, 7, 3), (4, 6, 1), (7, 9, 4), (5, 7, 2)];
    let items = items.map(|(from, to, size)| item(from, to, size));
    let packing = pack(&items, Effort::default());
    check(&items, &packing);
    assert_eq!((packing.lower_bound, packing.height, packing.exhausted), (8, 9, true));
    assert_eq!(least_height(&items, &mut Vec::new(), 0), 9);
}

#[test]
fn the_same_items_give_the_same_packing() {
    let items = churn(2_000, 100, 11);
    assert_eq!(pack(&items, QUICK), pack(&items, QUICK));
}

#[test]
fn random_lifetimes_are_packed_within_two_percent() {
    let items = churn(20_000, 300, 5);
    let packing = pack(&items, Effort::default());
    check_some(&items, &packing);
    assert!(packing.height - packing.lower_bound <= packing.lower_bound / 50, "{}", packing.height);
}

/// Like [`check`], for more items: checks only pairs that start close to each other.
fn check_some(items: &[Item], packing: &Packing) {
    for (window, offsets) in items.chunks(500).zip(packing.offsets.chunks(500)) {
        for (a, at) in window.iter().zip(offsets) {
            for (b, other) in window.iter().zip(offsets).filter(|&(b, _)| !std::ptr::eq(a, b)) {
                let apart = at + a.size <= *other || other + b.size <= *at;
                assert!(apart || !(is_live(a, b.from) || is_live(b, a.from)), "{a:?} {b:?}");
            }
        }
    }
}

/// Items with exponential lifetimes, `live` at a time on average, and heavy-tailed sizes from 512 bytes to 64 MiB.
fn churn(count: u32, live: u32, seed: u64) -> Vec<Item> {
    let mut state = seed;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 11
    };
    (0..count)
        .map(|at| {
            let lifetime = (1..=20).find(|_| random() % 2 == 0).unwrap_or(20) * live / 2 + 1;
            let size = (4096 * 16_384 / (random() % 16_384 + 1)).div_ceil(512) * 512;
            item(at, at + lifetime, size)
        })
        .collect()
}

#[test]
fn the_deepest_search_fits_the_stack_of_a_thread() {
    // All items are live together: the search goes down one level per item and never back.
    let items = vec![item(0, 1, 1); 4096];
    let mut packing = Packing { offsets: vec![0; 4096], height: 9999, lower_bound: 4096, exhausted: false };
    let search = move || {
        super::search::improve(&items, &mut packing, u64::MAX);
        packing.height
    };
    let thread = std::thread::Builder::new().stack_size(4 << 20).spawn(search).expect("a thread");
    assert_eq!(thread.join().expect("no overflow"), 4096);
}

#[test]
fn a_million_blocks_live_at_once_are_packed() {
    // Half of the items leave holes too small for later ones. Walking along the holes for each later item would take far too
    // long.
    let count = 500_000;
    let end = count * 2 + 1;
    let first = (0..count).map(|n| Item { from: n, to: if n % 2 == 0 { count } else { end }, size: 1024 });
    let second = (count..2 * count).map(|n| Item { from: n, to: end, size: 1536 + u64::from(n % 7) });
    let items: Vec<Item> = first.chain(second).collect();
    let packing = pack(&items, Effort { sweep_items: 0, ..Effort::default() });
    assert!(packing.height >= packing.lower_bound);
    // Holes that stay free for shorter and shorter times, so no hole fits a later item.
    let stairs: Vec<Item> = (0..300_000)
        .map(|n| match n % 3 {
            0 => Item { from: 0, to: n + 1, size: 4096 },
            1 => Item { from: 300_000 - n, to: 300_001, size: 4096 },
            _ => Item { from: n, to: n + 150_000, size: 512 },
        })
        .collect();
    let packing = pack(&stairs, Effort { sweep_items: 0, ..Effort::default() });
    assert!(packing.height >= packing.lower_bound);
}
