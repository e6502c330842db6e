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
        match &answer.recordings[..] {
            [] => {}
            [one] => writeln!(out, "\nRecording: {}", one.file.display())?,
            several => {
                writeln!(out, "\nRecordings:")?;
                several.iter().try_for_each(|recorded| writeln!(out, "  {}", recorded.file.display()))?;
            }
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
    let recorded: u64 = asked.iter().map(|asked| asked.demand.ooms).sum();
    // Where nothing is recorded the GPU's own count is all there is.
    let failed = if asked.is_empty() { answer.machine.counts.out_of_memory } else { recorded };
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
    if let Some(fullest) = answer.fullest_gpu().filter(|_| used.len() > 2) {
        writeln!(out, "GPU {fullest}, the fullest of {}, at the peak", used.len())?;
        gpu_needs(out, answer, fullest)?;
        every_gpu(out, answer, &used)?;
    } else {
        for device in used {
            writeln!(out, "GPU {device}, at the peak")?;
            gpu_needs(out, answer, device)?;
        }
    }
    writeln!(out, "\nWorkspaces of cuDNN, cuSOLVER, cuSPARSE and cuFFT count nothing.")
}

/// What was held of a GPU, a line each: what is exact, what is modelled, and what was only counted.
fn gpu_needs(out: &mut String, answer: &Answer<'_>, device: usize) -> std::fmt::Result {
    let gpu = &answer.machine.gpus[device];
    let mut line = |held: u64, what: &str| writeln!(out, "  {:>12}  {what}", bytes(held));
    let processes: Vec<&Asked> = answer.asked_of(device).collect();
    let mut known = 0;
    for Asked { rank, demand, .. } in &processes {
        let who = rank.map_or(String::new(), |rank| format!(", rank {rank}"));
        let allocated = bytes(demand.peak_allocated);
        line(demand.peak_reserved, &format!("PyTorch's allocator{who}, {allocated} of it allocated: exact"))?;
        known += demand.peak_reserved;
    }
    let contexts = processes.len().max(1) as u64 * answer.card.context;
    let what = if processes.len() > 1 { "CUDA contexts" } else { "a CUDA context" };
    line(contexts, &format!("{what}: modelled, by card and release of CUDA"))?;
    known += contexts;
    if gpu.peak_communication_bytes > 0 {
        line(gpu.peak_communication_bytes, "buffers of NCCL: modelled")?;
        known += gpu.peak_communication_bytes;
    }
    if gpu.peak_bytes > known {
        line(gpu.peak_bytes - known, "taken beside PyTorch's allocator: counted")?;
    }
    let free = bytes(gpu.total_bytes.saturating_sub(gpu.peak_bytes));
    line(gpu.peak_bytes, &format!("in use, {free} free"))
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
