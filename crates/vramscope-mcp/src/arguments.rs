//! Arguments of the MCP tools: those of the server, and the request that the session answers. The schemas for assistants are generated
//! from the types of both.

use std::sync::Arc;

use anyhow::anyhow;
use rmcp::model::JsonObject;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema, schema_for};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use vramscope_report::Shown;
use vramscope_session::Question;

/// Limit on the invalid input that an error repeats, in bytes.
const LONGEST_COMPLAINT: usize = 1000;

/// The file to open.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct File {
    /// The recording's file, in an allowed folder. A relative path is resolved from the current folder, then from each allowed folder.
    pub(super) path: String,
}

/// No further arguments.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// A recording.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct One {
    /// The handle from `open`, as "r1".
    pub(super) recording: String,
    /// Limit on the frames of each stack, innermost first; default: 8.
    #[schemars(range(min = 1, max = 100))]
    pub(super) frames: Option<usize>,
}

/// A recording, and the part of a list.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Paged {
    /// The handle from `open`, as "r1".
    pub(super) recording: String,
    /// Index of the first row (from 0), to continue after a cut answer.
    pub(super) first: Option<usize>,
    /// Limit on the frames of each stack, innermost first; default: 8.
    #[schemars(range(min = 1, max = 100))]
    pub(super) frames: Option<usize>,
}

/// A recording, with limits.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Limited {
    /// The handle from `open`, as "r1".
    pub(super) recording: String,
    /// Limit on the rows of each list; default: 10.
    #[serde(alias = "rows")]
    #[schemars(range(min = 1, max = 200))]
    pub(super) top: Option<usize>,
    /// Limit on the frames of each stack, innermost first; default: 8.
    #[schemars(range(min = 1, max = 100))]
    pub(super) frames: Option<usize>,
}

/// A device of a recording, and the question.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Asked {
    /// The handle from `open`, as "r1".
    pub(super) recording: String,
    /// The device's number. Required if the recording has several used devices.
    pub(super) device: Option<i64>,
    /// The handle of another recording, for questions with `other_device`; their `other_file` is 0.
    pub(super) other: Option<String>,
    /// Limit on the values of each list; default: 64.
    #[serde(alias = "rows")]
    #[schemars(range(min = 1, max = 200))]
    pub(super) top: Option<usize>,
}

/// A question of the page.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    /// The name of the question, and its arguments. An error lists the arguments of a question.
    #[schemars(schema_with = "questions_schema")]
    pub(super) ask: JsonObject,
}

impl Ask {
    /// The question.
    ///
    /// # Errors
    /// The name or an argument is invalid; the error lists the arguments of the question.
    pub(super) fn question(self) -> anyhow::Result<Question> {
        let name = self.ask.get("question").and_then(Value::as_str).unwrap_or_default().to_owned();
        parsed(self.ask).map_err(|why| match questions().into_iter().find(|known| known.name == name) {
            Some(known) => anyhow!("{why}; arguments of {name}: {}", known.arguments),
            None => why,
        })
    }
}

/// A question, from its schema.
struct KnownQuestion {
    name: String,
    description: String,
    /// The names of its arguments; those in parentheses may be left out.
    arguments: String,
}

/// All questions.
fn questions() -> Vec<KnownQuestion> {
    let schema = Value::from(schema_for!(Question));
    let known = |question: &Value| {
        let name = question["properties"]["question"]["const"].as_str()?.to_owned();
        let description = question["description"].as_str().unwrap_or_default().to_owned();
        // A query of its own type is a reference to its definition.
        let definition = question["$ref"].as_str().and_then(|at| schema.pointer(at.trim_start_matches('#')));
        let arguments = arguments(definition.unwrap_or(question));
        Some(KnownQuestion { name, description, arguments })
    };
    schema["oneOf"].as_array().into_iter().flatten().filter_map(known).collect()
}

/// The names of the arguments in a schema; those in parentheses may be left out.
fn arguments(schema: &Value) -> String {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let names = schema["properties"].as_object().into_iter().flat_map(|properties| properties.keys());
    let listed: Vec<String> = names
        .filter(|name| *name != "question")
        .map(|name| if required.contains(&json!(name)) { name.clone() } else { format!("({name})") })
        .collect();
    if listed.is_empty() { "none".to_owned() } else { listed.join(", ") }
}

/// A short schema: the schema of all questions is too long for a list of tools.
fn questions_schema(_: &mut SchemaGenerator) -> Schema {
    let known = questions();
    let line = |of: &KnownQuestion| format!("{}: {} Arguments: {}.", of.name, of.description, of.arguments);
    let lines: Vec<String> = known.iter().map(line).collect();
    let names: Vec<String> = known.into_iter().map(|of| of.name).collect();
    json_schema!({
        "type": "object",
        "required": ["question"],
        "properties": { "question": { "enum": names, "description": lines.join("\n") } },
    })
}

/// A recording and its baseline.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Checked {
    /// The handle from `open`, as "r1".
    pub(super) recording: String,
    /// The handle of an earlier recording, whose peaks must not be exceeded by more than `max_growth`.
    pub(super) baseline: Option<String>,
    /// Limit on the frames of each stack, innermost first; default: 8.
    #[schemars(range(min = 1, max = 100))]
    pub(super) frames: Option<usize>,
}

/// Two recordings.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Two {
    /// The handle of the first recording (before the change).
    pub(super) a: String,
    /// The handle of the second recording (after the change).
    pub(super) b: String,
    /// Limit on the rows of each list; default: 10.
    #[serde(alias = "rows")]
    #[schemars(range(min = 1, max = 200))]
    pub(super) top: Option<usize>,
    /// Limit on the frames of each stack, innermost first; default: 8.
    #[schemars(range(min = 1, max = 100))]
    pub(super) frames: Option<usize>,
}

/// Reads the arguments of a tool: those of the server, and the request.
///
/// # Errors
/// One line: the invalid argument and the reason.
pub(super) fn read<S: DeserializeOwned + JsonSchema, R: DeserializeOwned>(
    arguments: JsonObject,
) -> anyhow::Result<(S, R)> {
    let of_server = &schema_for!(S).to_value()["properties"];
    let is_of_server = |name: &str| of_server.get(if name == "rows" { "top" } else { name }).is_some();
    let (server, request) = arguments.into_iter().partition(|(name, _)| is_of_server(name));
    Ok((parsed(server)?, parsed(request)?))
}

fn parsed<T: DeserializeOwned>(arguments: JsonObject) -> anyhow::Result<T> {
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|e| {
        // Replaces Rust type names of the library's messages.
        let words = [
            ("expected usize", "expected a whole number from 0"),
            ("expected i64", "expected a whole number"),
            ("expected u32", "expected a whole number from 0"),
        ];
        let said = words
            .iter()
            .fold(format!("arguments: {e}"), |said, (type_name, word)| said.replace(type_name, word));
        anyhow!("{}", Shown::at_most(&said, LONGEST_COMPLAINT))
    })
}

/// The schema of the arguments of a tool.
pub(super) fn schema<S: JsonSchema, R: JsonSchema>() -> Arc<JsonObject> {
    let mut schema = object(schema_for!(S));
    let request = object(schema_for!(R));
    for (key, of_request) in request {
        match (schema.get_mut(&key), of_request) {
            (Some(Value::Object(both)), Value::Object(more)) => both.extend(more),
            (Some(Value::Array(both)), Value::Array(more)) => both.extend(more),
            (Some(_), _) => {}
            (None, of_request) => {
                schema.insert(key, of_request);
            }
        }
    }
    schema.remove("description");
    schema.remove("title");
    Arc::new(schema)
}

fn object(schema: schemars::Schema) -> JsonObject {
    match Value::from(schema) {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    }
}
