//! The table of `torch.cuda.memory_summary`: its rows, widths and units.

use std::fmt::Write as _;

use vramscope_engine::{MemorySummary, Metric, PartialStat};

/// Width of the table between its outer bars, in characters.
const WIDTH: usize = 75;

/// Formats the first argument as a cell of ten characters, in the unit that suits the second argument.
type Unit = fn(u64, u64) -> String;

/// Formats the table of one device. `abbreviated` leaves out the rows of the large and the small pool.
pub(super) fn table(device_id: i32, summary: &MemorySummary, abbreviated: bool) -> String {
    let MemorySummary { num_ooms, num_alloc_retries, .. } = summary;
    let mut lines = vec![
        "=".repeat(WIDTH),
        format!(" {:16} PyTorch CUDA memory summary, device ID {device_id:<17} ", ""),
        "-".repeat(WIDTH),
        format!(
            "  {:9} CUDA OOMs: {num_ooms:<12} | {:6} cudaMalloc retries: {num_alloc_retries:<8}  ",
            "", ""
        ),
        "=".repeat(WIDTH),
        "        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ".to_owned(),
    ];
    let metrics: [(&str, &Metric, Unit); 9] = [
        ("Allocated memory", &summary.allocated_bytes, bytes),
        ("Active memory", &summary.active_bytes, bytes),
        ("Requested memory", &summary.requested_bytes, bytes),
        ("GPU reserved memory", &summary.reserved_bytes, bytes),
        ("Non-releasable memory", &summary.inactive_split_bytes, bytes),
        ("Allocations", &summary.allocation, count),
        ("Active allocs", &summary.active, count),
        ("GPU reserved segments", &summary.segment, count),
        ("Non-releasable allocs", &summary.inactive_split, count),
    ];
    for (name, Metric { all, large, small }, unit) in metrics {
        lines.push("-".repeat(WIDTH));
        let parts = [(name, all), ("      from large pool", large), ("      from small pool", small)];
        let shown = if abbreviated { &parts[..1] } else { &parts };
        lines.extend(rows(shown, unit));
    }
    for (name, counted) in [
        ("Oversize allocations", &summary.oversize_allocations),
        ("Oversize GPU segments", &summary.oversize_segments),
    ] {
        lines.push("-".repeat(WIDTH));
        lines.extend(rows(&[(name, counted)], count));
    }
    lines.push("=".repeat(WIDTH));
    lines.iter().fold(String::new(), |mut table, line| {
        let _ = writeln!(table, "|{line}|");
        table
    })
}

/// Formats the rows of one metric. All numbers of a column have the unit that suits the column's first known number.
fn rows(parts: &[(&str, &PartialStat)], unit: Unit) -> Vec<String> {
    let columns = [
        |c: &PartialStat| Some(c.current),
        |c: &PartialStat| c.peak,
        |c: &PartialStat| c.allocated,
        |c: &PartialStat| c.freed,
    ];
    let chooses = columns.map(|column| parts.iter().find_map(|(_, counted)| column(counted)));
    let row = |(name, counted): &(&str, &PartialStat)| {
        let mut row = format!(" {name:<21} ");
        for (column, chooses) in columns.iter().zip(chooses) {
            let cell = match (column(counted), chooses) {
                (Some(number), Some(chooses)) => unit(number, chooses),
                // Aligned with the numbers, which have a unit of three letters after them.
                _ => format!("{:>6}    ", "n/a"),
            };
            let _ = write!(row, "| {cell} ");
        }
        row
    };
    parts.iter().map(row).collect()
}

/// Formats bytes in the smallest unit that gives a number below 768 Ki, rounded down (`_format_size`).
fn bytes(number: u64, chooses: u64) -> String {
    let (number, unit) =
        scaled(number, chooses, 1024, 768 * 1024, &["B  ", "KiB", "MiB", "GiB", "TiB", "PiB"]);
    format!("{number:>6} {unit}")
}

/// Formats a count in the smallest unit that gives a number below 750,000, rounded down (`_format_count`).
fn count(number: u64, chooses: u64) -> String {
    let (number, unit) = scaled(number, chooses, 1000, 750 * 1000, &[" ", "K", "M"]);
    format!("{number:>7} {unit} ")
}

fn scaled(
    mut number: u64,
    chooses: u64,
    step: u64,
    most: u64,
    units: &'static [&'static str],
) -> (u64, &'static str) {
    let mut chooses = chooses as f64;
    let mut unit = 0;
    while unit + 1 < units.len() && chooses >= most as f64 {
        unit += 1;
        number /= step;
        chooses /= step as f64;
    }
    (number, units[unit])
}

#[cfg(test)]
mod tests {
    use super::{bytes, count};

    /// The thresholds of `_format_size` and `_format_count` in `torch/cuda/memory.py`.
    #[test]
    fn units_change_where_pytorchs_do() {
        let same = |unit: fn(u64, u64) -> String, n: u64| unit(n, n);
        for (n, cell) in [
            (0, "     0 B  "),
            (786_431, "786431 B  "),
            (786_432, "   768 KiB"),
            (805_306_367, "786431 KiB"),
            (805_306_368, "   768 MiB"),
            (768 << 30, "   768 GiB"),
            (u64::MAX, " 16383 PiB"),
        ] {
            assert_eq!(same(bytes, n), cell);
        }
        for (n, cell) in [
            (749_999, " 749999   "),
            (750_000, "    750 K "),
            (750_000_000, "    750 M "),
            (10u64.pow(12), "1000000 M "),
        ] {
            assert_eq!(same(count, n), cell);
        }
        // A part has the unit of the whole.
        assert_eq!(bytes(1000, 786_432), "     0 KiB");
    }
}
