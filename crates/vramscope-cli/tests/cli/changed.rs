//! `vramscope diff` of recordings of real PyTorch that differ by one known change, made by `diff/record.sh`.

use serde_json::Value;

use crate::{root, run};

/// The device in `vramscope diff --json` of two recordings.
fn difference(a: &str, b: &str) -> Value {
    let file = |name: &str| {
        let path = root().join(format!("crates/vramscope-cli/tests/cli/diff/{name}.pickle.zst"));
        path.to_str().unwrap().to_owned()
    };
    let output = run(&["diff", &file(a), &file(b), "--json"]);
    assert_eq!((output.status.code(), output.stderr.len()), (Some(1), 0), "{a} and {b}");
    serde_json::from_slice::<Value>(&output.stdout).unwrap()["devices"][0].take()
}

fn amount(of: &Value) -> (u64, u64) {
    (of["a"].as_u64().unwrap(), of["b"].as_u64().unwrap())
}

/// Runs a check on recordings with and without tags, with Python stacks only and with C++ stacks.
fn each_kind(change: &str, is_named_first: impl Fn(&Value, &Value)) {
    for kind in ["tagged", "plain", "all"] {
        let device = difference(&format!("{kind}-base"), &format!("{kind}-{change}"));
        let first = &device["what_changed"][0];
        is_named_first(first, &device);
        // The findings sum to the total difference.
        let found = device["what_changed"].as_array().unwrap().iter().filter(|of| of["kind"] != "unused");
        let found: i64 = found.map(|of| of["difference_bytes"].as_i64().unwrap()).sum();
        let (a, b) = amount(&device["allocated_bytes"]);
        assert_eq!(found, b as i64 - a as i64, "{kind} {change}");
        let (a, b) = (&device["peak_allocated_bytes"], &device["allocated_bytes"]);
        assert_eq!(a, b, "{kind} {change}");
    }
}

/// The first finding explains most of the difference.
fn is_most(first: &Value, device: &Value) {
    let (a, b) = amount(&device["allocated_bytes"]);
    let of = first["difference_bytes"].as_i64().unwrap();
    let all = b as i64 - a as i64;
    assert!(of.signum() == all.signum() && of.abs() * 10 >= all.abs() * 9, "{of} of {all}: {first:#}");
}

#[test]
fn a_larger_batch() {
    each_kind("batch", |first, device| {
        assert_eq!((&first["kind"], first["factor"].as_f64().unwrap().round()), (&"scaled".into(), 2.0));
        assert!(first["text"].as_str().unwrap().contains("a larger batch"), "{first:#}");
        is_most(first, device);
    });
}

#[test]
fn checkpointing() {
    each_kind("checkpoint", |first, device| {
        assert_eq!(first["kind"], "recomputed");
        assert!(
            first["text"].as_str().unwrap().starts_with("B recomputes parts of the forward pass"),
            "{first:#}"
        );
        is_most(first, device);
    });
}

#[test]
fn another_optimizer() {
    each_kind("adamw", |first, device| {
        assert_eq!(first["kind"], "optimizer");
        assert!(first["text"].as_str().unwrap().contains("torch/optim/adam.py in B"), "{first:#}");
        is_most(first, device);
        // Two 32-bit states for each parameter, and a step count on the host.
        let state =
            device["categories"].as_array().unwrap().iter().find(|of| of["category"] == "optimizer_state");
        let parameters =
            device["categories"].as_array().unwrap().iter().find(|of| of["category"] == "parameter");
        let (before, after) = amount(&state.unwrap()["bytes"]);
        assert_eq!((before, after), (0, 2 * amount(&parameters.unwrap()["bytes"]).0));
    });
}

#[test]
fn a_leak() {
    each_kind("leak", |first, device| {
        assert_eq!(first["kind"], "leak");
        let leaks = first["leaks"]["b"].as_array().unwrap();
        assert_eq!((first["leaks"]["a"].as_array().unwrap().len(), leaks.len()), (0, 1));
        // One block for each of ten steps.
        assert_eq!(leaks[0]["kept"], 10, "{first:#}");
        assert!(leaks[0]["key"].as_str().unwrap().ends_with("forward"), "{first:#}");
        is_most(first, device);
    });
}

/// The program was edited between the recordings, so its lines have moved.
#[test]
fn a_larger_batch_of_an_edited_program() {
    let device = difference("tagged-base", "edited-batch");
    let first = &device["what_changed"][0];
    assert_eq!((&first["kind"], first["factor"].as_f64().unwrap().round()), (&"scaled".into(), 2.0));
    is_most(first, &device);
}

#[test]
fn the_output_of_diff_for_a_larger_batch() {
    let folder = "crates/vramscope-cli/tests/cli/diff";
    let [a, b] = ["tagged-base", "tagged-batch"].map(|name| format!("{folder}/{name}.pickle.zst"));
    insta_cmd::assert_cmd_snapshot!(crate::vramscope(&["diff", &a, &b, "--top", "4"]));
}

#[test]
fn one_step_of_each() {
    let file = |name: &str| {
        let path = root().join(format!("crates/vramscope-cli/tests/cli/diff/{name}.pickle.zst"));
        path.to_str().unwrap().to_owned()
    };
    let (a, b) = (file("plain-base"), file("plain-leak"));
    // The bytes of a leak grow from step to step.
    let grown = |step: &str| {
        let run = run(&["diff", &a, &b, "--json", "--at-step", step]);
        let answer: Value = serde_json::from_slice(&run.stdout).unwrap();
        let (a, b) = amount(&answer["devices"][0]["allocated_bytes"]);
        b as i64 - a as i64
    };
    assert!(grown("2") < grown("4"), "{} {}", grown("2"), grown("4"));
    let text = run(&["diff", &a, &b, "--at-step", "3"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("At the peak of step 3"));
    let none = run(&["diff", &a, &b, "--at-step", "4000000000"]);
    let error = String::from_utf8_lossy(&none.stderr).into_owned();
    assert_eq!((none.status.code(), error.lines().count()), (Some(2), 1), "{error}");
    assert!(error.contains("there is no step 4000000000"), "{error}");
}
