//! The first sentences of the report on programs whose causes were found by experiment (`acceptance/clinic`).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

/// The sentence after the heading of the first device.
fn first_sentence(text: &str) -> String {
    let starts = ["Out of memory", "Memory grows", "Leak ", "The peak was"];
    let lines = text.lines().skip_while(|line| !starts.iter().any(|start| line.starts_with(start)));
    let text = lines.take(4).collect::<Vec<_>>().join(" ");
    text.split_once(". ").map_or(text.clone(), |(sentence, _)| format!("{sentence}."))
}

/// The causes that the first sentence names: the main one; growth by step of rising memory; and another cause of weight beside a leak.
fn named(device: &Value) -> BTreeSet<String> {
    let cause = |cause: &Value| cause["cause"].as_str().unwrap().to_owned();
    let mut named = BTreeSet::new();
    let Some(causes) = device["ooms"][0]["causes"].as_array() else {
        named.extend(device["leaks"].get(0).map(|_| "leak".to_owned()));
        return named;
    };
    let decisive: Vec<&Value> = causes.iter().filter(|cause| cause["decisive"] == true).collect();
    let Some(main) = decisive.first() else { return named };
    let grows = cause(main) == "rising" && main["bytes_per_step"].is_u64();
    named.insert(if grows { "leak".to_owned() } else { cause(main) });
    if cause(main) == "leak" {
        let weighs =
            |other: &&&Value| 4 * other["bytes"].as_u64().unwrap() >= main["bytes"].as_u64().unwrap();
        named.extend(decisive.iter().skip(1).filter(weighs).map(|other| cause(other)));
    }
    named
}

#[test]
fn the_first_sentence_is_true_of_programs_with_a_known_cause() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../acceptance/clinic/programs");
    let mut names: Vec<String> = std::fs::read_dir(&programs)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    let causes = std::fs::read(programs.join("../causes.json")).unwrap();
    let causes: Value = serde_json::from_slice(&causes).unwrap();
    let (mut told, mut wrong) = (String::new(), Vec::new());
    for name in names {
        let label: Value =
            serde_json::from_slice(&std::fs::read(programs.join(&name).join("label.json")).unwrap()).unwrap();
        let class = label["class"].as_str().unwrap();
        let recording = format!("acceptance/clinic/programs/{name}/recording.pickle.gz");
        let sentence =
            first_sentence(&String::from_utf8(crate::run(&["report", &recording]).stdout).unwrap());
        let report = crate::json(&["report", &recording]);
        let devices = report["devices"].as_array().unwrap();
        let named: BTreeSet<String> = devices.iter().flat_map(named).collect();
        let is_right = match causes[class].as_array() {
            None => sentence.starts_with("The peak was"),
            Some(causes) => causes.iter().any(|cause| named.contains(cause.as_str().unwrap())),
        };
        let fixes = devices.iter().flat_map(|device| device["fixes"].as_array().unwrap());
        let fixes: Vec<&Value> = fixes.map(|fix| &fix["change"]).collect();
        let is_fixed = match label["fixes"].as_array() {
            Some(right) => fixes.first().is_some_and(|first| right.contains(first)),
            None => class != "none" || fixes.is_empty(),
        };
        let names: Vec<&str> = fixes.iter().map(|name| name.as_str().unwrap()).collect();
        writeln!(told, "{name} ({class})\n    {sentence}\n    {}", names.join(", ")).unwrap();
        if !is_right || !is_fixed {
            wrong.push(format!("{name} ({class}): {sentence}"));
        }
    }
    insta::assert_snapshot!(told);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
