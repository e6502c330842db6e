//! The memory of source lines.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use vramscope_analysis::{By, Cancel, Code, HolderKey, Moment, holders_among};
use vramscope_trace::{FrameId, StackId, StringId};

use crate::SessionError;
use crate::questions::columns::{Columns, F64s, Reply, U32s};
use crate::questions::conditions::SearchQuery;
use crate::questions::device::OpenDevice;
use crate::questions::recording::OpenRecording;
use crate::questions::search::Matcher;

/// Requests the memory of each line of a file, or of each file.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SourceLinesQuery {
    /// A frame of the file; null: all files.
    pub(crate) frame: Option<usize>,
    pub(crate) moment: usize,
    /// The search whose matches alone count; null: all allocations.
    pub(crate) only: Option<SearchQuery>,
}

/// The memory of the lines of a file, by line; or of files, most live bytes first. An allocation counts once for each line and file in its
/// stack.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct SourceLines {
    /// A frame of the line or file.
    pub(crate) frame: U32s,
    /// The number of the line; 0 for a file.
    pub(crate) line: U32s,
    /// Bytes live at the moment.
    pub(crate) live: F64s,
    /// The part of these bytes whose allocation the line names, as in tables.
    pub(crate) own: F64s,
    /// Bytes and number of all allocations of the recording.
    pub(crate) allocated: F64s,
    pub(crate) count: U32s,
    /// The findings about lines of the file.
    pub(crate) findings: Vec<LineFinding>,
}

/// A finding of the report about a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct LineFinding {
    pub(crate) line: u32,
    pub(crate) kind: LineFindingKind,
    /// The position of the leak or of the idle memory in the report, or the rank of the holder, from 1.
    pub(crate) number: usize,
    /// Bytes of the finding: retained, idle, or live at the moment.
    pub(crate) bytes: u64,
}

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub(crate) enum LineFindingKind {
    Leak,
    Idle,
    Holder,
}

/// The maximum number of listed files.
const MOST_FILES: usize = 500;

/// The number of largest holders that are marked.
const MOST_HOLDERS: usize = 10;

/// The number of allocations between two checks for cancellation.
const AT_ONCE: usize = 1 << 16;

/// The memory of a stack, a line or a file.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    live: u64,
    own: u64,
    allocated: u64,
    count: u64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.live += other.live;
        self.own += other.own;
        self.allocated = self.allocated.saturating_add(other.allocated);
        self.count += other.count;
    }
}

impl OpenRecording {
    /// The recorded path of a frame's file.
    ///
    /// # Errors
    /// Fails if there is no such frame.
    pub fn path_of(&self, frame: usize) -> Result<&str, SessionError> {
        let trace = self.session.trace();
        Ok(trace.strings.get(trace.frames.get(self.frame(frame)?).filename))
    }

    fn frame(&self, number: usize) -> Result<FrameId, SessionError> {
        let mut all = self.session.trace().frames.iter();
        let found = all.nth(number).map(|(id, _)| id);
        found.ok_or_else(|| SessionError::Argument(format!("no frame {number}")))
    }

    pub(crate) fn source_lines(
        &self,
        device: usize,
        query: &SourceLinesQuery,
        cancel: &Cancel,
    ) -> Reply<SourceLines> {
        let open = self.device(device)?;
        let moment = open.moment(query.moment)?;
        let trace = self.session.trace();
        let file = query.frame.map(|frame| self.frame(frame)).transpose()?;
        let file = file.map(|frame| trace.frames.get(frame).filename);
        let sums = self.sums(open, moment, query, cancel)?;
        // A line, or a file with line 0: a frame of it, and its memory.
        let mut lines: HashMap<(StringId, u32), (FrameId, Sum)> = HashMap::new();
        for (number, (stack, sum)) in sums.into_iter().enumerate() {
            if number.is_multiple_of(AT_ONCE) && cancel.is_cancelled() {
                return Err(SessionError::Cancelled);
            }
            let own = self.session.frames().own_frame(trace, stack);
            let line_of = |frame: FrameId| {
                let at = trace.frames.get(frame);
                match file {
                    Some(file) => (at.filename == file).then_some((file, at.line)),
                    None => (self.session.frames().code(frame) != Code::Native).then_some((at.filename, 0)),
                }
            };
            let own = own.and_then(line_of);
            let mut seen: Vec<((StringId, u32), FrameId)> =
                trace.stacks.get(stack).iter().filter_map(|&frame| Some((line_of(frame)?, frame))).collect();
            // A recursive stack has a line several times.
            seen.sort_unstable();
            seen.dedup_by_key(|(line, _)| *line);
            for (line, frame) in seen {
                let own = if own == Some(line) { sum.live } else { 0 };
                lines.entry(line).or_insert_with(|| (frame, Sum::default())).1.add(Sum { own, ..sum });
            }
        }
        let mut lines: Vec<((StringId, u32), (FrameId, Sum))> = lines.into_iter().collect();
        match file {
            Some(_) => lines.sort_unstable_by_key(|((_, line), _)| *line),
            None => {
                lines.sort_unstable_by_key(|(key, (_, sum))| {
                    (Reverse(sum.live), Reverse(sum.allocated), *key)
                });
                lines.truncate(MOST_FILES);
            }
        }
        let findings = file.map(|file| self.line_findings(open, moment, file)).unwrap_or_default();
        let sums = || lines.iter().map(|(_, (_, sum))| sum);
        Columns::answer(|columns| SourceLines {
            frame: columns.u32(lines.iter().map(|(_, (frame, _))| frame.index() as u32)),
            line: columns.u32(lines.iter().map(|((_, line), _)| *line)),
            live: columns.sizes(sums().map(|sum| sum.live)),
            own: columns.sizes(sums().map(|sum| sum.own)),
            allocated: columns.sizes(sums().map(|sum| sum.allocated)),
            count: columns.u32(sums().map(|sum| sum.count.min(u64::from(u32::MAX)) as u32)),
            findings,
        })
    }

    /// The memory of each stack.
    fn sums(
        &self,
        open: &OpenDevice,
        moment: Moment,
        query: &SourceLinesQuery,
        cancel: &Cancel,
    ) -> Result<Vec<(StackId, Sum)>, SessionError> {
        let matcher = Matcher::of(open, query.only.as_ref(), cancel)?;
        let mut sums: HashMap<StackId, Sum> = HashMap::new();
        for (id, a) in open.history().allocations.iter().enumerate() {
            if id.is_multiple_of(AT_ONCE) && cancel.is_cancelled() {
                return Err(SessionError::Cancelled);
            }
            let Some(stack) = a.stack else { continue };
            if matcher.as_ref().is_some_and(|matcher| !matcher.finds(id)) {
                continue;
            }
            let live = if a.is_allocated_at(moment) { a.size } else { 0 };
            sums.entry(stack).or_default().add(Sum { live, own: 0, allocated: a.size, count: 1 });
        }
        let mut sums: Vec<(StackId, Sum)> = sums.into_iter().collect();
        sums.sort_unstable_by_key(|(stack, _)| stack.index());
        Ok(sums)
    }

    /// The leaks, the idle memory, and the largest holders at a moment, that lines of this file name.
    fn line_findings(&self, open: &OpenDevice, moment: Moment, file: StringId) -> Vec<LineFinding> {
        let trace = self.session.trace();
        let line_of = |frame: FrameId| {
            let at = trace.frames.get(frame);
            (at.filename == file).then_some(at.line)
        };
        let line_of_key = |key: &HolderKey| match key {
            HolderKey::Line(frame) => line_of(*frame),
            _ => None,
        };
        let finding = |kind, at: usize, line: Option<u32>, bytes| {
            Some(LineFinding { line: line?, kind, number: at + 1, bytes })
        };
        let leaks =
            open.leaks().iter().enumerate().filter_map(|(at, leak)| {
                finding(LineFindingKind::Leak, at, line_of(leak.line), leak.kept_bytes)
            });
        let idle = open.idle().map(|idle| idle.findings.as_slice()).unwrap_or_default().iter().enumerate();
        let idle = idle
            .filter_map(|(at, idle)| finding(LineFindingKind::Idle, at, line_of_key(&idle.line), idle.bytes));
        let live = open.allocated_at(moment);
        let holders = holders_among(open.history(), self.session.frames(), open, live.into_iter(), By::Line);
        let holders = holders.iter().take(MOST_HOLDERS).enumerate().filter_map(|(at, holder)| {
            finding(LineFindingKind::Holder, at, line_of_key(&holder.key), holder.bytes)
        });
        leaks.chain(idle).chain(holders).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::columns::NONE;
    use crate::questions::columns::Written;
    use crate::questions::conditions::FrameField;
    use crate::questions::conditions::SearchQuery;
    use crate::questions::conditions::Sought;
    use crate::questions::recording::example as open;

    /// The rows of an answer: line, live, own and allocated bytes, number of allocations.
    fn rows(answer: &Written<SourceLines>) -> Vec<(u32, u64, u64, u64, u32)> {
        let bytes = answer.bytes().unwrap();
        let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
        let columns = &bytes[(4 + length).next_multiple_of(8)..];
        let u32s = |column: crate::questions::columns::U32s| {
            let [at, many] = column.u32;
            (0..many)
                .map(|i| u32::from_le_bytes(columns[at + 4 * i..][..4].try_into().unwrap()))
                .collect::<Vec<_>>()
        };
        let f64s = |column: crate::questions::columns::F64s| {
            let [at, many] = column.f64;
            let number = |i: usize| f64::from_le_bytes(columns[at + 8 * i..][..8].try_into().unwrap()) as u64;
            (0..many).map(number).collect::<Vec<_>>()
        };
        let head = &answer.head;
        let (line, count) = (u32s(head.line), u32s(head.count));
        let (live, own, allocated) = (f64s(head.live), f64s(head.own), f64s(head.allocated));
        (0..line.len()).map(|i| (line[i], live[i], own[i], allocated[i], count[i])).collect()
    }

    #[test]
    fn a_line_has_the_allocations_through_it_once() {
        let file = open("training.pickle.zst");
        let history = file.devices[0].history();
        let (trace, frames) = (file.session.trace(), file.session.frames());
        let peak = history.peaks().allocated.moment;
        let forward = SearchQuery::Frame {
            field: FrameField::Function,
            sought: Sought { text: "forward".to_owned(), is_pattern: false },
        };
        for only in [None, Some(forward)] {
            let ask = |frame| SourceLinesQuery { frame, moment: peak.index(), only: only.clone() };
            let files = file.source_lines(0, &ask(None), &Cancel::default()).unwrap();
            let matcher = Matcher::of(&file.devices[0], only.as_ref(), &Cancel::default()).unwrap();
            let matches = |id: usize| matcher.as_ref().is_none_or(|matcher| matcher.finds(id));
            let mut checked = 0;
            let python = trace.frames.iter().filter(|(id, _)| frames.code(*id) != Code::Native);
            for (id, frame) in python.step_by(4) {
                let answer = file.source_lines(0, &ask(Some(id.index())), &Cancel::default()).unwrap();
                let rows = rows(&answer);
                assert!(rows.is_sorted());
                // Every allocation is looked at, for every line.
                for (line, live, own, allocated, count) in rows {
                    let mut sums = (0, 0, 0, 0);
                    for (number, a) in history.allocations.iter().enumerate() {
                        let Some(stack) = a.stack.filter(|_| matches(number)) else { continue };
                        let is_it = |of: FrameId| {
                            let of = trace.frames.get(of);
                            of.filename == frame.filename && of.line == line
                        };
                        if !trace.stacks.get(stack).iter().any(|&of| is_it(of)) {
                            continue;
                        }
                        let live = if a.is_allocated_at(peak) { a.size } else { 0 };
                        let own = frames.own_frame(trace, stack).is_some_and(is_it);
                        sums.0 += live;
                        sums.1 += if own { live } else { 0 };
                        sums.2 += a.size;
                        sums.3 += 1;
                    }
                    assert_eq!((live, own, allocated, count), sums, "line {line}");
                    checked += 1;
                }
            }
            assert!(checked > 10, "{checked}");
            // Files: own bytes add up to those of all allocations with a Python frame that names them.
            assert!(rows(&files).iter().all(|row| row.0 == 0 && row.1 >= row.2));
            assert!(rows(&files)[0].1 > 0);
        }
        let none = SourceLinesQuery { frame: Some(NONE as usize), moment: 0, only: None };
        assert!(matches!(file.source_lines(0, &none, &Cancel::default()), Err(SessionError::Argument(_))));
        let late = SourceLinesQuery { frame: None, moment: usize::MAX, only: None };
        assert!(matches!(file.source_lines(0, &late, &Cancel::default()), Err(SessionError::Argument(_))));
    }

    #[test]
    fn the_findings_of_the_report_are_at_their_lines() {
        let file = open("leak.pickle");
        let device = &file.devices[0];
        let leak = &device.leaks()[0];
        let line = file.session.trace().frames.get(leak.line).line;
        let query = SourceLinesQuery {
            frame: Some(leak.line.index()),
            moment: device.history().end().index(),
            only: None,
        };
        let answer = file.source_lines(0, &query, &Cancel::default()).unwrap();
        let kinds = |of: LineFindingKind| answer.head.findings.iter().filter(move |f| f.kind == of);
        let first = LineFinding { line, kind: LineFindingKind::Leak, number: 1, bytes: leak.kept_bytes };
        assert_eq!(kinds(LineFindingKind::Leak).next(), Some(&first));
        assert!(kinds(LineFindingKind::Holder).next().is_some());
        // An accessed recording has idle memory; this one has no accesses.
        assert_eq!(kinds(LineFindingKind::Idle).next(), None);
    }
}
