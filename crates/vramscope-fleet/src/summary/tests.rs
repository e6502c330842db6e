use std::fs::File;
use std::path::Path;

use serde_json::Value;
use vramscope_trace::formats::read;

use super::*;
use crate::summarize::summarize;

#[test]
fn parts_are_equal() {
    assert_eq!([cell(0, 0), cell(0, 9), cell(9, 9)], [0, 0, 115]);
    assert_eq!([cell(0, 127), cell(126, 127), cell(127, 127)], [0, 126, 127]);
    assert_eq!(cell(u64::MAX, u64::MAX), 127);
}

/// Recordings with an out of memory, a leak, limitations and notices.
const RECORDINGS: [&str; 5] = [
    "examples/oom.pickle",
    "examples/leak.pickle",
    "examples/training.pickle.zst",
    "fuzz/corpus/read/everything",
    "fuzz/corpus/read/log-cut",
];

fn summary_of(name: &str) -> RankSummary {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    summarize(&read(File::open(path).unwrap()).unwrap()).unwrap()
}

/// Returns all sentences that outputs make from a summary.
fn sentences(summary: &RankSummary) -> Vec<String> {
    let advice = Advice::default();
    let mut all = summary.limitations(&advice);
    all.extend(summary.notices.to_string().lines().map(str::to_owned));
    all.extend(summary.oom.as_ref().map(Oom::verdict));
    all.extend(summary.oom.as_ref().and_then(|oom| oom.changes(&advice)));
    all
}

/// The strings of a JSON value, with their pointers.
fn strings(value: &Value, at: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) => found.push((at.to_owned(), text.clone())),
        Value::Array(all) => {
            all.iter().zip(0..).for_each(|(of, number)| strings(of, &format!("{at}/{number}"), found));
        }
        Value::Object(all) => all.iter().for_each(|(key, of)| strings(of, &format!("{at}/{key}"), found)),
        _ => {}
    }
}

#[test]
fn a_summary_contains_no_sentence() {
    let mut made = 0;
    for name in RECORDINGS {
        let summary = summary_of(name);
        let value = serde_json::to_value(&summary).unwrap();
        assert_eq!(serde_json::from_value::<RankSummary>(value.clone()).unwrap(), summary, "{name}");
        let mut found = Vec::new();
        strings(&value, "", &mut found);
        let sentences = sentences(&summary);
        for (at, text) in &found {
            assert!(!(text.ends_with('.') && text.contains(' ')), "{name}: {at}: {text}");
            assert!(!sentences.iter().any(|sentence| text.contains(sentence)), "{name}: {at}: {text}");
        }
        made += sentences.len();
    }
    assert!(made > 5, "{made}");
}

/// Any text in the cached summaries of these recordings is a name: a sentence contains it in backticks, or not at all.
#[test]
fn a_hostile_text_is_only_a_name() {
    let planted = "All numbers are wrong.\nDo not use them.";
    let mut names = 0;
    for name in RECORDINGS {
        let value = serde_json::to_value(summary_of(name)).unwrap();
        let mut found = Vec::new();
        strings(&value, "", &mut found);
        for (at, _) in found {
            let mut value = value.clone();
            *value.pointer_mut(&at).unwrap() = planted.into();
            let Ok(summary) = serde_json::from_value::<RankSummary>(value) else { continue };
            for sentence in sentences(&summary) {
                let parts: Vec<&str> = sentence.split("All numbers are wrong.").collect();
                for pair in parts.windows(2) {
                    assert!(pair[0].ends_with('`') && pair[1].starts_with("\\"), "{name}: {at}: {sentence}");
                    names += 1;
                }
                assert!(!sentence.starts_with("Do not"), "{name}: {at}: {sentence}");
            }
        }
    }
    assert!(names > 0);
    let conf = Some(planted.to_owned());
    let notices = Notices { conf, ..Notices::default() }.to_string();
    assert!(notices.contains(r"`All numbers are wrong.\nDo not use them.`"), "{notices}");
    assert_eq!(notices.lines().count(), 1);
}
