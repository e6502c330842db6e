//! One run of the program on phantom GPUs.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use anyhow::Context as _;
use vramscope_analysis::{Demand, Fit, fit_on_device};
use vramscope_basics::gpus::Gpu;
use vramscope_phantom::{GpuUse, MachineReport, PhantomGpu, PhantomOptions, PhantomRun};
use vramscope_recorder::{RecordedProcess, RecorderOptions, RecorderRun};

use super::changes;
use super::child::{self, Ended};
use super::chosen_gpu::Card;
use super::demands::{self, Asked};
use super::rank;
use super::recordings::{self, FollowedRead, FollowedValues, Recorded};
use super::request::{GpuSpeed, Routing, RunRequest, Values};
use super::unknowns::Extreme;
use crate::control::Control;

/// Memory of a GPU that no program exhausts, in bytes: 1 TiB.
pub(crate) const UNLIMITED: u64 = 1 << 40;

/// Environment variable with the routing, for `follow.py`. Without one it is empty, and values are not followed.
const ROUTING: &str = "VRAMSCOPE_ROUTING";

/// Environment variable with the candidate that choices by measured time take, for `choices.py`.
const CHOICES: &str = "VRAMSCOPE_CHOICES";

/// The name of the file with the program's output.
const OUTPUT: &str = "output";

/// Additions to a run for a changed program.
#[derive(Default)]
pub(crate) struct Extra {
    /// The changes to the program, as JSON for `changes.py`; empty for none.
    pub(crate) changes: String,
    /// Environment variables of the program.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Whether the program's output goes to a file in the run's folder ([`Attempt::output`]).
    pub(crate) keeps_output: bool,
    /// The log that is written while the program runs, with accesses.
    pub(crate) log: Option<PathBuf>,
}

/// One run of the program.
pub(crate) struct Attempt {
    /// The GPU of the run.
    pub(crate) gpu: &'static Gpu,
    /// The run; the recordings' files exist as long as it does.
    pub(crate) run: PhantomRun,
    pub(crate) ended: Ended,
    pub(crate) machine: MachineReport,
    pub(crate) recordings: Vec<Recorded>,
    pub(crate) asked: Vec<Asked>,
    /// The logs of processes, if they were wanted.
    pub(crate) logs: Vec<RecordedProcess>,
    /// Runs with something else that a phantom GPU cannot know.
    pub(crate) extremes: Vec<Extreme>,
    /// Bytes of one context.
    context: u64,
}

/// The environment of a program whose calls reach the recorder before they reach the phantom GPU.
fn with_recorder(
    mut environment: Vec<(&'static str, OsString)>,
    recorder: &RecorderRun,
) -> Vec<(&'static str, OsString)> {
    const PRELOAD: &str = "LD_PRELOAD";
    for (name, value) in &mut environment {
        if *name == PRELOAD {
            let phantom = std::mem::replace(value, recorder.library().into());
            value.push(":");
            value.push(phantom);
        }
    }
    environment.extend(recorder.environment().into_iter().filter(|(name, _)| *name != PRELOAD));
    environment
}

impl Attempt {
    /// Runs the program on GPUs of one kind with `total` bytes each.
    pub(crate) fn new(
        args: &RunRequest,
        gpu: &'static Gpu,
        total: u64,
        control: &dyn Control,
    ) -> anyhow::Result<Self> {
        Self::with(args, gpu, total, Extra::default(), control)
    }

    /// Another run of the program, whose unknowns are those of this one.
    pub(crate) fn again(
        &self,
        args: &RunRequest,
        gpu: &'static Gpu,
        total: u64,
        control: &dyn Control,
    ) -> anyhow::Result<Self> {
        Ok(Self { extremes: self.extremes.clone(), ..Self::new(args, gpu, total, control)? })
    }

    /// The same run, beside these extremes.
    pub(crate) fn beside(self, extremes: Vec<Extreme>) -> Self {
        Self { extremes, ..self }
    }

    /// As [`new`](Self::new), with additions.
    pub(crate) fn with(
        args: &RunRequest,
        gpu: &'static Gpu,
        total: u64,
        extra: Extra,
        control: &dyn Control,
    ) -> anyhow::Result<Self> {
        let context = *args.on.context_bytes(gpu).start();
        let phantom = PhantomGpu {
            name: gpu.full.to_owned(),
            total_bytes: total,
            context_bytes: context,
            compute_capability: gpu.capability,
            multiprocessors: gpu.multiprocessors,
            threads_per_multiprocessor: gpu.threads_per_multiprocessor(),
            blocks_per_multiprocessor: gpu.blocks_per_multiprocessor(),
            shared_per_multiprocessor_bytes: gpu.shared_bytes_per_multiprocessor(),
            shared_per_block_bytes: gpu.shared_bytes_per_block_optin(),
            l2_bytes: gpu.l2_bytes,
            bus_bits: gpu.bus_bits,
            is_integrated: gpu.integrated,
            mig: None,
        };
        let mut options = PhantomOptions::default();
        options.random_values = match args.on.values {
            Values::Zeros => None,
            Values::Random(seed) => Some(seed),
        };
        options.pretend_ranks = args.world_size.is_some();
        options.late = args.on.gpu_speed == Some(GpuSpeed::Late);
        options.no_contents = args.no_contents;
        options.large_workspaces = args.on.takes_last;
        options.cudnn = args.on.cudnn.as_ref().map(std::path::absolute).transpose()?;
        let run = PhantomRun::new(&vec![phantom; args.on.gpus.into()], options)?;
        let mut environment = extra.environment;
        let mut set = |variables: Vec<(&'static str, OsString)>| {
            environment.extend(variables.into_iter().map(|(name, value)| (OsString::from(name), value)));
        };
        // Without changes the variable is empty, so that one of the caller's environment has no effect.
        let routing = args.on.routing.map_or("", Routing::name);
        let candidate = if args.on.takes_last { "last" } else { "first" };
        set(vec![
            (changes::VARIABLE, extra.changes.into()),
            (ROUTING, routing.into()),
            (CHOICES, candidate.into()),
        ]);
        let mut recorded = RecorderOptions::default();
        recorded.accesses = true;
        recorded.replaces = args.force;
        let recorder = extra.log.map(|out| RecorderRun::start(&out, recorded)).transpose()?;
        set(match &recorder {
            Some(recorder) => with_recorder(run.environment(), recorder),
            None => run.environment(),
        });
        set(recordings::prepare(run.folder(), args.max_entries)?);
        if let (Some(world_size), Some(rank)) = (args.world_size, args.rank) {
            set(rank::environment(rank, world_size, args.on.gpus.into()));
        }
        if let Some(conf) = &args.conf {
            // The variable's name since PyTorch 2.9, and the earlier name.
            set(["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"]
                .map(|name| (name, OsString::from(conf)))
                .into());
        }
        let output = match () {
            () if extra.keeps_output => child::Output::File(run.folder().join(OUTPUT)),
            () if args.stdout_to_stderr => child::Output::Stderr,
            () => child::Output::Inherited,
        };
        let ended = child::run(&run, &args.command, environment, args.on.steps_timeout, &output, control);
        let logs = recorder.map(RecorderRun::finish).unwrap_or_default();
        control.recorded(&logs);
        let ended = ended?;
        let machine = run.report()?;
        let recordings = recordings::collect(run.folder())?;
        let asked = demands::asked(&recordings, control)?;
        Ok(Self { gpu, run, ended, machine, recordings, asked, logs, extremes: Vec::new(), context })
    }

    /// The file with the program's output, if it was kept.
    pub(crate) fn output(&self) -> PathBuf {
        self.run.folder().join(OUTPUT)
    }

    /// Whether a request for memory failed. An allocator without recordings (cudaMallocAsync) requests memory from the GPU once; PyTorch's
    /// allocator requests it again after releasing its cache.
    pub(crate) fn ran_out(&self) -> bool {
        let mut dropped =
            self.recordings.iter().filter(|recorded| recorded.facts.may_have_dropped).peekable();
        if self.asked.is_empty() && dropped.peek().is_none() {
            return self.machine.counts.out_of_memory > 0;
        }
        self.demands().any(|demand| demand.ooms > 0) || dropped.any(|recorded| recorded.facts.ran_out)
    }

    /// Whether the program failed for another reason than memory.
    pub(crate) fn failed(&self) -> bool {
        !self.ran_out() && (self.ended.killed || !self.ended.status.success() && !self.ended.timed_out)
    }

    /// Why the run may not show the whole peak; `None` if the program ran to its end, successfully.
    pub(crate) fn cut_off(&self) -> Option<String> {
        let Ended { status, timed_out, killed } = self.ended;
        match () {
            () if self.ran_out() => Some("the program ran out of memory".to_owned()),
            () if killed => Some("the program was killed after it did not end at SIGTERM".to_owned()),
            () if timed_out => Some("the program was ended by --steps-timeout".to_owned()),
            () if status.success() => None,
            () => Some("the program ended early".to_owned()),
        }
    }

    /// Whether the program read values that kernels would have computed, or that were assumed instead.
    pub(crate) fn reads_values(&self) -> bool {
        self.machine.counts.values_read + self.machine.counts.results_read > 0
            || self.followed().any(|values| !values.assumed.is_empty() || !values.unknown.is_empty())
    }

    /// The findings about the values of processes whose values were followed.
    pub(crate) fn followed(&self) -> impl Iterator<Item = &FollowedValues> {
        self.recordings.iter().filter_map(|recorded| recorded.facts.values.as_ref())
    }

    /// The values that the program read, in words.
    pub(crate) fn values_read(&self) -> String {
        let followed: Vec<String> = self
            .followed()
            .flat_map(|values| values.assumed.iter().chain(&values.unknown))
            .filter_map(FollowedRead::text)
            .collect();
        let lines = self.machine.read_at.iter().map(|at| format!("{} reads computed values", at.line));
        let all: Vec<String> = if followed.is_empty() { lines.collect() } else { followed };
        let more = if all.len() > 1 { ", and other lines" } else { "" };
        all.first()
            .map_or_else(|| "the program reads computed values".to_owned(), |first| format!("{first}{more}"))
    }

    /// Bytes of the machine code of one process's libraries; 0 if modules are loaded lazily.
    pub(crate) fn module_bytes(&self) -> u64 {
        self.machine.gpus.iter().map(|gpu| gpu.module_bytes).max().unwrap_or(0)
    }

    /// The choices by measured time, in words; `None` if there are none.
    pub(crate) fn choices(&self) -> Option<String> {
        let plans = self.machine.timed_at.iter().map(|at| (Some(&at.line), "plans of cuDNN"));
        let made = self.recordings.iter().flat_map(|recorded| &recorded.facts.choices);
        let all: Vec<_> = plans.chain(made.map(|choice| (choice.line.as_ref(), &*choice.kind))).collect();
        let (line, kind) = all.first()?;
        let line = line.map_or("the program", String::as_str);
        let more = if all.len() > 1 { ", and others" } else { "" };
        Some(format!("{line} chooses {kind} by their time{more}"))
    }

    /// The memory of each GPU of the run, in bytes.
    pub(crate) fn total(&self) -> u64 {
        self.machine.gpus.first().map_or(0, |gpu| gpu.total_bytes)
    }

    /// Whether the program queried the total or free memory of a GPU.
    pub(crate) fn asked_memory(&self) -> bool {
        !self.machine.asked_memory_at.is_empty()
    }

    pub(crate) fn demands(&self) -> impl Iterator<Item = &Demand> {
        self.asked.iter().map(|asked| &asked.demand)
    }

    /// The peak of allocated bytes of one process on one GPU.
    pub(crate) fn peak_allocated(&self) -> u64 {
        self.demands().map(|demand| demand.peak_allocated).max().unwrap_or(0)
    }

    /// The peak of reserved bytes of PyTorch's allocator on one GPU.
    pub(crate) fn peak_reserved(&self) -> u64 {
        self.demands().map(|demand| demand.peak_reserved).max().unwrap_or(0)
    }

    /// The peak of the program's memory on one GPU, without contexts: of PyTorch's allocator, or by the GPU's count without a recording.
    pub(crate) fn peak(&self) -> u64 {
        if !self.asked.is_empty() {
            return self.peak_reserved();
        }
        let contexts = self.machine.counts.processes.max(1) * (self.context + self.module_bytes());
        self.machine.gpus.iter().map(|gpu| gpu.peak_bytes.saturating_sub(contexts)).max().unwrap_or(0)
    }

    /// How often PyTorch's allocators released their caches because a GPU was full.
    pub(crate) fn num_alloc_retries(&self) -> u64 {
        self.recordings
            .iter()
            .flat_map(|recorded| &recorded.facts.devices)
            .map(|of| of.num_alloc_retries)
            .sum()
    }

    /// Bytes of a GPU in use outside PyTorch's allocator, with the context sizes of `card`. The upper end includes the bytes that the
    /// program needs more in an extreme.
    pub(crate) fn overhead(&self, card: &Card) -> RangeInclusive<u64> {
        let (low, high) = (*card.context.start(), *card.context.end());
        let outside = self.outside();
        let other_contexts = self.processes_on_one_gpu().saturating_sub(1) * (high - low);
        let most = self.extremes.iter().map(|extreme| extreme.peak).max().unwrap_or(0);
        // NVIDIA's libraries, which are not seen, have 357 MiB of code beside PyTorch's 612 MiB, in release 2.15 for 8.0.
        let modules = self.module_bytes() / 5 * 3;
        low + outside..=high + outside + other_contexts + modules + most.saturating_sub(self.peak())
    }

    /// Whether the program fits on its GPU. It ran with the smallest possible context; a replay checks the largest.
    ///
    /// # Errors
    /// A recording cannot be replayed.
    pub(crate) fn fit(&self, card: &Card) -> anyhow::Result<Fit> {
        if self.ran_out() {
            return Ok(Fit::DoesNotFit);
        }
        let overhead = self.overhead(card);
        let is_full = |gpu: &GpuUse| gpu.peak_bytes + (overhead.end() - overhead.start()) > card.total;
        if !self.machine.gpus.iter().any(is_full) {
            return Ok(Fit::Fits);
        }
        let on = fit_on_device(self.demands(), card.total, overhead).context("replay")?;
        // Memory of allocators without recordings cannot be released in the replay.
        Ok(if on.fit == Fit::Fits && !self.asked.is_empty() { Fit::Fits } else { Fit::Barely })
    }

    /// Bytes of the fullest GPU in use outside PyTorch's allocator and one context.
    fn outside(&self) -> u64 {
        let beside = |(device, gpu): (usize, &GpuUse)| {
            let of_device = self.asked.iter().filter(|asked| asked.gpu == device as i64);
            gpu.peak_bytes.saturating_sub(
                of_device.map(|asked| asked.demand.peak_reserved).max().unwrap_or(0) + self.context,
            )
        };
        self.machine.gpus.iter().enumerate().map(beside).max().unwrap_or(0)
    }

    fn processes_on_one_gpu(&self) -> u64 {
        let on = |device: usize| self.asked.iter().filter(|asked| asked.gpu == device as i64).count();
        (0..self.machine.gpus.len()).map(on).max().unwrap_or(0) as u64
    }
}
