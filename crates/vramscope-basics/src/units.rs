//! Formatting and parsing of sizes, counts and durations.

use std::fmt;

/// Formats bytes as `1.62 GiB`: powers of 1024, two decimals, whole bytes below 1 KiB.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    // Compares with the rounded value: 1023.999 prints as 1024.00, which belongs to the next unit.
    while value >= 1023.995 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.2} {}", UNITS[unit])
}

/// Formats bytes as `+1.62 GiB`, like [`bytes`] with a leading sign. Zero is `0 B`.
pub fn signed_bytes(n: i64) -> String {
    let sign = if n < 0 { "-" } else { "+" };
    if n == 0 { "0 B".to_owned() } else { format!("{sign}{}", bytes(n.unsigned_abs())) }
}

/// Formats a number with thousands separators: `1,234,567`.
pub fn count(n: impl TryInto<u64>) -> String {
    let digits = n.try_into().unwrap_or(u64::MAX).to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, d) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(d);
    }
    out
}

/// Formats a count with its noun: `1 block`, `2 blocks`, `1,234 blocks`.
pub fn counted(n: u64, what: &str) -> String {
    format!("{} {what}{}", count(n), if n == 1 { "" } else { "s" })
}

/// Formats a duration of `us` microseconds: `4 us`, `1.5 ms`, `3.2 s`, `2 min 5 s`, `3 h 5 min`, `2 days 4 h`. Negative durations are
/// `0 us`.
pub fn duration(us: i64) -> String {
    let us = us.max(0);
    match us {
        0..1_000 => format!("{us} us"),
        1_000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        1_000_000..120_000_000 => format!("{:.1} s", us as f64 / 1e6),
        120_000_000..7_200_000_000 => format!("{} min {} s", us / 60_000_000, us / 1_000_000 % 60),
        7_200_000_000..172_800_000_000 => {
            format!("{} h {} min", us / 3_600_000_000, us / 60_000_000 % 60)
        }
        _ => format!("{} days {} h", us / 86_400_000_000, us / 3_600_000_000 % 24),
    }
}

/// Formats `part` as a percentage of `whole` with one decimal: `12.3%`, or `-` if `whole` is zero.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1}%", part as f64 * 100.0 / whole as f64) }
}

/// Formats bytes as CuPy's `LineProfileHook` does: 1024 is `1.00KB`. Units are powers of 1024.
pub fn cupy_bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["", "K", "M", "G", "T", "P"] {
        if value < 1024.0 {
            return format!("{value:.2}{unit}B");
        }
        value /= 1024.0;
    }
    format!("{value:.2}EB")
}

/// Why a text is not a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeError {
    /// Not a number with an optional unit.
    Malformed,
    /// 2^64 bytes or more.
    TooLarge,
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "a size is a number of bytes or has a unit, such as 24GiB or 512MB",
            Self::TooLarge => "the size is 16 EiB or more",
        })
    }
}

impl std::error::Error for SizeError {}

/// Maximum number of decimals that [`parse_bytes`] reads. Further decimals would be less than one byte.
const MOST_DECIMALS: usize = 18;

/// Parses a size such as `24GiB`, `1.5 MiB`, `512MB`, `24G` or `1048576` to bytes.
///
/// A size is a decimal number, optional spaces and an optional unit. Units are case-insensitive:
///
/// | unit | bytes |
/// |---|---|
/// | none, `B` | 1 |
/// | `KiB`, `MiB`, `GiB`, `TiB`, `PiB`, and `K`, `M`, `G`, `T`, `P` | powers of 1024 |
/// | `KB`, `MB`, `GB`, `TB`, `PB` | powers of 1000 |
///
/// Rounds to the nearest byte.
///
/// # Errors
/// [`SizeError::Malformed`] for any other text, [`SizeError::TooLarge`] for 2^64 bytes or more.
pub fn parse_bytes(text: &str) -> Result<u64, SizeError> {
    let text = text.trim();
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len();
    let (number, unit) = (text[..number].trim_end(), &text[number..]);
    let (whole, decimals) = match number.split_once('.') {
        Some((whole, decimals)) if !decimals.is_empty() => (whole, decimals),
        Some(_) => return Err(SizeError::Malformed),
        None => (number, ""),
    };
    let is_number = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(decimals) {
        return Err(SizeError::Malformed);
    }
    let scale = u128::from(scale(unit).ok_or(SizeError::Malformed)?);
    let decimals = &decimals[..decimals.len().min(MOST_DECIMALS)];
    let parts = 10_u128.pow(decimals.len() as u32);
    let fraction: u128 = if decimals.is_empty() { 0 } else { decimals.parse().unwrap_or_default() };
    let whole: u64 = whole.parse().map_err(|_| SizeError::TooLarge)?;
    let bytes = u128::from(whole) * scale + (fraction * scale + parts / 2) / parts;
    u64::try_from(bytes).map_err(|_| SizeError::TooLarge)
}

/// Returns the bytes per unit.
fn scale(unit: &str) -> Option<u64> {
    let (letter, rest) = unit.split_at_checked(1).unwrap_or_default();
    let power = match letter.to_ascii_lowercase().as_str() {
        "" => return Some(1),
        "b" => return rest.is_empty().then_some(1),
        letter => 1 + "kmgtp".find(letter)? as u32,
    };
    match rest.to_ascii_lowercase().as_str() {
        "" | "ib" => Some(1024_u64.pow(power)),
        "b" => Some(1000_u64.pow(power)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for line in include_str!("../sizes.txt").lines().filter(|line| !line.starts_with('#')) {
            let (text, bytes) = line.split_once('|').unwrap();
            assert_eq!(parse_bytes(text).ok(), bytes.trim().parse().ok(), "{line}");
        }
        assert_eq!(parse_bytes("16777216TiB"), Err(SizeError::TooLarge));
        assert_eq!(parse_bytes("99999999999999999999"), Err(SizeError::TooLarge));
        assert_eq!(parse_bytes(&format!("0.{}GiB", "9".repeat(100_000))), Ok(1 << 30));
        assert_eq!(parse_bytes("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(parse_bytes("3 ki\u{212A}"), Err(SizeError::Malformed));
    }

    #[test]
    fn ties_are_rounded_as_the_page_rounds_them() {
        // The same numbers and texts are in the page's tests (viewer/src/text/units.test.ts).
        for (n, text) in [
            (1152, "1.12 KiB"),
            (1408, "1.38 KiB"),
            (1664, "1.62 KiB"),
            (1_048_576 + 131_072, "1.12 MiB"),
            (1023, "1023 B"),
            (1_048_575, "1.00 MiB"),
        ] {
            assert_eq!(bytes(n), text);
        }
        for (part, whole, text) in
            [(1, 400, "0.2%"), (3, 400, "0.8%"), (1, 3, "33.3%"), (2, 3, "66.7%"), (1, 0, "-")]
        {
            assert_eq!(share(part, whole), text);
        }
        for (us, text) in [
            (4, "4 us"),
            (1250, "1.2 ms"),
            (1_750_000, "1.8 s"),
            (125_000_000, "2 min 5 s"),
            (11_100_000_000, "3 h 5 min"),
            (187_200_000_000, "2 days 4 h"),
        ] {
            assert_eq!(duration(us), text);
        }
    }

    #[test]
    fn bytes_are_1024_based() {
        for (n, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1_048_575, "1.00 MiB"),
            (1_738_727_936, "1.62 GiB"),
            (u64::MAX, "16.00 EiB"),
        ] {
            assert_eq!(bytes(n), text);
        }
        assert_eq!(signed_bytes(-2048), "-2.00 KiB");
        for (n, text) in
            [(0, "0.00B"), (512, "512.00B"), (1024, "1.00KB"), (1 << 40, "1.00TB"), (u64::MAX, "16.00EB")]
        {
            assert_eq!(cupy_bytes(n), text);
        }
    }

    #[test]
    fn durations_have_two_units_at_most() {
        for (us, text) in [
            (-1, "0 us"),
            (1_500, "1.5 ms"),
            (119_900_000, "119.9 s"),
            (125_000_000, "2 min 5 s"),
            (7_500_000_000, "2 h 5 min"),
            (187_200_000_000, "2 days 4 h"),
        ] {
            assert_eq!(duration(us), text);
        }
    }

    #[test]
    fn counts_have_separators() {
        assert_eq!(count(7u64), "7");
        assert_eq!(count(1_234_567u64), "1,234,567");
        assert_eq!(counted(1, "block"), "1 block");
    }
}
