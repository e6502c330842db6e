//! The MCP tools. Each reads its arguments, computes the answer of the command of the same name, and returns that command's JSON.

use anyhow::anyhow;
use rmcp::model::JsonObject;
use serde::Serialize;
use vramscope_analysis::{Holder, HolderKey, Summary};
use vramscope_report::{
    CheckJson, DiffJson, FindingText, HoldersJson, InfoJson, LeaksJson, ReplayJson, bytes, counted,
    estimates, idle, out_of_memory, replay_sentences,
};
use vramscope_session::{
    CheckRequest, DiffRequest, GroupsAnswer, HoldersRequest, LeaksRequest, ReplayRequest, ReportAnswer,
    ReportRequest, Session, StateRequest,
};
use vramscope_trace::formats::ReadOptions;

use super::advice::ADVICE;
use super::arguments::{Ask, Asked, Checked, File, Limited, Nothing, One, Paged, Two, read};
use super::bounded::{Bounded, LeftOut, Limits, bounded};
use super::folders::Folders;
use super::recordings::Recordings;
use super::work::Work;

/// Limit on the out-of-memory events of a device that are described in sentences.
const TOLD_OOMS: usize = 3;
/// Limit on the allocator findings that are told in sentences.
const TOLD_FINDINGS: usize = 5;

/// The MCP tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    Open,
    Summary,
    Holders,
    At,
    Diff,
    Replay,
    Leaks,
    Check,
    Ask,
}

/// The state that answers are computed from.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) folders: Folders,
    pub(super) recordings: Recordings,
    pub(super) reading: ReadOptions,
}

/// How to get rows and frames that were left out.
const MORE: &str = "Ask again with more `top` (at most 200) or `frames` (at most 100).";
const MORE_OF_LISTS: &str = "Ask again with more `top` (at most 200) or `frames` (at most 100), or with one `device`; `holders` and `leaks` can list all rows with `first`.";
const MORE_FRAMES: &str = "Ask again with more `frames` (at most 100), or with one `device`.";
const MORE_FROM: &str = "Ask again with more `top` (at most 200) or `frames` (at most 100), or with `first`, the index of the first row.";

impl Desk {
    /// Answers a call of a tool.
    ///
    /// # Errors
    /// One line: what is wrong, where, and what to do.
    pub(super) fn ask(&self, tool: Tool, arguments: JsonObject, work: &Work) -> anyhow::Result<Bounded> {
        match tool {
            Tool::Open => self.open(read(arguments)?, work),
            Tool::Summary => self.summary(read(arguments)?, work),
            Tool::Holders => self.holders(read(arguments)?, work),
            Tool::At => self.at(read(arguments)?, work),
            Tool::Diff => self.diff(read(arguments)?, work),
            Tool::Replay => self.replay(read(arguments)?, work),
            Tool::Leaks => self.leaks(read(arguments)?, work),
            Tool::Check => self.check(read(arguments)?, work),
            Tool::Ask => self.ask_page(read(arguments)?, work),
        }
    }

    fn open(&self, (asked, _): (File, Nothing), work: &Work) -> anyhow::Result<Bounded> {
        let file = self.folders.open(&asked.path)?;
        let open = self.recordings.open(&asked.path, file, self.reading, work)?;
        let recording = open.session.recording();
        let answer = OpenAnswer {
            recording: &open.handle,
            facts: open.session.info(),
            notices: recording.notices.to_string().lines().map(str::to_owned).collect(),
        };
        // Not configurable: a recording has few devices.
        let how = "`summary` with a `device` describes one device.";
        bounded(&answer, Limits::new(Some(50), None)?, LeftOut::default(), how)
    }

    fn summary(&self, (asked, request): (One, ReportRequest), work: &Work) -> anyhow::Result<Bounded> {
        let limits = Limits::new(request.top, asked.frames)?;
        let open = self.recordings.get(&asked.recording)?;
        let request = ReportRequest { top: Some(limits.rows()), ..request };
        let mut report = open.session.report(&request, work.cancel()).map_err(open.about())?;
        let mut left_out = LeftOut::default();
        let mut findings = Vec::new();
        if let ReportAnswer::Interval(answers) = &report {
            for device in &answers.devices {
                left_out.rows("devices.groups", device.totals.groups.len().saturating_sub(limits.rows()));
            }
        }
        if let ReportAnswer::State(answers) = &mut report {
            if request.device.is_none() {
                let used = open.session.used_devices(None).map_err(open.about())?;
                let used: Vec<i64> = used.iter().map(|&at| open.session.number(at)).collect();
                answers.devices.retain(|device| used.contains(&device.device));
            }
            let holders = if answers.at.is_some() { "devices.at.holders" } else { "devices.holders_at_peak" };
            for device in &answers.devices {
                left_out.rows(holders, device.holders.len().saturating_sub(limits.rows()));
                left_out.rows("devices.churn", device.churn.len().saturating_sub(limits.rows()));
                let idle = device.idle.as_ref().map_or(0, |idle| idle.findings.len());
                left_out.rows("devices.idle.findings", idle.saturating_sub(limits.rows()));
                for oom in &device.ooms {
                    left_out.rows("devices.ooms.holders", oom.holders.len().saturating_sub(limits.rows()));
                }
                findings.extend(told(&open.session, device));
            }
        }
        let answer = report.json();
        let answer = Answer { recording: &open.handle, findings: Some(findings), answer };
        bounded(&answer, limits, left_out, MORE_OF_LISTS)
    }

    fn holders(&self, (asked, request): (Paged, HoldersRequest), work: &Work) -> anyhow::Result<Bounded> {
        let limits = Limits::new(request.top, asked.frames)?;
        let open = self.recordings.get(&asked.recording)?;
        let GroupsAnswer { device, event, by, holders } =
            open.session.holders(&request, work.cancel()).map_err(open.about())?;
        let first = asked.first.unwrap_or(0).min(holders.len());
        let shown = &holders[first..];
        let mut left_out = LeftOut::default();
        left_out.rows("holders", shown.len().saturating_sub(limits.rows()));
        let answer = HoldersAnswer {
            recording: &open.handle,
            device,
            event,
            by: by.name(),
            bytes: holders.iter().map(|holder| holder.bytes).sum(),
            groups: holders.len(),
            first,
            holders: HoldersJson::new(open.session.names(), shown, Some(limits.rows())),
        };
        bounded(&answer, limits, left_out, MORE_FROM)
    }

    fn at(&self, (asked, request): (One, StateRequest), work: &Work) -> anyhow::Result<Bounded> {
        let limits = Limits::new(request.top, asked.frames)?;
        let open = self.recordings.get(&asked.recording)?;
        let state = open.session.state_after(&request, work.cancel()).map_err(open.about())?;
        let names = open.session.names();
        let place = state.event.stack.map_or(HolderKey::NoStack, HolderKey::Stack);
        let mut left_out = LeftOut::default();
        let mut held = |list, holders: &[Holder]| {
            left_out.rows(list, holders.len().saturating_sub(limits.rows()));
            HoldersJson::new(names, holders, Some(limits.rows()))
        };
        let answer = AtAnswer {
            recording: &open.handle,
            device: state.history.device().device,
            events: state.history.device().events.len(),
            event: state.index,
            action: state.event.action.name(),
            event_bytes: state.event.size,
            event_address: state.event.address_or_free,
            event_key: names.key(&place).into(),
            time_us: state.event.time_us,
            requested_bytes: state.counters.requested,
            allocated_bytes: state.counters.allocated,
            active_bytes: state.counters.active,
            reserved_bytes: state.counters.reserved,
            live_allocations: state.live_allocations,
            free_blocks: state.free_blocks,
            largest_free_block_bytes: state.largest_free_block,
            holders: held("holders", &state.holders),
            pools: held("pools", &state.pools),
            streams: held("streams", &state.streams),
        };
        bounded(&answer, limits, left_out, "`holders` with the same `at` can list all rows with `first`.")
    }

    fn diff(&self, (asked, request): (Two, DiffRequest), work: &Work) -> anyhow::Result<Bounded> {
        let limits = Limits::new(asked.top, asked.frames)?;
        let a = self.recordings.get(&asked.a)?;
        let b = self.recordings.get(&asked.b)?;
        let both = format!("{} and {}", a.handle, b.handle);
        let answers = a.session.diff(&b.session, &request, work.cancel());
        let answers = answers.map_err(|error| anyhow!(error.about(&both)))?;
        let answer = DiffAnswer { a: &a.handle, b: &b.handle, answer: DiffJson::new(&answers) };
        bounded(&answer, limits, LeftOut::default(), MORE)
    }

    fn replay(&self, (asked, mut request): (Limited, ReplayRequest), work: &Work) -> anyhow::Result<Bounded> {
        let limits = Limits::new(asked.top, asked.frames)?;
        let open = self.recordings.get(&asked.recording)?;
        // One device, because a replay can take minutes.
        let position = open.session.device(request.device).map_err(open.about())?;
        request.device = Some(open.session.number(position));
        let answers = open.session.replay(&request, work.cancel(), &|| work.step()).map_err(open.about())?;
        let findings = answers.devices.iter().flat_map(|replayed| {
            let size = replay_sentences::device_size(replayed, &ADVICE);
            [size]
                .into_iter()
                .chain(replay_sentences::floors(replayed))
                .chain(replay_sentences::plan(replayed))
        });
        let findings = Some(findings.collect());
        let answer = Answer { recording: &open.handle, findings, answer: ReplayJson::new(&answers) };
        bounded(&answer, limits, LeftOut::default(), MORE)
    }

    fn leaks(&self, (asked, request): (Paged, LeaksRequest), work: &Work) -> anyhow::Result<Bounded> {
        let limits = Limits::new(request.top, asked.frames)?;
        let open = self.recordings.get(&asked.recording)?;
        let (device, leaks) = open.session.leaks(&request, work.cancel()).map_err(open.about())?;
        let first = asked.first.unwrap_or(0).min(leaks.len());
        let shown = &leaks[first..];
        let mut left_out = LeftOut::default();
        left_out.rows("leaks", shown.len().saturating_sub(limits.rows()));
        let answer = LeaksAnswer {
            recording: &open.handle,
            device,
            suspects: leaks.len(),
            first,
            leaks: LeaksJson::new(open.session.names(), shown, Some(limits.rows())),
        };
        bounded(&answer, limits, left_out, MORE_FROM)
    }

    fn check(&self, (asked, request): (Checked, CheckRequest), work: &Work) -> anyhow::Result<Bounded> {
        let limits = Limits::new(None, asked.frames)?;
        let open = self.recordings.get(&asked.recording)?;
        let baseline = asked.baseline.as_deref().map(|handle| self.recordings.get(handle)).transpose()?;
        let baseline = baseline.as_ref().map(|open| &*open.session);
        let answers = open.session.check(&request, baseline, work.cancel()).map_err(open.about())?;
        let answer = Answer { recording: &open.handle, findings: None, answer: CheckJson::new(&answers) };
        bounded(&answer, limits, LeftOut::default(), MORE_FRAMES)
    }

    /// Answers a question of the page.
    fn ask_page(&self, (asked, ask): (Asked, Ask), work: &Work) -> anyhow::Result<Bounded> {
        let limits = Limits::new(asked.top, None)?;
        let question = ask.question()?;
        let open = self.recordings.get(&asked.recording)?;
        let other = asked.other.as_deref().map(|handle| self.recordings.get(handle)).transpose()?;
        let prepared = open.prepared(work).map_err(open.about())?;
        let other = other.as_ref().map(|other| other.prepared(work).map_err(other.about())).transpose()?;
        let position = open.session.used_position(asked.device).map_err(open.about())?;
        let value = question.json(prepared, position, other, work.cancel()).map_err(open.about())?;
        let answer = PageAnswer { recording: &open.handle, answer: value };
        bounded(
            &answer,
            limits,
            LeftOut::default(),
            "Ask about a smaller part, or with more `top` (at most 200).",
        )
    }
}

/// The findings about a device, in sentences.
fn told(session: &Session, device: &Summary) -> Vec<String> {
    let [allocated, reserved] = [device.peaks.allocated, device.peaks.reserved].map(|peak| bytes(peak.bytes));
    let name = session.names().device(device.device);
    let mut told = vec![format!("{name}: peaks of {allocated} allocated, {reserved} reserved.")];
    for oom in device.ooms.iter().take(TOLD_OOMS) {
        let (names, conf) = (session.names(), out_of_memory::recorded_conf(session.trace()));
        let verdict = out_of_memory::oom_verdict(&names, conf, oom);
        let cause = out_of_memory::oom_cause(&names, conf, oom);
        told.push(format!("{name}, event {}: {verdict} {cause}", oom.event));
    }
    told.extend(out_of_memory::oom_advice(&session.names(), device, &ADVICE));
    for finding in device.findings.iter().take(TOLD_FINDINGS) {
        let FindingText { title, evidence, action } = FindingText::of(&session.names(), device, finding);
        let (bytes, certainty) = (bytes(finding.bytes()), finding.certainty().name());
        told.push(format!("{name}: {title}, {bytes} ({certainty}). {} {action}", evidence.join(" ")));
    }
    if let Some(leak) = device.leaks.first() {
        let (suspects, kept) = (counted(device.leaks.len() as u64, "line"), bytes(leak.kept_bytes));
        let line = session.names().frame(leak.line);
        told.push(format!("{name}: {suspects} suspected of a leak; {line} retains {kept}."));
    }
    if let Some(estimates) = device.estimates.as_ref().filter(|of| of.available.is_some()) {
        let names = session.names();
        for estimate in estimates.estimates.iter().take(2) {
            let (change, of) = (estimates::name(&names, estimate), estimates::told(estimates, estimate));
            let peak = bytes(estimate.peak);
            told.push(format!("{name}: estimated peak with {change}: {peak}; {of}."));
        }
    }
    if let Some((idle, first)) = device.idle.as_ref().and_then(|idle| Some((idle, idle.findings.first()?))) {
        let names = session.names();
        let line = idle::idle_line(&names, first);
        let text = idle::idle_finding(&names, idle, first);
        told.push(format!("{name}: idle memory of {line}: {} {text}.", bytes(first.bytes)));
    }
    told
}

/// The JSON of a command for one recording.
#[derive(Serialize)]
struct Answer<'a, T> {
    recording: &'a str,
    /// The most important findings, in sentences; absent for a check, whose verdicts are sentences.
    #[serde(skip_serializing_if = "Option::is_none")]
    findings: Option<Vec<String>>,
    #[serde(flatten)]
    answer: T,
}

#[derive(Serialize)]
struct PageAnswer<'a> {
    recording: &'a str,
    answer: serde_json::Value,
}

#[derive(Serialize)]
struct OpenAnswer<'a> {
    recording: &'a str,
    #[serde(flatten)]
    facts: InfoJson,
    notices: Vec<String>,
}

#[derive(Serialize)]
struct DiffAnswer<'a> {
    a: &'a str,
    b: &'a str,
    #[serde(flatten)]
    answer: DiffJson,
}

#[derive(Serialize)]
struct HoldersAnswer<'a> {
    recording: &'a str,
    device: i64,
    event: Option<usize>,
    by: &'a str,
    /// Total of all groups.
    bytes: u64,
    groups: usize,
    first: usize,
    holders: HoldersJson,
}

#[derive(Serialize)]
struct LeaksAnswer<'a> {
    recording: &'a str,
    device: i64,
    suspects: usize,
    first: usize,
    leaks: LeaksJson,
}

#[derive(Serialize)]
struct AtAnswer<'a> {
    recording: &'a str,
    device: i64,
    events: usize,
    event: usize,
    action: &'static str,
    event_bytes: u64,
    event_address: u64,
    event_key: String,
    time_us: Option<i64>,
    requested_bytes: u64,
    allocated_bytes: u64,
    active_bytes: u64,
    reserved_bytes: u64,
    live_allocations: usize,
    free_blocks: usize,
    largest_free_block_bytes: Option<u64>,
    holders: HoldersJson,
    pools: HoldersJson,
    streams: HoldersJson,
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::super::bounded::LARGEST;
    use super::*;

    const TOOLS: [Tool; 9] = Tool::ALL;

    /// Opens `oom.pickle` as r1 and `leak.pickle` as r2.
    fn desk() -> Desk {
        let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        let desk = Desk {
            folders: Folders::new(&[examples]).unwrap(),
            recordings: Recordings::new(1 << 30),
            reading: ReadOptions::default(),
        };
        for path in ["oom.pickle", "leak.pickle"] {
            desk.ask(Tool::Open, object(&json!({ "path": path })), &Work::default()).unwrap();
        }
        desk
    }

    fn object(value: &Value) -> JsonObject {
        value.as_object().unwrap().clone()
    }

    fn refused(desk: &Desk, tool: Tool, arguments: &Value) -> String {
        let refused = desk.ask(tool, object(arguments), &Work::default());
        format!("{:#}", refused.map(|answer| answer.text).unwrap_err())
    }

    #[test]
    fn invalid_arguments_are_refused_in_one_line() {
        let desk = desk();
        let long = "x".repeat(1 << 20);
        for (tool, arguments, why) in [
            (Tool::Open, json!({}), "arguments: missing field `path`"),
            (Tool::Open, json!({"path": 7}), "arguments: path: invalid type: integer `7`, expected a string"),
            (
                Tool::Open,
                json!({"path": "oom.pickle", "write": true}),
                "arguments: write: unknown field `write`",
            ),
            (Tool::Open, json!({"path": long}), "no such file in"),
            (Tool::Summary, json!({"recording": "r9"}), "r9: is not an open recording (open: "),
            (Tool::Summary, json!({"recording": long}), "is not an open recording"),
            (Tool::Summary, json!({"recording": "r1", "device": -1}), "r1: has no device -1; it has 0"),
            (
                Tool::Summary,
                json!({"recording": "r1", "device": 1e300}),
                "device: invalid type: floating point",
            ),
            (Tool::Summary, json!({"recording": "r1", "rows": 201}), "top: 201 is not from 1 to 200"),
            (Tool::Summary, json!({"recording": "r1", "frames": 0}), "frames: 0 is not from 1 to 100"),
            (Tool::Summary, json!({"recording": "r1", "rows": -1}), "rows: invalid value: integer `-1`"),
            (Tool::Summary, json!({"recording": "r1", "rows": long}), "rows: invalid type: string"),
            (
                Tool::Holders,
                json!({"recording": "r1", "by": "colour"}),
                "by: cannot group by \"colour\"; use one of",
            ),
            (
                Tool::Holders,
                json!({"recording": "r1", "filter": "a(\nb"}),
                "filter: invalid regular expression: unclosed",
            ),
            (Tool::Holders, json!({"recording": "r1", "filter": long}), "filter: 1048576 bytes exceed"),
            (
                Tool::Holders,
                json!({"recording": "r1", "filter": "(\\w{1000}){1000}"}),
                "filter: invalid regular expression: ",
            ),
            (
                Tool::Holders,
                json!({"recording": "r1", "event": u64::MAX}),
                "r1: has no event 18446744073709551615",
            ),
            (
                Tool::At,
                json!({"recording": "r1", "event": 2061}),
                "events are numbered from 0 and there are 2061",
            ),
            (Tool::Diff, json!({"a": "r1", "b": "r2", "device": 3}), "has no device 3; it has 0"),
            (Tool::Diff, json!({"a": "r1", "b": "r1", "at_step": 4}), "no steps were found on device 0"),
            (Tool::Replay, json!({"recording": "r1", "capacity": "24X"}), "capacity: a size is a number"),
            (
                Tool::Replay,
                json!({"recording": "r1", "capacity": -1}),
                "expected a whole number from 0, or a text",
            ),
            (Tool::Replay, json!({"recording": "r1", "capacity": u64::MAX}), "capacity: more than 1 PiB"),
            (
                Tool::Replay,
                json!({"recording": "r1", "capacity": [1]}),
                "expected a whole number from 0, or a text",
            ),
            (Tool::Replay, json!({"recording": "r1", "capacity": 0}), "must be more than 0 bytes"),
            (Tool::Replay, json!({"recording": "r1", "capacity": 1, "overhead": 1}), "leaves nothing"),
            (
                Tool::Replay,
                json!({"recording": "r1", "overhead": 1}),
                "`overhead` of `replay` is part of a device",
            ),
            (Tool::Replay, json!({"recording": "r1", "gpu": "t4", "capacity": 1}), "give one device size"),
            (
                Tool::Replay,
                json!({"recording": "r1", "gpu": "t4", "find_capacity": true}),
                "find_capacity searches for",
            ),
            (Tool::Replay, json!({"recording": "r1", "gpu": "nothing"}), "gpu: unknown GPU; use one of "),
            (
                Tool::Replay,
                json!({"recording": "r1", "conf": "nothing:1"}),
                "conf: `nothing:1` has an unrecognized key",
            ),
            (Tool::Replay, json!({"recording": "r1", "torch": "new"}), "torch: a release is two numbers"),
            (Tool::Check, json!({"recording": "r1"}), "nothing to check: give max_peak, max_reserved"),
            (
                Tool::Check,
                json!({"recording": "r1", "max_category": ["x=1"]}),
                "unknown category; use one of",
            ),
        ] {
            let said = refused(&desk, tool, &arguments);
            assert!(said.contains(why) && !said.contains('\n') && said.len() < 2000, "{tool:?}: {said}");
        }
    }

    #[test]
    fn rows_are_gone_through_one_after_the_other() {
        let desk = desk();
        let ask = |first: usize| {
            let arguments =
                json!({"recording": "r1", "by": "stack", "event": 2000, "rows": 1, "first": first});
            desk.ask(Tool::Holders, object(&arguments), &Work::default()).unwrap().value
        };
        let all = ask(0);
        let groups = all["groups"].as_u64().unwrap();
        let rows = (0..groups).map(|first| ask(first as usize)["holders"][0]["bytes"].as_u64().unwrap());
        assert_eq!(rows.sum::<u64>(), all["bytes"].as_u64().unwrap());
        assert_eq!(all["left_out"]["rows"].get("holders").and_then(Value::as_u64).unwrap_or(0), groups - 1);
        assert_eq!(ask(1_000_000)["holders"], json!([]));
    }

    /// Damaged, hostile and unusual recordings: every recording that opens can be queried with all tools.
    #[test]
    fn every_tool_answers_about_every_recording() {
        let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/read");
        let desk = Desk { folders: Folders::new(std::slice::from_ref(&corpus)).unwrap(), ..desk() };
        let mut answered = 0;
        for file in std::fs::read_dir(corpus).unwrap() {
            let path = file.unwrap().path();
            let ask = |tool, arguments: Value| desk.ask(tool, object(&arguments), &Work::default());
            let Ok(open) = ask(Tool::Open, json!({ "path": path })) else { continue };
            let recording = &open.value["recording"];
            for (tool, arguments) in [
                (Tool::Summary, json!({"recording": recording, "rows": 200, "frames": 100})),
                (Tool::Holders, json!({"recording": recording, "device": 0, "by": "stack"})),
                (Tool::Holders, json!({"recording": recording, "device": 0, "by": "layer", "filter": "."})),
                (Tool::At, json!({"recording": recording, "device": 0, "event": 0})),
                (Tool::Leaks, json!({"recording": recording, "device": 0})),
                (Tool::Replay, json!({"recording": recording, "device": 0})),
                (Tool::Diff, json!({"a": recording, "b": recording})),
                (Tool::Check, json!({"recording": recording, "max_peak": "1GiB", "no_leaks": true})),
            ] {
                match ask(tool, arguments) {
                    Ok(answer) => {
                        answered += 1;
                        assert!(answer.text.len() <= LARGEST && !answer.text.contains('\n'));
                    }
                    Err(e) => assert!(!format!("{e:#}").contains('\n'), "{}: {e:#}", path.display()),
                }
            }
        }
        assert!(answered > 30, "{answered}");
    }

    /// Values of every kind, including valid ones.
    fn value() -> impl Strategy<Value = Value> {
        const WORDS: [&str; 18] = [
            "r1",
            "r2",
            "oom.pickle",
            "..",
            "/dev/zero",
            "line",
            "stack",
            "pool",
            "category",
            "layer",
            "t4",
            "8GiB",
            "2.6",
            "expandable_segments:True",
            "max_split_size_mb:20",
            ".*",
            "(",
            "",
        ];
        let plain = prop_oneof![
            4 => proptest::sample::select(&WORDS[..]).prop_map(Value::from),
            2 => (0_u64..3000).prop_map(Value::from),
            1 => any::<i64>().prop_map(Value::from),
            1 => any::<u64>().prop_map(Value::from),
            1 => any::<f64>().prop_map(Value::from),
            1 => any::<bool>().prop_map(Value::from),
            1 => Just(Value::Null),
            1 => any::<String>().prop_map(Value::from),
        ];
        plain.prop_recursive(3, 8, 3, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::hash_map(any::<String>(), inner, 0..3)
                    .prop_map(|map| map.into_iter().collect::<Map<_, _>>().into()),
            ]
        })
    }

    /// A valid value for the argument with this name; any value for unknown names.
    fn meant(name: &str) -> BoxedStrategy<Value> {
        let one_of = |words: &'static [&str]| proptest::sample::select(words).prop_map(Value::from).boxed();
        match name {
            "path" => one_of(&["oom.pickle", "leak.pickle", "training.pickle.zst"]),
            "recording" | "a" | "b" | "baseline" => one_of(&["r1", "r2"]),
            "by" => one_of(&[
                "line", "function", "file", "module", "stack", "pool", "stream", "category", "layer",
            ]),
            "filter" => one_of(&["py", "^w.*leak$", "[0-9]{2,}"]),
            "device" => Just(json!(0)).boxed(),
            "event" | "at" | "at_step" | "first" => (0_u64..3000).prop_map(Value::from).boxed(),
            "rows" | "top" | "frames" => (1_u64..=100).prop_map(Value::from).boxed(),
            "conf" => one_of(&["expandable_segments:True", "max_split_size_mb:20", ""]),
            "capacity" | "overhead" | "promised" | "max_peak" | "max_reserved" | "max_growth" => {
                one_of(&["1MiB", "8GiB", "24000000000"])
            }
            "gpu" => one_of(&["t4", "a100-40gb"]),
            "torch" => one_of(&["2.6", "2.11"]),
            _ => value().boxed(),
        }
    }

    /// A tool with some of its arguments, most of them valid.
    fn question() -> impl Strategy<Value = (Tool, JsonObject)> {
        let needed = |name: &str| ["recording", "a", "b", "path"].contains(&name);
        let argument = move |name: String| {
            let given = if needed(&name) { 0.95 } else { 0.25 };
            let value = prop_oneof![6 => meant(&name), 1 => value()];
            (Just(name), proptest::option::weighted(given, value))
        };
        proptest::sample::select(&TOOLS[..]).prop_flat_map(move |tool| {
            let described = super::super::tools::all().into_iter().find(|known| known.name == tool.name());
            let known = described.unwrap().input_schema["properties"].as_object().unwrap().clone();
            let names =
                known.keys().cloned().chain(["other".to_owned()].into_iter().filter(|_| tool == Tool::Open));
            let arguments = names.map(argument).collect::<Vec<_>>();
            let given = |(name, value): (String, Option<Value>)| Some((name, value?));
            (Just(tool), arguments.prop_map(move |all| all.into_iter().filter_map(given).collect()))
        })
    }

    #[test]
    fn random_arguments_never_panic_and_answers_stay_small() {
        let desk = desk();
        let answered = std::cell::Cell::new(0);
        proptest!(|((tool, arguments) in question())| {
            match desk.ask(tool, arguments, &Work::default()) {
                Ok(answer) => {
                    answered.set(answered.get() + 1);
                    prop_assert!(answer.text.len() <= LARGEST && answer.value.is_object());
                }
                Err(e) => prop_assert!(!format!("{e:#}").contains('\n'), "{e:#}"),
            }
        });
        // Many calls pass validation.
        assert!(answered.get() > 50, "{answered:?}");
    }
}
