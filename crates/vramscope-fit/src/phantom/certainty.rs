//! How certain a program's peak of memory is. This is the only place that decides it; text, JSON and exit codes follow.

use serde::Serialize;
use vramscope_analysis::Fit;
use vramscope_phantom::{MachineReport, UnansweredKind};
use vramscope_report::bytes;

use super::attempt::Attempt;
use super::unknowns::{About, CROSSING, Effect, Reason};

/// The peak of a program's memory on one GPU, without contexts, in bytes, and what it may depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Certainty"))]
pub(crate) struct Certainty {
    kind: Kind,
    /// The smallest peak of the runs.
    low_bytes: u64,
    /// The largest peak of the runs; `None` if a run did not show the whole peak.
    high_bytes: Option<u64>,
    /// Why the peak is no single number. Of an exact number, what the runs showed to have no effect.
    basis: Vec<Reason>,
}

/// The kind of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CertaintyKind"))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Exact,
    Modeled,
    Between,
    AtLeast,
}

impl Certainty {
    /// The certainty of the peak of `shown`, beside the extremes.
    pub(crate) fn of(shown: &Attempt) -> Self {
        let peak = shown.peak();
        let mut basis: Vec<Reason> = shown.extremes.iter().map(|extreme| extreme.reason(peak)).collect();
        if let Some(text) = shown.cut_off() {
            basis.push(Reason::unbounded(About::End, text));
        }
        let is_open = |about| !basis.iter().any(|reason| reason.about == about);
        let values = (shown.reads_values() && is_open(About::Values)).then(|| shown.values_read());
        let time =
            (shown.machine.counts.crosses_streams && is_open(About::Time)).then(|| CROSSING.to_owned());
        let choices = shown.choices().filter(|_| is_open(About::Choices));
        basis.extend(values.map(|text| Reason::unbounded(About::Values, text)));
        basis.extend(time.map(|text| Reason::unbounded(About::Time, text)));
        basis.extend(choices.map(|text| Reason::unbounded(About::Choices, text)));
        basis.extend(libraries(&shown.machine));
        let peaks = shown.extremes.iter().map(|extreme| extreme.peak).chain([peak]).collect();
        Self::new(peaks, basis)
    }

    /// A peak without a doubt.
    #[cfg(test)]
    pub(crate) fn certain(peak: u64) -> Self {
        Self::new(vec![peak], Vec::new())
    }

    fn new(peaks: Vec<u64>, basis: Vec<Reason>) -> Self {
        let low_bytes = peaks.iter().copied().min().unwrap_or(0);
        let high = peaks.into_iter().max().unwrap_or(0);
        let kind = match () {
            () if basis.iter().any(|reason| reason.effect == Effect::Unbounded) => Kind::AtLeast,
            () if low_bytes < high => Kind::Between,
            () if basis.iter().any(|reason| reason.effect == Effect::Model) => Kind::Modeled,
            () => Kind::Exact,
        };
        let (low_bytes, high_bytes) = match kind {
            // The runs reached the largest of their peaks.
            Kind::AtLeast => (high, None),
            _ => (low_bytes, Some(high)),
        };
        Self { kind, low_bytes, high_bytes, basis }
    }

    /// The largest peak, in bytes; `None` if the peak may be higher.
    pub(crate) fn high_bytes(&self) -> Option<u64> {
        self.high_bytes
    }

    /// Whether the peak is a range.
    pub(crate) fn is_range(&self) -> bool {
        self.kind == Kind::Between
    }

    /// Whether the program fits, given the verdict for the peaks of the runs; `None` if that is unknown, because the peak may be higher.
    pub(crate) fn fit(&self, shown: Fit) -> Option<Fit> {
        (shown == Fit::DoesNotFit || self.kind != Kind::AtLeast).then_some(shown)
    }

    /// The number in words, as `exact, 5.21 GiB`.
    pub(crate) fn text(&self) -> String {
        let low = bytes(self.low_bytes);
        match (self.kind, self.high_bytes) {
            (Kind::Between, Some(high)) => format!("between {low} and {} ({})", bytes(high), self.why()),
            (Kind::AtLeast, _) => format!("at least {low} ({})", self.why()),
            (Kind::Modeled, _) => format!("modeled, {low} ({})", self.why()),
            _ => format!("exact, {low}"),
        }
    }

    /// The reasons in words.
    fn why(&self) -> String {
        let wanted = match self.kind {
            Kind::AtLeast => Effect::Unbounded,
            Kind::Between => Effect::Range,
            Kind::Modeled | Kind::Exact => Effect::Model,
        };
        let mut texts: Vec<&str> =
            self.basis.iter().filter(|reason| reason.effect == wanted).map(|reason| &*reason.text).collect();
        // Several runs may show the same.
        texts.dedup();
        texts.join("; ")
    }
}

/// What the memory of libraries means for the peak.
fn libraries(machine: &MachineReport) -> Vec<Reason> {
    let kinds = [
        (UnansweredKind::LeftOut, Effect::Unbounded, "left out: "),
        (UnansweredKind::Modeled, Effect::Model, ""),
    ];
    let of = |(kind, effect, word)| {
        let names: Vec<&str> =
            machine.unanswered.iter().filter(|call| call.kind == kind).map(|call| &*call.name).collect();
        let more = if names.len() > 2 { ", and more" } else { "" };
        let text = format!("{word}{}{more}", names.get(..2).unwrap_or(&names).join(", "));
        (!names.is_empty()).then_some(Reason { about: About::Libraries, text, effect })
    };
    kinds.into_iter().filter_map(of).collect()
}

/// The name of a verdict.
pub(crate) fn verdict(fit: Option<Fit>) -> &'static str {
    match fit {
        None => "unknown",
        Some(Fit::Fits) => "fits",
        Some(Fit::Barely) => "fits barely",
        Some(Fit::DoesNotFit) => "does not fit",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(effect: Effect) -> Reason {
        Reason { about: About::Values, text: "why".to_owned(), effect }
    }

    #[test]
    fn a_number_is_exact_if_the_runs_agree() {
        let agreed = Certainty::new(vec![5 << 30, 5 << 30], vec![reason(Effect::None)]);
        assert_eq!((agreed.kind, agreed.text().as_str()), (Kind::Exact, "exact, 5.00 GiB"));
        let range = Certainty::new(vec![5 << 30, 7 << 30], vec![reason(Effect::Range)]);
        assert_eq!(range.text(), "between 5.00 GiB and 7.00 GiB (why)");
        let open =
            Certainty::new(vec![5 << 30, 7 << 30], vec![reason(Effect::Range), reason(Effect::Unbounded)]);
        assert_eq!((open.low_bytes, open.high_bytes), (7 << 30, None));
        assert_eq!(open.text(), "at least 7.00 GiB (why)");
    }

    #[test]
    fn a_number_with_a_model_in_it_is_not_exact() {
        let modeled = Certainty::new(vec![5 << 30], vec![reason(Effect::Model)]);
        assert_eq!((modeled.text().as_str(), modeled.high_bytes), ("modeled, 5.00 GiB (why)", Some(5 << 30)));
        assert_eq!(modeled.fit(Fit::Fits), Some(Fit::Fits));
        let range =
            Certainty::new(vec![5 << 30, 7 << 30], vec![reason(Effect::Range), reason(Effect::Model)]);
        assert_eq!(range.text(), "between 5.00 GiB and 7.00 GiB (why)");
    }

    #[test]
    fn a_program_whose_peak_may_be_higher_never_fits() {
        let range = Certainty::new(vec![1, 2], vec![reason(Effect::Range)]);
        assert_eq!(range.fit(Fit::Fits), Some(Fit::Fits));
        let open = Certainty::new(vec![1], vec![reason(Effect::Unbounded)]);
        assert_eq!((open.fit(Fit::Fits), open.fit(Fit::Barely)), (None, None));
        assert_eq!(open.fit(Fit::DoesNotFit), Some(Fit::DoesNotFit));
    }
}
