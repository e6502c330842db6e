//! The text of a replay: whether the run fits, and which setting to use.

use unicode_width::UnicodeWidthStr as _;
use vramscope_analysis::{DeviceReplay, HolderKey, Outcome, Recorder, Tried};
use vramscope_basics::units::{bytes, count, counted};

use crate::advice;
use crate::answers::ReplayAnswers;
use crate::fit::fit;
use crate::names::Names;
use crate::replay::sentences::{self, device_size, floors, smallest_gpu};
use crate::report::limitations::ReplayConfidence;
use crate::report::out_of_memory::causes::{self, setting_name};
use crate::shown::Shown;
use crate::text::lines::{BAD, BOLD, DIM, GOOD};
use crate::text::page::{Page, TextOptions};

/// The results of a replay, as text with ANSI styles.
pub fn replay(answers: &ReplayAnswers<'_>, options: TextOptions) -> String {
    let names = Names { trace: &answers.recording.trace, frames: answers.frames };
    let mut page = Page::new(names, Recorder::of(answers.recording), answers.advice, options);
    let devices = &answers.devices;
    let events: usize = devices.iter().map(|d| d.events).sum();
    let rules = devices.first().map_or(String::new(), |d| format!(" by the rules of {}", d.rules));
    let facts = format!("replay of {}{rules}", counted(events as u64, "event"));
    let room = options.width.saturating_sub(facts.width() + 2).max(20);
    page.line(format!("{DIM}{}: {facts}{DIM:#}", fit(&Shown::of(answers.file), room)));
    for device in devices {
        if devices.len() > 1 {
            page.heading(&names.device(device.device));
        }
        page.device_replay(device);
    }
    page.out
}

impl Page<'_> {
    fn device_replay(&mut self, d: &DeviceReplay) {
        self.out.push('\n');
        if d.events == 0 && d.asked.outcome.statistics.reserved.peak == 0 {
            self.line("Nothing was recorded on this device.");
            return;
        }
        match &d.smallest {
            Some((capacity, outcome)) => self.smallest(d, *capacity, outcome),
            None => self.fits(d),
        }
        if !d.tried.is_empty() && d.smallest.is_none() {
            self.tried(d);
        }
        self.floors(d);
        self.plan(d);
        if let Some(oom) = &d.oom {
            let start = self.names.trace.devices.iter().find(|t| t.device == d.device);
            let start = start.filter(|t| !t.events.is_empty()).and_then(|t| t.events.get(0).time_us);
            self.oom(start, oom, &d.asked.setting.conf);
        }
        self.exactness(d);
    }

    /// The result under the requested settings, and whether other settings are better.
    fn fits(&mut self, d: &DeviceReplay) {
        let asked = &d.asked;
        let under = if d.is_what_if {
            format!("With {}", setting_name(&asked.setting.conf))
        } else {
            "With the recorded settings".to_owned()
        };
        let peak = bytes(asked.outcome.statistics.reserved.peak);
        if d.events == 0 {
            let text = format!(
                "No history was recorded: call {} first. The replay contains only the allocations that were live when the snapshot was taken.",
                advice::record(self.recorder)
            );
            self.words(0, &text);
        }
        match (asked.outcome.failure, d.capacity) {
            (Some(failure), _) => {
                let text = format!(
                    "{under} this run is out of memory at event {}, at a request of {}.",
                    count(failure.event as u64),
                    bytes(failure.size)
                );
                self.styled_words(BAD, &text);
            }
            (None, Some(_)) => {
                let retries = asked.outcome.statistics.num_alloc_retries;
                let after = match retries {
                    0 => String::new(),
                    n => format!(", after releasing its cache {}", times(n)),
                };
                self.styled_words(
                    GOOD,
                    &format!("{under} this run peaks at {peak} reserved and fits{after}."),
                );
            }
            (None, None) => self.styled_words(GOOD, &format!("{under} this run peaks at {peak} reserved.")),
        }
        self.words(0, &device_size(d, &self.advice));
        if let Some(best) = d.best() {
            self.advice(d, best);
        } else if let Some(nearest) = &d.nearest {
            let tried = if d.tried.len() > 1 { "No tried setting makes it fit. " } else { "" };
            self.words(0, &format!("{tried}{}", sentences::nearest(nearest)));
        } else if d.tried.len() > 1 && !d.is_what_if {
            let text = if asked.outcome.fits() {
                "No other tried setting makes much of a difference."
            } else {
                "No tried setting makes it fit."
            };
            self.words(0, text);
        }
    }

    fn advice(&mut self, d: &DeviceReplay, best: &Tried) {
        let peak = best.outcome.statistics.reserved.peak;
        let before = d.asked.outcome.statistics.reserved.peak;
        let setting = setting_name(&best.setting.conf);
        let text = if !d.asked.outcome.fits() {
            let known = if best.outcome.rescued > 0 {
                " up to the failed request, which then succeeds"
            } else {
                " and the run fits"
            };
            format!(
                "{}: reserved bytes peak at {}{known}:",
                causes::change(&d.change(best), true),
                bytes(peak)
            )
        } else if peak < before {
            format!("With {setting} it peaks at {} reserved, {} less:", bytes(peak), bytes(before - peak))
        } else {
            format!("With {setting} the allocator never releases its cache:")
        };
        self.out.push('\n');
        self.styled_words(GOOD, &text);
        self.line(format!("  {BOLD}{}{BOLD:#}", causes::paste(&best.setting.conf)));
    }

    /// One row per setting. The settings are the last column, on several lines if a setting has several items.
    fn tried(&mut self, d: &DeviceReplay) {
        let mut rows: Vec<(&Outcome, Vec<String>)> =
            d.tried.iter().map(|t| (&t.outcome, label(d, t))).collect();
        if let Some(plan) = &d.plan {
            let name = if plan.plan.shares_streams() { "plan, streams share memory" } else { "plan" };
            let separate = plan.separate.iter().map(|outcome| (outcome, "plan, streams apart"));
            for (outcome, name) in separate.chain([(&plan.outcome, name)]) {
                let place = rows.partition_point(|(other, _)| other.rank() < outcome.rank());
                rows.insert(place, (outcome, vec![name.to_owned()]));
            }
        }
        let judged = d.capacity.is_some() || rows.iter().any(|(outcome, _)| !outcome.fits());
        let width = if judged { rows.iter().map(|(o, _)| verdict(o).width()).max().unwrap_or(0) } else { 0 };
        let gap = if judged { 2 } else { 0 };
        let longest = rows.iter().flat_map(|(_, label)| label).map(|l| l.width()).max().unwrap_or(0);
        let indent = 2 + 11 + 15 + 9 + 9 + gap + width + 2;
        // Settings that do not fit next to the numbers are printed above them.
        let is_one_line = indent + longest <= self.options.width;
        self.out.push('\n');
        let last = if is_one_line { "setting" } else { "" };
        let head = [
            ["peak", "external", "device", "", "", ""],
            ["reserved", "fragmentation", "calls", "retries", if judged { "verdict" } else { "" }, last],
        ];
        for [peak, external, calls, retries, verdict, setting] in head {
            let text = format!(
                "  {peak:>11}{external:>15}{calls:>9}{retries:>9}{:gap$}{verdict:<width$}  {setting}",
                ""
            );
            self.line(format!("{BOLD}{}{BOLD:#}", text.trim_end()));
        }
        for (outcome, label) in rows {
            let s = &outcome.statistics;
            let numbers = format!(
                "  {:>11}{:>15}{:>9}{:>9}{:gap$}",
                bytes(s.reserved.peak),
                bytes(outcome.external_at_peak),
                count(s.num_device_alloc),
                count(s.num_alloc_retries),
                ""
            );
            let style = if outcome.fits() { GOOD } else { BAD };
            let verdict = if judged { verdict(outcome) } else { String::new() };
            if !is_one_line {
                self.line(format!("  {}", label.concat()));
                let row = format!("{numbers}{style}{verdict}{style:#}");
                self.line(row);
                continue;
            }
            let mut items = label.into_iter();
            let first = items.next().unwrap_or_default();
            self.line(format!("{numbers}{style}{verdict:<width$}{style:#}  {first}"));
            for item in items {
                self.line(format!("{:indent$}{item}", ""));
            }
        }
    }

    /// The plan, and the lines that do not follow it.
    fn plan(&mut self, d: &DeviceReplay) {
        let Some(plan) = &d.plan else { return };
        self.heading("Plan");
        for text in sentences::plan(d) {
            self.words(2, &text);
        }
        if plan.dynamic_lines.is_empty() {
            return;
        }
        self.out.push('\n');
        self.line(format!("{BOLD}  {:>11}{:>10}  not at planned places{BOLD:#}", "bytes", "requests"));
        for line in &plan.dynamic_lines {
            let key = line.frame.map_or(HolderKey::NoStack, HolderKey::Line);
            let name = self.names.key(&key);
            let (bytes, requests) = (bytes(line.served.bytes), count(line.served.requests));
            self.line(format!("  {bytes:>11}{requests:>10}  {name}"));
        }
    }

    fn floors(&mut self, d: &DeviceReplay) {
        if d.events == 0 && d.asked.outcome.statistics.active.peak == 0 {
            return;
        }
        self.out.push('\n');
        for text in floors(d) {
            self.words(2, &text);
        }
    }

    fn smallest(&mut self, d: &DeviceReplay, capacity: u64, outcome: &Outcome) {
        let under = if d.is_what_if {
            format!("with {}", setting_name(&d.asked.setting.conf))
        } else {
            "with the recorded settings".to_owned()
        };
        if !outcome.fits() {
            self.styled_words(BAD, &format!("No device size was found that fits this run {under}."));
            return;
        }
        let text =
            format!("This run fits {under} on a device of {} ({} bytes).", bytes(capacity), count(capacity));
        self.styled_words(GOOD, &text);
        let retries = outcome.statistics.num_alloc_retries;
        let gives = if retries > 0 {
            format!(", after releasing its cache {}", times(retries))
        } else {
            String::new()
        };
        let text = format!(
            "It then peaks at {} reserved{gives}. Found by bisection: a run that fits on one device does not always fit on every larger one.",
            bytes(outcome.statistics.reserved.peak),
        );
        self.words(0, &text);
        if let Some(gpu) = &d.smallest_gpu {
            self.words(0, &smallest_gpu(gpu));
        } else {
            self.words(0, "It fits on none of the known GPUs.");
        }
    }

    /// The limitations of the numbers.
    fn exactness(&mut self, d: &DeviceReplay) {
        let confidence = ReplayConfidence::of(d, self.names.overflowed(d.device), &self.advice);
        if let Some(text) = confidence.reproduced {
            self.heading("Reproduced");
            self.words(2, text);
        }
        if confidence.limitations.is_empty() && confidence.what_if_limitations.is_empty() {
            return;
        }
        self.heading("Limitations of these numbers");
        for text in confidence.limitations.iter().chain(&confidence.what_if_limitations) {
            self.words(2, text);
        }
    }
}

/// The label of a setting, split into lines at its commas.
fn label(d: &DeviceReplay, t: &Tried) -> Vec<String> {
    let recorded = t.setting.policy == d.recorded_setting.policy;
    let named = if t.setting.conf.is_empty() { "defaults" } else { &t.setting.conf };
    let conf = if recorded {
        format!("recorded: {}", Shown::of(named))
    } else {
        Shown::of(&causes::relative(&d.change(t), &t.setting.conf)).into()
    };
    let mut lines: Vec<String> = vec![String::new()];
    let mut depth = 0usize;
    for part in conf.split_inclusive(',') {
        if let Some(line) = lines.last_mut() {
            line.push_str(part);
        }
        depth = (depth + part.matches('[').count()).saturating_sub(part.matches(']').count());
        if part.ends_with(',') && depth == 0 {
            lines.push(String::new());
        }
    }
    lines
}

fn verdict(outcome: &Outcome) -> String {
    match outcome.failure {
        Some(failure) => format!("fails at event {}", count(failure.event as u64)),
        None => "fits".to_owned(),
    }
}

fn times(n: u64) -> String {
    match n {
        1 => "once".to_owned(),
        n => format!("{} times", count(n)),
    }
}
