//! Requests and responses, each a line of JSON. `docs/live.md` describes them.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::source::{Counts, Layers, LiveHolder, Reading, Tick};

/// The protocol version. New keys do not raise it.
pub const PROTOCOL: u32 = 1;

/// Maximum bytes of a request.
pub(super) const MOST_ASKED: usize = 4 << 10;
/// Maximum bytes of a response.
pub(super) const MOST_ANSWERED: usize = 1 << 20;
/// Maximum number of stacks in a response.
pub(super) const MOST_HOLDERS: usize = 100;

/// Maximum number of libraries in a response.
pub(super) const MOST_LIBRARIES: usize = 100;

/// A request to a live server.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub(super) enum Question {
    Hello,
    Tick {
        #[serde(default)]
        holders: usize,
    },
}

/// A live server's description of itself and its program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hello {
    /// The protocol version.
    #[serde(rename = "vramscope_live")]
    pub protocol: u32,
    /// The process id as seen by the process: in a container, this is not the id outside.
    pub pid: u32,
    /// The program's title.
    pub title: String,
    /// The name of its source, such as `pool on device 0`.
    pub source_name: String,
    /// The device id, if there is a device.
    pub device_id: Option<i32>,
    /// Whether it counts the stacks of live blocks.
    pub collects_holders: bool,
}

/// A live server's response about the memory of its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "LookKeys", into = "LookKeys")]
pub struct LiveResponse {
    /// The time, in microseconds since the Unix epoch.
    pub time_us: i64,
    /// The current values, and the peaks since the same connection's previous request.
    pub tick: Tick,
    /// Bytes of free blocks in segments with a live block (`inactive_split_bytes` of PyTorch).
    pub inactive_split_bytes: Option<u64>,
    /// Bytes that emptying the cache would release.
    pub releasable_bytes: Option<u64>,
    /// The stacks with the most live bytes, allocated since the program began to serve; `None` if it does not count them.
    pub holders: Option<Vec<LiveHolder>>,
    /// Memory of the process beside the pool, by library; `None` if it is unknown.
    pub layers: Option<Layers>,
}

/// The keys of a response.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct LookKeys {
    time_us: i64,
    /// The current memory use.
    now: Reading,
    /// The peaks since the same connection's previous request, each at its own moment.
    high: Reading,
    /// Whether the peaks of the pool's numbers are exact. Otherwise they are the highest readings.
    high_is_exact: bool,
    counts: Option<Counts>,
    /// Bytes of free blocks in segments with a live block (`inactive_split_bytes` of PyTorch).
    inactive_split_bytes: Option<u64>,
    /// Bytes that emptying the cache would release.
    releasable_bytes: Option<u64>,
    /// The stacks with the most live bytes; `None` if the program does not count them.
    holders: Option<Vec<LiveHolder>>,
    /// Memory of the process beside the pool, by library; `None` if it is unknown. Processes that `vramscope run` records have it.
    layers: Option<Layers>,
}

impl From<LiveResponse> for LookKeys {
    fn from(look: LiveResponse) -> Self {
        let LiveResponse {
            time_us,
            tick: Tick { now, high, high_is_exact },
            inactive_split_bytes,
            releasable_bytes,
            holders,
            layers,
        } = look;
        Self {
            time_us,
            now,
            high,
            high_is_exact,
            counts: now.counts,
            inactive_split_bytes,
            releasable_bytes,
            holders,
            layers,
        }
    }
}

impl From<LookKeys> for LiveResponse {
    fn from(keys: LookKeys) -> Self {
        let now = Reading { counts: keys.counts, ..keys.now };
        Self {
            time_us: keys.time_us,
            tick: Tick { now, high: keys.high, high_is_exact: keys.high_is_exact },
            inactive_split_bytes: keys.inactive_split_bytes,
            releasable_bytes: keys.releasable_bytes,
            holders: keys.holders,
            layers: keys.layers,
        }
    }
}

/// A response with the reason for refusing a request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Refusal {
    pub(super) error: String,
    /// Whether the source has ended, so that later requests fail too.
    #[serde(default)]
    pub(super) gone: bool,
}

impl Refusal {
    pub(super) fn new(error: impl Display) -> Self {
        Self { error: error.to_string(), gone: false }
    }
}

/// Returns a line of JSON.
pub(super) fn line(value: &impl Serialize) -> Vec<u8> {
    // Numbers, texts and lists of them always serialize to JSON.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_documentation() {
        let hello = r#"{"vramscope_live":1,"pid":7,"title":"train","source_name":"pool on device 0","device_id":0,"collects_holders":true}"#;
        let parsed: Hello = serde_json::from_str(hello).unwrap();
        assert_eq!((parsed.protocol, parsed.pid, parsed.device_id), (1, 7, Some(0)));
        assert_eq!(line(&parsed), format!("{hello}\n").as_bytes());

        let counts = Counts { num_allocations: 3, num_ooms: 1, ..Counts::default() };
        let now = Reading { allocated: Some(512), counts: Some(counts), ..Reading::default() };
        let look = LiveResponse {
            time_us: 5,
            tick: Tick { now, high: Reading { counts: None, ..now }, high_is_exact: true },
            inactive_split_bytes: Some(9),
            releasable_bytes: Some(8),
            holders: Some(vec![LiveHolder {
                bytes: 512,
                count: 1,
                stack: Some(vec!["a.rs:1 f".to_owned()]),
            }]),
            layers: Some(Layers { libraries: Vec::new(), rest_bytes: Some(-7) }),
        };
        let value = serde_json::to_value(&look).unwrap();
        assert_eq!(value["now"]["allocated_bytes"], 512);
        assert_eq!(value["counts"]["num_allocations"], 3);
        assert_eq!(value["layers"]["rest_bytes"], -7);
        assert_eq!(value["holders"][0]["stack"][0], "a.rs:1 f");
        assert_eq!(serde_json::from_value::<LiveResponse>(value).unwrap(), look);
    }

    #[test]
    fn keys_of_a_later_version_are_no_trouble() {
        let asked = r#"{"ask":"tick","holders":2,"colour":"red"}"#;
        assert!(matches!(serde_json::from_str(asked), Ok(Question::Tick { holders: 2 })));
        let look = r#"{"time_us":1,"now":{"requested_bytes":1,"new_bytes":2},"high":{},"high_is_exact":false,"more":[]}"#;
        let look: LiveResponse = serde_json::from_str(look).unwrap();
        assert_eq!(
            (look.tick.now.requested, look.tick.high, look.holders),
            (Some(1), Reading::default(), None)
        );
    }
}
