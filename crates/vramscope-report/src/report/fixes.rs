//! Changes of the program that the leak or the failed request points to: their JSON, and their sentences among the first lines.

use serde::Serialize;
use vramscope_analysis::{Certainty, Fix, FixKind, Summary};
use vramscope_basics::units::bytes;

use crate::json::stacks::{Builder, FrameJson};
use crate::names::Names;

/// A change of the program that the leak or the failed request points to.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Fix"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Fix"))]
pub(crate) struct FixJson {
    /// `drop_checkpoint`, `drop_earlier_model`, `fewer_copies`, `autocast_cache`, `eval_accumulation`, `no_grad`, `detach`, `fewer_results`,
    /// `smaller_optimizer`, `chunked_loss`, `fused_attention`, `limit_input`, `in_parts` or `smaller_batch`.
    change: &'static str,
    /// The line that made most of the memory, if there is one.
    line: Option<FrameJson>,
    /// Bytes of the memory that the change is about.
    bytes: u64,
    /// `likely` or `possible`.
    certainty: &'static str,
}

impl Builder<'_> {
    pub(crate) fn fix(&self, fix: &Fix) -> FixJson {
        FixJson {
            change: fix.kind.name(),
            line: fix.line.map(|line| self.frame(line)),
            bytes: fix.bytes,
            certainty: fix.certainty.name(),
        }
    }
}

/// Where the variables are that hold the retained memory, or how to record them; `None` if nothing is retained.
pub(crate) fn holders_of(s: &Summary) -> Option<String> {
    use FixKind as K;
    let is_held = |fix: &Fix| {
        matches!(fix.kind, K::FewerResults | K::Detach | K::NoGrad | K::FewerCopies | K::DropEarlierModel)
    };
    s.fixes.iter().any(is_held).then(|| match s.referred.is_empty() {
        true => "`vramscope.torch.record(..., referrers=True)` names the variables that hold it.".to_owned(),
        false => "The list of references names the variables that hold it.".to_owned(),
    })
}

/// What to change, in a sentence.
pub(crate) fn fix(names: &Names<'_>, fix: &Fix) -> String {
    let held = bytes(fix.bytes);
    let line = fix.line.map_or_else(|| "this line".to_owned(), |line| names.frame(line).to_string());
    let text = match fix.kind {
        FixKind::DropCheckpoint => format!(
            "`del` the loaded tensors after `load_state_dict`, or load them with `map_location=\"cpu\"`: {held} of {line} exist twice."
        ),
        FixKind::DropEarlierModel => format!(
            "Drop the model or the optimizer of before, and what refers to it (`del`, lists, exceptions, schedulers), before the next one is made: {line} retains {held}."
        ),
        FixKind::FewerCopies => format!(
            "Keep fewer copies of weights or optimizer states, or keep them in host memory (`.cpu()`), and drop what refers to earlier ones: {line} retains {held}."
        ),
        FixKind::AutocastCache => format!(
            "Enter `autocast` for each model instead of once around all of them, or pass `cache_enabled=False`: until it ends, its copies of weights retain {held} of {line}."
        ),
        FixKind::EvalAccumulation => format!(
            "Set `eval_accumulation_steps`, or reduce the results in `preprocess_logits_for_metrics`: {line} retains {held}."
        ),
        FixKind::NoGrad => format!(
            "If no backward pass follows, run {line} under `torch.no_grad()` or `torch.inference_mode()`; otherwise run the backward pass of each repetition, or `detach()` its results. The graph retains {held}."
        ),
        FixKind::Detach => format!(
            "Keep numbers (`.item()`) or tensors without their graph (`.detach()`): the graphs of {line} retain {held}."
        ),
        FixKind::FewerResults if fix.line.is_none() => format!(
            "Keep numbers, detached tensors or copies in host memory instead of what each step makes: {held} of it stay."
        ),
        FixKind::FewerResults => format!(
            "Keep less of the results of {line}, move them to host memory (`.cpu()`), or `detach()` them if they have a graph: they retain {held}."
        ),
        FixKind::SmallerOptimizer => format!(
            "Use an optimizer with less state (8-bit Adam, Adafactor, SGD without momentum), or keep its state in bfloat16 or in host memory: it has {held}."
        ),
        FixKind::ChunkedLoss => format!(
            "Compute the logits and their loss in chunks of tokens, each checkpointed, or with a fused linear cross entropy; without a loss, ask for the logits of the last token alone (`logits_to_keep`). Logits and what is computed from them at {line} have {held}."
        ),
        FixKind::FusedAttention => format!(
            "Use `scaled_dot_product_attention` (`attn_implementation=\"sdpa\"`), which does not make the matrix of all scores: it has {held}."
        ),
        FixKind::LimitInput => format!(
            "Limit the largest input, such as the longest text of a batch, or split it: this step needs {held} more than the usual one, at {line}."
        ),
        FixKind::InParts => {
            format!("Compute {line} in parts: its function holds {held} in a few blocks.")
        }
        FixKind::SmallerBatch => {
            format!("Use smaller batches: {held} are neither weights, gradients nor optimizer state.")
        }
    };
    match fix.certainty {
        Certainty::Possible => format!("Possibly: {}{}", text[..1].to_lowercase(), &text[1..]),
        Certainty::Shown | Certainty::Likely => text,
    }
}
