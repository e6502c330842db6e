//! The listed GPUs on which the program fits: by replaying a run, or by running the program if it depends on the GPU's memory.

use anyhow::Context as _;
use vramscope_analysis::{Fit, fit_on_device, fit_on_gpus};
use vramscope_basics::gpus::{self, Gpu};

use super::attempt::{Attempt, UNLIMITED};
use super::certainty::Certainty;
use super::chosen_gpu::Card;
use super::recordings::has_kernels;
use super::request::RunRequest;
use crate::control::Control;

/// The largest difference between PyTorch's workspaces at two compute capabilities, in bytes: two of 32 MiB at 9.0, elsewhere of 8,320 KiB
/// (`aten/src/ATen/cuda/CublasHandlePool.cpp`).
const WORKSPACES: u64 = 64 << 20;

/// The evidence for whether the program fits on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Basis {
    /// The program ran on it.
    Run,
    /// A run at its compute capability was replayed on it.
    Replay,
    /// A run at another compute capability, as `10 * major + minor`, was replayed on it: PyTorch's workspaces and kernels may differ.
    ReplayOf(u32),
    /// It has less memory than a GPU that does not fit the program, or more than one that does.
    Between,
}

/// The result for a listed GPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnCard {
    pub(crate) gpu: &'static Gpu,
    /// `None` if that is unknown, because the program needs at least as much as it showed.
    pub(crate) fit: Option<Fit>,
    /// Whether PyTorch contains kernels for it.
    pub(crate) has_kernels: bool,
    pub(crate) basis: Basis,
    /// The peak of reserved bytes of PyTorch's allocator on one GPU; `None` if the program neither ran there nor was replayed.
    pub(crate) peak_reserved: Option<u64>,
    /// How often the allocator released its cache because the GPU was full.
    pub(crate) num_alloc_retries: u64,
}

impl OnCard {
    pub(crate) fn fits(&self) -> bool {
        self.fit == Some(Fit::Fits)
    }

    fn without_kernels(gpu: &'static Gpu) -> Self {
        Self {
            gpu,
            fit: Some(Fit::DoesNotFit),
            has_kernels: false,
            basis: Basis::Between,
            peak_reserved: None,
            num_alloc_retries: 0,
        }
    }
}

/// All listed GPUs, sorted by memory. The program runs without a limit once at each compute capability that PyTorch has kernels for,
/// and each run is replayed on the GPUs of that capability.
pub(crate) fn all_by_replay(
    args: &RunRequest,
    first: &Attempt,
    control: &dyn Control,
) -> anyhow::Result<Vec<OnCard>> {
    let (could, cannot): (Vec<_>, Vec<_>) =
        gpus::by_size().into_iter().partition(|gpu| has_kernels(&first.recordings, gpu));
    let mut capabilities: Vec<u32> = could.iter().map(|gpu| gpu.capability).collect();
    capabilities.sort_unstable();
    capabilities.dedup();
    if capabilities.len() > 1 {
        control.say(&format!(
            "note: PyTorch's workspaces and kernels depend on the compute capability: running the program at each of the {} that PyTorch has kernels for",
            capabilities.len()
        ));
    }
    let mut all: Vec<OnCard> = cannot.into_iter().map(OnCard::without_kernels).collect();
    for capability in capabilities {
        let cards: Vec<&Gpu> = could.iter().copied().filter(|gpu| gpu.capability == capability).collect();
        let own;
        let attempt = if capability == first.gpu.capability {
            first
        } else {
            own = first.again(args, cards[0], UNLIMITED, control)?;
            &own
        };
        all.extend(replayed_on(args, attempt, cards)?);
    }
    all.sort_by_key(|on| (on.gpu.total_bytes, on.gpu.name));
    Ok(all)
}

fn replayed_on(
    args: &RunRequest,
    attempt: &Attempt,
    cards: Vec<&'static Gpu>,
) -> anyhow::Result<Vec<OnCard>> {
    let certainty = Certainty::of(attempt);
    let overhead = |gpu: &Gpu| attempt.overhead(&Card::listed(&args.on, gpu));
    let on = fit_on_gpus(attempt.demands(), cards.into_iter(), overhead, |_| true).context("replay")?;
    Ok(on
        .into_iter()
        .map(|on| {
            let has_room = |bytes: u64| on.gpu.total_bytes >= attempt.peak_allocated() + bytes;
            let (low, high) = overhead(on.gpu).into_inner();
            let fit = match on.replayed.fit {
                _ if !has_room(low) => Fit::DoesNotFit,
                Fit::Fits if !has_room(high) => Fit::Barely,
                fit => fit,
            };
            OnCard {
                gpu: on.gpu,
                fit: certainty.fit(fit),
                has_kernels: true,
                basis: Basis::Replay,
                peak_reserved: Some(on.replayed.peak_reserved),
                num_alloc_retries: on.replayed.num_alloc_retries,
            }
        })
        .collect())
}

/// The listed GPU with the least memory that fits `free`, a run that had no limit or did not reach it. If `may_run`, GPUs of other
/// compute capabilities are checked with a separate run.
pub(crate) fn smallest_by_replay(
    args: &RunRequest,
    free: &Attempt,
    may_run: bool,
    control: &dyn Control,
) -> anyhow::Result<Option<OnCard>> {
    let is_own = |gpu: &Gpu| gpu.capability == free.gpu.capability;
    let overhead = |gpu: &Gpu| {
        let (low, high) = free.overhead(&Card::listed(&args.on, gpu)).into_inner();
        // A GPU of another compute capability may need less than this run shows, so it stays a candidate.
        let less = if is_own(gpu) || !may_run { 0 } else { WORKSPACES };
        low.saturating_sub(less)..=high.saturating_sub(less)
    };
    let has_room = |gpu: &&Gpu| {
        gpu.total_bytes >= (free.peak_allocated() + overhead(gpu).end()).saturating_sub(WORKSPACES)
    };
    let could = gpus::by_size().into_iter().filter(has_room).filter(|gpu| has_kernels(&free.recordings, gpu));
    let mut others: Vec<Attempt> = Vec::new();
    let mut could: std::collections::VecDeque<&'static Gpu> = could.collect();
    while !could.is_empty() {
        let wanted = |on: &vramscope_analysis::GpuFit| on.replayed.fit != Fit::Fits;
        let on = fit_on_gpus(free.demands(), could.iter().copied(), overhead, wanted).context("replay")?;
        let Some(last) = on.last().filter(|on| on.replayed.fit == Fit::Fits) else { return Ok(None) };
        could.drain(..on.len());
        let gpu = last.gpu;
        let card = Card::listed(&args.on, gpu);
        let answer = |replayed: &vramscope_analysis::FitReplay, basis| OnCard {
            gpu,
            fit: Some(Fit::Fits),
            has_kernels: true,
            basis,
            peak_reserved: Some(replayed.peak_reserved),
            num_alloc_retries: replayed.num_alloc_retries,
        };
        let has_room =
            |attempt: &Attempt| gpu.total_bytes >= attempt.peak_allocated() + attempt.overhead(&card).end();
        if is_own(gpu) || !may_run {
            let basis = if is_own(gpu) { Basis::Replay } else { Basis::ReplayOf(free.gpu.capability) };
            if has_room(free) {
                return Ok(Some(answer(&last.replayed, basis)));
            }
            continue;
        }
        let position = match others.iter().position(|other| other.gpu.capability == gpu.capability) {
            Some(position) => position,
            None => {
                control.say(&format!(
                    "note: running the program again, at the compute capability of {}",
                    gpu.name
                ));
                others.push(free.again(args, gpu, UNLIMITED, control)?);
                others.len() - 1
            }
        };
        let other = &others[position];
        if other.cut_off().is_some() || !has_room(other) {
            continue;
        }
        let replayed =
            fit_on_device(other.demands(), gpu.total_bytes, other.overhead(&card)).context("replay")?;
        if replayed.fit == Fit::Fits {
            return Ok(Some(answer(&replayed, Basis::Replay)));
        }
    }
    Ok(None)
}

/// All listed GPUs, sorted by memory, for a program that depends on the GPU's memory: runs it on candidates, found by bisection. The
/// program counts as fitting on GPUs with more memory than one that fits it. `known` are GPUs that it already ran on.
pub(crate) fn all_by_running(
    args: &RunRequest,
    known: Vec<OnCard>,
    first: &Attempt,
    control: &dyn Control,
) -> anyhow::Result<Vec<OnCard>> {
    let (could, cannot): (Vec<_>, Vec<_>) =
        gpus::by_size().into_iter().partition(|gpu| has_kernels(&first.recordings, gpu));
    let mut ran = known;
    // The program fits from `high` on; below `low` that is not known.
    let (mut low, mut high) = (0, could.len());
    let place = |gpu: &Gpu| {
        could.partition_point(|other| (other.total_bytes, other.name) < (gpu.total_bytes, gpu.name))
    };
    let mut next = ran.first().map(|on| place(on.gpu));
    while low < high {
        let middle = next.take().unwrap_or(usize::midpoint(low, high));
        let Some(&gpu) = could.get(middle) else { break };
        let on = match ran.iter().find(|on| on.gpu.name == gpu.name) {
            Some(on) => *on,
            None => {
                let card = Card::listed(&args.on, gpu);
                control.say(&format!("note: running the program on {}", gpu.name));
                let on = ran_on(&first.again(args, gpu, card.total, control)?, &card)?;
                ran.push(on);
                on
            }
        };
        if on.fits() { high = middle } else { low = middle + 1 }
    }
    let between = |(position, &gpu): (usize, &&'static Gpu)| {
        ran.iter().find(|on| on.gpu.name == gpu.name).copied().unwrap_or(OnCard {
            gpu,
            fit: Some(if position < high { Fit::DoesNotFit } else { Fit::Fits }),
            has_kernels: true,
            basis: Basis::Between,
            peak_reserved: None,
            num_alloc_retries: 0,
        })
    };
    let mut all: Vec<OnCard> = could.iter().enumerate().map(between).collect();
    all.extend(cannot.into_iter().map(OnCard::without_kernels));
    all.sort_by_key(|on| (on.gpu.total_bytes, on.gpu.name));
    Ok(all)
}

/// The result on the GPU of the run.
pub(crate) fn ran_on(attempt: &Attempt, card: &Card) -> anyhow::Result<OnCard> {
    let fit = attempt.fit(card)?;
    Ok(OnCard {
        gpu: attempt.gpu,
        fit: Certainty::of(attempt).fit(fit),
        has_kernels: true,
        basis: Basis::Run,
        peak_reserved: Some(attempt.peak_reserved()),
        num_alloc_retries: attempt.num_alloc_retries(),
    })
}

/// Whether the GPU has its listed sizes, not changed by options.
pub(crate) fn is_as_listed(args: &RunRequest, card: &Card) -> bool {
    card.total == args.on.gpu.total_bytes && card.context == args.on.context_bytes(args.on.gpu)
}
