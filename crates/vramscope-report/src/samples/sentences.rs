//! Sentences about a log of samples, for all report formats.

use vramscope_analysis::{Growing, SamplesSummary, Spike};
use vramscope_basics::units::{bytes, count, counted, duration};
use vramscope_trace::samples::{DeviceMemorySource, LogEventKind, Quantity};

use crate::answers::SampleAnswers;
use crate::shown::Shown;

/// A finding, in one or two sentences.
pub(crate) struct Found {
    pub(crate) text: String,
    /// Whether the program failed, or will fail.
    pub(crate) is_bad: bool,
}

/// Below this number of samples, growth cannot be detected.
const FEW: u64 = 30;

/// The name of a quantity in tables.
pub(crate) fn label(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Requested => "requested",
        Quantity::Allocated => "allocated",
        Quantity::Active => "active",
        Quantity::Reserved => "reserved",
        Quantity::Inactive => "not in use",
        Quantity::DeviceUsed => "device used",
        Quantity::ProcessUsed => "process used",
        Quantity::Hidden => "outside",
        Quantity::Others => "other processes",
        Quantity::Cpu => "host memory",
    }
}

/// Where the numbers of a device come from, after a comma: `from NVML`.
pub fn device_source(source: DeviceMemorySource) -> &'static str {
    match source {
        DeviceMemorySource::Driver => "from the driver",
        DeviceMemorySource::Nvml => "from NVML",
        DeviceMemorySource::NvmlMig => "of the MIG instance, from NVML",
        DeviceMemorySource::Meminfo => "from /proc/meminfo, because the GPU shares the host's memory",
    }
}

/// The name of a quantity at the start of a sentence.
fn subject(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Requested => "Requested bytes",
        Quantity::Allocated => "Allocated bytes",
        Quantity::Active => "Active bytes",
        Quantity::Reserved => "Reserved bytes",
        Quantity::Inactive => "Reserved bytes that are not in use",
        Quantity::DeviceUsed => "Device memory used by all processes",
        Quantity::ProcessUsed => "Device memory used by the process",
        Quantity::Hidden => "Device memory used outside of the pool",
        Quantity::Others => "Device memory used by other processes",
        Quantity::Cpu => "Host memory of the process",
    }
}

/// The time since the first sample, as `12.3 s into the log`.
pub(crate) fn when(s: &SamplesSummary, time_us: i64) -> String {
    format!("{} into the log", since_start(s, time_us))
}

/// The time since the first sample, as `12.3 s`.
pub(crate) fn since_start(s: &SamplesSummary, time_us: i64) -> String {
    duration(s.time_us.map_or(0, |(first, _)| time_us.saturating_sub(first)))
}

/// The findings, the worst first; empty if there are none.
pub(crate) fn findings(s: &SamplesSummary) -> Vec<Found> {
    let mut found = Vec::new();
    let mut say = |is_bad, text| found.push(Found { text, is_bad });
    if s.failed_requests > 0 {
        say(true, failed(s));
    }
    for growing in &s.growing {
        // Allocated bytes also rise at the start of every run.
        let is_bad = growing.quantity != Quantity::Allocated || growing.repeats;
        say(is_bad, grows(s, growing));
    }
    if let Some(pool) = s.pool.filter(|pool| pool.is_fragmented) {
        let exact = if s.high_is_exact { "" } else { ", as far as the samples show" };
        say(
            false,
            format!(
                "Of {} reserved, {} were never in use at the same time{exact}: either fragmented, or unused cache.",
                bytes(pool.reserved.bytes),
                bytes(pool.never_in_use)
            ),
        );
    }
    if let Some((spike, others)) = s.spikes.split_first() {
        let more = match others.len() {
            0 => String::new(),
            n => format!(" There are {}.", counted(n as u64, "more spike")),
        };
        say(false, format!("{}{more}", spiked(s, spike)));
    }
    let alerts: Vec<_> = s.events.iter().filter(|(event, _)| event.kind == LogEventKind::Alert).collect();
    if let Some((first, _)) = alerts.first() {
        let said = format!("{}, the first {}", counted(alerts.len() as u64, "alert"), when(s, first.time_us));
        say(true, format!("{said}: {}", Shown::of(&first.message)));
    }
    found
}

/// The sentence if there are no findings.
pub(crate) fn quiet(s: &SamplesSummary) -> String {
    let highest = |quantity| s.quantity(quantity).map(|range| range.highest.bytes);
    let highs = match (highest(Quantity::Allocated), highest(Quantity::Reserved)) {
        (Some(allocated), Some(reserved)) => {
            format!("The peaks were {} allocated, {} reserved.", bytes(allocated), bytes(reserved))
        }
        _ => {
            let most = highest(s.main).unwrap_or(0);
            format!("{}: {} at most.", subject(s.main), bytes(most))
        }
    };
    let verdict = if s.samples < FEW {
        "There are too few samples to detect growth."
    } else {
        "No request failed and nothing keeps growing."
    };
    format!("{highs} {verdict}")
}

fn failed(s: &SamplesSummary) -> String {
    let mut text = format!("Out of memory: {} failed", counted(s.failed_requests, "request"));
    let first = s.events.iter().find(|(event, _)| event.kind == LogEventKind::OutOfMemory);
    let Some((event, values)) = first else { return text + "." };
    let others = if s.failed_requests > 1 { ", the first " } else { " " };
    text += &format!("{others}{}", when(s, event.time_us));
    let in_use = values.get(Quantity::Active).or(values.get(Quantity::Allocated));
    if let (Some(in_use), Some(reserved)) = (in_use, values.get(Quantity::Reserved)) {
        text += &format!(", when {} of {} reserved were in use", bytes(in_use), bytes(reserved));
    }
    if let (Some(used), Some(total)) = (values.get(Quantity::DeviceUsed), s.device_total) {
        text += &format!(" and {} of the device were free", bytes(total.saturating_sub(used)));
    }
    text + "."
}

/// The growth rate, as `600.00 MiB per hour`; per minute, hour or day, whichever is closest to the observed duration.
pub(crate) fn rate(growing: &Growing) -> String {
    let per = |hours: f64| bytes((growing.bytes_per_hour * hours) as u64);
    let grown = growing.bytes() as f64;
    // Duration of the growth in hours.
    match grown / growing.bytes_per_hour.max(1.0) {
        hours if hours < 0.5 => format!("{} per minute", per(1.0 / 60.0)),
        hours if hours < 48.0 => format!("{} per hour", per(1.0)),
        _ => format!("{} per day", per(24.0)),
    }
}

fn grows(s: &SamplesSummary, growing: &Growing) -> String {
    let (more, rate) = (bytes(growing.bytes()), rate(growing));
    let unseen = if s.high_is_exact { "" } else { ", or more was allocated between two samples" };
    let text = match growing.quantity {
        Quantity::Allocated if growing.repeats => format!(
            "Leak suspected: the minimum of allocated bytes rose by {more}, {rate}, while other allocations were freed."
        ),
        Quantity::Allocated => format!(
            "Allocated bytes rose by {more} through the whole log and never fell: a leak, or a run that was still starting."
        ),
        Quantity::Reserved => format!(
            "Reserved bytes keep growing, by {more}, {rate}, but allocated bytes do not: the free memory is fragmented and does not serve the requests{unseen}."
        ),
        quantity => format!("{} keeps growing: by {more}, {rate}.", subject(quantity)),
    };
    let is_near = |us: &u64| *us < 30 * 86_400_000_000;
    match growing.full_in_us.filter(is_near) {
        Some(us) if growing.quantity != Quantity::Allocated || growing.repeats => {
            format!("{text} At this rate the device is full in {}.", duration(us as i64))
        }
        _ => text,
    }
}

/// A spike, in a sentence.
pub(crate) fn spiked(s: &SamplesSummary, spike: &Spike) -> String {
    let above = bytes(spike.bytes.saturating_sub(spike.usual));
    let place = spike.phase.as_ref().map(|phase| format!(", in {}", Shown::of(phase))).unwrap_or_default();
    let lasts = match (spike.is_last, spike.to_us.saturating_sub(spike.from_us)) {
        (true, _) => ", until the end of the log".to_owned(),
        (false, 0) => String::new(),
        (false, us) => format!(", for {}", duration(us)),
    };
    format!(
        "{} rose to {} {}{lasts}{place}: {above} above the usual {}.",
        subject(spike.quantity),
        bytes(spike.bytes),
        when(s, spike.from_us),
        bytes(spike.usual)
    )
}

/// Advice on the findings, one or two sentences each.
pub(crate) fn advice(s: &SamplesSummary) -> Vec<&'static str> {
    let grows = |quantity| s.growing.iter().any(|growing| growing.quantity == quantity);
    let spikes = |quantity| s.spikes.iter().any(|spike| spike.quantity == quantity);
    let knows_pool = s.quantity(Quantity::Allocated).is_some();
    let is_fragmented = s.pool.is_some_and(|pool| pool.is_fragmented);
    let mut all = Vec::new();
    let mut say = |is_said: bool, text| all.extend(is_said.then_some(text));
    say(
        grows(Quantity::Allocated) || (s.failed_requests > 0 && knows_pool),
        "A log does not contain holders. Record some steps with `vramscope run -- python train.py` or `vramscope.torch.record(\"run.pickle\")`; `vramscope report` then shows the lines that hold memory.",
    );
    say(
        is_fragmented || grows(Quantity::Reserved) || s.retries > 0,
        "`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` often reduces fragmentation. `vramscope replay` of a recording shows which setting does.",
    );
    say(
        grows(Quantity::Hidden) || spikes(Quantity::Hidden),
        "Memory outside of the pool belongs to contexts, communicators (NCCL), CUDA graphs, library workspaces or other processes. `vramscope top` shows which processes use the GPU.",
    );
    say(grows(Quantity::Others), "`vramscope top` shows which other processes use the GPU.");
    say(
        grows(Quantity::Cpu),
        "Common causes of growing host memory are data loaders, lists of results and pinned memory.",
    );
    say(
        spikes(Quantity::Allocated) && s.phases.is_empty(),
        "Mark phases with `tracker.phase(\"validation\")`; the log then shows the phase of each spike. `vramscope report` of a recording shows its lines.",
    );
    say(
        !knows_pool,
        "The log has no values of a pool. If the program calls `vramscope.serve()`, `vramscope monitor` also logs allocated and reserved bytes.",
    );
    all
}

/// The rows that were left out because they are damaged, in a sentence; `None` if there are none.
pub(crate) fn damage(answers: &SampleAnswers<'_>) -> Option<String> {
    let damage = &answers.log.damage;
    let rows = are(damage.bad_rows, "row is invalid and was", "rows are invalid and were");
    let first = damage.first_bad_row?;
    Some(format!("The file is damaged: {rows} left out; the first is row {}.", count(first)))
}

/// The limitations of the numbers, one sentence each.
pub(crate) fn limitations(answers: &SampleAnswers<'_>, s: &SamplesSummary) -> Vec<String> {
    let damage = &answers.log.damage;
    let mut all = Vec::new();
    let mut say = |is_said: bool, text: String| all.extend(is_said.then_some(text));
    let interval = duration(i64::try_from(s.interval_us).unwrap_or(i64::MAX));
    say(
        !s.high_is_exact && s.samples > 1,
        format!("Changes within {interval}, between two samples, are not visible."),
    );
    say(
        s.missed > 0,
        format!(
            "{} missed, because an earlier sample took too long.",
            are(s.missed, "sample was", "samples were")
        ),
    );
    if let Some((from, to)) = s.longest_silence {
        say(
            true,
            format!("No sample was taken for {}, {}.", duration(to.saturating_sub(from)), when(s, from)),
        );
    }
    let is_of_gpumemprof = answers.log.collector.as_deref().is_some_and(|c| !c.starts_with("vramscope"));
    say(
        is_of_gpumemprof,
        "gpumemprof reports its own pool as the device use, so memory outside of the pool is unknown."
            .to_owned(),
    );
    say(
        damage.cut_off,
        "The file ends in the middle of a row: its writer was killed or is still writing, or the file is damaged there. All earlier rows were read.".to_owned(),
    );
    say(
        !damage.cut_off && answers.log.ended.is_none() && answers.log.source.is_some(),
        "The log has no end record: its writer was killed, or is still writing.".to_owned(),
    );
    say(damage.bad_rows > 0, self::damage(answers).unwrap_or_default());
    say(
        damage.unordered > 0,
        format!(
            "The time goes backwards {}: the clock was set, or the file contains several logs.",
            if damage.unordered == 1 {
                "once".to_owned()
            } else {
                format!("{} times", count(damage.unordered))
            }
        ),
    );
    say(
        damage.left_out > 0,
        format!(
            "{} left out, because the log has more than a thousand devices.",
            are(damage.left_out, "sample was", "samples were")
        ),
    );
    all
}

fn are(n: u64, one: &str, several: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { several })
}
