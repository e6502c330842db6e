//! Rounding of requests to steps between powers of two.

/// Smallest block and unit of rounding in bytes (`kMinBlockSize` in `c10/core/AllocatorConfig.h`, PyTorch 2.11).
const MIN_BLOCK_SIZE: u64 = 512;

/// Number of steps between one power of two and the next when a request is rounded up. One entry for each power of two from 1 to 32768
/// MiB; 0 is off.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct PowerOfTwoDivisions(pub [u64; 16]);

impl PowerOfTwoDivisions {
    /// Rounds a request of `size` bytes to a block size in bytes. Saturates at the largest multiple of 512.
    pub fn round_size(self, size: u64) -> u64 {
        if size < MIN_BLOCK_SIZE {
            return MIN_BLOCK_SIZE;
        }
        let log2 = size.ilog2();
        let divisions = self.0[(log2.saturating_sub(20) as usize).min(15)];
        if divisions > 1 && size > MIN_BLOCK_SIZE.saturating_mul(divisions) && !size.is_power_of_two() {
            let step = (1u64 << log2) >> divisions.ilog2();
            return size.checked_next_multiple_of(step.max(1)).unwrap_or(u64::MAX - 511);
        }
        size.checked_next_multiple_of(MIN_BLOCK_SIZE).unwrap_or(u64::MAX - 511)
    }
}

impl PowerOfTwoDivisions {
    /// Returns the text of a configuration: `4`, or `[1:0,2:0,4:8 ...]` with boundaries in MiB.
    pub(super) fn in_conf(self) -> String {
        let divisions = self.0;
        if divisions[1..].iter().all(|&n| n == divisions[0]) {
            return divisions[0].to_string();
        }
        let each = divisions.iter().enumerate().map(|(i, n)| format!("{}:{n}", 1u64 << i));
        format!("[{}]", each.collect::<Vec<_>>().join(","))
    }
}

/// Parses `4`, or `[256:1,512:2,>:8]` with boundaries in MiB. The first pair also applies to all sizes below it, `>` to all sizes above
/// the last pair. Sizes between two pairs stay off (PyTorch 2.11, `parseArgs`).
pub(super) fn parse(value: &str) -> Result<PowerOfTwoDivisions, &'static str> {
    let count = |s: &str| match s.trim().parse::<u64>() {
        Ok(n) if n == 0 || n.is_power_of_two() => Ok(n),
        _ => Err("has a count of divisions that is not a power of two or 0"),
    };
    let Some(list) = value.strip_prefix('[') else {
        let all = count(value)?;
        // Off is the default; only a list may contain it.
        return if all == 0 { Err("is not a power of two") } else { Ok(PowerOfTwoDivisions([all; 16])) };
    };
    let list = list.strip_suffix(']').ok_or("has no closing bracket")?;
    let mut out = [0; 16];
    let mut last = None;
    for pair in list.split(',') {
        let (boundary, n) = pair.split_once(':').ok_or("has an entry that is not `MiB:divisions`")?;
        let n = count(n)?;
        if boundary.trim() == ">" {
            out[last.map_or(0, |i: usize| i + 1).min(16)..].fill(n);
            continue;
        }
        let mib: u64 = boundary.trim().parse().map_err(|_| "has a boundary that is not a number of MiB")?;
        if !mib.is_power_of_two() {
            return Err("has a boundary that is not a power of two");
        }
        let i = (mib.ilog2() as usize).min(15);
        match last {
            None => out[..=i].fill(n),
            Some(_) => out[i] = n,
        }
        last = Some(i);
    }
    Ok(PowerOfTwoDivisions(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    #[test]
    fn requests_round_to_512_bytes() {
        let off = PowerOfTwoDivisions::default();
        for (asked, given) in [(0, 512), (1, 512), (512, 512), (513, 1024), (1 << 30, 1 << 30)] {
            assert_eq!(off.round_size(asked), given, "{asked}");
        }
        assert_eq!(off.round_size(u64::MAX), u64::MAX - 511);
    }

    #[test]
    fn divisions_round_between_powers_of_two() {
        let four = PowerOfTwoDivisions([4; 16]);
        // 1200 MiB is between 1024 and 2048 MiB; four divisions give steps of 256 MiB.
        assert_eq!(four.round_size(1200 * MIB), 1280 * MIB);
        assert_eq!(four.round_size(1024 * MIB), 1024 * MIB);
        // At or below 512 bytes times the divisions, requests round to 512 bytes.
        assert_eq!(four.round_size(2048), 2048);
        assert_eq!(four.round_size(2049), 2560);
    }
}
