//! What is said of a log of samples, in words: what every form of the answers says.

use vramscope_analysis::{Growing, SamplesSummary, Spike};
use vramscope_trace::samples::{LogEventKind, Quantity};

use crate::answers::SampleAnswers;
use crate::shown::Shown;
use vramscope_basics::units::{bytes, count, counted, duration};

/// Something that was found out, in a sentence or two.
pub(crate) struct Found {
    pub(crate) text: String,
    /// The program failed, or will.
    pub(crate) is_bad: bool,
}

/// Fewer samples do not tell whether something grows.
const FEW: u64 = 30;

/// What a quantity is called in tables.
pub(crate) fn label(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Requested => "requested",
        Quantity::Allocated => "allocated",
        Quantity::Active => "active",
        Quantity::Reserved => "reserved",
        Quantity::Inactive => "not in use",
        Quantity::DeviceUsed => "device used",
        Quantity::ProcessUsed => "of the process",
        Quantity::Hidden => "outside",
        Quantity::Others => "other processes",
        Quantity::Cpu => "host memory",
    }
}

/// What a quantity is, as a sentence begins.
fn subject(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Requested => "Requested bytes",
        Quantity::Allocated => "Allocated bytes",
        Quantity::Active => "Active bytes",
        Quantity::Reserved => "Reserved bytes",
        Quantity::Inactive => "Reserved bytes that are not in use",
        Quantity::DeviceUsed => "Device used by anyone",
        Quantity::ProcessUsed => "What the process has of the device",
        Quantity::Hidden => "Device used outside of the pool",
        Quantity::Others => "What other processes have of the device",
        Quantity::Cpu => "The process's host memory",
    }
}

/// `12.3 s into the log`.
pub(crate) fn when(s: &SamplesSummary, time_us: i64) -> String {
    format!("{} into the log", since_start(s, time_us))
}

/// `12.3 s`: the time since the first sample.
pub(crate) fn since_start(s: &SamplesSummary, time_us: i64) -> String {
    duration(s.time_us.map_or(0, |(first, _)| time_us.saturating_sub(first)))
}

/// What was found out, the worst first; nothing where all is quiet.
pub(crate) fn findings(s: &SamplesSummary) -> Vec<Found> {
    let mut found = Vec::new();
    let mut say = |is_bad, text| found.push(Found { text, is_bad });
    if s.failed_requests > 0 {
        say(true, failed(s));
    }
    for growing in &s.growing {
        // A run that only begins rises, too.
        let is_bad = growing.quantity != Quantity::Allocated || growing.repeats;
        say(is_bad, grows(s, growing));
    }
    if let Some(pool) = s.pool.filter(|pool| pool.is_fragmented) {
        let exact = if s.high_is_exact { "" } else { ", as far as samples tell" };
        say(
            false,
            format!(
                "Of {} that were reserved, {} were never in use at one time{exact}: lost between blocks, or a cache that nobody needed.",
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

/// What is said where nothing was found.
pub(crate) fn quiet(s: &SamplesSummary) -> String {
    let highest = |quantity| s.quantity(quantity).map(|range| range.highest.bytes);
    let highs = match (highest(Quantity::Allocated), highest(Quantity::Reserved)) {
        (Some(allocated), Some(reserved)) => {
            format!("The highest was {} allocated, {} reserved.", bytes(allocated), bytes(reserved))
        }
        _ => {
            let most = highest(s.main).unwrap_or(0);
            format!("{}: {} at most.", subject(s.main), bytes(most))
        }
    };
    let verdict = if s.samples < FEW {
        "Too few samples to tell whether anything grows."
    } else {
        "Nothing failed and nothing keeps growing."
    };
    format!("{highs} {verdict}")
}

fn failed(s: &SamplesSummary) -> String {
    let mut text = format!("Out of memory: {} failed", counted(s.failed_requests, "request"));
    let first = s.events.iter().find(|(event, _)| event.kind == LogEventKind::OutOfMemory);
    let Some((event, values)) = first else { return text + " for want of memory." };
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

/// `600.00 MiB an hour`, or a minute, or a day: whatever is nearest to what was seen.
pub(crate) fn rate(growing: &Growing) -> String {
    let per = |hours: f64| bytes((growing.bytes_per_hour * hours) as u64);
    let grown = growing.bytes() as f64;
    // How long the growth took, in hours.
    match grown / growing.bytes_per_hour.max(1.0) {
        hours if hours < 0.5 => format!("{} a minute", per(1.0 / 60.0)),
        hours if hours < 48.0 => format!("{} an hour", per(1.0)),
        _ => format!("{} a day", per(24.0)),
    }
}

fn grows(s: &SamplesSummary, growing: &Growing) -> String {
    let (more, rate) = (bytes(growing.bytes()), rate(growing));
    let unseen = if s.high_is_exact { "" } else { ", or more was allocated between two samples" };
    let text = match growing.quantity {
        Quantity::Allocated if growing.repeats => format!(
            "Leak suspected: what stays allocated rose by {more}, {rate}, while the rest comes and goes."
        ),
        Quantity::Allocated => format!(
            "Allocated bytes rose through the whole log, by {more}, and nothing fell back: a leak, or a run that was still beginning."
        ),
        Quantity::Reserved => format!(
            "Reserved bytes keep growing, by {more}, {rate}, and what is allocated does not: free memory lies in pieces that do not serve what is asked{unseen}."
        ),
        quantity => format!("{} keeps growing: {more} more, {rate}.", subject(quantity)),
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

/// What to do about what was found, a sentence or two each.
pub(crate) fn advice(s: &SamplesSummary) -> Vec<&'static str> {
    let grows = |quantity| s.growing.iter().any(|growing| growing.quantity == quantity);
    let spikes = |quantity| s.spikes.iter().any(|spike| spike.quantity == quantity);
    let knows_pool = s.quantity(Quantity::Allocated).is_some();
    let is_fragmented = s.pool.is_some_and(|pool| pool.is_fragmented);
    let mut all = Vec::new();
    let mut say = |is_said: bool, text| all.extend(is_said.then_some(text));
    say(
        grows(Quantity::Allocated) || (s.failed_requests > 0 && knows_pool),
        "A log does not know who holds memory. Record some steps with `vramscope run -- python train.py` or `vramscope.torch.record(\"run.pickle\")`: `vramscope report` of that names the lines.",
    );
    say(
        is_fragmented || grows(Quantity::Reserved) || s.retries > 0,
        "`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` often helps against free memory in pieces. `vramscope replay` of a recording says which setting does.",
    );
    say(
        grows(Quantity::Hidden) || spikes(Quantity::Hidden),
        "What is outside of the pool belongs to contexts, communicators (NCCL), CUDA graphs, workspaces of libraries, or other processes: `vramscope top` shows which processes are on the GPU.",
    );
    say(grows(Quantity::Others), "`vramscope top` shows which other processes are on the GPU.");
    say(
        grows(Quantity::Cpu),
        "Host memory grows with what data loaders keep, with lists of results, and with pinned memory.",
    );
    say(
        spikes(Quantity::Allocated) && s.phases.is_empty(),
        "Name what the program does with `tracker.phase(\"validation\")`, and the log says in which phase a spike was. `vramscope report` of a recording names its lines.",
    );
    say(
        !knows_pool,
        "The log knows no pool. Let the program call `vramscope.serve()`, and `vramscope monitor` logs what is allocated and reserved, too.",
    );
    all
}

/// What makes these numbers less than certain, a sentence each.
pub(crate) fn doubts(answers: &SampleAnswers<'_>, s: &SamplesSummary) -> Vec<String> {
    let damage = &answers.log.damage;
    let mut all = Vec::new();
    let mut say = |is_said: bool, text: String| all.extend(is_said.then_some(text));
    let interval = duration(i64::try_from(s.interval_us).unwrap_or(i64::MAX));
    say(
        !s.high_is_exact && s.samples > 1,
        format!("What rose and fell within {interval}, between two samples, was not seen."),
    );
    say(
        s.missed > 0,
        format!("{} left out, because one took too long.", are(s.missed, "sample was", "samples were")),
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
        "gpumemprof takes its own pool for the use of the device: what lies outside of it is not known."
            .to_owned(),
    );
    say(
        damage.cut_off,
        "The file stops in the middle of a row: its writer was killed, still writes, or the file is damaged there. All before it was read.".to_owned(),
    );
    say(
        !damage.cut_off && answers.log.ended.is_none() && answers.log.source.is_some(),
        "The log has no end: its writer was killed, or still writes.".to_owned(),
    );
    if let Some(first) = damage.first_bad_row {
        let rows = are(damage.bad_rows, "row makes no sense and was", "rows make no sense and were");
        say(true, format!("{rows} left out, the first of them row {}.", count(first)));
    }
    say(
        damage.unordered > 0,
        format!(
            "The time goes back {}: a clock that was set, or several logs in one file.",
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
            "{} of more than a thousand devices left out.",
            are(damage.left_out, "sample was", "samples were")
        ),
    );
    all
}

fn are(n: u64, one: &str, several: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { several })
}
