//! Formats lists of ranks.

/// Limit on the ranges in a list.
const MOST_RANGES: usize = 12;

/// Formats sorted numbers: `rank 13`, `ranks 0-3, 7`.
pub(crate) fn ranks(numbers: &[u64]) -> String {
    let s = if numbers.len() == 1 { "" } else { "s" };
    format!("rank{s} {}", ranges(numbers))
}

/// Formats sorted numbers as ranges: `0-3, 7`. A long list ends with the number of further ranks.
pub(crate) fn ranges(numbers: &[u64]) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let shown = ranges.iter().take(MOST_RANGES).map(|&(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    });
    let text = shown.collect::<Vec<_>>().join(", ");
    let left: u64 = ranges.iter().skip(MOST_RANGES).map(|&(first, last)| last - first + 1).sum();
    if left == 0 { text } else { format!("{text} and {left} more") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined() {
        assert_eq!(ranks(&[13]), "rank 13");
        assert_eq!(ranks(&[0, 1, 2, 3, 7, 9, 10]), "ranks 0-3, 7, 9, 10");
        let odd: Vec<u64> = (0..40).map(|n| 2 * n).collect();
        assert_eq!(ranges(&odd), "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22 and 28 more");
        assert_eq!(ranges(&[u64::MAX]), u64::MAX.to_string());
    }
}
