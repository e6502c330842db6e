//! What the tools are asked with. The schemas that assistants read are made from these types.

use anyhow::anyhow;
use rmcp::model::JsonObject;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use vramscope::report::Shown;

use crate::args;

/// The most of what is wrong that an error repeats, in bytes.
const LONGEST_COMPLAINT: usize = 300;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Open {
    /// The file of the recording, in a folder that the user allowed; a relative path begins at the current folder or an allowed one.
    pub(super) path: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Summary {
    /// The handle that `open` gave, as "r1".
    pub(super) recording: String,
    /// Only this device; without it all that were used.
    pub(super) device: Option<i64>,
    /// The most rows of each list; 10 without it.
    #[schemars(range(min = 1, max = 200))]
    pub(super) rows: Option<usize>,
    /// The most frames of each stack, innermost first; 8 without it.
    #[schemars(range(min = 1, max = 100))]
    pub(super) frames: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Holders {
    /// The handle that `open` gave, as "r1".
    pub(super) recording: String,
    /// The device; needed where several were used.
    pub(super) device: Option<i64>,
    /// What is live after the event of this number, from 0; without it at the peak of allocated bytes.
    pub(super) event: Option<usize>,
    /// What the live allocations are grouped by; "line" without it, the line of the user's own code.
    #[serde(default)]
    #[schemars(schema_with = "by")]
    pub(super) by: Option<String>,
    /// Only stacks with a frame that this regular expression matches, as `file:line function`.
    pub(super) filter: Option<String>,
    /// The most rows; 10 without it.
    #[schemars(range(min = 1, max = 200))]
    pub(super) rows: Option<usize>,
    /// The row to begin with, from 0: to go on where an answer was cut.
    pub(super) first: Option<usize>,
    /// The most frames of each stack, innermost first; 8 without it.
    #[schemars(range(min = 1, max = 100))]
    pub(super) frames: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct At {
    /// The handle that `open` gave, as "r1".
    pub(super) recording: String,
    /// The device; needed where several were used.
    pub(super) device: Option<i64>,
    /// The number of the event, from 0: the state after it is told.
    pub(super) event: usize,
    /// What the live allocations are grouped by; "line" without it.
    #[serde(default)]
    #[schemars(schema_with = "by")]
    pub(super) by: Option<String>,
    /// The most rows of each list; 10 without it.
    #[schemars(range(min = 1, max = 200))]
    pub(super) rows: Option<usize>,
    /// The most frames of each stack, innermost first; 8 without it.
    #[schemars(range(min = 1, max = 100))]
    pub(super) frames: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Diff {
    /// The handle of the first recording, before the change.
    pub(super) a: String,
    /// The handle of the second recording, after the change.
    pub(super) b: String,
    /// Only this device; without it all that were used.
    pub(super) device: Option<i64>,
    /// The most rows of each list; 10 without it.
    #[schemars(range(min = 1, max = 200))]
    pub(super) rows: Option<usize>,
    /// The most frames of each stack, innermost first; 8 without it.
    #[schemars(range(min = 1, max = 100))]
    pub(super) frames: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Replay {
    /// The handle that `open` gave, as "r1".
    pub(super) recording: String,
    /// The device; needed where several were used.
    pub(super) device: Option<i64>,
    /// Settings as for PYTORCH_CUDA_ALLOC_CONF, as "expandable_segments:True"; without them the recorded ones, compared with
    /// those that often help.
    pub(super) conf: Option<String>,
    /// The device's whole memory, in bytes or as "24GiB"; without it and `gpu`, what the recording shows where it ran out.
    #[serde(default)]
    #[schemars(schema_with = "size")]
    pub(super) capacity: Option<Value>,
    /// The device's whole memory by the name of a GPU, as "a100-40gb" or "rtx4090".
    pub(super) gpu: Option<String>,
    /// What of the device the allocator cannot have (CUDA contexts, other processes), in bytes or as "600MiB".
    #[serde(default)]
    #[schemars(schema_with = "size")]
    pub(super) overhead: Option<Value>,
    /// Look for the smallest device on which the recorded program fits, instead of comparing settings.
    #[serde(default)]
    pub(super) find_capacity: bool,
    /// The release of PyTorch whose rules are followed, as "2.11"; without it the one that the recording shows.
    pub(super) torch: Option<String>,
    /// The most rows of each list; 10 without it.
    #[schemars(range(min = 1, max = 200))]
    pub(super) rows: Option<usize>,
    /// The most frames of each stack, innermost first; 8 without it.
    #[schemars(range(min = 1, max = 100))]
    pub(super) frames: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Leaks {
    /// The handle that `open` gave, as "r1".
    pub(super) recording: String,
    /// The device; needed where several were used.
    pub(super) device: Option<i64>,
    /// The most rows; 10 without it.
    #[schemars(range(min = 1, max = 200))]
    pub(super) rows: Option<usize>,
    /// The row to begin with, from 0: to go on where an answer was cut.
    pub(super) first: Option<usize>,
    /// The most frames of each stack, innermost first; 8 without it.
    #[schemars(range(min = 1, max = 100))]
    pub(super) frames: Option<usize>,
}

/// Reads the arguments of a tool.
///
/// # Errors
/// In one line: which argument is wrong, and why.
pub(super) fn read<T: DeserializeOwned>(arguments: JsonObject) -> anyhow::Result<T> {
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|e| {
        // The library calls types by their names in Rust.
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

/// A number of bytes, or a text as `24GiB`.
///
/// # Errors
/// Where it is neither.
pub(super) fn bytes(name: &str, given: Option<&Value>) -> anyhow::Result<Option<u64>> {
    let size = match given {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => args::size(text),
        Some(number) => args::size(&number.to_string()),
    };
    size.map(Some).map_err(|e| anyhow!("{name}: {e}"))
}

/// What can be grouped by, as the command has it.
fn by(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "null"], "enum": args::all_by().map(Value::from).chain([Value::Null]).collect::<Vec<_>>() })
}

fn size(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["integer", "string", "null"], "minimum": 0 })
}
