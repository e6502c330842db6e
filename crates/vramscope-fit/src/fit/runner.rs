//! Runs a changed program on the phantom GPU.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use anyhow::Context as _;
use serde_json::{Map, Value};
use vramscope_analysis::{Capacity, Fit, fit_on_device};
use vramscope_report::bytes;

use super::change::{Change, methods};
use crate::control::Control;
use crate::fit::request::FitRequest;
use crate::phantom::attempt::{Attempt, Extra, UNLIMITED};
use crate::phantom::certainty::{self, Certainty};
use crate::phantom::changes::Facts;
use crate::phantom::chosen_gpu::Card;
use crate::phantom::extremes;
use crate::phantom::recordings::keep;
use crate::phantom::text;
use crate::phantom::unknowns::Extreme;
use crate::phantom::{GpuRequest, RunRequest};

/// The bytes at the end of a program's output that are searched for its error.
const TAIL: u64 = 64 << 10;

/// Runs at the same time without `--jobs`, at most.
const MOST_JOBS: usize = 8;

/// The longest error that is repeated, in characters.
const LONGEST: usize = 160;

/// Runs the program with changes.
pub(crate) struct Runner<'a> {
    pub(crate) args: &'a FitRequest,
    /// The GPU; its total memory is the budget.
    pub(crate) card: Card,
    control: &'a dyn Control,
    /// The request of the runs after the first, with the routing that it showed to be needed.
    on: OnceLock<GpuRequest>,
    /// The peak of the first run, and its extremes.
    extremes: Mutex<Option<(u64, Vec<Extreme>)>>,
    /// Whether the program queries the GPU's memory, so that it must run within the budget.
    adapts: AtomicBool,
    runs: AtomicU64,
}

/// The end of a run.
pub(crate) enum Ran {
    Ended(Box<Outcome>),
    /// The program failed for another reason than memory.
    Failed(String),
    /// A signal asked to stop.
    Stopped,
}

/// The memory of a program.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// Whether the memory that the run showed fits in the budget.
    pub(crate) fit: Fit,
    /// How certain the peak is.
    pub(crate) certainty: Certainty,
    /// Peak of allocated bytes of one process on one GPU.
    pub(crate) peak_allocated: u64,
    /// Peak of reserved bytes of one process on one GPU.
    pub(crate) peak_reserved: u64,
    /// Peak of all bytes in use on one GPU, with the largest context. The only known peak of a program without PyTorch.
    pub(crate) peak_device: u64,
    /// Whether the run ran out of memory, so that the program needs more than its peaks.
    pub(crate) is_lower_bound: bool,
    /// Allocator settings with which the recording fits, if the run does not.
    pub(crate) conf: Option<String>,
    /// Processes with a recording.
    pub(crate) processes: usize,
    /// The files of the recordings, with `--recordings`.
    pub(crate) recordings: Vec<PathBuf>,
    pub(crate) facts: Facts,
}

impl Outcome {
    /// Whether the memory that the run showed fits. The program may need more if [`is_certain`](Self::is_certain) is false.
    pub(crate) fn fits(&self) -> bool {
        self.fit == Fit::Fits
    }

    /// Whether the run shows that the program fits, or that it does not.
    pub(crate) fn is_certain(&self) -> bool {
        self.certainty.fit(self.fit).is_some()
    }

    /// The bytes that are left of a budget; negative if they are missing.
    pub(crate) fn left(&self, budget: u64) -> i128 {
        i128::from(budget) - i128::from(self.peak_device)
    }

    /// The verdict in words.
    pub(crate) fn verdict(&self) -> &'static str {
        certainty::verdict(self.certainty.fit(self.fit))
    }
}

impl<'a> Runner<'a> {
    pub(crate) fn new(args: &'a FitRequest, control: &'a dyn Control) -> anyhow::Result<Self> {
        let memory = args.on.total_bytes();
        let budget = args.budget.unwrap_or(memory);
        if let Some(folder) = args.recordings.as_ref().filter(|folder| !folder.is_dir()) {
            anyhow::bail!("--recordings: the directory {} does not exist", folder.display());
        }
        if budget > memory {
            anyhow::bail!("the budget of {} is above the GPU's memory of {}", bytes(budget), bytes(memory));
        }
        let context = args.on.context_bytes(args.on.gpu);
        if budget <= *context.start() {
            anyhow::bail!("{budget} bytes have no room for a context of {} bytes", context.start());
        }
        let card = Card { total: budget, context };
        Ok(Self {
            args,
            card,
            control,
            on: OnceLock::new(),
            extremes: Mutex::default(),
            adapts: AtomicBool::new(false),
            runs: AtomicU64::new(0),
        })
    }

    /// Runs the program with `changes`, and `value` for the varied number. `name` is shown as progress.
    ///
    /// # Errors
    /// The program cannot be started, or its recording cannot be read.
    pub(crate) fn run(&self, name: &str, changes: &[Change], value: Option<u64>) -> anyhow::Result<Ran> {
        let number = self.progress(name);
        let ran = self.judged(number, changes, value)?;
        match &ran {
            Ran::Ended(outcome) => {
                let more = if outcome.is_lower_bound { "more than " } else { "" };
                if outcome.peak_device == 0 {
                    return Ok(ran);
                }
                self.control.say(&format!(
                    "  run {number} needs {more}{}, {}",
                    bytes(outcome.peak_device),
                    outcome.verdict()
                ));
            }
            Ran::Failed(reason) => self.control.say(&format!("  run {number} failed: {reason}")),
            Ran::Stopped => {}
        }
        Ok(ran)
    }

    /// Runs the program with `changes` to collect facts about its forward pass. `None` if that fails.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub(crate) fn inspect(&self, changes: &[Change], value: Option<u64>) -> anyhow::Result<Option<Facts>> {
        self.progress("inspection of the forward pass");
        let mut wanted = methods(changes);
        wanted.insert("inspect".to_owned(), Value::Bool(true));
        let attempt = self.attempt(UNLIMITED, changes, wanted, value)?;
        Ok(facts_of(&attempt).filter(|facts| facts.forward.is_some()))
    }

    /// Whether a signal asked to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.control.is_stopped()
    }

    /// Whether the program queries the GPU's memory.
    fn adapts(&self) -> bool {
        self.adapts.load(Ordering::Relaxed)
    }

    /// The runs at the same time: `--jobs`, else one for each processor. With less host memory, or if the program has several processes,
    /// fewer. `baseline` is the outcome of the unchanged program.
    pub(crate) fn jobs(&self, baseline: &Outcome) -> usize {
        if let Some(jobs) = self.args.jobs {
            return jobs.into();
        }
        if baseline.processes > 1 {
            return 1;
        }
        let processors = thread::available_parallelism().map_or(1, usize::from).min(MOST_JOBS);
        // A changed program may need more than the unchanged one.
        let needed = 2 * baseline.facts.host_bytes;
        let in_memory = available_bytes().and_then(|available| available.checked_div(needed));
        in_memory.map_or(processors, |jobs| processors.min(usize::try_from(jobs).unwrap_or(1))).max(1)
    }

    /// Prints the name of a run, and returns its number.
    fn progress(&self, name: &str) -> u64 {
        let number = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        self.control.say(&format!("run {number}: {name}"));
        number
    }

    fn judged(&self, number: u64, changes: &[Change], value: Option<u64>) -> anyhow::Result<Ran> {
        let attempt = |total| self.attempt(total, changes, methods(changes), value);
        let budget = self.card.total;
        let mut last = attempt(if self.adapts() { budget } else { UNLIMITED })?;
        if !self.adapts() && last.asked_memory() {
            self.adapts.store(true, Ordering::Relaxed);
            last = attempt(budget)?;
        }
        if let Some(end) = self.unfinished(&last) {
            return Ok(end);
        }
        last = self.explored(last, value)?;
        let mut conf_that_fits = None;
        let mut fit = if self.adapts() { last.fit(&self.card)? } else { self.fit(&last)? };
        // The replay released its cache. A run shows that PyTorch does so, too.
        if fit == Fit::Fits && !self.adapts() && self.most(&last) > budget {
            last = attempt(budget)?;
            if let Some(end) = self.unfinished(&last) {
                return Ok(end);
            }
            last = self.explored(last, value)?;
            fit = last.fit(&self.card)?;
        } else if fit != Fit::Fits && !self.adapts() {
            conf_that_fits = self.remedy(&last)?;
        }
        let mut recordings = Vec::new();
        if let Some(folder) = &self.args.recordings {
            keep(&mut last.recordings, &folder.join(file_name(number, changes, value)), self.args.force)?;
            recordings = last.recordings.iter().map(|recorded| recorded.file.clone()).collect();
        }
        Ok(Ran::Ended(Box::new(Outcome {
            fit,
            peak_allocated: last.peak_allocated(),
            peak_reserved: last.peak_reserved(),
            // The replay with the largest context released more of the cache than the run.
            peak_device: if fit == Fit::Fits { self.most(&last).min(budget) } else { self.most(&last) },
            certainty: Certainty::of(&last),
            is_lower_bound: last.ran_out(),
            conf: conf_that_fits,
            processes: last.recordings.len(),
            recordings,
            facts: facts_of(&last).unwrap_or_default(),
        })))
    }

    /// One run on GPUs of `total` bytes.
    fn attempt(
        &self,
        total: u64,
        changes: &[Change],
        wanted: Map<String, Value>,
        value: Option<u64>,
    ) -> anyhow::Result<Attempt> {
        let (args, environment) = self.request(changes, value);
        // An empty object: only facts are collected.
        let changes = Value::Object(wanted).to_string();
        let extra = Extra { changes, environment, keeps_output: true, log: None };
        Attempt::with(&args, self.args.on.gpu, total, extra, self.control)
    }

    /// The request of a run, and the environment variables of the program.
    fn request(&self, changes: &[Change], value: Option<u64>) -> (RunRequest, Vec<(OsString, OsString)>) {
        let fill = |text: &str| match (&self.args.vary, value) {
            (Some(vary), Some(value)) => text.replace(&format!("{{{}}}", vary.name), &value.to_string()),
            _ => text.to_owned(),
        };
        // An argument that is not UTF-8 has no placeholder.
        let command = self.args.command.iter();
        let command =
            command.map(|part| part.to_str().map_or_else(|| part.clone(), |text| fill(text).into()));
        let environment =
            self.args.env.iter().map(|(name, value)| (name.into(), fill(value).into())).collect();
        let on = self.on.get().unwrap_or(&self.args.on);
        (run_args(on, command.collect(), changes), environment)
    }

    /// Runs the extremes beside the first program, which is unchanged; a changed program gets the same differences, and is followed if the
    /// first is.
    fn explored(&self, attempt: Attempt, value: Option<u64>) -> anyhow::Result<Attempt> {
        let mut known = self.extremes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((peak, extremes)) = &*known {
            let extremes = extremes.iter().map(|extreme| extreme.shifted(*peak, attempt.peak())).collect();
            return Ok(attempt.beside(extremes));
        }
        let (args, environment) = self.request(&[], value);
        let (args, main) = extremes::explore(&args, attempt, self.control, |args, total| {
            // An empty object: only facts are collected.
            let extra = Extra {
                changes: "{}".to_owned(),
                environment: environment.clone(),
                keeps_output: true,
                log: None,
            };
            Attempt::with(args, self.args.on.gpu, total, extra, self.control)
        })?;
        *known = Some((main.peak(), main.extremes.clone()));
        // The first call sets it.
        self.on.set(args.on).ok();
        Ok(main)
    }

    /// The end of a run that gave no numbers.
    fn unfinished(&self, attempt: &Attempt) -> Option<Ran> {
        if self.is_stopped() {
            return Some(Ran::Stopped);
        }
        if !attempt.failed() {
            return None;
        }
        let tail = tail_of(&attempt.output()).unwrap_or_default();
        // A killed program writes no error.
        let is_killed = attempt.ended.killed || attempt.ended.status.code().is_none();
        let end = || text::end(attempt.ended).split(':').next().unwrap_or_default().to_owned();
        Some(Ran::Failed(error_in(&tail).filter(|_| !is_killed).unwrap_or_else(end)))
    }

    /// The peak of all bytes in use on one GPU.
    fn peak(attempt: &Attempt) -> u64 {
        attempt.machine.gpus.iter().map(|gpu| gpu.peak_bytes).max().unwrap_or(0)
    }

    /// The same, with the largest context.
    fn most(&self, attempt: &Attempt) -> u64 {
        let overhead = attempt.overhead(&self.card);
        let peak = Self::peak(attempt);
        if peak == 0 { 0 } else { peak + (overhead.end() - overhead.start()) }
    }

    /// Whether a run without a limit fits in the budget. A replay decides if the allocator has to release its cache.
    fn fit(&self, free: &Attempt) -> anyhow::Result<Fit> {
        let (low, _) = free.overhead(&self.card).into_inner();
        if free.ran_out() || free.peak_allocated() + low > self.card.total {
            return Ok(Fit::DoesNotFit);
        }
        if self.most(free) <= self.card.total {
            return Ok(Fit::Fits);
        }
        if free.asked.is_empty() {
            // Without a recording, nothing shows that memory can be released.
            return Ok(if Self::peak(free) <= self.card.total { Fit::Barely } else { Fit::DoesNotFit });
        }
        Ok(fit_on_device(free.demands(), self.card.total, free.overhead(&self.card)).context("replay")?.fit)
    }

    /// Allocator settings with which the recording fits in the budget.
    fn remedy(&self, free: &Attempt) -> anyhow::Result<Option<String>> {
        let overhead = *free.overhead(&self.card).end();
        if free.ran_out() || free.peak_allocated() + overhead > self.card.total {
            return Ok(None);
        }
        let capacity = Capacity { total: self.card.total, overhead };
        let fullest = free.demands().max_by_key(|demand| demand.peak_reserved);
        fullest.map_or(Ok(None), |demand| demand.remedy(capacity)).context("replay")
    }
}

/// The facts of the process that trains; of several, the first.
fn facts_of(attempt: &Attempt) -> Option<Facts> {
    let all = || attempt.recordings.iter().filter_map(|recorded| recorded.facts.changes.as_ref());
    all().find(|facts| facts.model.is_some()).or_else(|| all().next()).cloned()
}

/// The file name of a run's recording.
fn file_name(number: u64, changes: &[Change], value: Option<u64>) -> String {
    let keys = changes.iter().map(|change| change.key().to_owned());
    let unchanged = changes.is_empty().then(|| "unchanged".to_owned());
    let parts: Vec<String> =
        unchanged.into_iter().chain(keys).chain(value.map(|value| value.to_string())).collect();
    format!("{number:02}-{}.pickle", parts.join("-"))
}

fn run_args(on: &GpuRequest, command: Vec<OsString>, changes: &[Change]) -> RunRequest {
    let conf = changes.iter().find_map(|change| match change {
        Change::Conf(conf) => Some(conf.clone()),
        _ => None,
    });
    // The other cards are simulated.
    let cards = changes.iter().find_map(|change| match change {
        Change::FullyShard { cards, .. } => Some(*cards),
        _ => None,
    });
    RunRequest {
        on: on.clone(),
        world_size: cards,
        rank: cards.map(|_| 0),
        conf,
        command,
        ..RunRequest::default()
    }
}

/// Bytes of host memory that programs can use; `None` if unknown.
fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The end of a file, of at most [`TAIL`] bytes.
fn tail_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(file.metadata()?.len().saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The error in a program's output: the last line that begins with the name of an exception, else the last line.
fn error_in(output: &str) -> Option<String> {
    let is_error = |line: &&str| {
        let name: &str = line.split([':', ' ']).next().unwrap_or_default();
        let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
        is_name && ["Error", "Exception", "Interrupt"].iter().any(|end| name.ends_with(end))
    };
    let lines = || output.lines().rev().map(str::trim_end).filter(|line| !line.is_empty());
    let line = lines().find(is_error).or_else(|| lines().next())?;
    let short: String = line.chars().take(LONGEST).collect();
    Some(if short.len() < line.len() { format!("{short}...") } else { short })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_the_last_exception_or_the_last_line() {
        let output = "Traceback:\n  File\nValueError: first\n\nDuring handling\ntorch.utils.checkpoint.CheckpointError: other\nshapes\n";
        assert_eq!(error_in(output).as_deref(), Some("torch.utils.checkpoint.CheckpointError: other"));
        assert_eq!(error_in("one\nKeyError\nafter").as_deref(), Some("KeyError"));
        assert_eq!(error_in("train.py: no such file\n\n").as_deref(), Some("train.py: no such file"));
        assert_eq!(error_in(""), None);
        assert_eq!(error_in(&"é".repeat(200)).unwrap().chars().count(), LONGEST + 3);
    }
}
