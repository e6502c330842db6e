//! Bar charts on one row of text.

use std::collections::VecDeque;

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws the last `width` values as bars relative to their maximum; a blank for `None`.
pub(super) fn spark(values: &VecDeque<Option<u64>>, width: usize) -> String {
    let shown = values.range(values.len().saturating_sub(width)..);
    let highest = shown.clone().flatten().max().copied().unwrap_or(0).max(1);
    let bar = |value: u64| {
        let eighths = (u128::from(value) * 8).div_ceil(u128::from(highest)) as usize;
        BARS[eighths.clamp(1, 8) - 1]
    };
    shown.map(|value| value.map_or(' ', bar)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_shares_of_the_highest_shown() {
        let of = |values: &[u64], width| spark(&values.iter().map(|&v| Some(v)).collect(), width);
        assert_eq!(of(&[0, 1, 2, 3, 4, 5, 6, 7, 8], 20), "▁▁▂▃▄▅▆▇█");
        assert_eq!(of(&[800, 1, 2], 2), "▄█");
        assert_eq!(of(&[u64::MAX, u64::MAX / 2], 9), "█▄");
        assert_eq!(of(&[0, 0], 9), "▁▁");
        assert_eq!(of(&[1, 2], 0), "");
        assert_eq!(spark(&[Some(1), None, Some(1)].into(), 9), "█ █");
    }
}
