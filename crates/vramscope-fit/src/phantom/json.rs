//! JSON of a phantom run.

use std::os::unix::process::ExitStatusExt as _;

use serde::Serialize;
use vramscope_phantom::{Unanswered, UnansweredKind};

use super::cards::{Basis, OnCard};
use super::certainty::{Certainty, verdict};
use super::recordings::{FollowedRead, Recorded};
use super::text::Answer;

/// The output of `vramscope phantom run --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "PhantomRun"))]
pub struct Json {
    command: Vec<String>,
    gpu: &'static str,
    total_bytes: u64,
    context_bytes: u64,
    context_high_bytes: u64,
    fits: bool,
    verdict: &'static str,
    certainty: Certainty,
    exit_code: Option<i32>,
    signal: Option<i32>,
    timed_out: bool,
    gpus: Vec<GpuJson>,
    fullest_gpu: Option<usize>,
    fullest_rank: Option<u64>,
    processes: Vec<ProcessJson>,
    smallest_gpu: Option<CardJson>,
    cards: Option<Vec<CardJson>>,
    needed_bytes: Option<u64>,
    needed_low_bytes: Option<u64>,
    conf_that_fits: Option<String>,
    launches: u64,
    values_read: u64,
    results_read: u64,
    collectives: u64,
    unanswered: Vec<CallJson>,
    read_at: Vec<ReadAtJson>,
    asked_memory_at: Vec<AskedAtJson>,
    unrecorded_processes: u64,
    unrecorded_reason: Option<String>,
}

/// The memory in use on one GPU.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "PhantomGpu"))]
struct GpuJson {
    device: usize,
    peak_bytes: u64,
    peak_communication_bytes: u64,
    module_bytes: u64,
    total_bytes: u64,
}

/// One process of the program.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "PhantomProcess"))]
struct ProcessJson {
    rank: Option<u64>,
    torch: String,
    recording: Option<String>,
    devices: Vec<DeviceJson>,
}

/// One device of a process, by PyTorch's counters.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "PhantomDevice"))]
struct DeviceJson {
    device: i64,
    peak_allocated_bytes: u64,
    peak_reserved_bytes: u64,
    num_alloc_retries: u64,
    num_ooms: u64,
}

/// Whether the program fits on a GPU.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "PhantomCard"))]
struct CardJson {
    name: &'static str,
    total_bytes: u64,
    fits: bool,
    verdict: &'static str,
    basis: &'static str,
    peak_reserved_bytes: Option<u64>,
    num_alloc_retries: u64,
}

impl CardJson {
    fn of(on: &OnCard) -> Self {
        Self {
            name: on.gpu.name,
            total_bytes: on.gpu.total_bytes,
            fits: on.fits(),
            verdict: verdict(on.fit),
            basis: match on.basis {
                Basis::Run => "run",
                Basis::Replay => "replay",
                Basis::ReplayOf(_) => "replay of another compute capability",
                Basis::Between => "between",
            },
            peak_reserved_bytes: on.peak_reserved,
            num_alloc_retries: on.num_alloc_retries,
        }
    }
}

/// A call that the phantom GPU did not execute as a GPU would.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "UnansweredCall"))]
struct CallJson {
    name: String,
    calls: u64,
    kind: &'static str,
}

/// A line of the program that asks for the free device memory.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "AskedMemoryAt"))]
struct AskedAtJson {
    line: String,
    calls: u64,
}

/// A line of the program that reads values of the GPU.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ReadAt"))]
struct ReadAtJson {
    line: Option<String>,
    reads: u64,
    /// The line that computed the values, if the run followed values.
    computed_at: Option<String>,
    /// The operator that computed them, as `aten::topk`.
    operator: Option<String>,
}

impl ReadAtJson {
    fn of(read: FollowedRead) -> Self {
        let FollowedRead { line, computed_at, operator, reads } = read;
        Self { line, reads, computed_at, operator }
    }
}

impl Answer<'_> {
    /// The answer as JSON.
    pub fn json(&self) -> Json {
        json(self)
    }
}

fn json(answer: &Answer<'_>) -> Json {
    let Answer { args, card, ended, machine, recordings, unrecorded, found, .. } = answer;
    let cards = &found.cards;
    let gpus = machine.gpus.iter().enumerate();
    let fullest_gpu = answer.fullest_gpu();
    let fullest_rank = |gpu| {
        answer.asked_of(gpu).max_by_key(|asked| asked.demand.peak_reserved).and_then(|asked| asked.rank)
    };
    let process = |recorded: &Recorded| ProcessJson {
        rank: recorded.facts.rank,
        torch: recorded.facts.torch.clone(),
        recording: answer.recording(recorded).map(|file| file.display().to_string()),
        devices: (recorded.facts.devices.iter())
            .map(|of| DeviceJson {
                device: of.gpu,
                peak_allocated_bytes: of.peak_allocated_bytes,
                peak_reserved_bytes: of.peak_reserved_bytes,
                num_alloc_retries: of.num_alloc_retries,
                num_ooms: of.num_ooms,
            })
            .collect(),
    };
    let call = |call: &Unanswered| CallJson {
        name: call.name.clone(),
        calls: call.calls,
        kind: match call.kind {
            UnansweredKind::Unknown => "unknown",
            UnansweredKind::Refused => "refused",
            UnansweredKind::LeftOut => "left out",
            UnansweredKind::Modeled => "modeled",
        },
    };
    Json {
        command: args.command.iter().map(|part| part.to_string_lossy().into_owned()).collect(),
        gpu: args.on.gpu.name,
        total_bytes: card.total,
        context_bytes: *card.context.start(),
        context_high_bytes: *card.context.end(),
        fits: found.fits(),
        verdict: verdict(found.fit),
        certainty: found.certainty.clone(),
        exit_code: ended.status.code(),
        signal: ended.status.signal(),
        timed_out: ended.timed_out,
        gpus: gpus
            .map(|(device, gpu)| GpuJson {
                device,
                peak_bytes: gpu.peak_bytes,
                peak_communication_bytes: gpu.peak_communication_bytes,
                module_bytes: gpu.module_bytes,
                total_bytes: gpu.total_bytes,
            })
            .collect(),
        fullest_gpu,
        fullest_rank: fullest_gpu.and_then(fullest_rank),
        processes: recordings.iter().map(process).collect(),
        smallest_gpu: cards.as_ref().and_then(|cards| cards.iter().find(|on| on.fits())).map(CardJson::of),
        cards: cards
            .as_ref()
            .filter(|_| args.sweep_gpus)
            .map(|cards| cards.iter().map(CardJson::of).collect()),
        needed_bytes: found.needed.map(|(_, high)| high),
        needed_low_bytes: found.needed.map(|(low, _)| low),
        conf_that_fits: found.remedy.clone(),
        launches: machine.counts.launches,
        values_read: machine.counts.values_read,
        results_read: machine.counts.results_read,
        collectives: machine.counts.collectives,
        unanswered: machine.unanswered.iter().map(call).collect(),
        read_at: answer.reads().into_iter().map(ReadAtJson::of).collect(),
        asked_memory_at: found
            .asked_memory_at
            .iter()
            .map(|at| AskedAtJson { line: at.line.clone(), calls: at.calls })
            .collect(),
        unrecorded_processes: unrecorded.as_ref().map_or(0, |unrecorded| unrecorded.processes),
        unrecorded_reason: unrecorded.as_ref().map(|unrecorded| unrecorded.reason.clone()),
    }
}
