//! The report of a log of samples: the verdict first, then one section per topic.

use anstyle::Style;
use vramscope_analysis::{SamplesSummary, WINDOWS};
use vramscope_basics::units::{bytes, count, counted, duration, share, signed_bytes};
use vramscope_trace::formats::Compression;
use vramscope_trace::samples::{LogEnd, LogEventKind, Quantity, SampleForm};

use crate::answers::SampleAnswers;
use crate::fit::fit;
use crate::report::chart::ChartColumn;
use crate::samples::sentences::{
    advice, damage, device_source, findings, label, limitations, quiet, rate, since_start, spiked,
};
use crate::shown::Shown;
use crate::text::lines::{BAD, BOLD, DIM, GOOD, Lines};
use crate::text::page::TextOptions;

/// The report of a log of samples as text with ANSI styles.
pub fn samples_report(answers: &SampleAnswers<'_>, options: TextOptions) -> String {
    let mut out = String::new();
    let lines = Lines { out: &mut out, width: options.width };
    let mut page = SamplesPage { lines, top: options.top };
    page.title(answers);
    for device in &answers.devices {
        page.device(answers, device);
    }
    if answers.devices.is_empty() && answers.log.calls.is_empty() {
        page.lines.words(0, "The log contains no samples: the watched process did not answer.");
    }
    page.calls(answers);
    out
}

struct SamplesPage<'o> {
    lines: Lines<'o>,
    top: usize,
}

impl SamplesPage<'_> {
    fn title(&mut self, answers: &SampleAnswers<'_>) {
        let form = match answers.log.form {
            SampleForm::Csv => "log of samples, CSV",
            SampleForm::JsonLines => "log of samples, JSON Lines",
            SampleForm::Json => "log of samples, JSON",
            SampleForm::SavedResults => "saved results of a profiler",
        };
        let compressed = match answers.compression {
            Compression::None => String::new(),
            compression => format!(", compressed with {}", compression.name()),
        };
        let samples = counted(answers.devices.iter().map(|d| d.samples).sum(), "sample");
        let devices = counted(answers.devices.len() as u64, "device");
        self.lines.title(answers.file, &format!("{form}{compressed}, {samples} on {devices}"));
        if let Some(damage) = damage(answers) {
            self.lines.styled_words(BAD, &damage);
        }
    }

    fn device(&mut self, answers: &SampleAnswers<'_>, s: &SamplesSummary) {
        if answers.devices.len() > 1 {
            let device = s.device.map_or("unknown".to_owned(), |device| device.to_string());
            let rank = s.rank.map(|rank| format!(", rank {rank}")).unwrap_or_default();
            let rule = "─".repeat(self.lines.width.saturating_sub(24).min(60));
            self.lines.heading(&format!("Device {device}{rank} {rule}"));
        }
        self.verdict(answers, s);
        self.chart(s);
        self.quantities(s);
        self.growing(s);
        self.spikes(s);
        self.outside(s);
        self.pool(s);
        self.events(s);
        self.phases(s);
        self.sentences("What to do about it", &advice(s));
        let mut limitations = limitations(answers, s);
        // The first lines have it.
        limitations.retain(|limitation| damage(answers).as_ref() != Some(limitation));
        self.sentences("Limitations of these numbers", &limitations);
    }

    fn verdict(&mut self, answers: &SampleAnswers<'_>, s: &SamplesSummary) {
        let source =
            answers.log.source.as_ref().map_or("The process".to_owned(), |name| Shown::of(name).to_string());
        let end = match answers.log.ended {
            Some(LogEnd::Gone) => ", until it ended",
            Some(LogEnd::Stopped) | None => "",
        };
        let often = duration(i64::try_from(s.interval_us).unwrap_or(i64::MAX));
        let long = duration(i64::try_from(s.duration_us()).unwrap_or(i64::MAX));
        self.lines.out.push('\n');
        let found = findings(s);
        if !found.iter().any(|found| found.is_bad) {
            self.lines.styled_words(GOOD, &quiet(s));
        }
        for found in found {
            let style = if found.is_bad { BAD } else { Style::new() };
            self.lines.styled_words(style, &found.text);
        }
        self.lines.words(0, &format!("{source} was sampled every {often} for {long}{end}."));
    }

    /// The main quantity over time, with reserved bytes and device use as lines.
    fn chart(&mut self, s: &SamplesSummary) {
        let is_pool = s.main == Quantity::Allocated;
        let width = self.lines.width.saturating_sub(16).min(s.timeline.len()).min(100);
        let highest = |quantity| s.quantity(quantity).map_or(0, |range| range.highest.bytes);
        let drawn = [s.main, Quantity::Reserved, Quantity::DeviceUsed];
        let top = drawn.iter().map(|&quantity| highest(quantity)).max().unwrap_or(0);
        if top == 0 || width < 8 {
            return;
        }
        let column = |i: usize| {
            let n = s.timeline.len();
            let part = &s.timeline[i * n / width..((i + 1) * n / width).max(i * n / width + 1)];
            let of = |quantity| part.iter().filter_map(|values| values.get(quantity)).max().unwrap_or(0);
            let line = if is_pool { of(Quantity::Reserved) } else { 0 };
            ChartColumn { filled: of(s.main), line, dotted: of(Quantity::DeviceUsed) }
        };
        self.lines.draw((0..width).map(column), top);
        let mut marks = vec![' '; width];
        let (first, _) = s.time_us.unwrap_or_default();
        let span = u128::from(s.duration_us()) + 1;
        for (event, _) in s.events.iter().rev() {
            let mark = match event.kind {
                LogEventKind::OutOfMemory => '▲',
                LogEventKind::Alert => '!',
                _ => continue,
            };
            let at = u128::try_from(event.time_us.saturating_sub(first)).unwrap_or(0);
            if let Some(place) =
                marks.get_mut((at * width as u128 / span) as usize).filter(|place| **place != '▲')
            {
                *place = mark;
            }
        }
        let mut legend = format!("█ {}", label(s.main));
        let mut explain = |is_there: bool, text: &str| {
            if is_there {
                legend += text;
            }
        };
        explain(is_pool && highest(Quantity::Reserved) > 0, "  ─ reserved");
        explain(s.main != Quantity::DeviceUsed && highest(Quantity::DeviceUsed) > 0, "  ┈ device used");
        explain(marks.contains(&'▲'), "  ▲ out of memory");
        explain(marks.contains(&'!'), "  ! alert");
        legend += &format!("   {}", duration(i64::try_from(s.duration_us()).unwrap_or(i64::MAX)));
        self.lines.below_chart(&marks, &legend);
    }

    fn quantities(&mut self, s: &SamplesSummary) {
        let is_pool = s.main == Quantity::Allocated;
        let seen = s.quantity(Quantity::Allocated).map(|range| (range.most_seen, range.highest.bytes));
        let at_peak = match seen {
            Some((most_seen, highest)) if most_seen == Some(highest) => "at the peak",
            // The peak was between two samples.
            Some(_) => "max. sampled",
            None => "",
        };
        self.lines.heading(&format!(
            "{:<16}{:>12}{:>13}  {:<14}{:>12}{:>14}",
            "Bytes", at_peak, "own peak", "after", "minimum", "at the end"
        ));
        let known = |bytes_known: Option<u64>| bytes_known.map_or("-".to_owned(), bytes);
        for range in &s.quantities {
            let here = if is_pool { known(range.most_seen) } else { String::new() };
            self.lines.line(format!(
                "{:<16}{here:>12}{:>13}  {:<14}{:>12}{:>14}",
                label(range.quantity),
                bytes(range.highest.bytes),
                since_start(s, range.highest.time_us),
                bytes(range.lowest),
                known(range.last)
            ));
        }
        if let Some(total) = s.device_total {
            let source = s.device_source.map(|source| format!(", {}", device_source(source)));
            let text = format!("{} in total{}", bytes(total), source.unwrap_or_default());
            self.lines.line(format!("{:<16}{DIM}    {text}{DIM:#}", "device"));
        }
    }

    fn growing(&mut self, s: &SamplesSummary) {
        if s.growing.is_empty() {
            return;
        }
        self.lines.heading("Growing quantities");
        for growing in &s.growing {
            let name = label(growing.quantity);
            self.lines.line(format!(
                "  {:>11}  {BOLD}{name}{BOLD:#}, {}",
                bytes(growing.bytes()),
                rate(growing)
            ));
            let floor: Vec<String> = growing.floor.iter().map(|&floor| bytes(floor)).collect();
            let text = format!(
                "minimum from each tenth of the log to its end: {} (it rose in {} of {})",
                floor.join(", "),
                growing.rises,
                WINDOWS - 1
            );
            self.lines.words(15, &text);
        }
    }

    fn spikes(&mut self, s: &SamplesSummary) {
        if s.spikes.is_empty() {
            return;
        }
        self.lines.heading(&format!("Spikes: {}", count(s.spikes.len() as u64)));
        for spike in s.spikes.iter().take(self.top) {
            self.lines.words(2, &spiked(s, spike));
        }
        self.more(s.spikes.len());
    }

    /// Device memory outside of the pool.
    fn outside(&mut self, s: &SamplesSummary) {
        let Some(outside) = s.outside else { return };
        self.lines.heading("Device memory used outside of the pool");
        let who = match outside.others {
            Some(_) => "contexts, libraries and workspaces of this process",
            None => "contexts, libraries and other processes, which the log does not distinguish",
        };
        let rows = [(Some(outside.hidden), who), (outside.others, "other processes")];
        for (part, who) in rows {
            let Some(part) = part else { continue };
            let of_device =
                s.device_total.map(|total| format!(", {} of the device", share(part.highest.bytes, total)));
            let text = format!(
                "{who}: {} at least, {} at most{} after {}, {} at the end",
                bytes(part.lowest),
                bytes(part.highest.bytes),
                of_device.unwrap_or_default(),
                since_start(s, part.highest.time_us),
                bytes(part.last)
            );
            self.lines.words(2, &text);
        }
    }

    fn pool(&mut self, s: &SamplesSummary) {
        let Some(pool) = s.pool else { return };
        self.lines.heading("Fragmentation");
        let in_use = if pool.is_active { "active" } else { "allocated" };
        if let Some(internal) = pool.internal {
            self.lines.words(
                2,
                &format!("{} lost to rounding inside blocks when most was allocated", bytes(internal)),
            );
        }
        self.lines.words(
            2,
            &format!(
                "{} reserved and not {in_use} on average, {} at most, {} at the end: reusable cache or fragmented free memory, which a log does not distinguish",
                bytes(pool.unused_on_average),
                bytes(pool.unused_at_most),
                bytes(pool.unused_at_end)
            ),
        );
        self.lines.words(
            2,
            &format!(
                "of the {} reserved at most, {} were never {in_use} at the same time ({})",
                bytes(pool.never_in_use),
                bytes(pool.reserved.bytes),
                share(pool.never_in_use, pool.reserved.bytes)
            ),
        );
        if s.retries > 0 {
            let times =
                if s.retries == 1 { "once".to_owned() } else { format!("{} times", count(s.retries)) };
            self.lines.words(2, &format!("the allocator released its cache {times} to serve a request"));
        }
    }

    fn events(&mut self, s: &SamplesSummary) {
        if s.events.is_empty() {
            return;
        }
        self.lines.heading(&format!("Timeline: {}", counted(s.events.len() as u64, "event")));
        for (event, _) in s.events.iter().take(self.top) {
            let style = match event.kind {
                LogEventKind::OutOfMemory | LogEventKind::Alert => BAD,
                _ => Style::new(),
            };
            let what = event.kind.name();
            let message = fit(&Shown::of(&event.message), self.lines.width.saturating_sub(28));
            let at = since_start(s, event.time_us);
            self.lines.line(format!("  {at:>14}  {style}{what:<8}{style:#}  {message}"));
        }
        self.more(s.events.len());
    }

    fn phases(&mut self, s: &SamplesSummary) {
        if s.phases.is_empty() {
            return;
        }
        self.lines.heading(&format!("Phases, by peak of {}", label(s.main)));
        for phase in s.phases.iter().take(self.top) {
            let most = phase.highest.get(s.main).map_or("-".to_owned(), bytes);
            let name = fit(&Shown::of(&phase.path), self.lines.width.saturating_sub(36));
            self.lines.line(format!(
                "  {most:>11}  {BOLD}{name}{BOLD:#}  {DIM}{}{DIM:#}",
                counted(phase.samples, "sample")
            ));
        }
        self.more(s.phases.len());
    }

    /// Functions of a profiler's saved results.
    fn calls(&mut self, answers: &SampleAnswers<'_>) {
        let calls = &answers.log.calls;
        if calls.is_empty() {
            return;
        }
        self.lines.heading("Functions, by peak of allocated bytes");
        for call in calls.iter().take(self.top) {
            let peak = call.peak.map_or("-".to_owned(), bytes);
            let name = fit(&Shown::of(&call.name), self.lines.width.saturating_sub(50));
            self.lines.line(format!(
                "  {peak:>11}  {BOLD}{name}{BOLD:#}  {DIM}{}, {} retained in total{DIM:#}",
                counted(call.calls, "call"),
                signed_bytes(call.kept)
            ));
        }
        self.more(calls.len());
    }

    fn sentences(&mut self, heading: &str, sentences: &[impl AsRef<str>]) {
        if sentences.is_empty() {
            return;
        }
        self.lines.heading(heading);
        for sentence in sentences {
            self.lines.words(2, sentence.as_ref());
        }
    }

    /// Prints the number of rows that are not shown.
    fn more(&mut self, rows: usize) {
        if let Some(more) = rows.checked_sub(self.top).filter(|&more| more > 0) {
            self.lines.words(2, &format!("... {} more", count(more as u64)));
        }
    }
}
