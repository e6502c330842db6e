//! Output of the profile.

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

use serde::Serialize;
use thiserror::Error;

use super::CallPhase;
use super::calls::{CallRecord, Calls, FunctionSummary};

/// The unit of a report's byte columns, in powers of 1024: the `unit` of Chainer's `print_report`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Bytes.
    B,
    /// 2^10 bytes.
    KB,
    /// 2^20 bytes.
    MB,
    /// 2^30 bytes.
    GB,
    /// 2^40 bytes.
    TB,
    /// 2^50 bytes.
    PB,
    /// 2^60 bytes.
    EB,
    /// 2^70 bytes.
    ZB,
    /// One unit per column: the largest unit in which the column's highest number is at least 1.
    #[default]
    Auto,
    /// One unit per number: the largest unit in which the number is at least 1.
    AutoForeach,
}

/// The suffixes of the fixed units; the index is the power of 1024.
const SUFFIXES: [&str; 8] = ["B", "KB", "MB", "GB", "TB", "PB", "EB", "ZB"];

const FIXED: [Unit; 8] = [Unit::B, Unit::KB, Unit::MB, Unit::GB, Unit::TB, Unit::PB, Unit::EB, Unit::ZB];

/// An unknown [`Unit`] name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown unit `{0}`: use B, KB, MB, GB, TB, PB, EB, ZB, auto or auto_foreach")]
pub struct UnknownUnit(pub String);

impl FromStr for Unit {
    type Err = UnknownUnit;

    /// Parses Chainer's names: `B` to `ZB`, `auto` and `auto_foreach`.
    fn from_str(text: &str) -> Result<Self, UnknownUnit> {
        match text {
            "auto" => Ok(Self::Auto),
            "auto_foreach" => Ok(Self::AutoForeach),
            _ => {
                let position = SUFFIXES.iter().position(|suffix| *suffix == text);
                position.map(|i| FIXED[i]).ok_or_else(|| UnknownUnit(text.to_owned()))
            }
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self.power() {
            Some(power) => SUFFIXES[power],
            None if *self == Self::Auto => "auto",
            None => "auto_foreach",
        })
    }
}

impl Unit {
    /// Returns the power of 1024 of a fixed unit.
    fn power(self) -> Option<usize> {
        FIXED.iter().position(|unit| *unit == self)
    }
}

/// Returns the power of 1024 of the largest unit in which `bytes` is at least 1. Computed in floating point, as in Chainer's
/// `_choose_unit`.
fn choose_power(bytes: u64) -> usize {
    (1..SUFFIXES.len()).take_while(|&power| scaled(bytes, power) >= 1.0).count()
}

fn scaled(bytes: u64, power: usize) -> f64 {
    (0..power).fold(bytes as f64, |bytes, _| bytes / 1024.0)
}

/// Formats the cells of a byte column.
fn column(unit: Unit, bytes: impl Iterator<Item = u64> + Clone) -> Vec<String> {
    let power_of_all = match unit {
        Unit::AutoForeach => None,
        Unit::Auto => Some(choose_power(bytes.clone().max().unwrap_or(0))),
        fixed => fixed.power(),
    };
    let cell = |bytes| {
        let power = power_of_all.unwrap_or_else(|| choose_power(bytes));
        format!("{:.2}{}", scaled(bytes, power), SUFFIXES[power])
    };
    bytes.map(cell).collect()
}

/// Writes Chainer's table, for counts from any source: the function, its used and acquired bytes, and the number of its calls.
///
/// # Errors
/// Writing to `file` fails.
pub fn write_table(summary: &[FunctionSummary], unit: Unit, file: &mut dyn Write) -> io::Result<()> {
    write_report(summary, false, unit, file)
}

/// Writes the table with right-aligned columns, separated by two spaces. If `full`, with the phase and all numbers.
pub(super) fn write_report(
    summary: &[FunctionSummary],
    full: bool,
    unit: Unit,
    file: &mut dyn Write,
) -> io::Result<()> {
    type Bytes = fn(&FunctionSummary) -> u64;
    let texts = |cell: fn(&FunctionSummary) -> String| summary.iter().map(cell).collect();
    let bytes = |bytes: Bytes| column(unit, summary.iter().map(bytes));

    let mut columns: Vec<(&str, Vec<String>)> = vec![("FunctionName", texts(|row| row.function.to_string()))];
    if full {
        columns.push(("Phase", texts(|row| row.phase.as_ref().map_or("", CallPhase::as_str).to_owned())));
    }
    columns.push(("UsedBytes", bytes(|row| row.used_bytes)));
    columns.push(("AcquiredBytes", bytes(|row| row.acquired_bytes)));
    if full {
        columns.push(("PeakBytes", bytes(|row| row.peak_bytes)));
        columns.push(("LiveBytes", bytes(|row| row.live_bytes)));
        columns.push(("FreedBytes", bytes(|row| row.freed_bytes)));
    }
    columns.push(("Occurrence", texts(|row| row.occurrence.to_string())));

    for (header, cells) in &mut columns {
        cells.insert(0, (*header).to_owned());
        let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        for cell in cells {
            *cell = format!("{cell:>width$}");
        }
    }
    for line in 0..=summary.len() {
        let cells: Vec<&str> = columns.iter().map(|(_, cells)| cells[line].as_str()).collect();
        writeln!(file, "{}", cells.join("  "))?;
    }
    file.flush()
}

/// The output of [`write_json`](super::CupyMemoryProfileHook::write_json).
#[derive(Serialize)]
pub(super) struct Profile {
    total_used_bytes: u64,
    total_acquired_bytes: u64,
    summary: Vec<FunctionSummary>,
    summary_by_phase: Vec<FunctionSummary>,
    num_forgotten: u64,
    call_history: Vec<CallRecord>,
}

impl Profile {
    pub(super) fn of(calls: &Calls) -> Self {
        Self {
            total_used_bytes: calls.total_used(),
            total_acquired_bytes: calls.total_acquired(),
            summary: calls.summary(),
            summary_by_phase: calls.summary_by_phase().collect(),
            num_forgotten: calls.num_forgotten(),
            call_history: calls.history().cloned().collect(),
        }
    }

    pub(super) fn write_json(&self, file: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *file, self)?;
        writeln!(file)?;
        file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_chosen_as_chainer_does() {
        for (bytes, text) in [
            (0, "0.00B"),
            (1023, "1023.00B"),
            (1024, "1.00KB"),
            (1152, "1.12KB"),
            ((1 << 20) - 1, "1024.00KB"),
            (1 << 30, "1.00GB"),
            ((1 << 60) - 1, "1.00EB"),
            (u64::MAX, "16.00EB"),
        ] {
            assert_eq!(column(Unit::AutoForeach, std::iter::once(bytes)), [text]);
        }
        assert_eq!(column(Unit::ZB, std::iter::once(u64::MAX)), ["0.02ZB"]);
        assert_eq!(column(Unit::Auto, [1536, 1 << 20].into_iter()), ["0.00MB", "1.00MB"]);
    }

    #[test]
    fn units_have_chainers_names() {
        for unit in FIXED.into_iter().chain([Unit::Auto, Unit::AutoForeach]) {
            assert_eq!(unit.to_string().parse(), Ok(unit));
        }
        for unknown in ["kb", "YB", "", "Auto", " B"] {
            let error = unknown.parse::<Unit>().unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("unknown unit `{unknown}`: use B, KB, MB, GB, TB, PB, EB, ZB, auto or auto_foreach")
            );
        }
    }
}
