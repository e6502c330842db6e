//! Range maximum queries on a column of numbers.

use super::column::Column;

/// A column of numbers that returns the maximum of any range in time independent of the range's length.
#[derive(Debug, Clone)]
pub(crate) struct RangeMax {
    values: Column,
    /// `levels[k][i]` is the position of the maximum of `1 << k` chunks, starting at chunk `i`.
    levels: Vec<Vec<u32>>,
}

const CHUNK: usize = 256;

impl RangeMax {
    pub(crate) fn new(values: Column) -> Self {
        let last = values.len().saturating_sub(1);
        let chunks = (0..values.len()).step_by(CHUNK);
        let chunks =
            chunks.map(|first| values.first_highest(first..=last.min(first + CHUNK - 1)) as u32).collect();
        let mut levels: Vec<Vec<u32>> = vec![chunks];
        let mut step = 1;
        while let Some(below) = levels.last().filter(|l| l.len() > step) {
            let higher = |a: u32, b: u32| if values.get(b as usize) > values.get(a as usize) { b } else { a };
            let above = below.iter().zip(&below[step..]).map(|(&a, &b)| higher(a, b)).collect();
            levels.push(above);
            step *= 2;
        }
        Self { values, levels }
    }

    /// Returns the numbers.
    pub(crate) fn values(&self) -> &Column {
        &self.values
    }

    /// Returns the maximum of `first..=last`.
    pub(crate) fn highest(&self, first: usize, last: usize) -> u64 {
        self.values.get(self.position(first, last)).unwrap_or_default()
    }

    /// Returns the position of the first maximum of `first..=last`.
    pub(crate) fn position(&self, first: usize, last: usize) -> usize {
        let plain = |from: usize, to: usize| self.values.first_highest(from..=to);
        let (a, b) = (first / CHUNK + 1, last / CHUNK);
        if a >= b {
            return plain(first, last);
        }
        // Whole chunks `a..b`, covered by two ranges that may overlap.
        let level = (b - a).ilog2() as usize;
        let whole = [self.levels[level][a], self.levels[level][b - (1 << level)]].map(|p| p as usize);
        let parts = [plain(first, a * CHUNK - 1), whole[0], whole[1], plain(b * CHUNK, last)];
        let mut best = parts[0];
        for p in parts {
            if self.values.get(p) > self.values.get(best) {
                best = p;
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_of_a_range_is_what_a_scan_finds() {
        // Few distinct values, so that the order of equal maxima matters.
        let values: Vec<u64> = (0..2000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60).collect();
        let mut column = Column::of_sums(1, values.len());
        values.iter().for_each(|&value| column.push(value));
        let fast = RangeMax::new(column);
        for first in (0..2000).step_by(97) {
            for last in (first..2000).step_by(61) {
                let scan = values[first..=last].iter().copied().max().unwrap();
                assert_eq!(fast.highest(first, last), scan, "{first}..={last}");
                let position = (first..=last).find(|&i| values[i] == scan).unwrap();
                assert_eq!(fast.position(first, last), position, "{first}..={last}");
            }
        }
    }
}
