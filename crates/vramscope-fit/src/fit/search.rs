//! Searches for changes with which the program fits.

use anyhow::bail;
use vramscope_report::bytes;

use super::change::{Change, Cost};
use super::checkpoints::Chain;
use super::runner::{Outcome, Ran, Runner};
use super::together::together;
use super::vary::{self, Varied};
use crate::phantom::changes::{Facts, Forward};

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
    /// A second run of the unchanged program, if it does not fit.
    pub(crate) repeat: Option<Outcome>,
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
        self.outcomes().any(|outcome| outcome.fits() && outcome.is_certain())
    }

    /// Whether the memory that a run showed fits, with or without changes.
    pub(crate) fn may_fit(&self) -> bool {
        self.outcomes().any(Outcome::fits)
    }

    fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        std::iter::once(&self.baseline).chain(self.rows.iter().map(|row| &row.outcome))
    }

    /// Whether two runs of the unchanged program had different peaks.
    pub(crate) fn is_random(&self) -> bool {
        let peaks = |outcome: &Outcome| (outcome.peak_allocated, outcome.peak_device);
        self.repeat.as_ref().is_some_and(|repeat| peaks(repeat) != peaks(&self.baseline))
    }
}

struct Search<'a> {
    runner: &'a Runner<'a>,
    /// The wanted varied number.
    wanted: Option<u64>,
    /// Runs at the same time, at most.
    jobs: usize,
    found: Found,
}

/// A part of the search that needs no results of the others that run at the same time.
enum Job {
    /// The unchanged program again.
    Repeat,
    /// The inspection of the unchanged program's forward pass.
    Inspect,
    /// Changes, and the varied number.
    Changes(Vec<Change>, Option<u64>),
    /// The modules to checkpoint, together with changes.
    Checkpointing(Vec<Change>),
}

/// The results of a job.
#[derive(Default)]
struct Results {
    rows: Vec<Row>,
    dropped: Vec<Dropped>,
    repeat: Option<Outcome>,
    forward: Option<Forward>,
    /// Whether a run failed.
    has_failed: bool,
}

impl Results {
    fn drop(&mut self, name: String, reason: String) {
        self.dropped.push(Dropped { name, reason });
    }
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
        repeat: None,
        rows: Vec::new(),
        dropped: Vec::new(),
        varied,
        is_stopped: false,
    };
    let jobs = runner.jobs(&found.baseline);
    let mut search = Search { runner, wanted, jobs, found };
    if !search.found.baseline.fits() {
        search.smaller_batches()?;
        search.optimizers_and_settings()?;
        search.model()?;
        search.combinations()?;
    }
    let mut found = search.found;
    found.is_stopped = runner.is_stopped();
    found.rows.sort_by_key(|row| (!row.outcome.fits(), row.expense(), row.outcome.peak_device));
    Ok(found)
}

impl Search<'_> {
    /// Runs jobs at the same time, and adds their results in the order of the jobs.
    fn run(&mut self, jobs: &[Job]) -> anyhow::Result<()> {
        let mut all: Vec<Results> =
            together(jobs, self.jobs, |job| self.results(job)).into_iter().collect::<anyhow::Result<_>>()?;
        if self.jobs > 1 && jobs.len() > 1 {
            // Programs that write the same file or listen on the same port may fail only beside each other.
            for (job, results) in jobs.iter().zip(&mut all).filter(|(_, results)| results.has_failed) {
                if !self.runner.is_stopped() {
                    *results = self.results(job)?;
                }
            }
        }
        for results in all {
            self.found.rows.extend(results.rows);
            self.found.dropped.extend(results.dropped);
            self.found.repeat = self.found.repeat.take().or(results.repeat);
            self.found.facts.forward = self.found.facts.forward.take().or(results.forward);
        }
        Ok(())
    }

    fn results(&self, job: &Job) -> anyhow::Result<Results> {
        let mut results = Results::default();
        match job {
            Job::Repeat => match self.runner.run("unchanged, again", &[], self.wanted)? {
                Ran::Ended(outcome) => results.repeat = Some(*outcome),
                Ran::Failed(reason) => {
                    results.has_failed = true;
                    results.drop(
                        "the unchanged program, again".to_owned(),
                        format!("the program failed: {reason}"),
                    );
                }
                Ran::Stopped => {}
            },
            Job::Inspect => results.forward = self.inspect(&[], &mut results)?,
            Job::Changes(changes, value) => {
                if let Some(outcome) = self.measure(changes, *value, &mut results)? {
                    self.keep(changes.clone(), *value, outcome, &mut results)?;
                }
            }
            Job::Checkpointing(others) => self.checkpointing(others, &mut results)?,
        }
        Ok(results)
    }

    fn inspect(&self, changes: &[Change], results: &mut Results) -> anyhow::Result<Option<Forward>> {
        if self.runner.is_stopped() {
            return Ok(None);
        }
        let facts = self.runner.inspect(changes, self.wanted)?;
        results.has_failed |= facts.is_none();
        Ok(facts.and_then(|facts| facts.forward))
    }

    /// Measures changes; `None` if they are dropped, or not wanted.
    fn measure(
        &self,
        changes: &[Change],
        value: Option<u64>,
        results: &mut Results,
    ) -> anyhow::Result<Option<Outcome>> {
        if self.runner.is_stopped() || !changes.iter().all(|change| self.wants(change.key())) {
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
            Ran::Failed(reason) => {
                results.has_failed = true;
                format!("the program failed: {reason}")
            }
            Ran::Stopped => return Ok(None),
        };
        results.drop(name, reason);
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

    /// Keeps the outcome of changes, unless they save nothing.
    fn keep(
        &self,
        changes: Vec<Change>,
        value: Option<u64>,
        outcome: Outcome,
        results: &mut Results,
    ) -> anyhow::Result<()> {
        let row = self.row(changes, value, outcome);
        if value == self.wanted && row.outcome.peak_device >= self.found.baseline.peak_device {
            results
                .drop(row.name(None), format!("saves nothing: it needs {}", bytes(row.outcome.peak_device)));
            return Ok(());
        }
        let conf = row.outcome.conf.clone();
        let mut with_conf = row.changes.clone();
        results.rows.push(row);
        // Only fragmentation keeps these changes from fitting.
        if let Some(conf) = conf {
            with_conf.push(Change::Conf(conf));
            if let Some(outcome) = self.measure(&with_conf, value, results)? {
                results.rows.push(self.row(with_conf, value, outcome));
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
            let before = self.found.rows.len();
            self.run(&[Job::Changes(vec![change], Some(part))])?;
            let measured = &self.found.rows[before..];
            if measured.is_empty() || measured.iter().any(|row| row.outcome.fits()) {
                break;
            }
        }
        Ok(())
    }

    /// Changes that do not depend on the model's forward pass, with its inspection.
    fn optimizers_and_settings(&mut self) -> anyhow::Result<()> {
        let of_model = ["autocast_bfloat16", "activation_checkpointing", "save_on_cpu", "fully_shard"];
        let mut jobs = vec![Job::Repeat];
        if self.found.facts.model.is_some() && of_model.iter().any(|key| self.wants(key)) {
            jobs.push(Job::Inspect);
        }
        let conf = self.found.baseline.conf.clone().map(Change::Conf);
        let single = conf.into_iter().chain(self.optimizers());
        jobs.extend(single.map(|change| Job::Changes(vec![change], self.wanted)));
        self.run(&jobs)
    }

    /// Changes to the program's optimizers.
    fn optimizers(&self) -> Vec<Change> {
        let optimizers = &self.found.facts.optimizers;
        if optimizers.is_empty() {
            return Vec::new();
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
        all
    }

    /// Changes to the model's forward pass.
    fn model(&mut self) -> anyhow::Result<()> {
        let keys = ["autocast_bfloat16", "activation_checkpointing", "save_on_cpu", "fully_shard"];
        if self.runner.is_stopped() || !keys.iter().any(|key| self.wants(key)) {
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
        let path = self.found.facts.forward.as_ref().map_or(String::new(), |forward| forward.path.clone());
        let autocast = Change::Autocast(path.clone());
        // The search for modules takes several runs, so it begins first.
        let mut jobs = vec![Job::Checkpointing(Vec::new())];
        if self.runner.args.on.gpu.capability < BFLOAT16 {
            self.drop(autocast.name(), "the GPU has no bfloat16".to_owned());
        } else if !model.dtypes.contains_key("float32") {
            self.drop(autocast.name(), "the model has no float32 parameters".to_owned());
        } else {
            jobs.push(Job::Changes(vec![autocast], self.wanted));
        }
        if let Some(cards) = self.runner.args.cards {
            let paths = self
                .found
                .facts
                .forward
                .as_ref()
                .map_or(Vec::new(), |forward| Chain::new(forward).outer_paths());
            let sharded = Change::FullyShard { cards, path: path.clone(), paths };
            jobs.push(Job::Changes(vec![sharded], self.wanted));
        }
        jobs.push(Job::Changes(vec![Change::SaveOnCpu(path)], self.wanted));
        self.run(&jobs)
    }

    /// Checkpoints the modules with which the program fits, together with `others`, and that are cheapest to compute again. If none suffice,
    /// those with the lowest peak.
    fn checkpointing(&self, others: &[Change], results: &mut Results) -> anyhow::Result<()> {
        if self.runner.is_stopped() || !self.wants("activation_checkpointing") {
            return Ok(());
        }
        let forward =
            if others.is_empty() { self.found.facts.forward.clone() } else { self.inspect(others, results)? };
        let chain = Chain::new(&forward.unwrap_or_default());
        if chain.is_empty() {
            let reason = "the forward pass calls no module of a ModuleList or Sequential that saves tensors for the backward pass";
            results.drop("activation checkpointing".to_owned(), reason.to_owned());
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
            let Some(outcome) = self.measure(&changes(&chosen), self.wanted, results)? else { break };
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
            Some((chosen, outcome)) => self.keep(changes(&chosen), self.wanted, outcome, results),
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
            let is_checkpoint = |change: &Change| matches!(change, Change::Checkpoint { .. });
            let (searched, measured): (Vec<_>, Vec<_>) =
                combined(&single, size).into_iter().partition(|set| set.iter().any(is_checkpoint));
            let others = |set: Vec<Change>| set.into_iter().filter(|change| !is_checkpoint(change)).collect();
            // A search for modules takes several runs, so it begins first.
            let jobs: Vec<Job> = searched
                .into_iter()
                .map(|set| Job::Checkpointing(others(set)))
                .chain(measured.into_iter().map(|set| Job::Changes(set, self.wanted)))
                .collect();
            self.run(&jobs)?;
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
