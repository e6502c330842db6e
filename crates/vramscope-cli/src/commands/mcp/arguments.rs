//! Arguments of the MCP tools. The schemas for assistants are generated from these types.

use anyhow::anyhow;
use rmcp::model::JsonObject;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use vramscope::report::Shown;

use crate::args;

/// Limit on the invalid input that an error repeats, in bytes.
const LONGEST_COMPLAINT: usize = 300;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Open {
    /// The recording's file, in an allowed folder. A relative path is resolved from the current folder, then from each allowed folder.
    pub(super) path: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Summary {
    /// The handle from `open`, as "r1".
    pub(super) recording: String,
    /// Only this device; default: all used devices.
    pub(super) device: Option<i64>,
    /// Limit on the rows of each list; default: 10.
    #[schemars(range(min = 1, max = 200))]
    pub(super) rows: Option<usize>,
    /// Limit on the frames of each stack, innermost first; default: 8.
    #[schemars(range(min = 1, max = 100))]
    pub(super) frames: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Holders {
    /// The handle from `open`, as "r1".
    pub(super) recording: String,
    /// The device; required if several were used.
    pub(super) device: Option<i64>,
    /// Report the allocations live after the event with this index (from 0); default: the peak of allocated bytes.
    pub(super) event: Option<usize>,
    /// The key to group live allocations by; default: "line", the line of user code.
    #[serde(default)]
    #[schemars(schema_with = "by")]
    pub(super) by: Option<String>,
    /// Keep only stacks with a frame that matches this regular expression, as `file:line function`.
    pub(super) filter: Option<String>,
    /// Limit on the rows; default: 10.
    #[schemars(range(min = 1, max = 200))]
    pub(super) rows: Option<usize>,
    /// Index of the first row (from 0), to continue after a cut answer.
    pub(super) first: Option<usize>,
    /// Limit on the frames of each stack, innermost first; default: 8.
    #[schemars(range(min = 1, max = 100))]
    pub(super) frames: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct At {
    /// The handle from `open`, as "r1".
    pub(super) recording: String,
    /// The device; required if several were used.
    pub(super) device: Option<i64>,
    /// The event index, from 0; the answer is the state after this event.
    pub(super) event: usize,
    /// The key to group live allocations by; default: "line".
    #[serde(default)]
    #[schemars(schema_with = "by")]
    pub(super) by: Option<String>,
    /// Limit on the rows of each list; default: 10.
    #[schemars(range(min = 1, max = 200))]
    pub(super) rows: Option<usize>,
    /// Limit on the frames of each stack, innermost first; default: 8.
    #[schemars(range(min = 1, max = 100))]
    pub(super) frames: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Diff {
    /// The handle of the first recording (before the change).
    pub(super) a: String,
    /// The handle of the second recording (after the change).
    pub(super) b: String,
    /// Only this device; default: all used devices.
    pub(super) device: Option<i64>,
    /// Limit on the rows of each list; default: 10.
    #[schemars(range(min = 1, max = 200))]
    pub(super) rows: Option<usize>,
    /// Limit on the frames of each stack, innermost first; default: 8.
    #[schemars(range(min = 1, max = 100))]
    pub(super) frames: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Replay {
    /// The handle from `open`, as "r1".
    pub(super) recording: String,
    /// The device; required if several were used.
    pub(super) device: Option<i64>,
    /// Settings in the syntax of PYTORCH_CUDA_ALLOC_CONF, as "expandable_segments:True"; default: the recorded settings, compared
    /// with common alternatives.
    pub(super) conf: Option<String>,
    /// Total device memory, in bytes or as "24GiB"; default (also without `gpu`): inferred from the recorded out-of-memory failure.
    #[serde(default)]
    #[schemars(schema_with = "size")]
    pub(super) capacity: Option<Value>,
    /// Total device memory, by GPU name, as "a100-40gb" or "rtx4090".
    pub(super) gpu: Option<String>,
    /// Device memory that the allocator cannot use (CUDA contexts, other processes), in bytes or as "600MiB".
    #[serde(default)]
    #[schemars(schema_with = "size")]
    pub(super) overhead: Option<Value>,
    /// Find the smallest device that fits the recorded program, instead of comparing settings.
    #[serde(default)]
    pub(super) find_capacity: bool,
    /// The PyTorch release whose rules the replay follows, as "2.11"; default: inferred from the recording.
    pub(super) torch: Option<String>,
    /// Limit on the rows of each list; default: 10.
    #[schemars(range(min = 1, max = 200))]
    pub(super) rows: Option<usize>,
    /// Limit on the frames of each stack, innermost first; default: 8.
    #[schemars(range(min = 1, max = 100))]
    pub(super) frames: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Leaks {
    /// The handle from `open`, as "r1".
    pub(super) recording: String,
    /// The device; required if several were used.
    pub(super) device: Option<i64>,
    /// Limit on the rows; default: 10.
    #[schemars(range(min = 1, max = 200))]
    pub(super) rows: Option<usize>,
    /// Index of the first row (from 0), to continue after a cut answer.
    pub(super) first: Option<usize>,
    /// Limit on the frames of each stack, innermost first; default: 8.
    #[schemars(range(min = 1, max = 100))]
    pub(super) frames: Option<usize>,
}

/// Reads the arguments of a tool.
///
/// # Errors
/// One line: the invalid argument and the reason.
pub(super) fn read<T: DeserializeOwned>(arguments: JsonObject) -> anyhow::Result<T> {
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|e| {
        // Replaces Rust type names of the library's messages.
        let words = [
            ("expected usize", "expected a whole number from 0"),
            ("expected i64", "expected a whole number"),
        ];
        let said = words
            .iter()
            .fold(format!("arguments: {e}"), |said, (type_name, word)| said.replace(type_name, word));
        anyhow!("{}", Shown::at_most(&said, LONGEST_COMPLAINT))
    })
}

/// Reads a number of bytes, or a text as `24GiB`.
///
/// # Errors
/// The value is neither.
pub(super) fn bytes(name: &str, given: Option<&Value>) -> anyhow::Result<Option<u64>> {
    let size = match given {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => args::size(text),
        Some(number) => args::size(&number.to_string()),
    };
    size.map(Some).map_err(|e| anyhow!("{name}: {e}"))
}

/// The grouping keys, as for the command's `--by`.
fn by(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "null"], "enum": args::all_by().map(Value::from).chain([Value::Null]).collect::<Vec<_>>() })
}

fn size(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["integer", "string", "null"], "minimum": 0 })
}
