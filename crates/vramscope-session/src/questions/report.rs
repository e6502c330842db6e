//! The report of a device, as data and in sentences.

use serde::Serialize;
use vramscope_analysis::{Cancel, IdleMemory, OomExplanation};
use vramscope_report::{Names, SectionText, TextOptions, idle, out_of_memory};

use crate::SessionError;
use crate::questions::recording::{OpenRecording, first_device};
use crate::{ReportAnswer, ReportRequest};

/// The findings of the report for a device, as data and in sentences.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Report {
    /// The device's part of `vramscope report --json`.
    #[cfg_attr(test, ts(type = "ReportDevice"))]
    pub(crate) device: serde_json::Value,
    /// The sections of the report that the device has, in order.
    #[cfg_attr(test, ts(type = "ReportSection[]"))]
    pub(crate) sections: Vec<SectionText>,
    /// The explanations of `ooms`, in the same order.
    pub(crate) ooms: Vec<OomFinding>,
    /// The recommended change after an out-of-memory error, in sentences; null without such an error.
    pub(crate) best_setting: Option<String>,
    /// Null if the recording has no accesses.
    pub(crate) idle: Option<IdleTexts>,
    /// The allocations of the report's `referred_tensors`.
    pub(crate) referred: Vec<usize>,
}

/// The device's `idle`, in sentences.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct IdleTexts {
    /// The peak without idle memory, and the limits of this knowledge.
    pub(crate) told: Vec<String>,
    /// For each of `idle.findings`, its line and modules; and when it is idle, and the peak without that.
    pub(crate) findings: Vec<[String; 2]>,
    /// The findings that are left out.
    pub(crate) left_out: Option<String>,
}

/// The explanation of a failed request.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct OomFinding {
    /// The free blocks that the request could not use, with the reason: one clause each.
    pub(crate) unusable: Vec<String>,
    /// Why it failed.
    pub(crate) cause: String,
    /// The amount of free memory between blocks, and the lines that pinned it: one sentence each. Empty if there was none.
    pub(crate) pinned: Vec<String>,
}

impl OpenRecording {
    /// The findings of the report for a device.
    pub(crate) fn report(
        &self,
        device: usize,
        request: ReportRequest,
        cancel: &Cancel,
    ) -> Result<Report, SessionError> {
        let top = request.top.unwrap_or(MOST_HOLDERS);
        let request = ReportRequest { device: Some(self.number(device)?), top: Some(top), ..request };
        let answer = self.session.report(&request, cancel)?;
        let (mut ooms, mut best_setting, mut idle, mut referred) = (Vec::new(), None, None, Vec::new());
        let mut sections = Vec::new();
        if let ReportAnswer::State(answers) = &answer {
            let (names, conf) = (self.session.names(), out_of_memory::recorded_conf(self.session.trace()));
            for summary in &answers.devices {
                sections = vramscope_report::sections(answers, summary, SECTION_TEXT);
                ooms.extend(summary.ooms.iter().map(|oom| OomFinding {
                    unusable: oom.fragmentation.unusable.iter().map(out_of_memory::unusable_blocks).collect(),
                    cause: format!(
                        "{} {}",
                        out_of_memory::oom_verdict(&names, conf, oom),
                        out_of_memory::oom_cause(&names, conf, oom)
                    ),
                    pinned: pinned(&names, oom),
                }));
                idle = summary.idle.as_ref().map(|of| idle_texts(&names, of, top));
                referred = summary.referred.iter().take(top).map(|tensor| tensor.allocation).collect();
                let advice = out_of_memory::oom_advice(&names, summary, self.session.advice());
                best_setting = (!advice.is_empty()).then(|| advice.join(" "));
            }
        }
        let device = first_device(serde_json::to_value(answer.json())?);
        Ok(Report { device, sections, ooms, best_setting, idle, referred })
    }
}

/// The maximum number of holders in the report. The page itself groups live allocations at any moment.
const MOST_HOLDERS: usize = 20;

/// The page wraps lines itself.
const SECTION_TEXT: TextOptions = TextOptions { width: usize::MAX, top: MOST_HOLDERS, full_stacks: false };

/// The number of lines listed for the free memory that they pin.
const MOST_PINS: usize = 3;

/// The amount of free memory between blocks, and the lines that pin most of it.
fn pinned(names: &Names<'_>, oom: &OomExplanation) -> Vec<String> {
    let lines = oom.pins.lines.iter().take(MOST_PINS).map(|pin| out_of_memory::pin(names, pin));
    let told = (!oom.pins.lines.is_empty()).then(|| out_of_memory::pinned(&oom.pins));
    told.into_iter().chain(lines).collect()
}

/// The first `top` findings of idle memory, in sentences.
fn idle_texts(names: &Names<'_>, idle: &IdleMemory, top: usize) -> IdleTexts {
    let text = |finding| [idle::idle_line(names, finding).into(), idle::idle_finding(names, idle, finding)];
    IdleTexts {
        told: idle::idle_memory(idle),
        findings: idle.findings.iter().take(top).map(text).collect(),
        left_out: idle::idle_left_out(idle),
    }
}
