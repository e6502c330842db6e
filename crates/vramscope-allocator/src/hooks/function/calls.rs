//! Memory counts per call: the data of the profile.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hashbrown::HashMap;
use serde::{Serialize, Serializer};

use super::{CallPhase, Ended, FunctionCall};

/// An ended call. All byte counts are block sizes after rounding, and include nested calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallRecord {
    /// The function's name.
    #[serde(serialize_with = "text")]
    pub function: Arc<str>,
    /// The phase in which it was called.
    pub phase: CallPhase,
    /// The thread's number, as in [`FunctionCall::thread`].
    pub thread: u64,
    /// Number of measured calls around this call on its thread; 0 is outermost.
    pub depth: usize,
    /// Bytes allocated from the pool.
    pub used_bytes: u64,
    /// Bytes that the pool allocated from the device.
    pub acquired_bytes: u64,
    /// Peak of live bytes allocated in the call, before it ended.
    pub peak_bytes: u64,
    /// Used bytes that were live when the call ended.
    pub live_bytes: u64,
    /// Used bytes that any thread had freed when the call ended.
    pub freed_bytes: u64,
    /// How the call ended.
    pub ended: Ended,
}

/// All ended calls of a function, or its ended calls in one phase. All numbers except the peak exclude nested calls, so they can be added
/// up.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct FunctionSummary {
    /// The function's name.
    #[serde(serialize_with = "text")]
    pub function: Arc<str>,
    /// The phase; `None` if phases are summed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<CallPhase>,
    /// Bytes allocated from the pool.
    pub used_bytes: u64,
    /// Bytes that the pool allocated from the device.
    pub acquired_bytes: u64,
    /// The highest [`CallRecord::peak_bytes`] of its calls, nested calls included.
    pub peak_bytes: u64,
    /// Used bytes that are still live.
    pub live_bytes: u64,
    /// Used bytes that were freed, during a call or later.
    pub freed_bytes: u64,
    /// Number of ended calls.
    pub occurrence: u64,
}

fn text<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

/// Sums of bytes, which saturate at 16 EiB.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    used: u64,
    acquired: u64,
    live: u64,
    freed: u64,
}

impl Counts {
    fn allocated(&mut self, size: u64) {
        self.used = self.used.saturating_add(size);
        self.live = self.live.saturating_add(size);
    }

    fn acquired(&mut self, size: u64) {
        self.acquired = self.acquired.saturating_add(size);
    }

    fn freed(&mut self, size: u64) {
        self.live = self.live.saturating_sub(size);
        self.freed = self.freed.saturating_add(size);
    }

    fn add(&mut self, other: &Self) {
        self.used = self.used.saturating_add(other.used);
        self.acquired = self.acquired.saturating_add(other.acquired);
        self.live = self.live.saturating_add(other.live);
        self.freed = self.freed.saturating_add(other.freed);
    }
}

struct OpenCall {
    id: u64,
    row: usize,
    depth: usize,
    /// Bytes of this call, nested calls included.
    all: Counts,
    /// The highest `all.live`, in bytes.
    peak: u64,
    /// Bytes of this call, nested calls excluded.
    own: Counts,
}

#[derive(Default)]
struct Thread {
    /// The running calls, outermost first, so that their ids ascend.
    open: Vec<OpenCall>,
    /// Number of live blocks that were allocated in calls of this thread.
    num_blocks: usize,
}

/// A live block. It belongs to the innermost call at its allocation (`call` is that call's id). It counts in the running calls of the same
/// thread whose ids are at most `call`.
struct Block {
    size: u64,
    thread: u64,
    call: u64,
    row: usize,
}

struct Row {
    function: Arc<str>,
    phase: CallPhase,
    /// Bytes of ended calls, nested calls excluded.
    own: Counts,
    peak: u64,
    occurrence: u64,
}

/// The running calls and the ended calls.
#[derive(Default)]
pub(super) struct Calls {
    threads: BTreeMap<u64, Thread>,
    blocks: HashMap<u64, Block>,
    num_open: usize,
    rows: Vec<Row>,
    row_of: HashMap<(Arc<str>, CallPhase), usize>,
    /// Row indices, ordered by the first call that ended in each row.
    order: Vec<usize>,
    history: VecDeque<CallRecord>,
    /// Maximum length of the history; `None` for no limit.
    max_history: Option<usize>,
    num_forgotten: u64,
}

impl Calls {
    // ---- calls ----

    pub(super) fn begin(&mut self, call: &FunctionCall) {
        let open = &mut self.threads.entry(call.thread).or_default().open;
        if open.last().is_some_and(|last| last.id == call.id) {
            // The same hook is registered twice, under two names.
            return;
        }
        let rows = &mut self.rows;
        let key = (Arc::clone(&call.function), call.phase.clone());
        let row = *self.row_of.entry(key).or_insert_with_key(|(function, phase)| {
            let (function, phase) = (Arc::clone(function), phase.clone());
            rows.push(Row { function, phase, own: Counts::default(), peak: 0, occurrence: 0 });
            rows.len() - 1
        });
        let (all, own) = (Counts::default(), Counts::default());
        open.push(OpenCall { id: call.id, row, depth: open.len(), all, peak: 0, own });
        self.num_open += 1;
    }

    pub(super) fn end(&mut self, call: &FunctionCall, ended: Ended) {
        let Some(thread) = self.threads.get_mut(&call.thread) else { return };
        let Some(position) = thread.open.iter().rposition(|open| open.id == call.id) else { return };
        let open = thread.open.remove(position);
        self.num_open -= 1;
        let row = &mut self.rows[open.row];
        if row.occurrence == 0 {
            self.order.push(open.row);
        }
        row.own.add(&open.own);
        row.peak = row.peak.max(open.peak);
        row.occurrence += 1;
        self.history.push_back(CallRecord {
            function: Arc::clone(&row.function),
            phase: row.phase.clone(),
            thread: call.thread,
            depth: open.depth,
            used_bytes: open.all.used,
            acquired_bytes: open.all.acquired,
            peak_bytes: open.peak,
            live_bytes: open.all.live,
            freed_bytes: open.all.freed,
            ended,
        });
        self.bound_history();
    }

    // ---- memory ----

    pub(super) fn acquired(&mut self, thread: u64, size: u64) {
        let Some(thread) = self.threads.get_mut(&thread) else { return };
        for call in &mut thread.open {
            call.all.acquired(size);
        }
        if let Some(innermost) = thread.open.last_mut() {
            innermost.own.acquired(size);
        }
    }

    pub(super) fn allocated(&mut self, thread_number: u64, pmem_id: u64, size: u64) {
        let Some(thread) = self.threads.get_mut(&thread_number) else { return };
        for call in &mut thread.open {
            call.all.allocated(size);
            call.peak = call.peak.max(call.all.live);
        }
        if let Some(innermost) = thread.open.last_mut() {
            innermost.own.allocated(size);
            thread.num_blocks += 1;
            let block = Block { size, thread: thread_number, call: innermost.id, row: innermost.row };
            self.blocks.insert(pmem_id, block);
        }
    }

    /// Counts a freed block. Does nothing if its free was already counted or its allocation was never counted.
    pub(super) fn freed(&mut self, pmem_id: u64) {
        let Some(block) = self.blocks.remove(&pmem_id) else { return };
        let mut of_open_call = false;
        if let Some(thread) = self.threads.get_mut(&block.thread) {
            thread.num_blocks -= 1;
            for call in thread.open.iter_mut().take_while(|call| call.id <= block.call) {
                call.all.freed(block.size);
                if call.id == block.call {
                    call.own.freed(block.size);
                    of_open_call = true;
                }
            }
        }
        if !of_open_call {
            self.rows[block.row].own.freed(block.size);
        }
    }

    /// Whether no call is running and no counted block is live.
    pub(super) fn is_idle(&self) -> bool {
        self.num_open == 0 && self.blocks.is_empty()
    }

    /// Removes a thread with no running call and no live block. Returns whether the thread is gone.
    pub(super) fn forget_idle_thread(&mut self, number: u64) -> bool {
        let is_idle = self.threads.get(&number).is_none_or(|t| t.open.is_empty() && t.num_blocks == 0);
        if is_idle {
            self.threads.remove(&number);
        }
        is_idle
    }

    // ---- answers ----

    pub(super) fn set_max_history(&mut self, max_history: usize) {
        self.max_history = Some(max_history);
        self.bound_history();
    }

    fn bound_history(&mut self) {
        while self.max_history.is_some_and(|most| self.history.len() > most) {
            self.history.pop_front();
            self.num_forgotten += 1;
        }
    }

    pub(super) fn history(&self) -> impl Iterator<Item = &CallRecord> {
        self.history.iter()
    }

    /// Returns the number of calls that ended and are no longer in the history.
    pub(super) fn num_forgotten(&self) -> u64 {
        self.num_forgotten
    }

    pub(super) fn summary_by_phase(&self) -> impl Iterator<Item = FunctionSummary> {
        self.order.iter().map(|&row| {
            let Row { function, phase, own, peak, occurrence } = &self.rows[row];
            FunctionSummary {
                function: Arc::clone(function),
                phase: Some(phase.clone()),
                used_bytes: own.used,
                acquired_bytes: own.acquired,
                peak_bytes: *peak,
                live_bytes: own.live,
                freed_bytes: own.freed,
                occurrence: *occurrence,
            }
        })
    }

    pub(super) fn summary(&self) -> Vec<FunctionSummary> {
        let mut summary: Vec<FunctionSummary> = Vec::new();
        let mut place_of = HashMap::new();
        for row in self.summary_by_phase() {
            let place = *place_of.entry(Arc::clone(&row.function)).or_insert(summary.len());
            let Some(whole) = summary.get_mut(place) else {
                summary.push(FunctionSummary { phase: None, ..row });
                continue;
            };
            whole.used_bytes = whole.used_bytes.saturating_add(row.used_bytes);
            whole.acquired_bytes = whole.acquired_bytes.saturating_add(row.acquired_bytes);
            whole.peak_bytes = whole.peak_bytes.max(row.peak_bytes);
            whole.live_bytes = whole.live_bytes.saturating_add(row.live_bytes);
            whole.freed_bytes = whole.freed_bytes.saturating_add(row.freed_bytes);
            whole.occurrence += row.occurrence;
        }
        summary
    }

    pub(super) fn total_used(&self) -> u64 {
        self.rows.iter().fold(0, |sum, row| sum.saturating_add(row.own.used))
    }

    pub(super) fn total_acquired(&self) -> u64 {
        self.rows.iter().fold(0, |sum, row| sum.saturating_add(row.own.acquired))
    }
}
