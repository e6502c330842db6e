//! Results and summaries as text.

use std::fmt;

use vramscope_basics::units::{bytes, signed_bytes};

use super::{CallOutcome, ProfileResult, ProfileSummary};

/// Formats bytes, or `unknown`.
fn known(n: Option<u64>) -> String {
    n.map_or_else(|| "unknown".to_owned(), bytes)
}

/// Formats a change in bytes with its sign, or `unknown`.
fn change(n: Option<i64>) -> String {
    n.map_or_else(|| "unknown".to_owned(), signed_bytes)
}

impl fmt::Display for ProfileResult {
    /// Formats one line: `step: peak 4.00 GiB (1.00 GiB above the start), +0 B after, 1.20 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_least = if self.peak_is_exact { "" } else { "at least " };
        write!(f, "{}: peak {at_least}{}", self.function_name, known(self.peak_memory_usage()))?;
        write!(f, " ({} above the start)", known(self.peak_above_start()))?;
        write!(f, ", {} after", change(self.memory_diff()))?;
        write!(f, ", {:.3} s", self.execution_time.as_secs_f64())?;
        match &self.outcome {
            CallOutcome::Returned => Ok(()),
            CallOutcome::Failed(error) => write!(f, "; failed: {error}"),
            CallOutcome::Panicked(error) => write!(f, "; panicked: {error}"),
        }
    }
}

impl fmt::Display for ProfileSummary {
    /// Formats a few lines, and a table of the functions, highest peak first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_least = if self.peak_is_exact { "" } else { "at least " };
        writeln!(
            f,
            "{}: {} calls of {} functions, peak {at_least}{}, {} now, {} since the baseline",
            self.device,
            self.total_function_calls,
            self.total_functions_profiled,
            known(self.peak_memory_usage),
            known(self.current_memory_usage),
            change(self.memory_change_from_baseline)
        )?;
        let mut functions: Vec<_> = self.function_summaries.iter().collect();
        functions.sort_by_key(|(_, summary)| std::cmp::Reverse(summary.peak_memory));
        let width = functions.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max(8);
        if !functions.is_empty() {
            writeln!(
                f,
                "{:width$}  {:>7}  {:>12}  {:>18}  {:>10}",
                "function", "calls", "peak", "allocated per call", "time"
            )?;
        }
        for (name, summary) in functions {
            let allocated = known(summary.avg_memory_allocated.map(|n| n as u64));
            let (calls, peak) = (summary.call_count, known(summary.peak_memory));
            writeln!(
                f,
                "{name:width$}  {calls:>7}  {peak:>12}  {allocated:>18}  {:>8.3} s",
                summary.total_time
            )?;
        }
        Ok(())
    }
}
