//! The JSON objects of a trace, with the keys of the Trace Event Format.

use serde::Serialize;

/// One trace event.
#[derive(Debug, Serialize)]
pub(super) struct Record<'a, A> {
    /// The phase: the type of the event.
    pub(super) ph: &'static str,
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cat: Option<&'static str>,
    pub(super) pid: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tid: Option<u64>,
    pub(super) ts: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dur: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    /// The scope of an instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) s: Option<&'static str>,
    /// The number of the innermost frame in `stackFrames`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sf: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) args: Option<A>,
}

impl<'a, A> Record<'a, A> {
    pub(super) fn new(ph: &'static str, name: &'a str, pid: i64, ts: i64) -> Self {
        Self { ph, name, cat: None, pid, tid: None, ts, dur: None, id: None, s: None, sf: None, args: None }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct NameArgs<'a> {
    pub(super) name: &'a str,
}

#[derive(Debug, Serialize)]
pub(super) struct SortArgs {
    pub(super) sort_index: i64,
}

#[derive(Debug, Serialize)]
pub(super) struct CounterArgs {
    pub(super) bytes: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct AllocationArgs<'a> {
    pub(super) requested_bytes: u64,
    pub(super) block_bytes: u64,
    pub(super) address: String,
    pub(super) stream: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pool: Option<String>,
    pub(super) origin: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) alloc_event: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) free_event: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) available_event: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user_metadata: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stack: Option<&'a str>,
}

#[derive(Debug, Serialize)]
pub(super) struct SegmentArgs<'a> {
    pub(super) bytes: u64,
    pub(super) address: String,
    pub(super) stream: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) alloc_event: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) free_event: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stack: Option<&'a str>,
}

#[derive(Debug, Serialize)]
pub(super) struct InstantArgs<'a> {
    pub(super) event: usize,
    pub(super) size_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) device_free_bytes: Option<u64>,
    pub(super) stream: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user_metadata: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stack: Option<&'a str>,
}
