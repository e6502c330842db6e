//! Runs `vramscope diff` as a user does.

use insta_cmd::assert_cmd_snapshot;
use serde_json::Value;

use crate::{run, vramscope};

const OOM: &str = "examples/oom.pickle";
const LEAK: &str = "examples/leak.pickle";

#[test]
fn help() {
    assert_cmd_snapshot!(vramscope(&["diff", "--help"]));
}

#[test]
fn a_recording_and_itself() {
    assert_cmd_snapshot!(vramscope(&["diff", LEAK, LEAK]));
}

#[test]
fn two_recordings() {
    assert_cmd_snapshot!(vramscope(&["diff", OOM, LEAK, "--top", "3"]));
}

#[test]
fn every_key_of_the_json() {
    assert_cmd_snapshot!(vramscope(&["diff", LEAK, LEAK, "--json"]));
    let output = run(&["diff", OOM, LEAK, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let device = &answer["devices"][0];
    assert_eq!((&answer["same"], &device["same_events"]), (&false.into(), &false.into()));
    let at = &device["same_events_at_start"];
    assert_eq!(
        (at, at),
        (&device["first_difference"]["a"]["event"], &device["first_difference"]["b"]["event"])
    );
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&device["changed"][0]), ["action", "bytes", "count", "first"]);
    assert_eq!(keys(&device["first_difference"]["a"]), ["event", "action", "bytes", "key"]);
}

#[test]
fn two_streams_cannot_be_read_at_once() {
    assert_cmd_snapshot!(vramscope(&["diff", "-", "-"]));
}
