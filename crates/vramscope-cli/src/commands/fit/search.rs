//! Searches for changes with which the program fits.

use anyhow::bail;
use vramscope::report::bytes;

use super::change::{Change, Cost};
use super::checkpoints::Chain;
use super::runner::{Outcome, Ran, Runner};
use super::vary::{self, Varied};
use crate::commands::phantom::changes::Facts;

/// The changes that are combined if none suffices alone, at most: those that save most.
const COMBINED: usize = 4;

/// The smaller batches that are tried for gradient accumulation, at most.
const BATCHES: usize = 4;

/// The choices of checkpointed modules that are measured, at most.
const CHECKPOINTS: usize = 8;

/// The first compute capability with bfloat16, as `10 * major + minor`.
const BFLOAT16: u32 = 80;

/// A change, or several, and what a run with them needed.
pub(crate) struct Row {
    pub(crate) changes: Vec<Change>,
    /// The varied number of the run.
    pub(crate) value: Option<u64>,
    pub(crate) outcome: Outcome,
    pub(crate) cost: Cost,
}

impl Row {
    /// The name and number of the change.
    pub(crate) fn name(&self, varied: Option<&Varied>) -> String {
        let mut names: Vec<String> = self.changes.iter().map(Change::name).collect();
        let smaller = varied.zip(self.value).filter(|(varied, value)| *value != varied.high);
        if let Some((varied, value)) = smaller {
            names.insert(0, format!("{}={value}", varied.name));
        }
        names.join(" + ")
    }

    /// The number of changes to the program, and the most expensive one.
    fn expense(&self) -> (usize, u8) {
        let to_program = || self.changes.iter().filter(|change| !matches!(change, Change::Conf(_)));
        if self.changes.is_empty() {
            // A smaller number is not what was wanted.
            return (1, u8::MAX);
        }
        (to_program().count(), to_program().map(Change::expense).max().unwrap_or(0))
    }
}

/// A change that was not measured, or has no effect.
pub(crate) struct Dropped {
    pub(crate) name: String,
    pub(crate) reason: String,
}

/// The results of a search.
pub(crate) struct Found {
    pub(crate) baseline: Outcome,
    /// Facts about the unchanged program.
    pub(crate) facts: Facts,
    /// The measured changes: those with which the program fits first, the cheapest first.
    pub(crate) rows: Vec<Row>,
    pub(crate) dropped: Vec<Dropped>,
    pub(crate) varied: Option<Varied>,
    /// Whether a signal ended the search.
    pub(crate) is_stopped: bool,
}

impl Found {
    /// Whether the program fits, with or without changes.
    pub(crate) fn fits(&self) -> bool {
        self.baseline.fits() || self.rows.iter().any(|row| row.outcome.fits())
    }
}

struct Search<'a> {
    runner: &'a Runner<'a>,
    /// The wanted varied number.
    wanted: Option<u64>,
    found: Found,
}

/// Runs the program unchanged and, if it does not fit, with changes.
///
/// # Errors
/// The unchanged program fails for another reason than memory.
pub(crate) fn search(runner: &Runner<'_>) -> anyhow::Result<Found> {
    let vary = runner.args.vary.as_ref();
    let wanted = vary.map(|vary| vary.high);
    let name = vary.map_or(String::new(), |vary| format!(", {}={}", vary.name, vary.high));
    let baseline = match runner.run(&format!("unchanged{name}"), &[], wanted)? {
        Ran::Ended(outcome) => *outcome,
        Ran::Failed(reason) => bail!("the unchanged program failed: {reason}"),
        Ran::Stopped => bail!("stopped before the first run ended"),
    };
    if baseline.peak_device == 0 {
        bail!("the program did not use a GPU");
    }
    let varied = vary.map(|vary| vary::search(runner, vary, &baseline)).transpose()?;
    let found = Found {
        facts: baseline.facts.clone(),
        baseline,
        rows: Vec::new(),
        dropped: Vec::new(),
        varied,
        is_stopped: runner.is_stopped(),
    };
    let mut search = Search { runner, wanted, found };
    if !search.found.baseline.fits() {
        search.smaller_batches()?;
        search.settings()?;
        search.optimizers()?;
        search.model()?;
        search.combinations()?;
    }
    let mut found = search.found;
    found.rows.sort_by_key(|row| (!row.outcome.fits(), row.expense(), row.outcome.peak_device));
    Ok(found)
}

impl Search<'_> {
    /// Measures changes; `None` if they are dropped, or not wanted.
    fn measure(&mut self, changes: &[Change], value: Option<u64>) -> anyhow::Result<Option<Outcome>> {
        if self.found.is_stopped || !changes.iter().all(|change| self.wants(change.key())) {
            return Ok(None);
        }
        let mut name = changes.iter().map(Change::name).collect::<Vec<_>>().join(" + ");
        let smaller = self.found.varied.as_ref().zip(value.filter(|_| value != self.wanted));
        if let Some((varied, value)) = smaller {
            name = format!("{name}, {}={value}", varied.name);
        }
        let reason = match self.runner.run(&name, changes, value)? {
            Ran::Ended(outcome) => match self.doubt(changes, &outcome) {
                None => return Ok(Some(*outcome)),
                Some(reason) => reason,
            },
            Ran::Failed(reason) => format!("the program failed: {reason}"),
            Ran::Stopped => {
                self.found.is_stopped = true;
                return Ok(None);
            }
        };
        self.drop(name, reason);
        Ok(None)
    }

    /// Whether a change with this key may be measured.
    fn wants(&self, key: &str) -> bool {
        let only = &self.runner.args.only;
        only.is_empty() || only.iter().any(|wanted| wanted == key)
    }

    /// Why the numbers of a run with changes do not count.
    fn doubt(&self, changes: &[Change], outcome: &Outcome) -> Option<String> {
        let methods = changes.iter().filter_map(Change::method);
        let is_missing = |name: &&str| !outcome.facts.applied.iter().any(|applied| applied == name);
        if methods.map(|(name, _)| name).any(|name| is_missing(&name)) {
            return Some("the program has no place for it".to_owned());
        }
        let (expected, steps) = (self.found.facts.steps, outcome.facts.steps);
        let is_compared = !outcome.is_lower_bound && !self.found.baseline.is_lower_bound;
        (is_compared && steps != expected)
            .then(|| format!("the program made {steps} optimizer steps instead of {expected}"))
    }

    /// Measures changes, and keeps the result.
    fn try_changes(&mut self, changes: Vec<Change>, value: Option<u64>) -> anyhow::Result<()> {
        if let Some(outcome) = self.measure(&changes, value)? {
            self.keep(changes, value, outcome)?;
        }
        Ok(())
    }

    fn keep(&mut self, changes: Vec<Change>, value: Option<u64>, outcome: Outcome) -> anyhow::Result<()> {
        let row = self.row(changes, value, outcome);
        if value == self.wanted && row.outcome.peak_device >= self.found.baseline.peak_device {
            self.drop(row.name(None), format!("saves nothing: it needs {}", bytes(row.outcome.peak_device)));
            return Ok(());
        }
        let conf = row.outcome.conf.clone();
        let mut with_conf = row.changes.clone();
        self.found.rows.push(row);
        // Only fragmentation keeps these changes from fitting.
        if let Some(conf) = conf {
            with_conf.push(Change::Conf(conf));
            if let Some(outcome) = self.measure(&with_conf, value)? {
                let row = self.row(with_conf, value, outcome);
                self.found.rows.push(row);
            }
        }
        Ok(())
    }

    fn row(&self, changes: Vec<Change>, value: Option<u64>, outcome: Outcome) -> Row {
        let costs: Vec<Cost> =
            changes.iter().map(|change| change.cost(&self.found.facts, &outcome.facts)).collect();
        Row { cost: Cost::of_all(&costs), changes, value, outcome }
    }

    fn drop(&mut self, name: String, reason: String) {
        self.found.dropped.push(Dropped { name, reason });
    }

    /// The largest number that fits, and gradient accumulation for the wanted batch size.
    fn smaller_batches(&mut self) -> anyhow::Result<()> {
        let Some(varied) = &self.found.varied else { return Ok(()) };
        let (Some(largest), false) = (varied.largest, varied.is_ignored()) else { return Ok(()) };
        let Some(outcome) = varied.outcome(largest).cloned() else { return Ok(()) };
        let (high, is_batch_size) = (varied.high, varied.is_batch_size());
        let divisors: Vec<u64> = varied.divisors().into_iter().take(BATCHES).collect();
        let cost = Cost { text: format!("{} {largest} instead of {high}", varied.name), ..Cost::default() };
        self.found.rows.push(Row { changes: Vec::new(), value: Some(largest), outcome, cost });
        if !is_batch_size || self.found.facts.optimizers.is_empty() {
            return Ok(());
        }
        if self.found.facts.steps < 2 {
            let steps = self.found.facts.steps;
            self.drop(
                "gradient accumulation".to_owned(),
                format!("the program makes {steps} optimizer steps, and 2 are needed to measure it"),
            );
            return Ok(());
        }
        for part in divisors {
            let change = Change::Accumulate(high / part);
            let Some(outcome) = self.measure(std::slice::from_ref(&change), Some(part))? else { break };
            self.keep(vec![change], Some(part), outcome)?;
            if self.found.rows.last().is_some_and(|row| row.outcome.fits()) {
                break;
            }
        }
        Ok(())
    }

    fn settings(&mut self) -> anyhow::Result<()> {
        match self.found.baseline.conf.clone() {
            Some(conf) => self.try_changes(vec![Change::Conf(conf)], self.wanted),
            None => Ok(()),
        }
    }

    fn optimizers(&mut self) -> anyhow::Result<()> {
        let optimizers = &self.found.facts.optimizers;
        if optimizers.is_empty() {
            return Ok(());
        }
        let is_fused = optimizers.iter().all(|optimizer| optimizer.fused == Some(true));
        let is_foreach = optimizers.iter().any(|optimizer| optimizer.foreach != Some(false));
        let is_adam = optimizers.iter().any(|optimizer| ["Adam", "AdamW"].contains(&&*optimizer.class));
        let mut all = Vec::new();
        if !is_fused {
            all.push(Change::Fused);
            if is_foreach {
                all.push(Change::WithoutForeach);
            }
        }
        all.push(Change::OptimizerInBackward);
        if is_adam && self.found.facts.has_bitsandbytes {
            all.push(Change::Adam8bit);
        }
        all.into_iter().try_for_each(|change| self.try_changes(vec![change], self.wanted))
    }

    /// Changes to the model's forward pass.
    fn model(&mut self) -> anyhow::Result<()> {
        let keys = ["autocast_bfloat16", "activation_checkpointing", "save_on_cpu"];
        if self.found.is_stopped || !keys.iter().any(|key| self.wants(key)) {
            return Ok(());
        }
        let Some(model) = self.found.facts.model.clone() else {
            let reason = if self.found.facts.optimizers.is_empty() {
                "the program creates no optimizer of PyTorch, and the model is found by its parameters"
            } else {
                "no module has the optimizer's parameters"
            };
            self.drop("changes to the model".to_owned(), reason.to_owned());
            return Ok(());
        };
        if let Some(facts) = self.runner.inspect(&[], self.wanted)? {
            self.found.facts.forward = facts.forward;
        }
        self.found.is_stopped = self.runner.is_stopped();
        let path = self.found.facts.forward.as_ref().map_or(String::new(), |forward| forward.path.clone());
        let autocast = Change::Autocast(path.clone());
        if self.runner.args.on.gpu.capability < BFLOAT16 {
            self.drop(autocast.name(), "the GPU has no bfloat16".to_owned());
        } else if !model.dtypes.contains_key("float32") {
            self.drop(autocast.name(), "the model has no float32 parameters".to_owned());
        } else {
            self.try_changes(vec![autocast], self.wanted)?;
        }
        self.checkpointing(&[])?;
        self.try_changes(vec![Change::SaveOnCpu(path)], self.wanted)
    }

    /// Checkpoints the modules with which the program fits, together with `others`, and that are cheapest to compute again. If none suffice,
    /// those with the lowest peak.
    fn checkpointing(&mut self, others: &[Change]) -> anyhow::Result<()> {
        let forward = if others.is_empty() {
            self.found.facts.forward.clone()
        } else {
            self.runner.inspect(others, self.wanted)?.and_then(|facts| facts.forward)
        };
        self.found.is_stopped = self.runner.is_stopped();
        let chain = Chain::new(&forward.unwrap_or_default());
        if chain.is_empty() {
            let reason = "the forward pass calls no module of a ModuleList or Sequential that saves tensors for the backward pass";
            self.drop("activation checkpointing".to_owned(), reason.to_owned());
            return Ok(());
        }
        let changes = |chosen: &[usize]| -> Vec<Change> {
            let checkpoint = Change::Checkpoint { paths: chain.paths(chosen), all: chain.outermost(chosen) };
            others.iter().cloned().chain([checkpoint]).collect()
        };
        let budget = self.runner.card.total;
        let without = self.found.rows.iter().find(|row| row.changes == others && row.value == self.wanted);
        let without = without.map_or(&self.found.baseline, |row| &row.outcome).peak_device;
        // The bytes of a run that are not in the chain.
        let mut rest = without.saturating_sub(chain.peak(&[]));
        let mut tried: Vec<Vec<usize>> = vec![Vec::new()];
        let mut best: Option<(Vec<usize>, Outcome)> = None;
        while tried.len() <= CHECKPOINTS {
            let cheapest = budget.checked_sub(rest).and_then(|limit| chain.cheapest(limit));
            let chosen = cheapest.unwrap_or_else(|| chain.lowest());
            let is_dearer = |(chosen_before, outcome): &(Vec<usize>, Outcome)| {
                outcome.fits() && chain.work(&chosen) >= chain.work(chosen_before)
            };
            if tried.contains(&chosen) || best.as_ref().is_some_and(is_dearer) {
                break;
            }
            let Some(outcome) = self.measure(&changes(&chosen), self.wanted)? else { break };
            tried.push(chosen.clone());
            rest = outcome.peak_device.saturating_sub(chain.peak(&chosen));
            if !outcome.fits() && outcome.peak_device <= budget {
                // It needs more than its peak says, for example for a larger CUDA context.
                rest = budget - chain.peak(&chosen).min(budget) + 1;
            }
            let is_better = |(_, other): &(Vec<usize>, Outcome)| {
                outcome.fits() || !other.fits() && outcome.peak_device < other.peak_device
            };
            if best.as_ref().is_none_or(is_better) {
                best = Some((chosen, outcome));
            }
        }
        match best {
            Some((chosen, outcome)) => self.keep(changes(&chosen), self.wanted, outcome),
            None => Ok(()),
        }
    }

    /// Combines the changes that save most, if none suffices alone: pairs, then triples.
    fn combinations(&mut self) -> anyhow::Result<()> {
        let fits = |row: &Row| row.outcome.fits() && row.value == self.wanted;
        if self.found.rows.iter().any(fits) {
            return Ok(());
        }
        let peak = self.found.baseline.peak_device;
        let mut single: Vec<(u64, Change)> = self
            .found
            .rows
            .iter()
            .filter(|row| row.value == self.wanted && row.outcome.peak_device < peak)
            .filter_map(|row| match &row.changes[..] {
                [Change::Conf(_)] => None,
                [change] => Some((row.outcome.peak_device, change.clone())),
                _ => None,
            })
            .collect();
        single.sort_by_key(|(peak, _)| *peak);
        let single: Vec<Change> = single.into_iter().take(COMBINED).map(|(_, change)| change).collect();
        for size in [2, 3] {
            for together in combined(&single, size) {
                let (checkpoint, others): (Vec<Change>, Vec<Change>) =
                    together.into_iter().partition(|change| matches!(change, Change::Checkpoint { .. }));
                if checkpoint.is_empty() {
                    self.try_changes(others, self.wanted)?;
                } else {
                    self.checkpointing(&others)?;
                }
            }
            if self.found.rows.iter().any(|row| row.outcome.fits() && row.value == self.wanted) {
                break;
            }
        }
        Ok(())
    }
}

/// All sets of `size` changes that can be made together, those with earlier ones first.
fn combined(changes: &[Change], size: usize) -> Vec<Vec<Change>> {
    if size == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (i, first) in changes.iter().enumerate() {
        let rest: Vec<Change> =
            changes[i + 1..].iter().filter(|other| first.goes_with(other)).cloned().collect();
        all.extend(combined(&rest, size - 1).into_iter().map(|more| [vec![first.clone()], more].concat()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_have_one_optimizer() {
        let changes = [
            Change::Adam8bit,
            Change::Autocast(String::new()),
            Change::Fused,
            Change::SaveOnCpu(String::new()),
        ];
        let names = |size| -> Vec<String> {
            let names = |set: Vec<Change>| set.iter().map(Change::key).collect::<Vec<_>>().join(" ");
            combined(&changes, size).into_iter().map(names).collect()
        };
        assert_eq!(
            names(2),
            [
                "adam_8bit autocast_bfloat16",
                "adam_8bit save_on_cpu",
                "autocast_bfloat16 fused_optimizer",
                "autocast_bfloat16 save_on_cpu",
                "fused_optimizer save_on_cpu",
            ]
        );
        assert_eq!(
            names(3),
            ["adam_8bit autocast_bfloat16 save_on_cpu", "autocast_bfloat16 fused_optimizer save_on_cpu"]
        );
    }
}
