//! The caching allocator's settings, as recorded.

use thiserror::Error;

const MIB: u64 = 1 << 20;

/// Smallest block, and the unit of rounding (`kMinBlockSize`, `c10/core/AllocatorConfig.h`, PyTorch 2.11).
const MIN_BLOCK_SIZE: u64 = 512;

/// The allocator's settings when the snapshot was taken; they may have been others during the run.
///
/// Fields are `None` where the file's dictionary has no such key. What the dictionary leaves out is parsed
/// from the configuration text into [`conf`](Self::conf).
#[derive(Debug, Default, Clone, PartialEq)]
pub struct AllocatorSettings {
    /// `PYTORCH_CUDA_ALLOC_CONF` as it stood in the environment.
    pub conf_text: Option<String>,
    /// The same, parsed as far as it can be.
    pub conf: Conf,
    /// `max_split_size`: bytes, -1 for unlimited.
    pub max_split_size: Option<i64>,
    /// Fraction of the memory limit at which unused blocks are collected; 0 is never.
    pub garbage_collection_threshold: Option<f64>,
    /// Expandable segments were on.
    pub expandable_segments: Option<bool>,
    /// Threads that register pinned host memory.
    pub pinned_num_register_threads: Option<i64>,
    /// The allocator's lock is released while `cudaMalloc` runs.
    pub release_lock_on_cudamalloc: Option<bool>,
    /// Pinned host memory comes from `cudaHostRegister`.
    pub pinned_use_cuda_host_register: Option<bool>,
    /// Frees inside a CUDA graph capture reuse stream markers (2.11 and later).
    pub graph_capture_record_stream_reuse: Option<bool>,
    /// Largest pinned request that is rounded up (mid 2026 and later): bytes, -1 for no limit.
    pub max_round_threshold: Option<i64>,
    /// Largest pinned block that is cached (mid 2026 and later): bytes, -1 for no limit.
    pub max_cached_size: Option<i64>,
    /// Divisions between powers of two that requests round up to, by size.
    pub roundup_power2_divisions: Option<PowerOfTwoDivisions>,
}

impl AllocatorSettings {
    /// The release that wrote them gives every event a compile context and user metadata, be they empty: seen with
    /// this key (2.11).
    pub fn with_contexts(&self) -> bool {
        self.graph_capture_record_stream_reuse.is_some()
    }

    /// The release that wrote them lists pinned host memory beside devices: seen with this key (2.15).
    pub fn with_host_memory(&self) -> bool {
        self.max_round_threshold.is_some()
    }

    /// Blocks of at least this many bytes are never split; `None` is no limit.
    pub fn max_split_bytes(&self) -> Option<u64> {
        self.max_split_size.and_then(|n| u64::try_from(n).ok()).filter(|&n| n < i64::MAX as u64)
    }
}

/// Into how many steps the range from one power of two to the next is divided when a request is rounded
/// up: one number for each power of two MiB from 1 to 32768; 0 is off.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct PowerOfTwoDivisions(pub [u64; 16]);

impl PowerOfTwoDivisions {
    /// Rounds a request to a block size; saturates at the largest multiple of 512.
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

/// The text a user gives PyTorch in `PYTORCH_CUDA_ALLOC_CONF`, parsed: keys of PyTorch 2.11 and mid 2026.
///
/// Sizes are in bytes, though the text has MiB. A key that is not in the text is `None`.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Conf {
    /// `max_split_size_mb`
    pub max_split_size: Option<u64>,
    /// `max_non_split_rounding_mb`
    pub max_non_split_rounding: Option<u64>,
    /// `large_segment_size_mb` (2.11 and later)
    pub large_segment_size: Option<u64>,
    /// `garbage_collection_threshold`
    pub garbage_collection_threshold: Option<f64>,
    /// `per_process_memory_fraction` (2.10 and later)
    pub per_process_memory_fraction: Option<f64>,
    /// `roundup_power2_divisions`
    pub roundup_power2_divisions: Option<PowerOfTwoDivisions>,
    /// `expandable_segments`
    pub expandable_segments: Option<bool>,
    /// Every other pair, as written, in order.
    pub other: Vec<(String, String)>,
}

/// What is wrong with a configuration text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{item}` {why}")]
pub struct ConfError {
    /// The item that is wrong, as written.
    pub item: String,
    /// Why.
    pub why: String,
}

impl Conf {
    /// Parses `key:value,key:value`, with `[..]` around a list of pairs.
    ///
    /// # Errors
    /// The first item that is not of that form or has a value of the wrong kind.
    pub fn parse(text: &str) -> Result<Self, ConfError> {
        let mut conf = Self::default();
        for item in split_outside_brackets(text) {
            let item = item.trim();
            if item.is_empty() {
                continue;
            }
            let wrong = |why: &str| ConfError { item: item.chars().take(80).collect(), why: why.to_owned() };
            let (key, value) = item.split_once(':').ok_or_else(|| wrong("is not `key:value`"))?;
            let (key, value) = (key.trim(), value.trim());
            let mebibytes = || {
                let n: u64 = value.parse().map_err(|_| wrong("is not a whole number of MiB"))?;
                n.checked_mul(MIB).ok_or_else(|| wrong("is too large"))
            };
            let fraction = || {
                let x: f64 = value.parse().map_err(|_| wrong("is not a number"))?;
                if (0.0..=1.0).contains(&x) { Ok(x) } else { Err(wrong("is not between 0 and 1")) }
            };
            match key {
                "max_split_size_mb" => conf.max_split_size = Some(mebibytes()?),
                "max_non_split_rounding_mb" => conf.max_non_split_rounding = Some(mebibytes()?),
                "large_segment_size_mb" => conf.large_segment_size = Some(mebibytes()?),
                "garbage_collection_threshold" => conf.garbage_collection_threshold = Some(fraction()?),
                "per_process_memory_fraction" => conf.per_process_memory_fraction = Some(fraction()?),
                "roundup_power2_divisions" => {
                    conf.roundup_power2_divisions = Some(divisions(value).map_err(wrong)?);
                }
                "expandable_segments" => {
                    conf.expandable_segments = Some(match value {
                        "True" => true,
                        "False" => false,
                        _ => return Err(wrong("is neither True nor False")),
                    });
                }
                _ => conf.other.push((key.to_owned(), value.to_owned())),
            }
        }
        Ok(conf)
    }
}

/// A configuration text in which `key` has `value`, whatever it had before.
///
/// ```
/// let text = vramscope_trace::conf_with("backend:native,max_split_size_mb:64", "max_split_size_mb", "128");
/// assert_eq!(text, "backend:native,max_split_size_mb:128");
/// ```
pub fn conf_with(text: &str, key: &str, value: &str) -> String {
    let others = split_outside_brackets(text)
        .map(str::trim)
        .filter(|item| !item.is_empty() && item.split_once(':').is_none_or(|(other, _)| other.trim() != key));
    let mut items: Vec<String> = others.map(str::to_owned).collect();
    items.push(format!("{key}:{value}"));
    items.join(",")
}

/// `a:1,b:[x:1,y:2],c:3` as three items.
fn split_outside_brackets(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0usize;
    text.split(move |c| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

/// `4`, or `[256:1,512:2,>:8]` with boundaries in MiB: the first pair also holds for everything below it,
/// `>` for everything above the last, and what lies between two pairs stays off (PyTorch 2.11, `parseArgs`).
fn divisions(value: &str) -> Result<PowerOfTwoDivisions, &'static str> {
    let count = |s: &str| match s.trim().parse::<u64>() {
        Ok(n) if n == 0 || n.is_power_of_two() => Ok(n),
        _ => Err("has a count of divisions that is not a power of two or 0"),
    };
    let Some(list) = value.strip_prefix('[') else {
        let all = count(value)?;
        // Off is what it is without the key, and only a list may say so.
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
        // 1200 MiB lies between 1024 and 2048; with four divisions the steps are 256 MiB.
        assert_eq!(four.round_size(1200 * MIB), 1280 * MIB);
        assert_eq!(four.round_size(1024 * MIB), 1024 * MIB);
        // At or below 512 times the divisions, the plain rule holds.
        assert_eq!(four.round_size(2048), 2048);
        assert_eq!(four.round_size(2049), 2560);
    }

    #[test]
    fn a_list_of_divisions_fills_below_its_first_pair_and_above_its_last() {
        let conf = Conf::parse("expandable_segments:True,roundup_power2_divisions:[4:2,16:4,>:8]").unwrap();
        assert_eq!(conf.expandable_segments, Some(true));
        assert_eq!(
            conf.roundup_power2_divisions,
            Some(PowerOfTwoDivisions([2, 2, 2, 0, 4, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8]))
        );
    }

    #[test]
    fn everything_the_dictionary_leaves_out_is_parsed() {
        let conf = Conf::parse(
            "large_segment_size_mb:64, max_non_split_rounding_mb:32,per_process_memory_fraction:0.12,backend:native",
        )
        .unwrap();
        assert_eq!(conf.large_segment_size, Some(64 * MIB));
        assert_eq!(conf.max_non_split_rounding, Some(32 * MIB));
        assert_eq!(conf.per_process_memory_fraction, Some(0.12));
        assert_eq!(conf.other, [("backend".to_owned(), "native".to_owned())]);
    }

    #[test]
    fn a_wrong_item_is_named() {
        let error = |text| Conf::parse(text).unwrap_err().to_string();
        assert_eq!(error("max_split_size_mb:big"), "`max_split_size_mb:big` is not a whole number of MiB");
        assert_eq!(error("backend"), "`backend` is not `key:value`");
        assert_eq!(
            error("roundup_power2_divisions:3"),
            "`roundup_power2_divisions:3` has a count of divisions that is not a power of two or 0"
        );
        assert_eq!(
            error("garbage_collection_threshold:7"),
            "`garbage_collection_threshold:7` is not between 0 and 1"
        );
    }
}
