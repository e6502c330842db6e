//! Where a column of numbers is highest.

/// A column of numbers that knows the highest of any range, in time that does not depend on the range's length.
#[derive(Debug, Clone)]
pub(crate) struct RangeMax {
    values: Vec<u64>,
    /// `levels[k][i]` is where the highest of `1 << k` chunks from chunk `i` stands.
    levels: Vec<Vec<u32>>,
}

const CHUNK: usize = 64;

impl RangeMax {
    pub(crate) fn new(values: Vec<u64>) -> Self {
        let chunks = values.chunks(CHUNK).zip((0..).step_by(CHUNK));
        let chunks = chunks.map(|(c, first)| (first + first_highest(c)) as u32).collect();
        let mut levels: Vec<Vec<u32>> = vec![chunks];
        let mut step = 1;
        while let Some(below) = levels.last().filter(|l| l.len() > step) {
            let higher = |a: u32, b: u32| if values[b as usize] > values[a as usize] { b } else { a };
            let above = below.iter().zip(&below[step..]).map(|(&a, &b)| higher(a, b)).collect();
            levels.push(above);
            step *= 2;
        }
        Self { values, levels }
    }

    /// The numbers.
    pub(crate) fn values(&self) -> &[u64] {
        &self.values
    }

    /// The highest of `first..=last`.
    pub(crate) fn highest(&self, first: usize, last: usize) -> u64 {
        self.values[self.position(first, last)]
    }

    /// Where the first of the highest of `first..=last` stands.
    pub(crate) fn position(&self, first: usize, last: usize) -> usize {
        let plain = |from: usize, to: usize| from + first_highest(&self.values[from..=to]);
        let (a, b) = (first / CHUNK + 1, last / CHUNK);
        if a >= b {
            return plain(first, last);
        }
        // Whole chunks a..b, covered by two that may overlap.
        let level = (b - a).ilog2() as usize;
        let whole = [self.levels[level][a], self.levels[level][b - (1 << level)]].map(|p| p as usize);
        let parts = [plain(first, a * CHUNK - 1), whole[0], whole[1], plain(b * CHUNK, last)];
        let mut best = parts[0];
        for p in parts {
            if self.values[p] > self.values[best] {
                best = p;
            }
        }
        best
    }
}

fn first_highest(values: &[u64]) -> usize {
    let highest = values.iter().copied().max();
    values.iter().position(|&v| Some(v) == highest).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_of_a_range_is_what_a_scan_finds() {
        // Few distinct values, so that the first of several highest matters.
        let values: Vec<u64> = (0..2000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60).collect();
        let fast = RangeMax::new(values.clone());
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
