//! Writes the JSON schemas of the outputs of `--json`, and the Python types of the answers, from the structs that are serialized.

// `phantom` is only on Unix.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};
use vramscope::fit::{FitJson, ListedGpu, RunJson};
use vramscope::fleet::FleetJson;
use vramscope::report::{CheckJson, DiffJson, InfoJson, IntervalJson, ReplayJson, ReportJson, SamplesJson};
use vramscope::session::Question;
use vramscope_testing::committed;

use crate::commands::dump::DumpJson;
use crate::commands::export::{ExportJson, dataset::DatasetJson};
use crate::commands::monitor::MonitorJson;
use crate::commands::split::SplitJson;
use crate::commands::top::once::TopJson;
use crate::commands::view::{AddressJson, PageJson};

type Object = Map<String, Value>;

fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().for_serialize().into_generator()
}

fn schema<T: JsonSchema>() -> Schema {
    generator().into_root_schema_for::<T>()
}

#[test]
fn every_question_is_in_the_book() {
    let schema = serde_json::to_value(schemars::schema_for!(Question)).unwrap();
    let book = std::fs::read_to_string("../../docs/mcp.md").unwrap();
    for question in schema["oneOf"].as_array().unwrap() {
        let name = question["properties"]["question"]["const"].as_str().unwrap();
        assert!(book.contains(&format!("| `{name}` |")), "docs/mcp.md does not have {name}");
    }
}

#[test]
fn the_schema_of_each_output_is_committed() {
    let schemas = [
        ("report", schema::<ReportJson>()),
        ("report-range", schema::<IntervalJson>()),
        ("report-samples", schema::<SamplesJson>()),
        ("check", schema::<CheckJson>()),
        ("diff", schema::<DiffJson>()),
        ("replay", schema::<ReplayJson>()),
        ("info", schema::<InfoJson>()),
        ("dump", schema::<DumpJson>()),
        ("export", schema::<ExportJson>()),
        ("split", schema::<SplitJson>()),
        ("export-dataset", schema::<DatasetJson>()),
        ("view", schema::<AddressJson>()),
        ("view-html", schema::<PageJson>()),
        ("phantom-run", schema::<RunJson>()),
        ("phantom-list", schema::<Vec<ListedGpu>>()),
        ("fit", schema::<FitJson>()),
        ("fleet", schema::<FleetJson<'_>>()),
        ("top", schema::<TopJson>()),
        ("monitor", schema::<MonitorJson>()),
        ("question", schemars::schema_for!(Question)),
    ];
    for (name, schema) in schemas {
        // The documentation of public structs says `None`.
        let text = serde_json::to_string_pretty(&schema).unwrap().replace("`None`", "null");
        committed(&format!("docs/schema/{name}.json"), &(text + "\n"));
    }
}

const HEAD: &str = r#""""Types of a recording's answers: dictionaries with the keys of the command's `--json`.

Keys that end in `_bytes` are in bytes; those in `_us` are microseconds, times since the Unix epoch. Event indices
start at 0. A stack is a list of frames, innermost first. docs/json.md describes every key.

Written by the tests of crates/vramscope-cli from the structs that are serialized:
`INSTA_UPDATE=always cargo test -p vramscope-cli schemas`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from typing_extensions import NotRequired
"#;

/// The types of pairs, one value for each of two recordings: the name in schemas, the name in Python, the docstring.
const PAIRS: [(&str, &str, &str); 8] = [
    ("Both_uint", "Numbers", NUMBERS),
    ("Both_uint64", "Numbers", NUMBERS),
    ("Both_Nullable_uint", "OptionalNumbers", OPTIONAL_NUMBERS),
    ("Both_Nullable_uint64", "OptionalNumbers", OPTIONAL_NUMBERS),
    (
        "Both_Nullable_DiffEvent",
        "DiffEvents",
        "An event of each of two recordings; None if a recording lacks it.",
    ),
    ("Both_string", "Files", "The files of two recordings."),
    ("Both_Array_of_int64", "Only", "The devices that only one of two recordings used."),
    (
        "Both_Array_of_DifferenceLeak",
        "DifferenceLeaks",
        "The lines whose allocations keep growing, for each of two recordings.",
    ),
];

const NUMBERS: &str = "One number for each of two recordings.";
const OPTIONAL_NUMBERS: &str = "One number for each of two recordings; None if unknown.";

#[test]
fn python_s_types_are_those_of_the_answers() {
    let mut all = generator();
    all.subschema_for::<ReportJson>();
    all.subschema_for::<IntervalJson>();
    all.subschema_for::<CheckJson>();
    all.subschema_for::<DiffJson>();
    all.subschema_for::<ReplayJson>();
    all.subschema_for::<InfoJson>();
    all.subschema_for::<RunJson>();
    all.subschema_for::<FitJson>();
    let types = all.take_definitions(true);
    let mut written: BTreeMap<String, String> = BTreeMap::new();
    for (name, schema) in &types {
        let name = python_name(name);
        let text = python_type(&name, schema.as_object().unwrap());
        if let Some(before) = written.insert(name.clone(), text.clone()) {
            assert_eq!(before, text, "two types named {name}");
        }
    }
    let mut part = |name: &str, of: &str, docs: &str, has: fn(&str) -> bool| {
        let keys = types[of]["properties"].as_object().unwrap().iter().filter(|(key, _)| has(key));
        let keys: Object = keys.map(|(key, schema)| (key.clone(), schema.clone())).collect();
        let required: Vec<Value> = keys.keys().cloned().map(Value::from).collect();
        let part = serde_json::json!({"description": docs, "properties": keys, "required": required});
        written.insert(name.to_owned(), python_type(name, part.as_object().unwrap()));
    };
    let peaks = "The peak of each kind of bytes, each at its own event, and the event of the allocated peak.";
    part("Peaks", "Device", peaks, |key| key.starts_with("peak_"));
    part("Outcome", "Replayed", "The result of replaying with one setting.", |key| key != "oom");
    let parts: Vec<String> = written.into_values().collect();
    committed("python/vramscope/answers.py", &format!("{HEAD}{}", parts.concat()));
}

fn python_name(schema_name: &str) -> String {
    let pair = PAIRS.iter().find(|(schema, ..)| *schema == schema_name);
    let name = pair.map_or(schema_name, |(_, python, _)| python);
    assert!(name.bytes().all(|b| b.is_ascii_alphanumeric()), "PAIRS has no name for {schema_name}");
    name.to_owned()
}

/// Declares a type.
fn python_type(name: &str, schema: &Object) -> String {
    if let Some(literals) = literals(schema) {
        let docs = description(schema).map(|docs| docstring("", &docs)).unwrap_or_default();
        return format!("\n\n{name} = Literal[{literals}]\n{docs}");
    }
    let pair = PAIRS.iter().find(|(_, python, _)| *python == name).map(|(.., docs)| (*docs).to_owned());
    let docs = pair.or_else(|| description(schema)).unwrap_or_else(|| panic!("{name} has no description"));
    let mut text = format!("\n\nclass {name}(TypedDict):\n{}\n", docstring("    ", &docs));
    for (key, (schema, is_required)) in fields(schema) {
        let of = python(&schema);
        let of = if is_required { of } else { format!("NotRequired[{of}]") };
        writeln!(text, "    {key}: {of}").unwrap();
        if let Some(docs) = description(&schema) {
            text.push_str(&docstring("    ", &docs));
        }
    }
    text
}

/// The keys of an object, in order, and whether each is always there. Alternatives of an untagged enum are merged.
fn fields(schema: &Object) -> Vec<(String, (Object, bool))> {
    let empty = Object::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let is_required = |schema: &Object, key: &str| {
        schema.get("required").and_then(Value::as_array).is_some_and(|all| all.iter().any(|k| k == key))
    };
    let mut found: Vec<(String, (Object, bool))> = properties
        .iter()
        .map(|(key, of)| {
            (key.clone(), (of.as_object().cloned().unwrap_or_default(), is_required(schema, key)))
        })
        .collect();
    for alternative in schema.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
        for (key, (of, _)) in fields(alternative.as_object().unwrap()) {
            match found.iter_mut().find(|(known, _)| *known == key) {
                // A key that is nullable in one alternative is nullable.
                Some((_, (before, _))) if python(before) != python(&of) && python(&of).contains("None") => {
                    *before = of;
                }
                Some(_) => {}
                None => found.push((key, (of, false))),
            }
        }
    }
    found
}

/// The values of an enum of texts.
fn literals(schema: &Object) -> Option<String> {
    let texts: Vec<&str> = match (schema.get("enum"), schema.get("oneOf")) {
        (Some(Value::Array(texts)), _) => texts.iter().map(Value::as_str).collect::<Option<_>>()?,
        (_, Some(Value::Array(all))) => all.iter().map(|of| of["const"].as_str()).collect::<Option<_>>()?,
        _ => return None,
    };
    Some(texts.iter().map(|text| format!("\"{text}\"")).collect::<Vec<_>>().join(", "))
}

/// The Python type of a value.
fn python(schema: &Object) -> String {
    if let Some(Value::String(to)) = schema.get("$ref") {
        return python_name(to.trim_start_matches("#/$defs/"));
    }
    if let Some(literals) = literals(schema) {
        return format!("Literal[{literals}]");
    }
    if let Some(Value::Array(any)) = schema.get("anyOf") {
        let any: Vec<String> = any.iter().map(|of| python(of.as_object().unwrap())).collect();
        return any.join(" | ");
    }
    let one = |name: &str| match name {
        "integer" => "int".to_owned(),
        "number" => "float".to_owned(),
        "string" => "str".to_owned(),
        "boolean" => "bool".to_owned(),
        "null" => "None".to_owned(),
        "array" => {
            let items = schema.get("items").and_then(Value::as_object).map_or("int".to_owned(), python);
            format!("list[{items}]")
        }
        "object" => match schema.get("additionalProperties") {
            Some(Value::Object(values)) => format!("dict[str, {}]", python(values)),
            _ => "dict[str, object]".to_owned(),
        },
        other => panic!("the type {other}"),
    };
    match schema.get("type") {
        Some(Value::String(name)) => one(name),
        Some(Value::Array(names)) => {
            names.iter().map(|name| one(name.as_str().unwrap())).collect::<Vec<_>>().join(" | ")
        }
        _ => "object".to_owned(),
    }
}

/// The documentation of a type or a key, in Python's words: None, and the names of arguments.
fn description(schema: &Object) -> Option<String> {
    let text = schema.get("description")?.as_str()?;
    let words = text.split_whitespace().map(|word| {
        let option = word.starts_with("`--");
        let word = if option { word.replace("--", "").replace('-', "_") } else { word.to_owned() };
        match word.as_str() {
            "null" | "Null" => "None".to_owned(),
            "null;" => "None;".to_owned(),
            "null." => "None.".to_owned(),
            _ => word,
        }
    });
    Some(words.collect::<Vec<_>>().join(" "))
}

/// The width of Python's lines.
const WIDTH: usize = 120;

fn docstring(indent: &str, docs: &str) -> String {
    let line = if docs.ends_with(['.', '"']) { docs.to_owned() } else { format!("{docs}.") };
    let line = line.replace('\\', "\\\\");
    if indent.len() + line.len() + 6 <= WIDTH {
        return format!("{indent}\"\"\"{line}\"\"\"\n");
    }
    let mut lines = vec![format!("{indent}\"\"\"")];
    for word in line.split(' ') {
        let last = lines.last_mut().unwrap();
        if last.len() + word.len() + 1 > WIDTH {
            lines.push(format!("{indent}{word}"));
        } else {
            if !last.ends_with("\"\"\"") && !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    format!("{}\n{indent}\"\"\"\n", lines.join("\n"))
}
