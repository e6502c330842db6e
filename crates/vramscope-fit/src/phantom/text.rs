//! The text of a phantom run.

use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

use vramscope_analysis::Fit;
use vramscope_phantom::{MachineReport, PhantomRun, Unanswered, UnansweredKind};
use vramscope_recorder::{RecordedProcess, names_log};
use vramscope_report::{bytes, counted};

use super::cards::{Basis, OnCard};
use super::child::Ended;
use super::chosen_gpu::Card;
use super::demands::Asked;
use super::fits::FoundOut;
use super::recordings::{FollowedRead, Recorded};
use super::request::RunRequest;
use super::without_recording::Unrecorded;

/// All results of a run.
pub struct Answer<'a> {
    pub(crate) args: &'a RunRequest,
    pub(crate) card: Card,
    pub(crate) ended: Ended,
    pub(crate) machine: MachineReport,
    pub(crate) asked: Vec<Asked>,
    pub(crate) recordings: Vec<Recorded>,
    /// The logs, if the recordings are logs.
    pub(crate) logs: Vec<RecordedProcess>,
    /// Processes that lack PyTorch's numbers.
    pub(crate) unrecorded: Option<Unrecorded>,
    pub(crate) found: FoundOut,
    /// Whether a request for memory failed.
    pub(crate) ran_out: bool,
    /// The run; the recordings' files exist as long as it does.
    pub(crate) _run: PhantomRun,
}

impl Answer<'_> {
    /// Whether the program fits on the GPU.
    pub fn fits(&self) -> bool {
        self.found.fits()
    }

    /// Whether it is unknown if the program fits, because it needs at least as much as it showed.
    pub fn is_unknown(&self) -> bool {
        self.found.fit.is_none()
    }

    /// How the program ended, if it failed for another reason than memory, or why a log is incomplete.
    pub fn failure(&self) -> Option<String> {
        let failed = !self.ended.status.success() && !self.ended.timed_out && !self.ran_out;
        if failed || self.ended.killed {
            return Some(end(self.ended));
        }
        self.logs.iter().find_map(RecordedProcess::failure)
    }

    /// The answer as text.
    pub fn text(&self) -> String {
        // Writing to a `String` does not fail.
        text(self).unwrap_or_default()
    }

    /// The numbers of the used GPUs.
    fn used_gpus(&self) -> impl DoubleEndedIterator<Item = usize> {
        (0..self.machine.gpus.len()).filter(|&device| self.machine.gpus[device].peak_bytes > 0)
    }

    /// The GPU with the highest peak; the first of several.
    pub(super) fn fullest_gpu(&self) -> Option<usize> {
        self.used_gpus().rev().max_by_key(|&device| self.machine.gpus[device].peak_bytes)
    }

    /// Whether the program depends on the GPU's memory and ran without a limit, so its numbers are meaningless.
    fn is_sized_without_limit(&self) -> bool {
        self.args.sweep_gpus && !self.found.asked_memory_at.is_empty()
    }

    /// The lines that read values that no kernel computed.
    pub(super) fn reads(&self) -> Vec<FollowedRead> {
        let followed: Vec<_> = self.recordings.iter().filter_map(|of| of.facts.values.as_ref()).collect();
        if followed.is_empty() {
            let counted = self.machine.read_at.iter();
            return counted.map(|at| FollowedRead::at(at.line.clone(), at.reads)).collect();
        }
        followed
            .into_iter()
            .flat_map(|values| values.assumed.iter().chain(&values.unknown))
            .cloned()
            .collect()
    }

    /// The files with the recordings, if they are kept.
    fn kept(&self) -> Vec<&Path> {
        match &self.args.record {
            Some(record) if !names_log(record) => {
                self.recordings.iter().map(|recorded| recorded.file.as_path()).collect()
            }
            _ => self.logs.iter().filter(|log| log.error.is_none()).map(|log| log.path.as_path()).collect(),
        }
    }

    /// The file with the recording of a process, if it is kept.
    pub(super) fn recording<'r>(&'r self, of: &'r Recorded) -> Option<&'r Path> {
        match &self.args.record {
            Some(record) if !names_log(record) => Some(&of.file),
            _ => self.logs.iter().find(|log| Some(log.process) == of.process()).map(|log| log.path.as_path()),
        }
    }

    /// The demands of processes on a GPU.
    pub(super) fn asked_of(&self, device: usize) -> impl Iterator<Item = &Asked> {
        self.asked.iter().filter(move |asked| asked.gpu == device as i64)
    }
}

/// How a program ended that did not end successfully.
pub(crate) fn end(ended: Ended) -> String {
    match (ended.status.code(), ended.status.signal()) {
        _ if ended.killed => "the program did not end after SIGTERM, and was killed".to_owned(),
        (Some(code), _) => {
            format!("the program ended with exit code {code}: the results cover the run until then")
        }
        (None, Some(signal)) => {
            format!("the program was ended by signal {signal}: the results cover the run until then")
        }
        (None, None) => "the program ended".to_owned(),
    }
}

fn text(answer: &Answer<'_>) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    writeln!(out)?;
    if answer.asked.is_empty() && answer.machine.gpus.iter().all(|gpu| gpu.peak_bytes == 0) {
        writeln!(out, "The program did not use a GPU.")?;
        return Ok(out);
    }
    headline(&mut out, answer)?;
    // Without a limit, such a program uses as much memory as it finds.
    if !answer.is_sized_without_limit() {
        needs(&mut out, answer)?;
    }
    unrecorded(&mut out, answer)?;
    asked_memory(&mut out, answer)?;
    cards(&mut out, answer)?;
    values(&mut out, answer)?;
    unanswered(&mut out, &answer.machine.unanswered)?;
    unknown_kernels(&mut out, &answer.machine)?;
    match &answer.kept()[..] {
        [] => {}
        [one] => writeln!(out, "\nRecording: {}", one.display())?,
        several => {
            writeln!(out, "\nRecordings:")?;
            several.iter().try_for_each(|file| writeln!(out, "  {}", file.display()))?;
        }
    }
    Ok(out)
}

fn headline(out: &mut String, answer: &Answer<'_>) -> std::fmt::Result {
    let Answer { args, card, asked, found, .. } = answer;
    let (name, total) = (args.on.gpu.name, bytes(card.total));
    let recorded: u64 = asked.iter().map(|asked| asked.demand.ooms).sum();
    let failed = match &asked[..] {
        // The number is unknown: the GPU's count includes requests that PyTorch's allocator repeats.
        _ if answer.recordings.iter().any(|recorded| recorded.facts.may_have_dropped) => 0,
        // Without a recording, only the GPU's count is known.
        [] => answer.machine.counts.out_of_memory,
        _ => recorded,
    };
    match found.fit {
        Some(Fit::DoesNotFit) if failed == 0 => write!(out, "The program does not fit on {name} ({total}).")?,
        Some(Fit::DoesNotFit) => {
            let failed = counted(failed, "request");
            write!(out, "The program does not fit on {name} ({total}): {failed} failed.")?;
        }
        Some(Fit::Barely) => {
            let (low, high) = (card.context.start(), card.context.end());
            let peak = if found.certainty.is_range() { " and its largest peak" } else { "" };
            write!(
                out,
                "The program barely fits on {name} ({total}): a CUDA context takes {low} to {high} bytes, and with the largest{peak} the program does not fit."
            )?;
        }
        Some(Fit::Fits) => write!(out, "The program fits on {name} ({total}).")?,
        None => write!(out, "It is unknown whether the program fits on {name} ({total}).")?,
    }
    let whose = if asked.is_empty() { "Peak of device memory" } else { "PyTorch's peak" };
    writeln!(out, " {whose}: {}.", found.certainty.text())?;
    if args.sweep_gpus && !answer.is_sized_without_limit() {
        writeln!(out, "\nMemory of the program on {name} without a limit:")?;
    }
    Ok(())
}

fn needs(out: &mut String, answer: &Answer<'_>) -> std::fmt::Result {
    writeln!(out)?;
    let used: Vec<usize> = answer.used_gpus().collect();
    if let Some(fullest) = answer.fullest_gpu().filter(|_| used.len() > 2) {
        writeln!(out, "GPU {fullest}, the fullest of {}, at its peak", used.len())?;
        gpu_needs(out, answer, fullest)?;
        every_gpu(out, answer, &used)?;
    } else {
        for device in used {
            writeln!(out, "GPU {device}, at its peak")?;
            gpu_needs(out, answer, device)?;
        }
    }
    Ok(())
}

/// The uses of a GPU's memory, one per line: exact, modeled or only counted.
fn gpu_needs(out: &mut String, answer: &Answer<'_>, device: usize) -> std::fmt::Result {
    let gpu = &answer.machine.gpus[device];
    let mut line = |held: u64, what: &str| writeln!(out, "  {:>12}  {what}", bytes(held));
    let processes: Vec<&Asked> = answer.asked_of(device).collect();
    let mut known = 0;
    for Asked { rank, demand, .. } in &processes {
        let who = rank.map_or(String::new(), |rank| format!(", rank {rank}"));
        let allocated = bytes(demand.peak_allocated);
        line(demand.peak_reserved, &format!("PyTorch's allocator{who}, {allocated} of it allocated"))?;
        known += demand.peak_reserved;
    }
    let (low, high) = (*answer.card.context.start(), *answer.card.context.end());
    let contexts = processes.len().max(1) as u64;
    let what = if contexts > 1 { "CUDA contexts" } else { "a CUDA context" };
    let loading = if gpu.module_bytes > 0 { "" } else { ", kernels loaded lazily" };
    let up_to = if low < high {
        format!(", up to {} with many kernels", bytes(contexts * high))
    } else {
        String::new()
    };
    line(contexts * low, &format!("{what}{loading}: modeled by GPU{up_to}"))?;
    known += contexts * low;
    if gpu.module_bytes > 0 {
        let most = bytes(contexts * (gpu.module_bytes + gpu.module_bytes / 5 * 3));
        let what = "kernels of the program's libraries, loaded eagerly";
        line(contexts * gpu.module_bytes, &format!("{what}: modeled, up to {most} with NVIDIA's libraries"))?;
        known += contexts * gpu.module_bytes;
    }
    if gpu.peak_communication_bytes > 0 {
        line(gpu.peak_communication_bytes, "NCCL buffers: modeled")?;
        known += gpu.peak_communication_bytes;
    }
    if gpu.peak_bytes > known {
        let what = match &answer.unrecorded {
            None => "outside PyTorch's allocator: counted",
            Some(_) => "of all uses together: counted",
        };
        line(gpu.peak_bytes - known, what)?;
    }
    let free = bytes(gpu.total_bytes.saturating_sub(gpu.peak_bytes));
    line(gpu.peak_bytes, &format!("in use, {free} free"))
}

/// One row per process on each GPU.
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

fn unrecorded(out: &mut String, answer: &Answer<'_>) -> std::fmt::Result {
    let Some(Unrecorded { processes, reason }) = &answer.unrecorded else { return Ok(()) };
    let of = if *processes == 1 { "process" } else { "processes" };
    writeln!(
        out,
        "\nPyTorch's numbers of {processes} {of} are unknown: {reason}. Only the GPU's counts are known."
    )
}

/// States that the program queried the GPU's memory, and the consequences.
fn asked_memory(out: &mut String, answer: &Answer<'_>) -> std::fmt::Result {
    let asked_at = &answer.found.asked_memory_at;
    if asked_at.is_empty() {
        return Ok(());
    }
    let lines: Vec<&str> = asked_at.iter().take(LINES).map(|at| at.line.as_str()).collect();
    let more = if asked_at.len() > LINES { " and elsewhere" } else { "" };
    let lines = lines.join(", ");
    writeln!(
        out,
        "\nThe program queried the total or free memory of the GPU ({lines}{more}), and may adapt to it."
    )?;
    let Some(cards) = &answer.found.cards else {
        return writeln!(
            out,
            "Results for other GPUs are unknown: with --once the program does not run on them."
        );
    };
    let ran: Vec<&str> = cards.iter().filter(|on| on.basis == Basis::Run).map(|on| on.gpu.name).collect();
    writeln!(out, "Therefore it ran once per candidate GPU: {}.", ran.join(", "))
}

fn cards(out: &mut String, answer: &Answer<'_>) -> std::fmt::Result {
    let found = &answer.found;
    match found.needed {
        Some((low, high)) if low < high => {
            writeln!(
                out,
                "\nWithout a limit the program needs {} to {}, depending on the size of the context.",
                bytes(low),
                bytes(high)
            )?;
        }
        Some((low, _)) => writeln!(out, "\nWithout a limit the program needs {}.", bytes(low))?,
        None => {}
    }
    if let Some(conf) = &found.remedy {
        writeln!(out, "\nThe program fits with PYTORCH_CUDA_ALLOC_CONF={conf}")?;
    }
    let Some(cards) = &found.cards else { return Ok(()) };
    if answer.args.sweep_gpus {
        writeln!(out, "\n{:<24}{:>12}{:>14}", "GPU", "memory", "reserved")?;
        for on in cards {
            let total = bytes(on.gpu.total_bytes);
            let reserved = on.peak_reserved.map_or_else(|| "-".to_owned(), bytes);
            writeln!(out, "{:<24}{total:>12}{reserved:>14}  {}", on.gpu.name, verdict(on))?;
        }
    }
    match cards.iter().find(|on| on.fits()) {
        Some(on) => {
            let (name, total) = (on.gpu.name, bytes(on.gpu.total_bytes));
            writeln!(out, "\nThe smallest listed GPU that fits: {name} ({total}).")?;
            if let Basis::ReplayOf(capability) = on.basis {
                let text = |capability: u32| format!("{}.{}", capability / 10, capability % 10);
                writeln!(
                    out,
                    "This result is replayed from a run at compute capability {}; at {} PyTorch may choose other workspaces and kernels. To check it, run with --gpu {name}",
                    text(capability),
                    text(on.gpu.capability)
                )?;
            }
            Ok(())
        }
        None => writeln!(out, "\nThe program fits on no listed GPU."),
    }
}

fn verdict(on: &OnCard) -> String {
    match (on.fit, on.num_alloc_retries) {
        (_, _) if !on.has_kernels => "PyTorch has no kernels for it".to_owned(),
        (None, _) => "unknown".to_owned(),
        (Some(Fit::DoesNotFit), _) if on.basis == Basis::Between => {
            "assumed not to fit: less memory".to_owned()
        }
        (Some(Fit::DoesNotFit), _) => "does not fit".to_owned(),
        (Some(Fit::Barely), _) => "barely fits".to_owned(),
        (Some(Fit::Fits), _) if on.basis == Basis::Between => "assumed to fit: more memory".to_owned(),
        (Some(Fit::Fits), 0) => "fits".to_owned(),
        (Some(Fit::Fits), n) => format!("fits, after releasing its cache {}", counted(n, "time")),
    }
}

/// Limit on the listed lines of the program.
const LINES: usize = 5;

fn values(out: &mut String, answer: &Answer<'_>) -> std::fmt::Result {
    let reads = answer.reads();
    if reads.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nKernels compute nothing. Values that the program read, and may branch on:")?;
    for read in reads.iter().take(LINES) {
        let text = read.text().unwrap_or_else(|| "a thread without Python reads computed values".to_owned());
        writeln!(out, "  {text} ({})", counted(read.reads, "time"))?;
    }
    if reads.len() > LINES {
        writeln!(out, "  and {} more", counted((reads.len() - LINES) as u64, "line"))?;
    }
    Ok(())
}

fn unanswered(out: &mut String, calls: &[Unanswered]) -> std::fmt::Result {
    for (kind, words) in [
        (UnansweredKind::LeftOut, "Left out"),
        (UnansweredKind::Modeled, "Modeled"),
        (UnansweredKind::Refused, "Refused calls"),
        (UnansweredKind::Unknown, "Calls unknown to the phantom"),
    ] {
        let of_kind = calls.iter().filter(|call| call.kind == kind);
        let names: Vec<String> =
            of_kind.map(|call| format!("{} ({})", call.name, counted(call.calls, "call"))).collect();
        if !names.is_empty() {
            writeln!(out, "\n{words}: {}", names.join(", "))?;
        }
    }
    Ok(())
}

fn unknown_kernels(out: &mut String, machine: &MachineReport) -> std::fmt::Result {
    if machine.unknown_kernels.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nKernels with unknown parameters, whose accesses are not recorded: {}",
        machine.unknown_kernels.join(", ")
    )
}
