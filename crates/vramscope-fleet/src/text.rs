//! The text of a fleet: first the ranks that differ and the reasons, then one section per topic.

use jiff::Timestamp;
use vramscope_basics::units::{bytes, count, counted, duration};
use vramscope_report::{Advice, BAD, BOLD, DIM, GOOD, Lines, Shown, fit, fit_end};

use crate::answers::FleetAnswers;
use crate::budgets::Status;
use crate::fleet::{Fleet, Imbalance, Kind, PeakOfRank, Relation, Spread};
use crate::numbers::{ranges, ranks};
use crate::sentences::{Sentence, capital, group, named, sentences, shown, signed, words_of};

/// Limit on the rows of a list.
const ROWS: usize = 10;

/// Least width in columns for a line of code.
const LEAST_ROOM: usize = 12;

/// Returns the text with ANSI styles, in lines of at most `width` columns.
#[must_use]
pub fn fleet_text(answers: &FleetAnswers<'_>, width: usize) -> String {
    let mut out = String::new();
    let mut page =
        Page { fleet: answers.fleet, advice: answers.advice, lines: Lines { out: &mut out, width } };
    let fleet = answers.fleet;
    let facts =
        format!("{} of {} read", count(fleet.read_count as u64), counted(fleet.rank_count as u64, "rank"));
    page.lines.title(&answers.paths.join(", "), &facts);
    page.lines.styled_words(DIM, &format!("Ranks by {}.", Shown::of(answers.rule)));
    page.lines.line("");
    page.verdicts();
    page.budgets(answers);
    page.peaks();
    page.kinds();
    page.imbalance();
    page.out_of_memory();
    page.leaks();
    page.fragmentation();
    page.card();
    page.mixed();
    page.unread();
    page.confidence();
    out
}

struct Page<'f, 'o> {
    fleet: &'f Fleet,
    advice: Advice,
    lines: Lines<'o>,
}

impl Page<'_, '_> {
    /// Returns a name for a sentence, in half a line.
    fn named(&self, name: &str) -> String {
        named(name, self.lines.width / 2)
    }

    fn words(&mut self, indent: usize, text: &str) {
        self.lines.words(indent, text);
    }

    /// One sentence per problem and per unusual kind.
    fn verdicts(&mut self) {
        for Sentence { text, is_good, .. } in sentences(self.fleet, self.lines.width / 2) {
            self.lines.styled_words(if is_good { GOOD } else { BAD }, &text);
        }
    }

    fn budgets(&mut self, answers: &FleetAnswers<'_>) {
        if answers.verdicts.is_empty() {
            return;
        }
        self.lines.heading("Budgets");
        for verdict in answers.verdicts {
            let (style, word) = match verdict.status {
                Status::Kept => (GOOD, "kept"),
                Status::Exceeded => (BAD, "exceeded"),
                Status::Unknown => (BAD, "unknown"),
            };
            self.lines.styled_words(style, &format!("  {word}: {}", verdict.text));
        }
    }

    fn peaks(&mut self) {
        let (Some(allocated), Some(reserved)) = (self.fleet.peak_allocated, self.fleet.peak_reserved) else {
            return;
        };
        self.lines.heading(&format!("Peaks of {}", counted(self.fleet.read_count as u64, "rank")));
        self.lines.line(format!(
            "  {DIM}{:11} {:>11} {:>13} {:>13} {:>13} {:>12}{DIM:#}",
            "", "lowest", "quarter", "median", "3 quarters", "highest"
        ));
        for (name, Spread { lowest, lower_quartile_bytes, median, upper_quartile_bytes, highest, .. }) in [
            ("allocated", Some(allocated)),
            ("reserved", Some(reserved)),
            ("device used", self.fleet.device_used),
        ]
        .into_iter()
        .filter_map(|(name, spread)| Some((name, spread?)))
        {
            let at = [lowest.bytes, lower_quartile_bytes, median.bytes, upper_quartile_bytes].map(bytes);
            let [a, b, c, d] = at;
            self.lines
                .line(format!("  {name:11} {a:>11} {b:>13} {c:>13} {d:>13} {:>12}", bytes(highest.bytes)));
            let [a, c, e] = [lowest, median, highest].map(|of| format!("rank {}", of.rank));
            self.lines.line(format!("  {DIM}{:11} {a:>11} {:13} {c:>13} {:13} {e:>12}{DIM:#}", "", "", ""));
        }
        if let Some(PeakOfRank { rank, bytes: rest }) = self.fleet.device_rest.map(|rest| rest.highest) {
            let text = format!(
                "Device used is the driver's count, of all processes. Up to {} of it, on rank {rank}, were contexts, kernels and other processes.",
                bytes(rest)
            );
            self.words(2, &text);
        }
    }

    fn kinds(&mut self) {
        let kinds = &self.fleet.kinds;
        if kinds.is_empty() {
            return;
        }
        let text = match kinds.len() {
            1 => "All ranks match at their peaks (within 3%)".to_owned(),
            n => format!("{} kinds: ranks of a kind match at their peaks (within 3%)", count(n as u64)),
        };
        self.lines.heading(&text);
        for (number, kind) in kinds.iter().enumerate().take(2 * ROWS) {
            self.kind(number, kind);
        }
        let more = kinds.len().saturating_sub(2 * ROWS);
        if more > 0 {
            self.words(2, &format!("... {} more", count(more as u64)));
        }
    }

    fn kind(&mut self, number: usize, kind: &Kind) {
        let peak = bytes(kind.peak_allocated_bytes);
        let who = format!("{} ", counted(kind.ranks.len() as u64, "rank"));
        let group = group(self.fleet, kind).map(|group| format!(" ({group})")).unwrap_or_default();
        let room = self.lines.width.saturating_sub(36).max(20);
        let those = fit_end(&format!("{}{group}", ranges(&kind.ranks)), room);
        self.lines.line(format!("  {:>3}  {peak:>11}  {BOLD}{who:13}{BOLD:#} {those}", number + 1));
        let Some(other) = kind.compared_with else { return };
        let room = self.lines.width.saturating_sub(7 + 12 + 2).max(20);
        for (differs, name) in kind
            .lines
            .iter()
            .map(|d| (d, shown(&d.name)))
            .take(3)
            .chain(kind.categories.iter().map(|d| (d, words_of(d))).take(1))
        {
            let was = if differs.other_bytes == 0 { "none".to_owned() } else { bytes(differs.other_bytes) };
            let was = format!("kind {}: {was}", other + 1);
            let label = fit(&name, room.saturating_sub(was.len() + 2));
            self.lines.line(format!("       {:>12}  {label}  {DIM}{was}{DIM:#}", signed(differs.by())));
        }
    }

    fn imbalance(&mut self) {
        let Some(imbalances) = self.fleet.imbalances.as_ref().filter(|_| self.fleet.read_count > 1) else {
            return;
        };
        self.lines.heading("Imbalance of the peaks: (highest - mean) / mean");
        let row = |name: &str, of: &Imbalance| {
            format!(
                "  {name:22} {:>7.1}%  highest {}, mean {}",
                of.percent,
                bytes(of.highest_bytes),
                bytes(of.mean_bytes)
            )
        };
        self.lines.line(row("all ranks", &imbalances.all));
        for (group, between) in &imbalances.between {
            self.lines.line(row(&format!("between groups of {group}"), between));
            let within = imbalances.groups.iter().filter(|of| of.group == *group);
            let worst = within
                .max_by(|a, b| a.within.percent.total_cmp(&b.within.percent).then(b.number.cmp(&a.number)));
            if let Some(worst) = worst.filter(|worst| worst.ranks.len() > 1) {
                self.lines.line(row(&format!("within {group} {}, at most", worst.number), &worst.within));
            }
        }
    }

    fn out_of_memory(&mut self) {
        let ooms = &self.fleet.out_of_memory;
        let Some(first) = ooms.first() else { return };
        self.lines.heading(&format!("Out of memory: {}, sorted by time", counted(ooms.len() as u64, "rank")));
        if let Some(time) = first.oom.time_us.and_then(|us| Timestamp::from_microsecond(us).ok()) {
            self.words(2, &format!("The first at {time:.3}, according to the clock of its host."));
        }
        for of in ooms.iter().take(ROWS) {
            let when = match of.after_first_us {
                None => "time unknown".to_owned(),
                Some(_) if of.rank == first.rank => "first".to_owned(),
                Some(us) => format!("+{}", duration(us)),
            };
            let (asked, free) = (bytes(of.oom.requested_bytes), bytes(of.oom.device_free_bytes));
            let rank = format!("rank {}", of.rank);
            let text = format!("{when:>14}  {BOLD}{rank}{BOLD:#}  requested {asked}, {free} was free");
            let used = 16 + rank.len() + "  requested ,  was free at ".len() + asked.len() + free.len();
            let room = self.lines.width.saturating_sub(used);
            let line = of.oom.line.as_deref().filter(|_| room >= LEAST_ROOM);
            let line = line.map(|line| format!(" at {}", fit(&shown(line), room))).unwrap_or_default();
            self.lines.line(text + &line);
        }
        let more = ooms.len().saturating_sub(ROWS);
        if more > 0 {
            self.words(16, &format!("... {} more", counted(more as u64, "rank")));
        }
        let said = format!("{}: {}", capital(&ranks(&[first.rank])), first.oom.verdict());
        self.words(2, &said);
        if let Some(changes) = first.oom.changes(&self.advice) {
            self.words(2, &changes);
        }
    }

    fn leaks(&mut self) {
        let leaks = &self.fleet.leaks;
        if leaks.is_empty() {
            return;
        }
        self.lines.heading(&format!("Leak suspects: {}", counted(leaks.len() as u64, "line")));
        for leak in leaks.iter().take(ROWS) {
            let line = fit(&shown(&leak.name), self.lines.width.saturating_sub(16));
            self.lines.line(format!("  {:>11}  {BOLD}{line}{BOLD:#}", bytes(leak.kept_bytes)));
            let where_ = match leak.ranks.as_slice() {
                [_] => format!("only on {}", ranks(&leak.ranks)),
                _ if leak.is_everywhere => format!("on every rank, most on rank {}", leak.worst_rank),
                several => format!("only on {}, most on rank {}", ranks(several), leak.worst_rank),
            };
            let step =
                leak.bytes_a_step.map(|step| format!(", {} per step", bytes(step))).unwrap_or_default();
            self.words(15, &format!("{where_}{step}"));
        }
        let more = leaks.len().saturating_sub(ROWS);
        if more > 0 {
            self.words(2, &format!("... {} more", count(more as u64)));
        }
    }

    fn fragmentation(&mut self) {
        let Some(unused) = &self.fleet.fragmentation else { return };
        self.lines.heading("Fragmentation at the peak of reserved bytes");
        let of = |of: &crate::fleet::UnusedOfRank| {
            format!("{} of {} ({:.1}%)", bytes(of.unusable_bytes), bytes(of.reserved_bytes), of.percent)
        };
        let median = if unused.ranks > 2 { ", the median" } else { "" };
        let text = format!(
            "The largest request of the run could not use {} on rank {}{median}, and {} on rank {}, the most of all ranks.",
            of(&unused.median),
            unused.median.rank,
            of(&unused.highest),
            unused.highest.rank
        );
        self.words(2, &text);
        if !unused.above.is_empty() {
            self.words(2, &format!("More than usual: {}.", ranks(&unused.above)));
        }
    }

    fn card(&mut self) {
        let Some(card) = self.fleet.card else { return };
        self.lines.heading("The largest rank compared with the GPU");
        let (reserved, capacity) = (bytes(card.peak_reserved_bytes), bytes(card.capacity_bytes));
        let left = match u64::try_from(card.headroom_bytes) {
            Ok(left) => format!("{} was left", bytes(left)),
            Err(_) => format!("{} would be missing", bytes(card.headroom_bytes.unsigned_abs())),
        };
        let text = match card.shown_by_rank {
            None => format!("Rank {} reserved {reserved} of {capacity}: {left}.", card.rank),
            Some(shown_by) => format!(
                "Rank {} reserved {reserved}. On the GPU of rank {shown_by}, which ran out of memory, {capacity} was available to the allocator: {left}.",
                card.rank
            ),
        };
        self.words(2, &text);
    }

    fn mixed(&mut self) {
        let mixed = &self.fleet.mixed;
        let named = [("PyTorch", &mixed.releases), ("settings", &mixed.settings)];
        if named.iter().all(|(_, several)| several.is_empty()) && mixed.programs.is_empty() {
            return;
        }
        self.lines.heading("Differences between ranks");
        let mut rows = Vec::new();
        for (what, several) in named {
            for of in several.iter().take(ROWS) {
                let value = match of.value.as_deref() {
                    None => "not recorded".to_owned(),
                    Some("") => "without these".to_owned(),
                    Some(value) => shown(value),
                };
                rows.push(format!("{what} {value}: {}", ranks(&of.ranks)));
            }
        }
        for of in mixed.programs.iter().take(ROWS) {
            let relation = match of.relation {
                Relation::Same => "program of most ranks",
                Relation::OtherVersion => "another version of it",
                Relation::Other => "another program",
            };
            rows.push(format!("{relation}, {}: {}", self.named(&of.files.join(", ")), ranks(&of.ranks)));
        }
        rows.iter().for_each(|row| self.words(2, row));
    }

    fn unread(&mut self) {
        let unread = &self.fleet.unread;
        if unread.is_empty() {
            return;
        }
        self.lines.heading(&format!("Not read: {}", counted(unread.len() as u64, "rank")));
        for rank in unread.iter().take(ROWS) {
            self.words(
                2,
                &format!("rank {}: {}: {}", rank.rank, self.named(&rank.file), shown(&rank.reason)),
            );
        }
        let more = unread.len().saturating_sub(ROWS);
        if more > 0 {
            self.words(2, &format!("... {} more", count(more as u64)));
        }
    }

    fn confidence(&mut self) {
        let fleet = self.fleet;
        let limitations = [
            (&fleet.peaks_not_known, "not all events were recorded, so the peak may have been another"),
            (&fleet.not_exact, "sizes are partly inferred; `vramscope report` of the recording shows why"),
            (
                &fleet.several_devices,
                "several devices were used; only the one with the highest peak is included",
            ),
        ];
        if limitations.iter().all(|(those, _)| those.is_empty()) {
            return;
        }
        self.lines.heading("Limitations of these numbers");
        for (those, why) in limitations {
            if !those.is_empty() {
                let who =
                    if those.len() == fleet.read_count { "every rank".to_owned() } else { ranks(those) };
                self.words(2, &format!("On {who}, {why}."));
            }
        }
    }
}

#[cfg(test)]
mod tests;
