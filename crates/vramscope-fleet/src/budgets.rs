//! Budgets of a fleet and their verdicts: kept, exceeded, or unknown.

use serde::Serialize;
use vramscope_basics::units::{bytes, counted};

use crate::fleet::Fleet;
use crate::numbers::ranks;

/// The limits of a fleet.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Budgets {
    /// Limit on the peak of allocated bytes of each rank.
    pub max_peak: Option<u64>,
    /// Limit on the excess of the highest peak over the mean, in percent of the mean.
    pub max_imbalance_percent: Option<f64>,
}

/// The verdict on a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BudgetVerdict"))]
pub struct Verdict {
    /// The budget, named as its option.
    pub budget: &'static str,
    /// Whether the budget is kept.
    pub status: Status,
    /// Ranks that exceed it.
    pub ranks: Vec<u64>,
    /// The verdict in a sentence.
    pub text: String,
}

/// Whether a budget is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BudgetStatus"))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The budget is kept.
    Kept,
    /// The recordings do not show whether the budget is kept.
    Unknown,
    /// The budget is exceeded.
    Exceeded,
}

impl Status {
    /// The status of several budgets: exceeded if one is exceeded, else unknown if one is unknown; `None` without budgets.
    pub fn of_all(verdicts: &[Verdict]) -> Option<Self> {
        verdicts.iter().map(|verdict| verdict.status).max()
    }
}

impl Budgets {
    /// Returns the verdict on each budget that is set.
    pub fn verdicts(&self, fleet: &Fleet) -> Vec<Verdict> {
        let peak = self.max_peak.map(|limit| peak(fleet, limit));
        let imbalance = self.max_imbalance_percent.map(|limit| imbalance(fleet, limit));
        peak.into_iter().chain(imbalance).collect()
    }
}

fn peak(fleet: &Fleet, limit: u64) -> Verdict {
    let read = fleet.ranks.iter().filter_map(|row| Some((row.rank.number, row.summary.as_ref().ok()?)));
    let (mut above, mut unclear) = (Vec::new(), Vec::new());
    for (rank, summary) in read {
        // A missing part changes neither a limit that is exceeded without it, nor one that is kept whatever it contains.
        if summary.peak_at_least > limit {
            above.push(rank);
        } else if summary.peak_at_most.is_none_or(|most| most > limit) {
            unclear.push(rank);
        }
    }
    let limit = format!("--max-peak {}", bytes(limit));
    let highest = fleet.peak_allocated.map_or_else(String::new, |spread| {
        format!("the highest peak is {} on rank {}", bytes(spread.highest.bytes), spread.highest.rank)
    });
    let why = unknown(fleet, &unclear);
    let (status, text) = match (above.is_empty(), why) {
        (false, _) => {
            let those = ranks(&above);
            (
                Status::Exceeded,
                format!("{} above {limit}: {those}; {highest}", counted(above.len() as u64, "rank")),
            )
        }
        (true, Some(why)) => (Status::Unknown, format!("{highest}, within {limit}, but {why}")),
        (true, None) => (Status::Kept, format!("{highest}, within {limit}")),
    };
    Verdict { budget: "max-peak", status, ranks: above, text }
}

fn imbalance(fleet: &Fleet, limit: f64) -> Verdict {
    let (percent, what) = match (&fleet.imbalances, &fleet.peak_allocated) {
        (Some(imbalances), Some(spread)) => {
            let of = imbalances.all;
            let (highest, mean) = (bytes(of.highest_bytes), bytes(of.mean_bytes));
            (
                of.percent,
                format!(
                    "rank {} peaks at {highest}, {:.1}% above the mean of {mean}",
                    spread.highest.rank, of.percent
                ),
            )
        }
        _ => (0.0, "no recording could be read".to_owned()),
    };
    let limit_text = format!("--max-imbalance {limit}%");
    let is_above = percent > limit;
    let (status, text) = match unknown(fleet, &fleet.peaks_not_known) {
        // A peak that is not known may be the highest, or change the mean.
        _ if is_above && fleet.peaks_not_known.is_empty() => {
            (Status::Exceeded, format!("{what}; more than {limit_text}"))
        }
        Some(why) => {
            let compared = if is_above { "more than" } else { "within" };
            (Status::Unknown, format!("{what}, {compared} {limit_text}, but {why}"))
        }
        None => (Status::Kept, format!("{what}, within {limit_text}")),
    };
    let highest =
        fleet.peak_allocated.filter(|_| status == Status::Exceeded).map(|spread| spread.highest.rank);
    Verdict { budget: "max-imbalance", status, ranks: highest.into_iter().collect(), text }
}

/// Ranks that may exceed a budget without a recording that shows it, as a clause. `unclear` are those whose recordings lack events.
fn unknown(fleet: &Fleet, unclear: &[u64]) -> Option<String> {
    let unread: Vec<u64> = fleet.unread.iter().map(|rank| rank.rank).collect();
    let reasons = [
        (unread.as_slice(), "that could not be read"),
        (fleet.missing_ranks.as_slice(), "without a recording"),
        (unclear, "whose recordings lack events"),
    ];
    let told: Vec<String> = reasons
        .into_iter()
        .filter(|(which, _)| !which.is_empty())
        .map(|(which, why)| format!("{} {why} ({})", counted(which.len() as u64, "rank"), ranks(which)))
        .collect();
    (!told.is_empty()).then(|| format!("unknown for {}", told.join(", ")))
}
