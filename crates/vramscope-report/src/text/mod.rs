//! The report as text: the verdict first, then the evidence, for someone who is tired.
//!
//! Styles are ANSI codes; the caller strips them where nobody sees colours. They never carry a meaning that
//! the words do not.

mod chart;
mod check;
mod info;
mod replay;

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr as _;
use vramscope_analysis::{
    BestSetting, CallTree, Fragmentation, Holder, HolderKey, LeakSuspect, Node, NodeKind, Origin,
    OutOfMemory, Peak, Recorder, RunFigures, Summary, Tried,
};
use vramscope_trace::formats::Recording;
use vramscope_trace::{PoolId, StackId};

use crate::Answers;
use crate::advice::{self, Advice};
use crate::doubts;
use crate::fit::fit;
use crate::names::{Names, kind, unusable};
use crate::shown::Shown;
use crate::units::{bytes, count, counted, duration, share, signed_bytes};
pub use check::check;
pub(crate) use check::evidence;
use info::format_of;
pub use info::info;
pub use replay::replay;

/// How the text is laid out.
#[derive(Debug, Clone, Copy)]
pub struct TextOptions {
    /// Columns of the terminal.
    pub width: usize,
    /// Rows of each list.
    pub top: usize,
    /// Every frame below each row.
    pub full_stacks: bool,
}

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const BAD: Style = AnsiColor::Red.on_default().bold();
const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAR: Style = AnsiColor::Cyan.on_default();

/// Columns of a bar.
const BAR_WIDTH: usize = 16;

/// The whole report.
pub fn report(answers: &Answers<'_>, options: TextOptions) -> String {
    let names = Names { trace: &answers.recording.trace, frames: answers.frames };
    let mut page = Page::new(names, Recorder::of(answers.recording), answers.advice, options);
    let events = answers.devices.iter().map(|d| d.events).sum();
    page.file(answers.file, answers.recording, events, answers.devices.len());
    for device in &answers.devices {
        page.device(answers, device);
    }
    page.host(answers);
    page.out
}

struct Page<'r> {
    out: String,
    names: Names<'r>,
    recorder: Recorder,
    advice: Advice,
    options: TextOptions,
}

impl<'r> Page<'r> {
    fn new(names: Names<'r>, recorder: Recorder, advice: Advice, options: TextOptions) -> Self {
        Self { out: String::new(), names, recorder, advice, options }
    }

    fn line(&mut self, text: impl AsRef<str>) {
        self.out.push_str(text.as_ref());
        self.out.push('\n');
    }

    /// Words, wrapped at the width with every row indented.
    fn words(&mut self, indent: usize, text: &str) {
        let width = self.options.width.saturating_sub(indent).max(20);
        let mut row = String::new();
        // Columns of the row: measured again for each word, a long row would cost its square.
        let mut used = 0;
        for word in text.trim_end().split(' ') {
            let columns = word.width();
            if !row.is_empty() && used + 1 + columns > width {
                let _ = writeln!(self.out, "{:indent$}{row}", "");
                row.clear();
                used = 0;
            }
            if !row.is_empty() {
                row.push(' ');
                used += 1;
            }
            row.push_str(word);
            used += columns;
        }
        let _ = writeln!(self.out, "{:indent$}{row}", "");
    }

    fn heading(&mut self, text: &str) {
        let _ = writeln!(self.out, "\n{BOLD}{text}{BOLD:#}");
    }

    fn file(&mut self, file: &str, recording: &Recording, events: usize, devices: usize) {
        let facts = format!(
            "{}, {} on {}",
            format_of(recording),
            counted(events as u64, "event"),
            counted(devices as u64, "device"),
        );
        let room = self.options.width.saturating_sub(facts.width() + 2).max(20);
        let file = fit(&Shown::of(file), room);
        self.line(format!("{DIM}{file}: {facts}{DIM:#}"));
    }

    /// Pinned host memory has another allocator, whose rules are not followed here.
    fn host(&mut self, answers: &Answers<'_>) {
        let host = answers.recording.trace.host.as_ref();
        let Some(host) = host.filter(|h| !h.events.is_empty() || !h.segments.is_empty()) else { return };
        self.heading("Pinned host memory");
        let text = format!(
            "{} in {} at the end, {}. It has an allocator of its own and is not explained further.",
            bytes(host.segments.iter().map(|s| s.total_size).sum()),
            counted(host.segments.len() as u64, "segment"),
            counted(host.events.len() as u64, "event")
        );
        self.words(2, &text);
    }

    fn device(&mut self, answers: &Answers<'_>, s: &Summary) {
        if answers.devices.len() > 1 {
            let rule = "─".repeat(self.options.width.saturating_sub(12).min(60));
            self.heading(&format!("Device {} {rule}", s.device));
        }
        if s.events == 0 && s.end.segments == 0 {
            self.line("Nothing was recorded on this device.");
            return;
        }
        self.verdict(s);
        self.chart(s);
        self.bytes_table(answers, s);
        self.holders(answers, s);
        self.leaks(s);
        self.fragmentation(s);
        let settings = answers.recording.trace.settings.as_ref();
        let could_expand =
            settings.is_none_or(|s| s.expandable_segments.or(s.conf.expandable_segments) != Some(true));
        for oom in &s.ooms {
            self.oom(s.time_us.map(|t| t.0), oom, could_expand);
        }
        if s.more_ooms > 0 {
            let more = counted(s.more_ooms as u64, "more out-of-memory event");
            self.words(2, &format!("... and {more}; {} shows any moment.", self.advice.any_moment));
        }
        self.regions(s);
        self.churn(s);
        self.trust(s);
    }

    /// What a tired person reads first.
    fn verdict(&mut self, s: &Summary) {
        let mut said = Vec::new();
        if let Some(oom) = s.ooms.first() {
            let asked = bytes(oom.request.bytes);
            said.push(if oom.at_limit {
                let free = bytes(oom.device_free);
                format!("Out of memory: a request of {asked} failed at a limit on reserved bytes, while {free} was free on the device.")
            } else if oom.enough_in_total() {
                let unusable = bytes(oom.fragmentation.unusable_bytes());
                format!("Out of memory: a request of {asked} failed while {unusable} lay reserved and unusable.")
            } else {
                let (used, free) = (bytes(oom.counters.active), bytes(oom.device_free));
                format!(
                    "Out of memory: a request of {asked} failed; {used} was in use and only {free} was free on the device."
                )
            });
        }
        if let Some(leak) = s.leaks.first() {
            let (kept, all) = (count(leak.kept), count(leak.allocations));
            let (line, held) = (self.names.frame(leak.line), bytes(leak.kept_bytes));
            said.push(format!(
                "Leak suspected at {line}: it kept {kept} of the {all} blocks it allocated, {held}."
            ));
        }
        let style = if said.is_empty() { GOOD } else { BAD };
        if said.is_empty() {
            said.push(quiet(s, self.recorder));
        }
        self.out.push('\n');
        for text in said {
            self.styled_words(style, &text);
        }
        if let Some(best) = &s.best_setting {
            self.best_setting(best);
        }
        if s.preexisting > 0 && s.events > 0 {
            let before = bytes(s.preexisting);
            self.words(
                0,
                &format!("{before} was allocated before recording began and is counted everywhere."),
            );
        }
        if s.quality.probably_overflowed {
            let dropped = advice::sentence(advice::dropped(self.names.overflowed(s.device)));
            self.words(0, &format!("{dropped}: record with {} to see them.", advice::larger(self.recorder)));
        }
    }

    /// The setting that would have helped, in one sentence.
    fn best_setting(&mut self, best: &BestSetting) {
        let Tried { setting, outcome } = &best.tried;
        let setting = replay::named(setting);
        let exact = if best.is_approximate { ", as far as can be told" } else { "" };
        if outcome.fits() {
            let peak = bytes(outcome.statistics.reserved.peak);
            let end = if outcome.rescued > 0 { " as far as it was recorded" } else { "" };
            self.styled_words(
                GOOD,
                &format!("With {setting} this run peaks at {peak} and fits{end}{exact}."),
            );
        } else {
            let settings = counted(best.of as u64, "setting");
            let text =
                format!("None of {settings} tried makes it fit; it gets furthest with {setting}{exact}.");
            self.words(0, &text);
        }
        self.words(0, &format!("{} compares settings and device sizes.", self.advice.replay));
    }

    fn styled_words(&mut self, style: Style, text: &str) {
        let _ = write!(self.out, "{style}");
        self.words(0, text);
        // The style ends before the line does.
        self.out.pop();
        let _ = writeln!(self.out, "{style:#}");
    }

    fn bytes_table(&mut self, answers: &Answers<'_>, s: &Summary) {
        let at = |p: Peak| {
            p.moment.event().map_or("the start".to_owned(), |e| format!("event {}", count(e as u64)))
        };
        let here = match answers.at {
            Some(event) => format!("after event {}", count(event as u64)),
            None => "at the peak".to_owned(),
        };
        self.heading(&format!(
            "{:<12}{here:>16}{:>14}  {:<16}{:>14}",
            "Bytes", "highest", "at", "at the end"
        ));
        let end = s.end;
        let has_end = end.segments > 0;
        for (name, here, peak, end) in [
            ("requested", s.counters.requested, s.peaks.requested, end.requested),
            ("allocated", s.counters.allocated, s.peaks.allocated, end.allocated),
            ("active", s.counters.active, s.peaks.active, end.active),
            ("reserved", s.counters.reserved, s.peaks.reserved, end.reserved),
        ] {
            let end = if has_end { bytes(end) } else { "-".to_owned() };
            self.line(format!(
                "{name:<12}{:>16}{:>14}  {:<16}{end:>14}",
                bytes(here),
                bytes(peak.bytes),
                at(peak)
            ));
        }
        let used = match s.ooms.first() {
            Some(oom) => format!("the driver had {} left at the out of memory", bytes(oom.device_free)),
            None => "a snapshot does not hold it".to_owned(),
        };
        self.line(format!("{:<12}{DIM}    {used}{DIM:#}", "device used"));
    }

    fn holders(&mut self, answers: &Answers<'_>, s: &Summary) {
        let total = s.counters.allocated;
        let when = match (answers.at, s.moment.event()) {
            (None, Some(e)) => format!("at the peak, after event {}", count(e as u64)),
            (None, None) if s.events == 0 => "when the snapshot was taken".to_owned(),
            (None, None) => "at the peak, before the first event".to_owned(),
            (Some(e), _) => format!("after event {}", count(e as u64)),
        };
        self.heading(&format!("Who held {} {when}", bytes(total)));
        if s.filtered_out > 0 {
            self.words(2, &format!("The filter left out {}.", bytes(s.filtered_out)));
        }
        match answers.by {
            None if self.options.full_stacks => self.holder_rows(&s.holders, total, self.options.top),
            None => match s.tree.roots.as_slice() {
                // Without events all there is was live before them.
                &[all] if s.events == 0 => self.tree(&s.tree, &s.tree.nodes[all].children, total, 0),
                roots => self.tree(&s.tree, roots, total, 0),
            },
            Some(_) => self.holder_rows(&s.holders, total, self.options.top),
        }
        let without: u64 = s
            .holders
            .iter()
            .filter(|h| h.key == HolderKey::NoStack && h.origin == Some(Origin::Recorded))
            .map(|h| h.bytes)
            .sum();
        if self.recorder == Recorder::Torch && has_stacks(s) && without * 20 >= total && total > 0 {
            let text = "Blocks without a stack were allocated outside Python, as a rule by a backward pass; record with `stacks=\"all\"` to see where.";
            self.words(2, text);
        }
        if s.events > 0 && !has_stacks(s) {
            let stacks = advice::stacks(self.recorder);
            let is_frame = |node: &Node| matches!(node.kind, NodeKind::Frame(_));
            let text = if s.tree.nodes.iter().any(is_frame) {
                format!(
                    "Stacks are those of memory that was live before recording; to record the others, {stacks}."
                )
            } else {
                format!("No stacks were recorded: {stacks}.")
            };
            self.words(2, &text);
        }
        let private = |h: &Holder| matches!(h.key, HolderKey::Pool(Some(p)) if p != PoolId::default());
        if s.pools.iter().any(private) {
            self.line(format!("{DIM}  by pool{DIM:#}"));
            self.holder_rows(&s.pools, total, self.options.top);
        }
        if s.streams.len() > 1 {
            self.line(format!("{DIM}  by stream{DIM:#}"));
            self.holder_rows(&s.streams, total, self.options.top);
        }
    }

    /// Columns left for the label of a row.
    fn room(&self, indent: usize, blocks: u64) -> usize {
        let used = 2 + 11 + 1 + 7 + 1 + BAR_WIDTH + 1 + indent + 2 + counted(blocks, "block").width();
        self.options.width.saturating_sub(used).max(16)
    }

    fn row(&mut self, amount: u64, total: u64, indent: usize, label: &str, blocks: u64) {
        let whole = (BAR_WIDTH * 8) as u128;
        let eighths = if total == 0 { 0 } else { (u128::from(amount) * whole / u128::from(total)) as usize };
        let mut bar = "█".repeat(eighths / 8);
        if eighths % 8 > 0 {
            bar.push(['▏', '▎', '▍', '▌', '▋', '▊', '▉'][eighths % 8 - 1]);
        }
        let pad = " ".repeat(BAR_WIDTH.saturating_sub(bar.width()));
        let label = fit(label, self.room(indent, blocks));
        self.line(format!(
            "  {:>11} {:>7} {BAR}{bar}{BAR:#}{pad} {:indent$}{label}  {DIM}{}{DIM:#}",
            bytes(amount),
            share(amount, total),
            "",
            counted(blocks, "block")
        ));
    }

    /// Every frame of a stack, innermost first, where the user asked for that. Rows are not cut: they are
    /// for searching and copying.
    fn full_stack(&mut self, stack: Option<StackId>) {
        let Some(stack) = stack.filter(|_| self.options.full_stacks) else { return };
        // Real stacks have some hundred frames, recursion without an end a million.
        const MOST_FRAMES: usize = 1000;
        let frames = self.names.trace.stacks.get(stack);
        for &frame in frames.iter().take(MOST_FRAMES) {
            let text = self.names.full_frame(frame);
            self.line(format!("{:15}{DIM}{text}{DIM:#}", ""));
        }
        if let Some(more) = frames.len().checked_sub(MOST_FRAMES).filter(|&more| more > 0) {
            self.line(format!("{:15}{DIM}... {} more{DIM:#}", "", count(more as u64)));
        }
    }

    fn holder_rows(&mut self, holders: &[Holder], total: u64, top: usize) {
        for h in holders.iter().take(top) {
            let label = self.names.holder(h);
            self.row(h.bytes, total, 0, &label, h.count);
            self.full_stack(h.stack);
        }
        let rest = holders.get(top..).unwrap_or_default();
        if !rest.is_empty() {
            let label = format!("... {} more", count(rest.len() as u64));
            self.row(
                rest.iter().map(|h| h.bytes).sum(),
                total,
                0,
                &label,
                rest.iter().map(|h| h.count).sum(),
            );
        }
    }

    /// Calls as a tree: a chain of calls with no branch is one row, its innermost line in front.
    fn tree(&mut self, tree: &CallTree, siblings: &[usize], total: u64, depth: usize) {
        // Deep recursion of the profiled program must not become recursion here.
        const DEEPEST: usize = 24;
        let nodes: Vec<&Node> = siblings.iter().map(|&n| &tree.nodes[n]).collect();
        // Rows below one percent say little and push the rest off the screen.
        let worth = |n: &&&Node| n.bytes.saturating_mul(100) >= total;
        let shown = nodes.iter().take_while(worth).take(self.options.top).count().max(nodes.len().min(1));
        let (nodes, rest) = nodes.split_at(shown);
        for &node in nodes {
            let mut chain = vec![node.kind];
            let mut node = node;
            while let (NodeKind::Frame(_), &[only]) = (node.kind, node.children.as_slice())
                && tree.nodes[only].bytes == node.bytes
            {
                node = &tree.nodes[only];
                chain.push(node.kind);
            }
            let room = self.room(depth * 2, node.count);
            let mut label = String::new();
            for (i, &kind) in chain.iter().rev().enumerate() {
                let between = if i == 0 { "" } else { " < " };
                // The innermost line comes first, but leaves its caller some room.
                let callers = if i == 0 && chain.len() > 1 { 22 } else { 0 };
                let left = room.saturating_sub(label.width() + between.len() + callers).max(10);
                if i > 0 && left < 12 {
                    break;
                }
                let _ = write!(label, "{between}{}", fit(&self.names.node(kind), left));
            }
            self.row(node.bytes, total, depth * 2, &label, node.count);
            if depth < DEEPEST {
                self.tree(tree, &node.children, total, depth + 1);
            }
        }
        if !rest.is_empty() {
            let label = format!("... {} more", count(rest.len() as u64));
            self.row(
                rest.iter().map(|n| n.bytes).sum(),
                total,
                depth * 2,
                &label,
                rest.iter().map(|n| n.count).sum(),
            );
        }
    }

    fn leaks(&mut self, s: &Summary) {
        if s.events == 0 || !has_stacks(s) {
            return;
        }
        if s.leaks.is_empty() {
            self.heading("No leak suspects");
            return;
        }
        self.heading(&format!("Leak suspects: {}", counted(s.leaks.len() as u64, "line")));
        for leak in s.leaks.iter().take(self.options.top) {
            self.leak(leak);
        }
        let more = s.leaks.len().saturating_sub(self.options.top);
        if more > 0 {
            self.words(2, &format!("... {} more", count(more as u64)));
        }
    }

    fn leak(&mut self, leak: &LeakSuspect) {
        let line = fit(&self.names.frame(leak.line), self.options.width.saturating_sub(16));
        self.line(format!("  {:>11}  {BOLD}{line}{BOLD:#}", bytes(leak.kept_bytes)));
        let floor: Vec<String> = leak.floor.iter().map(|n| n.to_string()).collect();
        let stacks = if leak.stacks > 1 { format!(" from {} stacks", leak.stacks) } else { String::new() };
        let text = format!(
            "kept {} of {} blocks{stacks}; live and never fewer again, by tenths of the run: {}",
            count(leak.kept),
            count(leak.allocations),
            floor.join(" ")
        );
        self.words(15, &text);
        self.full_stack(Some(leak.stack));
    }

    fn fragmentation(&mut self, s: &Summary) {
        let at_end = s.fragmentation_at_end.as_ref().filter(|e| s.moment != e.moment);
        let here = if at_end.is_some() { "here" } else { "at the end" };
        let moments = [(here, s.fragmentation.as_ref()), ("at the end", at_end)];
        if moments.iter().all(|(_, f)| f.is_none()) {
            return;
        }
        self.heading("Fragmentation");
        for (when, f) in moments {
            let Some(f) = f else { continue };
            let text = format!(
                "{when}: {} lost inside blocks to rounding; {} reserved and free, {} of it in whole segments, which go back to the device when needed. {}",
                bytes(f.internal),
                bytes(f.external),
                bytes(f.whole_segments),
                usable_words(f)
            );
            self.words(2, &text);
        }
    }

    /// Why a request failed; `start` is when the recording began. Free pieces can still be made to join where
    /// segments were not expandable.
    fn oom(&mut self, start: Option<i64>, oom: &OutOfMemory, could_expand: bool) {
        let time = match (oom.time_us, start) {
            (Some(t), Some(start)) => format!(", {} after the first", duration(t.saturating_sub(start))),
            _ => String::new(),
        };
        self.heading(&format!("Out of memory at event {}{time}", count(oom.event as u64)));
        let f = &oom.fragmentation;
        self.words(
            2,
            &format!(
                "asked for {} on the {}",
                bytes(oom.request.bytes),
                self.names.stream(oom.request.stream)
            ),
        );
        if let Some(line) = oom.stack.and_then(|st| self.names.frames.own_frame(self.names.trace, st)) {
            let line = self.names.frame(line);
            self.words(2, &format!("in {line}"));
        }
        self.full_stack(oom.stack);
        self.words(2, &format!("{} was free on the device", bytes(oom.device_free)));
        self.words(
            2,
            &format!(
                "{} was reserved: {} in use and {} unused",
                bytes(oom.counters.reserved),
                bytes(oom.counters.active),
                bytes(f.external)
            ),
        );
        if f.usable > 0 {
            self.words(4, &format!("{} in free blocks that could have served it", bytes(f.usable)));
        }
        for u in &f.unusable {
            let text = format!(
                "{} unusable, in {} {}; the largest is {} in the {} on the {}",
                bytes(u.bytes),
                counted(u.blocks as u64, "free block"),
                unusable(u.why),
                bytes(u.largest.size),
                kind(u.largest.kind),
                self.names.stream(u.largest.stream)
            );
            self.words(4, &text);
        }
        if oom.at_limit {
            let text = "The device had room for it: a limit on reserved bytes stood in the way, as `per_process_memory_fraction` sets one.";
            self.words(2, text);
        } else if oom.enough_in_total() {
            let help = if could_expand {
                "Pieces of fewer sizes, or `expandable_segments:True`, which lets free pieces join, often help."
            } else {
                "Pieces of fewer sizes often help."
            };
            let text = format!(
                "Free and unused together are {}, more than was asked for: it failed for fragmentation, not for size. {help}",
                bytes(oom.device_free.saturating_add(f.external))
            );
            self.words(2, &text);
        } else {
            let text = format!(
                "Even with every unused byte in one piece, {} would have been missing: it failed for size.",
                bytes(oom.missing())
            );
            self.words(2, &text);
        }
        if !oom.holders.is_empty() {
            self.words(2, &format!("what held the {} in use:", bytes(oom.counters.allocated)));
            self.holder_rows(&oom.holders, oom.counters.allocated, self.options.top.min(5));
        }
    }

    fn regions(&mut self, s: &Summary) {
        if s.regions.is_empty() {
            return;
        }
        let room = self.options.width.saturating_sub(2 + 7 + 13 + 13 + 13 + 12).clamp(12, 60);
        self.heading(&format!(
            "{:<width$}{:>7}{:>13}{:>13}{:>13}{:>12}",
            "Regions",
            "runs",
            "peak",
            "above start",
            "net",
            "time",
            width = room + 2
        ));
        for r in s.regions.iter().take(self.options.top) {
            let name = fit(&Shown::of(&r.name), room);
            let pad = " ".repeat(room.saturating_sub(name.width()));
            self.line(format!("  {name}{pad}{:>7}{}", count(r.count), figures(&r.typical)));
            let others = [("the first", r.first), ("the largest", r.largest)];
            for (which, run) in others.into_iter().filter(|(_, run)| differs(run, &r.typical)) {
                self.line(format!("  {DIM}{:<room$}{:>7}{}{DIM:#}", format!("  {which}"), "", figures(&run)));
            }
        }
        let more = s.regions.len().saturating_sub(self.options.top);
        if more > 0 {
            self.words(2, &format!("... {} more", count(more as u64)));
        }
        if s.regions.iter().any(|r| r.count > 1) {
            let text = "Figures are those of one run: of each the one in the middle, and what the first and the largest had where it differs.";
            self.words(2, text);
        }
    }

    fn churn(&mut self, s: &Summary) {
        if s.churn.is_empty() {
            return;
        }
        let top = self.options.top.min(5);
        let total: u64 = s.churn.iter().map(|h| h.bytes).sum();
        let blocks: u64 = s.churn.iter().map(|h| h.count).sum();
        self.heading(&format!(
            "Allocated over the whole run: {} in {}",
            bytes(total),
            counted(blocks, "block")
        ));
        self.holder_rows(&s.churn, total, top);
        let mut by_count: Vec<&Holder> = s.churn.iter().collect();
        by_count.sort_by_key(|h| std::cmp::Reverse(h.count));
        let already = by_count.iter().take(top).all(|h| s.churn.iter().take(top).any(|c| c.key == h.key));
        if !already {
            self.line(format!("{DIM}  by number of blocks{DIM:#}"));
            for h in by_count.into_iter().take(top) {
                let label = self.names.key(&h.key);
                self.row(h.bytes, total, 0, &label, h.count);
            }
        }
    }

    /// What is not exact, and why.
    fn trust(&mut self, s: &Summary) {
        let doubts = doubts(&s.quality, &self.advice);
        if doubts.is_empty() {
            return;
        }
        self.heading("How far to trust these numbers");
        for doubt in doubts {
            self.words(2, &doubt);
        }
    }
}

/// The columns of one run of a region.
fn figures(run: &RunFigures) -> String {
    let [peak, above] = [run.peak, run.above_start].map(bytes);
    format!("{peak:>13}{above:>13}{:>13}{:>12}", signed_bytes(run.net), duration(run.us))
}

/// Whether two runs needed other memory. Times always differ.
fn differs(a: &RunFigures, b: &RunFigures) -> bool {
    (a.peak, a.above_start, a.net) != (b.peak, b.above_start, b.net)
}

/// The verdict where nothing went wrong.
fn quiet(s: &Summary, recorder: Recorder) -> String {
    if s.events == 0 {
        return format!(
            "{} allocated of {} reserved when the snapshot was taken. No history was recorded: call {} first to see a peak.",
            bytes(s.end.allocated),
            bytes(s.end.reserved),
            advice::record(recorder)
        );
    }
    let leaks = if has_stacks(s) {
        "Nothing failed and nothing looks like a leak."
    } else {
        "Nothing failed; without stacks nobody can say who held it, or whether it leaks."
    };
    let (allocated, reserved) = (bytes(s.peaks.allocated.bytes), bytes(s.peaks.reserved.bytes));
    format!("The peak was {allocated} allocated, {reserved} reserved. {leaks}")
}

/// Some allocation was recorded with its stack.
fn has_stacks(s: &Summary) -> bool {
    s.churn.iter().any(|h| h.key != HolderKey::NoStack)
}

/// What the free part is good for.
fn usable_words(f: &Fragmentation) -> String {
    let asked = bytes(f.request.bytes);
    if f.external == 0 {
        return String::new();
    }
    format!(
        "One more request of {asked}, the run's largest, could use {} and not {}; the largest of {} is {}.",
        bytes(f.usable),
        bytes(f.unusable_bytes()),
        counted(f.free_blocks as u64, "free block"),
        f.largest.map(|b| bytes(b.size)).unwrap_or_default()
    )
}
