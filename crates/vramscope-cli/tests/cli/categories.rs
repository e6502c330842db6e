//! Categories of recordings of real PyTorch, compared with exact tags and shown as tables.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::data::{data, recordings};
use crate::{json, run};

/// The category that the program itself recorded for each allocation, by the index of its `alloc` event.
fn noted(tags: &Path) -> BTreeMap<u64, String> {
    let tags: Value = serde_json::from_slice(&std::fs::read(tags).unwrap()).unwrap();
    let pairs = tags["allocations"].as_array().unwrap().iter();
    pairs.map(|pair| (pair[0].as_u64().unwrap(), pair[1].as_str().unwrap().to_owned())).collect()
}

/// The compared classes: a buffer counts as parameter, an input as activation, and everything without another role as temporary.
fn class(category: &str) -> &str {
    match category {
        "buffer" => "parameter",
        "input" => "activation",
        "other" => "temporary",
        "before_recording" => "preexisting",
        category => category,
    }
}

/// The live bytes after event `last` by class, as the program recorded them. Lifetimes come from the table of allocations, which does not
/// depend on categories.
fn noted_at(file: &str, last: u64, noted: &BTreeMap<u64, String>) -> BTreeMap<String, u64> {
    let table = run(&["export", file, "--format", "csv", "--what", "allocations", "-o", "-"]);
    let mut rows = csv::Reader::from_reader(table.stdout.as_slice());
    let header = rows.headers().unwrap().clone();
    let column = |name: &str| header.iter().position(|h| h == name).unwrap();
    let (from, to, size) = (column("alloc_event"), column("free_event"), column("block_bytes"));
    let mut sums = BTreeMap::new();
    for row in rows.records().map(Result::unwrap) {
        let number = |at: usize| row[at].parse::<u64>().ok();
        if number(to).is_some_and(|to| to <= last) || number(from).is_some_and(|from| from > last) {
            continue;
        }
        let role = match number(from) {
            None => "preexisting",
            Some(from) => noted.get(&from).map_or("temporary", |role| class(role)),
        };
        *sums.entry(role.to_owned()).or_default() += number(size).unwrap();
    }
    sums
}

#[test]
fn categories_are_those_that_programs_noted() {
    let Some(data) = data() else { return };
    let mut told = Vec::new();
    for file in recordings(&data.join("categories")) {
        let name = file.file_name().unwrap().to_string_lossy().replace(".pickle.zst", "");
        let noted = noted(&file.with_file_name(format!("{name}.categories.json")));
        let report = json(&["report", file.to_str().unwrap()]);
        let device = &report["devices"][0];
        let peak = device["peak_allocated_bytes"].as_u64().unwrap();
        let exact = noted_at(file.to_str().unwrap(), device["peak_event"].as_u64().unwrap(), &noted);
        assert_eq!(exact.values().sum::<u64>(), peak, "{name}");
        let mut difference: BTreeMap<String, i64> =
            exact.into_iter().map(|(c, b)| (c, -(b as i64))).collect();
        for row in device["categories_at_peak"].as_array().unwrap() {
            let class = class(row["category"].as_str().unwrap()).to_owned();
            *difference.entry(class).or_default() += row["bytes"].as_i64().unwrap();
        }
        let wrong: i64 = difference.values().map(|d| d.abs()).sum::<i64>() / 2;
        told.push((name, wrong as f64 / peak as f64));
    }
    assert!(told.iter().all(|&(_, wrong)| wrong < 0.02), "{told:?}");
}

/// The categories at the peak, largest first, and the steps.
fn row(file: &Path) -> String {
    let report = json(&["report", file.to_str().unwrap()]);
    let mut rows = String::new();
    for device in report["devices"].as_array().unwrap() {
        let peak = device["peak_allocated_bytes"].as_u64().unwrap();
        if peak == 0 {
            continue;
        }
        let parts = device["categories_at_peak"].as_array().unwrap().iter();
        let part = |c: &Value| {
            let (bytes, count) = (c["bytes"].as_u64().unwrap(), &c["count"]);
            let share = 100.0 * bytes as f64 / peak as f64;
            format!(
                "{} {:.1} MiB {share:.1} % ({count})",
                c["category"].as_str().unwrap(),
                bytes as f64 / 1048576.0
            )
        };
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let steps = device["steps"]["steps"].as_array().map_or(0, Vec::len);
        let by = device["steps"]["told_by"].as_str().unwrap_or("nothing");
        rows += &format!("{name} device {}: {steps} steps by {by}\n", device["device"]);
        for part in parts.map(part) {
            rows += &format!("    {part}\n");
        }
    }
    rows
}

#[test]
fn a_table_of_real_recordings() {
    let Some(data) = data() else { return };
    let rows: String = recordings(&data.join("real")).iter().map(|file| row(file)).collect();
    insta::assert_snapshot!(rows);
}

#[test]
fn a_table_of_recordings_on_phantom_gpus() {
    let Some(data) = data() else { return };
    // The programs are the same for all settings and releases.
    let files = recordings(&data.join("phantom"));
    let is_one = |file: &&std::path::PathBuf| file.to_string_lossy().contains("torch2.11-default");
    let rows: String = files.iter().filter(is_one).map(|file| row(file)).collect();
    insta::assert_snapshot!(rows);
}
