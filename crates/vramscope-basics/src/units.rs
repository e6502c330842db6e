//! Numbers as CuPy's reports write them.

/// `1234567` as `1,234,567`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1024` as `1.00KB`: the form of CuPy's `LineProfileHook`, in powers of 1024.
pub fn human(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["", "K", "M", "G", "T", "P"] {
        if value < 1024.0 {
            return format!("{value:.2}{unit}B");
        }
        value /= 1024.0;
    }
    format!("{value:.2}EB")
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_are_in_powers_of_1024() {
        for (n, text) in
            [(0, "0.00B"), (512, "512.00B"), (1024, "1.00KB"), (1 << 40, "1.00TB"), (u64::MAX, "16.00EB")]
        {
            assert_eq!(super::human(n), text);
        }
    }

    #[test]
    fn digits_are_grouped_in_threes() {
        for (n, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1234567, "1,234,567")] {
            assert_eq!(super::grouped(n), text);
        }
    }
}
