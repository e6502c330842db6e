//! Every question: those of the command, every output format, and those of the page.

use std::sync::Arc;

use serde_json::{Value, json};
use vramscope::analysis::{Cancel, Frames, RecordingFacts};
use vramscope::export::{ExportFormat, ExportOptions, Source, Table};
use vramscope::prelude::*;
use vramscope::report::write_json;
use vramscope::session::OpenRecording;
use vramscope::session::{ADVICE, CheckRequest, DiffRequest, ReplayRequest, ReportRequest, Session};

/// A recording, and one of a changed program.
pub(crate) struct Subject {
    session: Session,
    other: Session,
    page: OpenRecording,
    other_page: OpenRecording,
    events: usize,
}

/// A question by name. It returns the bytes of its answer.
pub(crate) struct Question {
    pub(crate) name: String,
    pub(crate) ask: Box<dyn Fn(&Subject) -> usize>,
}

impl Subject {
    pub(crate) fn of(snapshot: &Value) -> Self {
        let read = |snapshot: &Value| formats::read(snapshot.to_string().as_bytes()).unwrap();
        let mut changed = snapshot.clone();
        change(&mut changed);
        let (recording, other) = (read(snapshot), read(&changed));
        let open = |recording: &Recording| {
            OpenRecording::of("run".to_owned(), None, recording.clone(), &Cancel::default()).unwrap()
        };
        Self {
            events: recording.trace.devices[0].events.len(),
            page: open(&recording),
            other_page: open(&other),
            session: Session::new("run".to_owned(), recording, ADVICE),
            other: Session::new("other".to_owned(), other, ADVICE),
        }
    }
}

/// Moves each file and its lines.
fn change(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(change),
        Value::Object(fields) => {
            if let Some(Value::String(file)) = fields.get_mut("filename") {
                *file = file.replacen("/home/", "/srv/", 1);
            }
            if let Some(line) = fields.get_mut("line") {
                *line = json!(line.as_u64().unwrap() + 1);
            }
            fields.values_mut().for_each(change);
        }
        _ => {}
    }
}

const TEXT: TextOptions = TextOptions { width: 100, top: 10, full_stacks: false };

fn request<T: serde::de::DeserializeOwned>(request: Value) -> T {
    serde_json::from_value(request).unwrap()
}

fn json_of(answer: &impl serde::Serialize) -> usize {
    let mut out = Vec::new();
    write_json(&mut out, answer).unwrap();
    out.len()
}

fn info(of: &Subject) -> usize {
    let recording = of.session.recording();
    vramscope::report::info("run", recording, &RecordingFacts::of(&recording.trace)).len()
        + json_of(&of.session.info())
}

fn report(of: &Subject) -> usize {
    let answer = of.session.report(&ReportRequest::default(), &Cancel::default()).unwrap();
    answer.text(TEXT.width, TEXT.full_stacks).len() + json_of(&answer.json())
}

fn interval(of: &Subject) -> usize {
    let asked: ReportRequest = request(json!({"at": format!("0..{}", of.events - 1)}));
    of.session.report(&asked, &Cancel::default()).unwrap().text(TEXT.width, TEXT.full_stacks).len()
}

fn replay(of: &Subject, asked: Value) -> usize {
    let answers = of.session.replay(&request::<ReplayRequest>(asked), &Cancel::default(), &|| {}).unwrap();
    vramscope::report::replay(&answers, TEXT).len()
}

fn check(of: &Subject) -> usize {
    let asked: CheckRequest = request(json!({"max_peak": 1 << 20, "no_leaks": true, "no_oom": true}));
    let answers = of.session.check(&asked, Some(&of.other), &Cancel::default()).unwrap();
    vramscope::report::check(&answers, TEXT).len()
}

fn diff(of: &Subject) -> usize {
    let answers = of.session.diff(&of.other, &DiffRequest::default(), &Cancel::default()).unwrap();
    vramscope::report::diff(&answers, TEXT).len() + json_of(&vramscope::report::DiffJson::new(&answers))
}

fn fleet(of: &Subject) -> usize {
    json_of(&vramscope::fleet::summarize(of.session.recording()).unwrap())
}

fn export(of: &Subject, format: ExportFormat, table: Table) -> usize {
    let trace: &Arc<Trace> = of.session.trace();
    let source = Source { trace, frames: &Frames::of(trace), devices: vec![0] };
    let mut out = Vec::new();
    let options = ExportOptions { table, ..ExportOptions::default() };
    vramscope::export::write(&source, format, &options, &mut out).map_or(0, |_| out.len())
}

/// The questions of the page about a device with this number of events.
fn of_page(events: usize) -> Vec<Value> {
    let frame = |text: &str, is_pattern: bool| json!({"is": "frame", "field": "any", "sought": {"text": text, "is_pattern": is_pattern}});
    let search = json!({"is": "any", "of": [frame("train", false), frame("x+y|t.*n", true)]});
    let window = json!({"axis": "events", "from": 0, "to": events, "width": 800, "stacked": "allocated", "height": 400,
        "low": 0, "high": null, "fit_reserved": true, "only": search, "search": search, "bytes": 1024, "lanes": []});
    let live = |by: &str| {
        json!({"question": "live", "moment": events, "by": by, "calls": "all", "inverted": by == "line",
        "before": 0, "search": search, "only_found": false, "transforms": [{"does": "collapse_libraries", "expanded": []}]})
    };
    let spans = json!({"from": 0, "to": events, "by": "stack", "search": search, "before": [0, events], "reserved": false,
        "most": 50, "moment": events, "pool": null, "id": 0, "address": 0x7f00_0000_0000_u64, "first": 0, "count": 1000,
        "other_file": 1, "other_device": 0, "other_moment": events, "other_from": 0, "other_to": events, "frame": null,
        "only": null, "stacked": "allocated", "among": {"are": "all"}, "sort": "line", "descending": true, "find": 0,
        "marks": ["layer:*=checkpoint"], "conf": "expandable_segments:True"});
    let asked = |question: &str, of: &Value| {
        let mut asked = of.clone();
        asked["question"] = json!(question);
        asked
    };
    let plain =
        ["names", "meaning", "markers", "regions", "operator_lanes", "segments", "report", "replay", "gpus"];
    let windows = ["picture", "bands", "specks"];
    let others = [
        "interval",
        "groups",
        "legend",
        "holders_of_both",
        "highest_of_both",
        "first_difference",
        "layout",
        "holes",
        "hole",
        "pool",
        "events",
        "allocation",
        "allocations",
        "source_lines",
        "place",
        "marked",
        "setting",
    ];
    plain
        .iter()
        .map(|question| json!({ "question": question }))
        .chain(windows.iter().map(|question| asked(question, &window)))
        .chain(others.iter().map(|question| asked(question, &spans)))
        .chain(["stack", "line", "module", "category", "layer", "step"].map(live))
        .chain([
            json!({"question": "search", "search": search}),
            json!({"question": "comparison", "other_file": 1, "other_device": 0}),
        ])
        .collect()
}

fn ask_page(of: &Subject, number: usize) -> usize {
    let question = of_page(of.events)[number].to_string();
    let question = vramscope::session::Question::of_json(question.as_bytes()).unwrap();
    // A place that the recording lacks is refused.
    question.answer(&of.page, 0, Some(&of.other_page), &Cancel::default()).map_or(0, |answer| answer.len())
}

/// All questions.
pub(crate) fn questions() -> Vec<Question> {
    let question = |name: String, ask: Box<dyn Fn(&Subject) -> usize>| Question { name, ask };
    let mut all = vec![
        question("info".into(), Box::new(info)),
        question("report".into(), Box::new(report)),
        question("report of an interval".into(), Box::new(interval)),
        question("replay".into(), Box::new(|of| replay(of, json!({})))),
        question("replay on a small device".into(), Box::new(|of| replay(of, json!({"capacity": 16 << 20})))),
        question(
            "replay of a setting".into(),
            Box::new(|of| replay(of, json!({"conf": "max_split_size_mb:32"}))),
        ),
        question("plan".into(), Box::new(|of| replay(of, json!({"plan": "auto"})))),
        question("check".into(), Box::new(check)),
        question("diff".into(), Box::new(diff)),
        question("fleet".into(), Box::new(fleet)),
    ];
    for format in ExportFormat::ALL {
        let ask = move |of: &Subject| export(of, format, Table::Events);
        all.push(question(format!("export {format:?}"), Box::new(ask)));
    }
    for table in Table::ALL {
        let ask = move |of: &Subject| export(of, ExportFormat::Csv, table);
        all.push(question(format!("export csv {table:?}"), Box::new(ask)));
    }
    for (number, asked) in of_page(1).iter().enumerate() {
        let name = format!("page: {} {}", asked["question"], asked["by"]);
        all.push(question(name, Box::new(move |of| ask_page(of, number))));
    }
    all
}
