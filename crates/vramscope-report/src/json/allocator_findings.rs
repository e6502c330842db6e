//! JSON of known problems of programs with a caching allocator.

use serde::Serialize;
use vramscope_analysis::{AllocatorFinding, Summary};

use super::stacks::{Builder, FrameJson, StackJson, is_zero};
use crate::allocator_findings::FindingText;

/// A known problem that a rule recognized, with its evidence.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "AllocatorFinding"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "AllocatorFinding"))]
pub(super) struct AllocatorFindingJson {
    /// The rule, such as `stranded_cache`.
    finding: &'static str,
    /// Bytes that the problem costs or concerns.
    bytes: u64,
    /// `certain`: events or an exact replay show it; `likely`: events show it, if the program goes on as before; `possible`: only the
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
    pub(super) fn allocator_finding(
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
