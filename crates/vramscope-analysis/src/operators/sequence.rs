//! Finds a sequence of sizes within another one.

/// Number of consecutive sizes that are looked up together.
const GRAM: usize = 16;

/// Minimum number of sizes that both sequences have in common.
const LEAST: usize = 8;

/// Maximum numbers of looked up grams, of places of each, and of places that are compared in full.
const MOST_GRAMS: usize = 256;
const MOST_PLACES: usize = 4096;
const MOST_COMPARED: usize = 64;

/// Maximum number of sizes that are compared to choose the places for the full comparison.
const SAMPLED: usize = 256;

/// A place at which the part may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shift {
    /// `part[i]` is `whole[i + by]`.
    pub(super) by: i64,
    /// Whether no other place has more equal sizes.
    pub(super) is_best: bool,
}

/// Returns the places at which `part[i]` is `whole[i + shift]` for at least nine of ten sizes that both have there: those with the most
/// equal sizes, and those where less of the part is in the whole and no more sizes differ. A sequence that repeats has several. The
/// beginning of either may be missing in the other, as well as the end. The effort is that of sorting.
pub(super) fn shifts(part: &[u64], whole: &[u64]) -> Vec<Shift> {
    let gram = GRAM.min(part.len()).min(whole.len());
    if gram < LEAST {
        return Vec::new();
    }
    let mut index: Vec<(u64, usize)> = hashes(whole, gram).zip(0..).collect();
    index.sort_unstable();
    // Rare grams have fewer wrong places.
    let mut grams: Vec<(usize, usize, usize)> = hashes(part, gram)
        .enumerate()
        .filter_map(|(i, hash)| {
            let first = index.partition_point(|&(h, _)| h < hash);
            let count = index[first..].partition_point(|&(h, _)| h == hash);
            (count > 0).then_some((count, i, first))
        })
        .collect();
    grams.sort_unstable();
    grams.truncate(MOST_GRAMS);
    let mut places: Vec<i64> = Vec::new();
    for (count, i, first) in grams {
        let found = &index[first..first + count.min(MOST_PLACES)];
        places.extend(found.iter().map(|&(_, at)| at as i64 - i as i64));
        // Most grams have the same places.
        if places.len() > 4 * MOST_PLACES {
            places.sort_unstable();
            places.dedup();
            places.truncate(2 * MOST_PLACES);
        }
    }
    places.sort_unstable();
    places.dedup();
    if places.len() > MOST_COMPARED {
        let step = part.len().div_ceil(SAMPLED);
        let mut sampled: Vec<(usize, i64)> =
            places.iter().map(|&shift| (equal(part, whole, shift, step).0, shift)).collect();
        sampled.sort_unstable_by_key(|&(same, shift)| (std::cmp::Reverse(same), shift));
        // All places that are as good as the last one compared.
        let least = sampled[MOST_COMPARED - 1].0;
        let most = if part.len() <= SAMPLED { MOST_PLACES } else { MOST_COMPARED };
        places = sampled.into_iter().filter(|&(same, _)| same >= least).take(most).map(|(_, s)| s).collect();
    }
    // Equal and different sizes.
    let mut found: Vec<(usize, usize, i64)> = Vec::new();
    for shift in places {
        let (same, both) = equal(part, whole, shift, 1);
        let is_long = both >= LEAST && both * 2 >= part.len().min(whole.len());
        if is_long && same * 10 >= both * 9 {
            found.push((same, both - same, shift));
        }
    }
    let most = found.iter().map(|&(same, _, _)| same).max().unwrap_or(0);
    let least = found.iter().filter(|(same, _, _)| *same == most).map(|&(_, different, _)| different).max();
    found
        .into_iter()
        .map(|(same, different, by)| (Shift { by, is_best: same == most }, different))
        .filter(|&(shift, different)| shift.is_best || Some(different) <= least)
        .map(|(shift, _)| shift)
        .collect()
}

/// Returns the number of equal sizes, and of those compared, at every `step`th position.
fn equal(part: &[u64], whole: &[u64], shift: i64, step: usize) -> (usize, usize) {
    let (mut same, mut both) = (0, 0);
    for (i, size) in part.iter().enumerate().step_by(step) {
        let other = usize::try_from(i as i64 + shift).ok().and_then(|at| whole.get(at));
        both += usize::from(other.is_some());
        same += usize::from(other == Some(size));
    }
    (same, both)
}

/// Returns the hash of each run of `gram` sizes. `gram` is at most the number of sizes.
fn hashes(sizes: &[u64], gram: usize) -> impl Iterator<Item = u64> + '_ {
    const BASE: u64 = 0x9e37_79b9_7f4a_7c15;
    let first = (0..gram).fold(1_u64, |power, _| power.wrapping_mul(BASE));
    // Sizes are multiples of 512, so they are mixed first.
    let mixed = |size: u64| (size ^ (size >> 9)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mut hash = 0_u64;
    (0..sizes.len())
        .map(move |i| {
            hash = hash.wrapping_mul(BASE).wrapping_add(mixed(sizes[i]));
            if i >= gram {
                hash = hash.wrapping_sub(first.wrapping_mul(mixed(sizes[i - gram])));
            }
            hash
        })
        .skip(gram - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudorandom sizes.
    fn sizes(n: usize) -> Vec<u64> {
        let mut state = 7_u64;
        (0..n)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 60) * 512
            })
            .collect()
    }

    /// The places with the most equal sizes, and the others.
    fn places(part: &[u64], whole: &[u64]) -> (Vec<i64>, Vec<i64>) {
        let (best, others): (Vec<Shift>, Vec<Shift>) =
            shifts(part, whole).into_iter().partition(|shift| shift.is_best);
        let by = |shifts: Vec<Shift>| shifts.into_iter().map(|shift| shift.by).collect();
        (by(best), by(others))
    }

    #[test]
    fn a_part_is_found_wherever_it_begins() {
        let whole = sizes(3000);
        for (from, to) in [(0, 3000), (1000, 1500), (2990, 3000), (0, 8)] {
            assert_eq!(places(&whole[from..to], &whole), (vec![from as i64], vec![]), "{from}..{to}");
            // The other way round, the beginning of the part is missing.
            assert_eq!(places(&whole, &whole[from..to]), (vec![-(from as i64)], vec![]), "{from}..{to}");
        }
        assert_eq!(places(&whole[..2000], &whole[1000..]), (vec![-1000], vec![]));
    }

    #[test]
    fn some_sizes_may_differ_but_not_many() {
        let whole = sizes(1000);
        let mut part = whole[300..700].to_vec();
        part.iter_mut().step_by(20).for_each(|size| *size += 1);
        assert_eq!(places(&part, &whole), (vec![300], vec![]));
        part.iter_mut().step_by(5).for_each(|size| *size += 1);
        assert!(shifts(&part, &whole).is_empty());
        assert!(shifts(&sizes(20)[..7], &whole).is_empty());
        assert!(shifts(&[], &whole).is_empty() && shifts(&whole, &[]).is_empty());
    }

    #[test]
    fn repetitions_are_all_found() {
        let step = sizes(100);
        let whole: Vec<u64> = step.iter().cycle().take(1000).copied().collect();
        assert_eq!(places(&step, &whole), ((0..10).map(|n| n * 100).collect(), vec![]));
        // Half of two steps fits at both ends, too.
        assert_eq!(places(&whole[..200], &whole[..300]), (vec![0, 100], vec![-100, 200]));
        let equal = vec![512; 100_000];
        assert!(!shifts(&equal[..50_000], &equal).is_empty());
    }
}
