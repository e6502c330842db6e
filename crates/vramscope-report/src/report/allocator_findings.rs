//! The section about known problems of programs with a caching allocator.

use serde::Serialize;
use vramscope_analysis::{
    AllocatorFinding, IneffectiveAdvice, LateBlock, StrandedCache, StrandedStream, Summary, UnbackedBytes,
    UnsplitGrowth,
};
use vramscope_basics::units::{bytes, count, counted};
use vramscope_trace::StackId;

use crate::json::stacks::{Builder, FrameJson, StackJson, is_zero};
use crate::names::{Names, stream};
use crate::report::out_of_memory::causes;
use crate::text::lines::BOLD;
use crate::text::page::Page;

/// A known problem that a rule recognized, with its evidence.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "AllocatorFinding"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "AllocatorFinding"))]
pub(crate) struct AllocatorFindingJson {
    /// The rule, such as `stranded_cache`.
    finding: &'static str,
    /// Bytes that the problem costs or concerns.
    bytes: u64,
    /// `shown`: events or an exact replay show it; `likely`: events show it, if the program goes on as before; `possible`: only the
    /// end state shows it.
    certainty: &'static str,
    /// The event that shows it; null if the end state does.
    event: Option<usize>,
    /// The stack of that event, innermost frame first.
    stack: Vec<FrameJson>,
    #[serde(skip_serializing_if = "is_zero")]
    #[cfg_attr(test, ts(optional, as = "Option<_>"))]
    frames_left_out: usize,
    /// The problem, in words.
    title: &'static str,
    /// The evidence, in sentences.
    evidence: Vec<String>,
    /// What to change, in sentences.
    action: String,
}

impl Builder<'_> {
    pub(crate) fn allocator_finding(
        &self,
        summary: &Summary,
        finding: &AllocatorFinding,
    ) -> AllocatorFindingJson {
        let (event, stack) = finding.evidence().unzip();
        let StackJson { frames: stack, left_out } = self.stack(stack.flatten());
        let FindingText { title, evidence, action } = FindingText::of(&self.names, summary, finding);
        AllocatorFindingJson {
            finding: finding.name(),
            bytes: finding.bytes(),
            certainty: finding.certainty().name(),
            event,
            stack,
            frames_left_out: left_out,
            title,
            evidence,
            action,
        }
    }
}

impl Page<'_> {
    pub(crate) fn allocator_findings(&mut self, s: &Summary) {
        if s.findings.is_empty() {
            return;
        }
        self.heading("Allocator findings");
        for finding in &s.findings {
            let FindingText { title, evidence, action } = FindingText::of(&self.names, s, finding);
            let certainty = finding.certainty().name();
            self.line(format!("  {:>11}  {BOLD}{title}{BOLD:#} ({certainty})", bytes(finding.bytes())));
            for text in evidence.iter().chain([&action]) {
                self.words(15, text);
            }
            self.full_stack(finding.evidence().and_then(|(_, stack)| stack));
        }
    }
}

/// A finding in sentences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindingText {
    /// The problem, as a heading.
    pub title: &'static str,
    /// The evidence, one fact each.
    pub evidence: Vec<String>,
    /// What to change.
    pub action: String,
}

impl FindingText {
    /// The sentences of a finding of `summary`.
    pub fn of(names: &Names<'_>, summary: &Summary, finding: &AllocatorFinding) -> Self {
        match finding {
            AllocatorFinding::StrandedCache(cache) => stranded_cache(names, cache),
            AllocatorFinding::LateBlock(late) => late_block(names, late),
            AllocatorFinding::IneffectiveAdvice(advice) => ineffective_advice(summary, advice),
            AllocatorFinding::UnsplitGrowth(growth) => unsplit_growth(growth),
            AllocatorFinding::UnbackedBytes(unbacked) => unbacked_bytes(unbacked),
        }
    }
}

/// Limit on the streams that are named one by one.
const MOST_STREAMS: usize = 3;

fn stranded_cache(names: &Names<'_>, cache: &StrandedCache) -> FindingText {
    let mut evidence: Vec<String> =
        cache.streams.iter().take(MOST_STREAMS).map(|of| stranded_stream(names, cache, of)).collect();
    let more = cache.streams.get(MOST_STREAMS..).unwrap_or_default();
    if !more.is_empty() {
        let rest = more.iter().map(|of| of.bytes).sum();
        evidence.push(format!("{} have {} more.", counted(more.len() as u64, "further stream"), bytes(rest)));
    }
    if !cache.has_history {
        evidence.push("Without a history, it is unknown whether they will be used again.".to_owned());
    }
    let action = "Make these allocations on the stream of the rest of the program, or on one side stream for all such work. `torch.cuda.empty_cache()` after that work returns whole free segments to the device.";
    FindingText { title: "Cache of idle streams", evidence, action: action.to_owned() }
}

fn stranded_stream(names: &Names<'_>, cache: &StrandedCache, of: &StrandedStream) -> String {
    let held = format!(
        "{} in {} can serve only requests of the {}.",
        bytes(of.bytes),
        counted(of.blocks as u64, "free block"),
        stream(of.stream)
    );
    let since = match of.last_request {
        Some((event, stack)) => {
            format!(
                "Its last request was {}; {} followed on other streams.",
                event_at(names, event, stack),
                counted(of.later_requests, "request")
            )
        }
        None if cache.has_history => {
            format!("It made none of the {} in the recording.", counted(of.later_requests, "request"))
        }
        None => "No block of this stream is in use, but blocks of other streams are.".to_owned(),
    };
    format!("{held} {since}")
}

/// An event with the line of its stack, as `event 12 (train.py:3 load)`.
fn event_at(names: &Names<'_>, event: usize, stack: Option<StackId>) -> String {
    let line = stack.and_then(|stack| names.frames.own_frame(names.trace, stack));
    let line = line.map_or_else(String::new, |line| format!(" ({})", names.frame(line)));
    format!("event {}{line}", count(event as u64))
}

fn late_block(names: &Names<'_>, late: &LateBlock) -> FindingText {
    let block = format!(
        "The request of {} at {} failed, but a block of {} on its stream fits.",
        bytes(late.request),
        event_at(names, late.event, late.stack),
        bytes(late.block.size)
    );
    let (freed, stack) = late.freed;
    let after = if late.is_free {
        "They became free within the failed request, after the allocator had looked for a block."
    } else {
        "They still waited after the failed request."
    };
    let waited = format!(
        "{} of it waited for another stream since the free at {}. {after}",
        bytes(late.waited),
        event_at(names, freed, stack)
    );
    let served = late
        .served
        .map(|event| format!("A later request of this size, event {}, took the block.", count(event as u64)));
    FindingText {
        title: "Out of memory beside a block that fits",
        evidence: [Some(block), Some(waited), served].into_iter().flatten().collect(),
        action: "Make the request again after the error. To prevent the error, let the other stream finish before the tensor is freed, with `torch.cuda.synchronize()` or an event.".to_owned(),
    }
}

fn ineffective_advice(summary: &Summary, advice: &IneffectiveAdvice) -> FindingText {
    let setting = advice.setting;
    let effect = if advice.was_on {
        format!("PyTorch's error message recommends `{setting}`, which was on when the request failed.")
    } else {
        format!("PyTorch's error message recommends `{setting}`. In a replay with it, the request fails too.")
    };
    let meant =
        format!("It is meant for the {} that are reserved but unallocated.", bytes(advice.unallocated));
    let action = match (&summary.remedy, &summary.best_setting) {
        (Some(remedy), _) => causes::remedy(remedy),
        (None, Some(best)) if best.fits => format!("{}.", causes::change(&best.change, true)),
        (None, Some(_)) => {
            "No setting that was tried makes the run fit: reduce the allocated bytes.".to_owned()
        }
        (None, None) => "The causes of the failed request are listed with it.".to_owned(),
    };
    FindingText { title: "Advice of PyTorch without effect", evidence: vec![effect, meant], action }
}

fn unsplit_growth(growth: &UnsplitGrowth) -> FindingText {
    let at = growth.event.map_or_else(
        || "Before the first event".to_owned(),
        |event| format!("After event {}", count(event as u64)),
    );
    let peak = format!(
        "{at}, {} is reserved and {} allocated. In a replay without the setting, the peak until then is {}.",
        bytes(growth.reserved),
        bytes(growth.allocated),
        bytes(growth.without)
    );
    let limit = bytes(growth.max_split_size);
    let unsplit = format!(
        "{} of it is free in {} of at least {limit}. Smaller requests cannot use these blocks, and larger requests only those that are hardly larger.",
        bytes(growth.unsplit),
        counted(growth.blocks as u64, "block")
    );
    let release = growth.is_expandable.then(|| {
        format!(
            "PyTorch {} applies this rule to expandable segments too, as all releases from 2.1 to 2.15 do.",
            growth.release
        )
    });
    let action = if growth.is_expandable {
        "Remove `max_split_size_mb`: expandable segments do not need it."
    } else {
        "Remove `max_split_size_mb`, or set it above the size of these requests."
    };
    FindingText {
        title: "Cost of max_split_size_mb",
        evidence: [Some(peak), Some(unsplit), release].into_iter().flatten().collect(),
        action: action.to_owned(),
    }
}

fn unbacked_bytes(unbacked: &UnbackedBytes) -> FindingText {
    let evidence = format!(
        "{} is reserved at the peak, and the device has {}: at least {} of it has no memory.",
        bytes(unbacked.reserved),
        bytes(unbacked.device_total),
        bytes(unbacked.bytes())
    );
    FindingText {
        title: "Reserved bytes without memory",
        evidence: vec![evidence],
        action: "Do not add these counters to other memory. Segments that the program unmaps itself, as in a sleep mode, stay in PyTorch's reserved bytes; the driver's count (`torch.cuda.mem_get_info()`) is right.".to_owned(),
    }
}
