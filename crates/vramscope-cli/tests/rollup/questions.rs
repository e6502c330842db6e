//! The book's ten example queries: their answers equal those of `report --json` of each rank.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vramscope_testing::book::fences;

use crate::Fleet;

/// The statements on the page.
fn questions() -> Vec<String> {
    let all = fences("docs/query.md");
    let answered = all.windows(2).filter(|two| two[0].needs() == Some("rollup") && two[1].info == "text");
    let statement = |line: &str| line.split('"').nth(1).unwrap().to_owned();
    answered.map(|two| statement(&two[0].lines[0])).collect()
}

fn bytes(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// The rows sorted by a column, highest value first.
fn falling(mut rows: Vec<Value>, column: &str) -> Vec<Value> {
    rows.sort_by_key(|row| std::cmp::Reverse(bytes(&row[column])));
    rows
}

/// A time as rows contain it.
fn time(microseconds: &Value) -> String {
    let out = std::process::Command::new("date")
        .args(["-u", "+%Y-%m-%dT%H:%M:%S", "-d", &format!("@{}", bytes(microseconds) / 1_000_000)])
        .output()
        .unwrap();
    format!("{}.{:06}Z", String::from_utf8(out.stdout).unwrap().trim(), bytes(microseconds) % 1_000_000)
}

#[test]
fn ten_queries_equal_the_numbers_of_the_reports() {
    let fleet = Fleet::new();
    let reports = fleet.reports();
    let rows = |row: &dyn Fn(u64, &Value) -> Value| -> Vec<Value> {
        reports.iter().map(|(rank, report)| row(*rank, report)).collect()
    };
    let of = |rank: u64| &reports.iter().find(|(number, _)| *number == rank).unwrap().1;

    let mut expected: Vec<Vec<Value>> = Vec::new();
    let mut highest = falling(
        rows(&|rank, r| {
            json!({"rank": rank, "peak_allocated_bytes": r["peak_allocated_bytes"],
                   "peak_reserved_bytes": r["peak_reserved_bytes"]})
        }),
        "peak_allocated_bytes",
    );
    highest.truncate(3);
    expected.push(highest);

    let ran_out = reports.iter().filter(|(_, r)| !r["ooms"].as_array().unwrap().is_empty());
    let mut ran_out: Vec<Value> = ran_out
        .map(|(rank, r)| {
            let oom = &r["ooms"][0];
            json!({"rank": rank, "oom_time_us": time(&oom["time_us"]),
                   "oom_requested_bytes": oom["requested_bytes"], "oom_device_free_bytes": oom["device_free_bytes"]})
        })
        .collect();
    ran_out.sort_by_key(|row| row["oom_time_us"].as_str().unwrap().to_owned());
    assert_eq!(ran_out.len(), 2);
    expected.push(ran_out);

    let broken = fleet.plan.broken.iter().map(|&rank| {
        let file = format!("recordings/{}", fleet.plan.file(rank).display());
        let said = String::from_utf8(fleet.run(&["report", &file]).stderr).unwrap();
        let why = said.trim_end().split_once(&format!("{file}: ")).unwrap().1;
        json!({"rank": rank, "error": why.chars().take(60).collect::<String>()})
    });
    expected.push(broken.collect());

    let mut leaks: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (_, report) in &reports {
        for leak in report["leaks"].as_array().unwrap().iter().take(1) {
            let line = &leak["line"];
            let file = line["filename"].as_str().unwrap().rsplit('/').next().unwrap();
            let name = format!("{file}:{} {}", line["line"], line["name"].as_str().unwrap());
            leaks.entry(name).or_default().push(bytes(&leak["kept_bytes"]));
        }
    }
    let leaks = leaks
        .iter()
        .map(|(line, kept)| json!({"leak_line": line, "ranks": kept.len(), "most_kept": kept.iter().max()}));
    expected.push(leaks.collect());

    // Eight ranks form eight stages.
    let stages = rows(&|rank, r| json!({"pp": rank, "ranks": 1, "highest": r["peak_allocated_bytes"]}));
    expected.push(falling(stages, "highest"));

    let file = format!("recordings/{}", fleet.plan.file(7).display());
    let output = fleet.run(&["report", &file, "--by", "category", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut held = report["devices"][0]["holders_at_peak"].as_array().unwrap().clone();
    held.sort_by_key(|h| h["key"].to_string());
    let held = held.iter().map(|h| json!({"category": h["key"], "bytes": h["bytes"], "count": h["count"]}));
    expected.push(falling(held.collect(), "bytes"));

    let mut lines: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for rank in reports.iter().map(|(rank, _)| *rank) {
        let file = format!("recordings/{}", fleet.plan.file(rank).display());
        let output = fleet.run(&["report", &file, "--by", "line", "--json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        for holder in report["devices"][0]["holders_at_peak"].as_array().unwrap() {
            lines
                .entry(holder["key"].as_str().unwrap().to_owned())
                .or_default()
                .push(bytes(&holder["bytes"]));
        }
    }
    let apart = lines.iter().map(|(line, held)| {
        json!({"line": line, "ranks": held.len(), "apart": held.iter().max().unwrap() - held.iter().min().unwrap()})
    });
    let mut apart = falling(apart.collect(), "apart");
    apart.truncate(2);
    expected.push(apart);

    let file = format!("recordings/{}", fleet.plan.file(4).display());
    let last = (bytes(&of(4)["events"]) - 1).to_string();
    let output = fleet.run(&["report", &file, "--by", "line", "--at", &last, "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let held = report["devices"][0]["at"]["holders"].as_array().unwrap().iter();
    let held = held.map(|h| json!({"line": h["key"], "blocks": h["count"], "bytes": h["bytes"]}));
    let mut held = falling(held.collect(), "bytes");
    held.truncate(2);
    expected.push(held);

    expected.push(rows(
        &|rank, r| json!({"rank": rank, "segments": r["end_segments"], "bytes": r["end_reserved_bytes"]}),
    ));
    expected.push(rows(
        &|rank, r| json!({"rank": rank, "events_after": bytes(&r["events"]) - 1 - bytes(&r["peak_event"])}),
    ));

    let questions = questions();
    assert_eq!(questions.len(), 10);
    for (sql, expected) in questions.iter().zip(expected) {
        let (rows, said) = fleet.query(&[sql, "recordings/"]);
        assert_eq!(rows, Value::from(expected), "{sql}\n{said}");
    }
}
