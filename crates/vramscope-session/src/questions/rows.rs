//! Assigns rows to intervals so that no two drawn intervals overlap.

/// The row of each interval. Intervals are ordered by start, longest first. An interval is below all intervals that contain it,
/// and in another row than intervals that overlap it otherwise. Intervals beyond the last row share the last row.
pub(crate) fn rows_of(spans: impl Iterator<Item = (i64, i64)>) -> Vec<u8> {
    // The end of the last interval in each row.
    let mut ends: Vec<i64> = Vec::new();
    let row_of = |(start, end): (i64, i64)| {
        let is_open = |&at: &i64| at > start;
        let below = ends.iter().rposition(|at| is_open(at) && *at >= end).map_or(0, |around| around + 1);
        let free = ends.iter().skip(below).position(|at| !is_open(at)).map(|after| below + after);
        let row = free.unwrap_or(ends.len().max(below)).min(usize::from(u8::MAX));
        match ends.get_mut(row) {
            Some(last) => *last = end.max(*last),
            None => ends.push(end),
        }
        row as u8
    };
    spans.map(row_of).collect()
}

#[cfg(test)]
mod tests {
    use super::rows_of;

    #[test]
    fn enclosing_spans_are_above_and_overlapping_ones_in_other_rows() {
        let rows = |spans: &[(i64, i64)]| rows_of(spans.iter().copied());
        assert_eq!(rows(&[(0, 100), (10, 50), (20, 30), (60, 70), (100, 110)]), [0, 1, 2, 1, 0]);
        // The second extends beyond the first, and the third beyond the second. An ended interval frees its row.
        assert_eq!(rows(&[(0, 10), (5, 15), (12, 20), (17, 25)]), [0, 1, 0, 1]);
        // Contained in the second interval, although the first has ended: below the second.
        assert_eq!(rows(&[(0, 10), (5, 15), (11, 14)]), [0, 1, 2]);
        assert_eq!(rows(&[(0, 9), (0, 9), (0, 9)]), [0, 1, 2]);
        let deep: Vec<(i64, i64)> = (0..1000).map(|n| (n, 10_000 - n)).collect();
        assert_eq!(rows(&deep)[999], 255);
    }

    #[test]
    fn no_two_spans_of_a_row_overlap() {
        let mut state = 1u64;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % n) as i64
        };
        let mut spans: Vec<(i64, i64)> =
            (0..300).map(|_| random(2000)).map(|start| (start, start + 1)).collect();
        spans.iter_mut().for_each(|span| span.1 += random(60));
        spans.sort_by_key(|&(start, end)| (start, std::cmp::Reverse(end)));
        let rows = rows_of(spans.iter().copied());
        for (i, a) in spans.iter().enumerate() {
            for (j, b) in spans.iter().enumerate().skip(i + 1) {
                assert!(rows[i] != rows[j] || a.1 <= b.0, "{a:?} and {b:?} in row {}", rows[i]);
                assert!(!(a.0 <= b.0 && b.1 <= a.1) || b.0 >= a.1 || rows[i] < rows[j], "{b:?} within {a:?}");
            }
        }
    }
}
