//! Checks the server's answers against the report.

use std::sync::Arc;

use serde_json::{Value, json};
use vramscope_viewer::{Library, Server};

use crate::{Address, example, server};

/// The head of a binary answer.
fn head(answer: &[u8]) -> Value {
    let length = u32::from_le_bytes(answer[..4].try_into().unwrap()) as usize;
    serde_json::from_slice(&answer[4..4 + length]).unwrap()
}

/// The sum of an `f64` column that a member of the head refers to.
fn sum(answer: &[u8], member: &Value) -> f64 {
    let [begin, length] = [0, 1].map(|i| member["f64"][i].as_u64().unwrap() as usize);
    let behind = (4 + u32::from_le_bytes(answer[..4].try_into().unwrap()) as usize).next_multiple_of(8);
    let values = answer[behind + begin..][..8 * length].chunks(8);
    values.map(|v| f64::from_le_bytes(v.try_into().unwrap())).sum()
}

#[test]
fn the_peak_is_that_of_the_report() {
    let recordings: Value = serde_json::from_slice(&server().get("api/recordings").body).unwrap();
    for file in 0..2 {
        let answer = head(&server().question(file, 0, &json!({"question": "report"})).body);
        let report = &answer["device"];
        let device = &recordings[file]["devices"][0];
        for kind in ["requested", "allocated", "active", "reserved"] {
            assert_eq!(device["peaks"][kind]["bytes"], report[format!("peak_{kind}_bytes")], "{kind}");
        }
        let peak = device["peaks"]["allocated"]["moment"].as_u64().unwrap();
        let question = json!({"question": "live", "moment": peak, "by": "line", "calls": "own", "inverted": false, "before": null, "search": null, "only_found": false});
        let live = server().question(file, 0, &question).body;
        let held = &head(&live)["holders"]["now"]["bytes"];
        assert_eq!(sum(&live, held), report["peak_allocated_bytes"].as_f64().unwrap());
        let layout = server().question(file, 0, &json!({"question": "layout", "moment": peak})).body;
        let told = head(&layout);
        let counters = &told["counters"];
        assert_eq!(Some(sum(&layout, &told["segments"]["bytes"])), counters["reserved"].as_f64());
        assert_eq!(Some(sum(&layout, &told["blocks"]["bytes"])), counters["active"].as_f64());
    }
}

#[test]
fn steps_are_those_of_the_report() {
    let recordings: Value = serde_json::from_slice(&server().get("api/recordings").body).unwrap();
    let report = head(&server().question(0, 0, &json!({"question": "report"})).body);
    let told = &report["device"]["steps"];
    let each = told["steps"].as_array().unwrap();
    let column = |key: &str| each.iter().map(|step| step[key].clone()).collect::<Value>();
    let after = |event: &Value| json!(event.as_u64().unwrap() + 1);

    let steps = &recordings[0]["devices"][0]["steps"];
    assert_eq!(each.len(), 2);
    assert_eq!(steps["peak"], column("peak_allocated_bytes"));
    assert_eq!(steps["peak_moment"], each.iter().map(|step| after(&step["peak_event"])).collect::<Value>());
    assert_eq!(steps["allocated"], column("allocated_bytes"));
    assert_eq!(steps["allocations"], column("allocations"));
    assert_eq!(steps["kept"], column("kept_bytes"));
    assert_eq!(steps["first_unusual"], told["first_unusual"]);
    let first_events = each.iter().map(|step| &step["first_event"]);
    let bounds = first_events.chain([&each[1]["end_event"]]).map(after).collect::<Value>();
    assert_eq!(steps["bounds"], bounds);
    assert_eq!(steps["bounds_us"].as_array().unwrap().len(), 3);
    assert_eq!(
        (&steps["highest"], &steps["median"], &steps["unusual"]),
        (&json!(1), &Value::Null, &json!([]))
    );

    // The query of a page that has no categories yet.
    let meaning = head(&server().question(0, 0, &json!({"question": "meaning"})).body);
    assert_eq!((&meaning["steps"], &meaning["purposes"]), (steps, &recordings[0]["devices"][0]["purposes"]));
    // A recording without repetition has no steps.
    assert_eq!(recordings[1]["devices"][0]["steps"], Value::Null);
}

#[test]
fn a_replay_brings_its_lines() {
    let replay = head(&server().question(1, 0, &json!({"question": "replay"})).body);
    let (rows, lines) =
        (replay["device"]["what_if"].as_array().unwrap(), replay["lines"].as_array().unwrap());
    assert_eq!(rows.len(), lines.len());
    for (row, line) in rows.iter().zip(lines) {
        let highest = line.as_array().unwrap().iter().map(|point| point[1].as_u64().unwrap()).max();
        assert_eq!(highest, row["peak_reserved_bytes"].as_u64());
    }
}

/// Frames that differ only in their lines, and tags that differ only in their streams, share their texts.
#[test]
fn long_names_are_sent_once() {
    const LONG: usize = 20_000;
    let name = "n".repeat(LONG);
    let events: Vec<Value> = (0..200)
        .map(|i| {
            json!({"action": "alloc", "addr": 4096 * i, "size": 100, "stream": i, "user_metadata": name,
                   "frames": [{"name": name, "filename": "/home/user/train.py", "line": i}]})
        })
        .collect();
    let snapshot = json!({"segments": [], "device_traces": [events]}).to_string();
    let opened = server().ask("POST", &server().path("api/open?name=long"), &[], snapshot.as_bytes());
    let file = serde_json::from_slice::<Value>(&opened.body).unwrap()["file"].as_u64().unwrap();
    let names = server().question(file as usize, 0, &json!({"question": "names"})).body;
    // Once as recorded, and once shortened for a line.
    assert!((LONG..2 * LONG).contains(&names.len()), "{} bytes", names.len());
    let recordings = server().get("api/recordings").text();
    assert_eq!(recordings.matches(&name).count(), 1);
}

#[test]
fn a_search_has_a_bounded_number_of_conditions() {
    let condition =
        json!({"is": "frame", "field": "any", "sought": {"text": "(a+)+$|forward", "is_pattern": true}});
    let search = |count| {
        let conditions = vec![condition.clone(); count];
        server().question(0, 0, &json!({"question": "search", "search": {"is": "any", "of": conditions}}))
    };
    let reply = search(100);
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(head(&reply.body)["count"].as_u64().unwrap() > 100);
    let refused = search(10_000);
    assert!(refused.status != 200 && refused.text().contains("at most 256 conditions"), "{}", refused.text());
}

/// A page may open before its files are loaded. A file that is dropped in the meantime gets a later position.
#[test]
fn files_that_were_named_come_first() {
    let server = Server::bind(0).unwrap();
    let address = Address::of(&server.url());
    let library = Arc::new(Library::default());
    let serving = Arc::clone(&library);
    std::thread::spawn(move || server.serve(serving));
    let dropped = std::thread::spawn(move || {
        let empty = br#"{"segments": [], "device_traces": []}"#;
        address.ask("POST", &address.path("api/open?name=dropped"), &[], empty).text()
    });
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(!dropped.is_finished());
    library.add(example("leak.pickle"));
    library.complete();
    assert_eq!(dropped.join().unwrap(), r#"{"file":1}"#);
}
