//! What a run is told as for people.

use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt as _;

use vramscope::analysis::OnCard;
use vramscope::phantom::{MachineReport, Unanswered};
use vramscope::report::{bytes, counted};

use super::card::Card;
use super::child::Ended;
use super::recordings::{Recorded, has_kernels};
use super::verdict::Asked;
use crate::args::{PhantomRunArgs, Values};

/// All that is known of a run.
pub(crate) struct Answer<'a> {
    pub(crate) args: &'a PhantomRunArgs,
    pub(crate) card: &'a Card,
    pub(crate) ended: Ended,
    pub(crate) machine: MachineReport,
    pub(crate) asked: Vec<Asked>,
    pub(crate) recordings: Vec<Recorded>,
    /// Cards by their size; `None` where nothing is known of other cards.
    pub(crate) cards: Option<Vec<OnCard>>,
    /// Bytes of a card that it needs, by the run without a limit, where there was one.
    pub(crate) needed: Option<u64>,
    /// Settings with which it fits where it does not.
    pub(crate) remedy: Option<String>,
    pub(crate) fits: bool,
}

impl Answer<'_> {
    /// The GPUs that anybody used, by their numbers.
    fn used_gpus(&self) -> impl DoubleEndedIterator<Item = usize> {
        (0..self.machine.gpus.len()).filter(|&device| self.machine.gpus[device].peak_bytes > 0)
    }

    /// The GPU that had most in use at any time; the first of several.
    pub(super) fn fullest_gpu(&self) -> Option<usize> {
        self.used_gpus().rev().max_by_key(|&device| self.machine.gpus[device].peak_bytes)
    }

    /// What processes asked of a GPU.
    pub(super) fn asked_of(&self, device: usize) -> impl Iterator<Item = &Asked> {
        self.asked.iter().filter(move |asked| asked.gpu == device as i64)
    }
}

/// How a program ended that did not come to its end.
pub(crate) fn end(ended: Ended) -> String {
    match (ended.status.code(), ended.status.signal()) {
        _ if ended.killed => "the program did not end when it was asked to, and was killed".to_owned(),
        (Some(code), _) => {
            format!("the program ended with exit code {code}: what is said holds for what it did until then")
        }
        (None, Some(signal)) => {
            format!("the program was ended by signal {signal}: what is said holds for what it did until then")
        }
        (None, None) => "the program ended".to_owned(),
    }
}

pub(crate) fn text(answer: &Answer<'_>) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    writeln!(out)?;
    if answer.asked.is_empty() && answer.machine.gpus.iter().all(|gpu| gpu.peak_bytes == 0) {
        writeln!(out, "The program did not use a GPU.")?;
        return Ok(out);
    }
    headline(&mut out, answer)?;
    needs(&mut out, answer)?;
    cards(&mut out, answer)?;
    values(&mut out, answer)?;
    unanswered(&mut out, &answer.machine.unanswered)?;
    if answer.args.record.is_some() {
        for recorded in &answer.recordings {
            writeln!(out, "\nRecording: {}", recorded.file.display())?;
        }
    }
    Ok(out)
}

fn headline(out: &mut String, answer: &Answer<'_>) -> std::fmt::Result {
    let Answer { args, card, asked, .. } = answer;
    let (name, total) = (args.gpu.name, bytes(card.total));
    if args.sweep_gpus {
        return writeln!(out, "What the program needs, on {name} without a limit:");
    }
    let failed: u64 = asked.iter().map(|asked| asked.demand.ooms).sum();
    match failed {
        0 if !answer.ended.status.success() && !answer.ended.timed_out => {
            writeln!(out, "It fits on {name} ({total}) as far as it went: it did not come to its end.")
        }
        0 => writeln!(out, "It fits on {name} ({total})."),
        n => writeln!(out, "It does not fit on {name} ({total}): {} failed.", counted(n, "request")),
    }
}

fn needs(out: &mut String, answer: &Answer<'_>) -> std::fmt::Result {
    writeln!(out)?;
    let used: Vec<usize> = answer.used_gpus().collect();
    match (used.as_slice(), answer.fullest_gpu()) {
        ([_, _, ..], Some(fullest)) => {
            writeln!(out, "GPU {fullest}, the fullest of {}, at the peak", used.len())?;
            needs_of(out, answer, fullest)?;
            every_gpu(out, answer, &used)?;
        }
        _ => {
            for device in used {
                writeln!(out, "GPU {device}, at the peak")?;
                needs_of(out, answer, device)?;
            }
        }
    }
    writeln!(out, "\nWorkspaces of cuDNN, cuSOLVER, cuSPARSE and cuFFT count nothing.")
}

/// What one GPU holds, line by line.
fn needs_of(out: &mut String, answer: &Answer<'_>, device: usize) -> std::fmt::Result {
    let (context, gpu) = (answer.card.context, &answer.machine.gpus[device]);
    let of_device: Vec<&Asked> = answer.asked_of(device).collect();
    for Asked { rank, demand, .. } in &of_device {
        let who = rank.map_or(String::new(), |rank| format!(", rank {rank}"));
        let (reserved, allocated) = (bytes(demand.peak_reserved), bytes(demand.peak_allocated));
        writeln!(out, "  {reserved:>12}  PyTorch's allocator{who}, {allocated} of it allocated: exact")?;
    }
    let contexts = of_device.len().max(1) as u64;
    let what = if contexts == 1 { "a CUDA context".to_owned() } else { counted(contexts, "CUDA context") };
    writeln!(out, "  {:>12}  {what}: modelled, by card and release of CUDA", bytes(contexts * context))?;
    if gpu.peak_communication_bytes > 0 {
        let buffers = bytes(gpu.peak_communication_bytes);
        writeln!(out, "  {buffers:>12}  buffers of NCCL: modelled, by NCCL's rule for connections")?;
    }
    let reserved: u64 = of_device.iter().map(|asked| asked.demand.peak_reserved).sum();
    let known = reserved + contexts * context + gpu.peak_communication_bytes;
    if gpu.peak_bytes > known && !of_device.is_empty() {
        let beside = bytes(gpu.peak_bytes - known);
        writeln!(out, "  {beside:>12}  taken beside PyTorch's allocator: counted")?;
    }
    let (used, free) = (bytes(gpu.peak_bytes), bytes(gpu.total_bytes.saturating_sub(gpu.peak_bytes)));
    writeln!(out, "  {used:>12}  in use, {free} free")
}

/// A line a process on each GPU.
fn every_gpu(out: &mut String, answer: &Answer<'_>, used: &[usize]) -> std::fmt::Result {
    writeln!(out, "\n{:>3}{:>6}{:>14}{:>14}{:>14}", "GPU", "rank", "allocated", "reserved", "in use")?;
    for &device in used {
        let in_use = bytes(answer.machine.gpus[device].peak_bytes);
        for Asked { rank, demand, .. } in answer.asked_of(device) {
            let rank = rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string());
            let (allocated, reserved) = (bytes(demand.peak_allocated), bytes(demand.peak_reserved));
            writeln!(out, "{device:>3}{rank:>6}{allocated:>14}{reserved:>14}{in_use:>14}")?;
        }
    }
    Ok(())
}

fn cards(out: &mut String, answer: &Answer<'_>) -> std::fmt::Result {
    if let Some(needed) = answer.needed {
        writeln!(out, "\nWithout a limit it needs {}.", bytes(needed))?;
    }
    if let Some(conf) = &answer.remedy {
        writeln!(out, "\nIt fits with PYTORCH_CUDA_ALLOC_CONF={conf}")?;
    }
    let Some(cards) = &answer.cards else { return Ok(()) };
    if answer.args.sweep_gpus {
        writeln!(out, "\n{:<24}{:>12}{:>14}", "GPU", "memory", "reserved")?;
        for on in cards {
            let (total, reserved) = (bytes(on.gpu.total_bytes), bytes(on.peak_reserved));
            let verdict = match (on.fits, on.num_alloc_retries) {
                (false, _) if !has_kernels(&answer.recordings, on.gpu) => {
                    "PyTorch has no kernels for it".to_owned()
                }
                (false, _) => "does not fit".to_owned(),
                (true, 0) => "fits".to_owned(),
                (true, n) => format!("fits, and gives its cache back {}", counted(n, "time")),
            };
            writeln!(out, "{:<24}{total:>12}{reserved:>14}  {verdict}", on.gpu.name)?;
        }
        return Ok(());
    }
    match cards.iter().find(|on| on.fits) {
        Some(on) => writeln!(
            out,
            "\nThe smallest listed card that it fits on: {} ({}).",
            on.gpu.name,
            bytes(on.gpu.total_bytes)
        ),
        None => writeln!(out, "\nIt fits on no listed card."),
    }
}

/// So many lines of the program are named where it read values.
const LINES: usize = 5;

fn values(out: &mut String, answer: &Answer<'_>) -> std::fmt::Result {
    let counts = answer.machine.counts;
    if counts.values_read + counts.results_read > 0 {
        let values = if answer.args.values == Values::Zeros {
            "Kernels compute nothing"
        } else {
            "Values are made up"
        };
        let (single, larger) =
            (counted(counts.values_read, "single value"), counted(counts.results_read, "larger result"));
        writeln!(
            out,
            "\n{values}: the program read {single} (as `.item()` does) and {larger} from the GPU, and may go another way on a \
             real one."
        )?;
        let read_at = &answer.machine.read_at;
        for at in read_at.iter().take(LINES) {
            writeln!(out, "  {} ({})", at.line, counted(at.reads, "time"))?;
        }
        if read_at.len() > LINES {
            writeln!(out, "  and {} more", counted((read_at.len() - LINES) as u64, "line"))?;
        }
    }
    Ok(())
}

fn unanswered(out: &mut String, calls: &[Unanswered]) -> std::fmt::Result {
    for (is_refused, words) in [(true, "Refused"), (false, "Not known to the phantom")] {
        let of_kind = calls.iter().filter(|call| call.is_refused == is_refused);
        let names: Vec<String> =
            of_kind.map(|call| format!("{} ({})", call.name, counted(call.calls, "call"))).collect();
        if !names.is_empty() {
            writeln!(out, "\n{words}: {}", names.join(", "))?;
        }
    }
    Ok(())
}
