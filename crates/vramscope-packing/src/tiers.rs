//! The tiers of items, which decide the order of placement in [`sweep`](super::sweep).

use super::Item;

/// How much sizes shrink from one tier to the next.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shrink {
    Quarter,
    Half,
    ThreeQuarters,
}

/// The tier of each item; the largest items are in tier 0.
#[derive(Debug)]
pub(crate) struct Tiers {
    pub(crate) of: Vec<u8>,
    pub(crate) count: u8,
    /// Number of items that the sweeps over all tiers process, including already placed ones.
    pub(crate) steps: u64,
}

/// Sweeping this many items again is always cheap enough.
const FEW: usize = 1000;

/// The largest number of tiers; sizes below 2^-20 of the largest hardly matter.
const MOST_TIERS: u8 = 20;

impl Tiers {
    /// Divides items into tiers by size. Small items hardly matter for the height, but each tier sweeps over all items of the
    /// earlier tiers again. Once that has cost `most_again` per hundred items, all remaining items share the last tier.
    pub(crate) fn new(items: &[Item], shrink: Shrink, most_again: usize) -> Self {
        let largest = items.iter().filter(|item| item.takes_room()).map(|item| item.size).max().unwrap_or(0);
        let mut limits = Vec::new();
        let mut limit = largest;
        for _ in 0..MOST_TIERS {
            limit = match shrink {
                Shrink::Quarter => limit / 4,
                Shrink::Half => limit / 2,
                Shrink::ThreeQuarters => limit - limit.div_ceil(4),
            };
            limits.push(limit);
        }
        // The tier of a size is the number of limits that are not below it.
        let class = |item: &Item| limits.partition_point(|&limit| item.size <= limit);
        let mut counts = vec![0_usize; limits.len() + 1];
        for item in items.iter().filter(|item| item.takes_room()) {
            counts[class(item)] += 1;
        }
        // Size classes without items get no tier; classes that would cost too much share the last tier.
        let all = counts.iter().sum::<usize>();
        let most = (all / 100).saturating_mul(most_again).max(FEW);
        let mut tier_of_class = vec![0_u8; counts.len()];
        let mut tier = 0;
        let (mut so_far, mut steps) = (0, 0_usize);
        for (class, &count) in counts.iter().enumerate() {
            tier_of_class[class] = tier;
            so_far += count;
            if count > 0 && so_far < all && steps.saturating_add(so_far) <= most {
                steps += so_far;
                tier += 1;
            }
        }
        let of = items.iter().map(|item| tier_of_class[class(item)]).collect();
        Self { of, count: tier + 1, steps: (steps + all) as u64 }
    }
}
