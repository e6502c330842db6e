//! `vramscope phantom run`

use std::ffi::OsString;

use anyhow::{Context as _, bail};
use vramscope::analysis::{Capacity, OnCard, on_cards};
use vramscope::gpus::{self, Gpu};
use vramscope::phantom::{MachineReport, PhantomGpu, PhantomOptions, PhantomRun};

use super::card::{Card, context_bytes};
use super::child::{self, Ended};
use super::json;
use super::rank;
use super::recordings::{self, Recorded, has_kernels};
use super::verdict::{self, Asked};
use super::words::{self, Answer};
use crate::Found;
use crate::args::{PhantomRunArgs, Values};
use crate::commands::{print_json, print_text};
use crate::say::say;

/// Memory of a card on which nothing runs out of memory: 1 TiB.
const UNLIMITED: u64 = 1 << 40;

pub(crate) fn run(args: &PhantomRunArgs) -> anyhow::Result<Found> {
    let card = Card::of(args);
    if card.total <= card.context {
        bail!("a device of {} bytes has no room for a context of {} bytes", card.total, card.context);
    }
    if let (Some(world_size), Some(rank)) = (args.world_size, args.rank)
        && rank >= world_size
    {
        bail!("there is no rank {rank} among {world_size}: they count from 0");
    }
    let first = attempt(args, if args.sweep_gpus { UNLIMITED } else { card.total })?;
    // An allocator of which nothing is recorded (cudaMallocAsync) asks once, and PyTorch's own again after it gave memory back.
    let ran_out = match &first.asked[..] {
        [] => first.machine.counts.out_of_memory > 0,
        asked => asked.iter().any(|asked| asked.demand.ooms > 0),
    };
    let second = if ran_out && !args.once {
        say("note: it ran out of memory: it runs once more, without a limit, to learn what it needs");
        Some(attempt(args, UNLIMITED)?)
    } else {
        None
    };
    let free = second.as_ref().or(Some(&first).filter(|_| !ran_out));
    let cards = match free {
        Some(free) => Some(cards(args, &card, free)?),
        None => None,
    };
    let remedy = match &second {
        Some(free) => remedy(&card, free)?,
        None => None,
    };
    let needed = second.as_ref().map(|free| fullest(&free.asked) + card.context + outside(&card, free));
    let Attempt { run, ended, machine, asked, mut recordings } = first;
    if let Some(out) = &args.record {
        recordings::keep(&mut recordings, out)?;
    }
    let fits = if args.sweep_gpus { cards.iter().flatten().any(|on| on.fits) } else { !ran_out };
    let answer = Answer { args, card: &card, ended, machine, asked, recordings, cards, needed, remedy, fits };
    if args.json {
        print_json(&json::json(&answer))?;
    } else {
        print_text(&words::text(&answer)?)?;
    }
    drop(run);
    let failed = !ended.status.success() && !ended.timed_out && !ran_out;
    if failed || ended.killed {
        bail!("{}", words::end(ended));
    }
    Ok(if fits { Found::Nothing } else { Found::Something })
}

/// One run of the program.
struct Attempt {
    run: PhantomRun,
    ended: Ended,
    machine: MachineReport,
    recordings: Vec<Recorded>,
    asked: Vec<Asked>,
}

fn attempt(args: &PhantomRunArgs, total: u64) -> anyhow::Result<Attempt> {
    let gpu = args.gpu;
    let phantom = PhantomGpu {
        name: gpu.full.to_owned(),
        total_bytes: total,
        context_bytes: context_bytes(args, gpu),
        compute_capability: gpu.capability,
        multiprocessors: gpu.multiprocessors,
        threads_per_multiprocessor: gpu.threads_per_multiprocessor(),
        blocks_per_multiprocessor: gpu.blocks_per_multiprocessor(),
        shared_per_multiprocessor_bytes: gpu.shared_bytes_per_multiprocessor(),
        shared_per_block_bytes: gpu.shared_bytes_per_block_optin(),
        l2_bytes: gpu.l2_bytes,
        bus_bits: gpu.bus_bits,
        is_integrated: gpu.integrated,
    };
    let mut options = PhantomOptions::default();
    options.random_values = match args.values {
        Values::Zeros => None,
        Values::Random(seed) => Some(seed),
    };
    options.pretend_ranks = args.world_size.is_some();
    let run = PhantomRun::new(&vec![phantom; args.gpus.into()], options)?;
    let mut environment = run.environment();
    environment.extend(recordings::prepare(run.folder())?);
    if let (Some(world_size), Some(rank)) = (args.world_size, args.rank) {
        environment.extend(rank::environment(rank, world_size, args.gpus.into()));
    }
    if let Some(conf) = &args.conf {
        // The name since PyTorch 2.9, and the one before.
        environment.extend(
            ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"].map(|name| (name, OsString::from(conf))),
        );
    }
    let ended = child::run(&run, &args.command, environment, args.steps_timeout, args.json)?;
    let machine = run.report()?;
    let recordings = recordings::collect(run.folder())?;
    let asked = verdict::asked(&recordings)?;
    Ok(Attempt { run, ended, machine, recordings, asked })
}

/// The cards that were asked about, of which the first that fits is the smallest; `free` ran without a limit, or did not
/// reach it.
fn cards(args: &PhantomRunArgs, card: &Card, free: &Attempt) -> anyhow::Result<Vec<OnCard>> {
    let needed = free.asked.iter().map(|asked| asked.demand.peak_allocated).max().unwrap_or(0);
    let outside = outside(card, free);
    let overhead = |gpu: &Gpu| context_bytes(args, gpu) + outside;
    let sweep = args.sweep_gpus;
    let could = gpus::by_size().into_iter().filter(|gpu| sweep || gpu.total_bytes >= needed + overhead(gpu));
    let could = could.filter(|gpu| sweep || has_kernels(&free.recordings, gpu));
    let demands = free.asked.iter().map(|asked| &asked.demand);
    let mut cards = on_cards(demands, could, overhead, |on| sweep || !on.fits).context("replay")?;
    for on in &mut cards {
        let has_room = on.gpu.total_bytes >= needed + overhead(on.gpu);
        on.fits &= has_room && has_kernels(&free.recordings, on.gpu);
    }
    Ok(cards)
}

/// Bytes of the fullest card that were held beside PyTorch's allocator and one context.
fn outside(card: &Card, free: &Attempt) -> u64 {
    let beside = |(device, gpu): (usize, &vramscope::phantom::GpuUse)| {
        let of_device = free.asked.iter().filter(|asked| asked.gpu == device as i64);
        gpu.peak_bytes.saturating_sub(
            of_device.map(|asked| asked.demand.peak_reserved).max().unwrap_or(0) + card.context,
        )
    };
    free.machine.gpus.iter().enumerate().map(beside).max().unwrap_or(0)
}

/// The most that PyTorch's allocator reserved of one card.
fn fullest(asked: &[Asked]) -> u64 {
    asked.iter().map(|asked| asked.demand.peak_reserved).max().unwrap_or(0)
}

/// Settings under which everything fits on the card, where one and the same do.
fn remedy(card: &Card, free: &Attempt) -> anyhow::Result<Option<String>> {
    let capacity = Capacity { total: card.total, overhead: card.context + outside(card, free) };
    let fullest = free.asked.iter().map(|asked| &asked.demand).max_by_key(|demand| demand.peak_reserved);
    fullest.map_or(Ok(None), |demand| demand.remedy(capacity)).context("replay")
}
