//! Allowed statements, files that queries read, and errors.

use std::fs;

use serde_json::{Value, json};

use crate::Fleet;

#[test]
fn a_query_reads_recordings_and_nothing_else() {
    let fleet = Fleet::new();
    fs::write(fleet.path("secret.csv"), "a,b\n1,2\n").unwrap();
    let not_answered = "error: query: only queries that read are allowed, not ";
    for (sql, said) in [
        ("CREATE TABLE mine AS SELECT 1", not_answered),
        ("CREATE EXTERNAL TABLE mine STORED AS CSV LOCATION 'secret.csv'", not_answered),
        ("COPY (SELECT 1) TO 'out.csv'", not_answered),
        ("INSERT INTO events SELECT * FROM events", not_answered),
        ("DROP TABLE events", not_answered),
        ("SET datafusion.execution.batch_size = 1", not_answered),
        ("SELECT * FROM 'secret.csv'", "error: query: table 'datafusion.public.secret.csv' not found"),
        ("SELECT * FROM read_csv('secret.csv')", "error: query: table function 'read_csv' not found"),
        ("SELECT nothing FROM events", "error: query: Schema error: No field named nothing."),
        ("SELEC rank", "error: query: Expected: an SQL statement, found: SELEC at Line: 1, Column: 1"),
        ("SELECT 1; SELECT 2", "error: query: "),
        ("", "error: query: "),
    ] {
        let output = fleet.run(&["query", sql, "recordings/", "-o", "rows.csv"]);
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(err.starts_with(said) && err.lines().count() == 1, "{sql}: {err}");
        assert_eq!(output.status.code(), Some(2), "{sql}");
        assert!(!fleet.path("rows.csv").exists() && !fleet.path("out.csv").exists(), "{sql}");
    }
}

/// A rank that the filter excludes is not opened, so it cannot be reported as broken.
#[test]
fn files_that_a_filter_leaves_out_are_not_read() {
    let fleet = Fleet::new();
    let [first, second, third] = fleet.plan.broken;
    for (filter, broken) in [
        ("true".to_owned(), 3),
        (format!("rank NOT IN ({first}, {second})"), 1),
        (format!("rank > {third}"), 0),
        (format!("file LIKE '%rank_{second:04}%'"), 1),
        ("host = 'host-00'".to_owned(), 3),
        ("host = 'host-01'".to_owned(), 0),
        (format!("rank = (SELECT max(rank) FROM summary WHERE error IS NOT NULL) OR rank = {first}"), 3),
    ] {
        let (_, said) = fleet.query(&[&format!("SELECT count(*) FROM events WHERE {filter}"), "recordings/"]);
        assert_eq!(said.lines().count(), broken, "{filter}: {said}");
    }
}

/// The cache can answer queries that need only summaries, even if the recordings are deleted.
#[test]
fn queries_of_summaries_are_answered_from_the_cache() {
    let fleet = Fleet::new();
    let sql = "SELECT * FROM summary ORDER BY rank";
    let before = fleet.query(&[sql, "recordings/"]);
    let mut files = fs::read_dir(fleet.path("cache/vramscope/summaries")).unwrap();
    let kept = files.next().unwrap().unwrap().path();
    assert!(files.next().is_none());
    let text = fs::read_to_string(&kept).unwrap();
    assert_eq!(fleet.query(&[sql, "recordings/"]), before);
    // The answer comes from the cache.
    let peak = before.0[7]["peak_allocated_bytes"].to_string();
    fs::write(&kept, text.replace(&peak, "123")).unwrap();
    assert_eq!(fleet.query(&[sql, "recordings/"]).0[7]["peak_allocated_bytes"], 123);
    assert_eq!(fleet.query(&[sql, "recordings/", "--no-cache"]), before);
}

#[test]
fn every_form_has_the_same_rows() {
    let fleet = Fleet::new();
    let sql = "SELECT rank, action, size_bytes, time_us, line FROM events ORDER BY rank, event";
    let (rows, _) = fleet.query(&[sql, "recordings/"]);
    let rows = rows.as_array().unwrap();
    let output = fleet.run(&["query", sql, "recordings/", "--format", "csv"]);
    let mut csv = csv::Reader::from_reader(&output.stdout[..]);
    let names: Vec<String> = csv.headers().unwrap().iter().map(str::to_owned).collect();
    let mut count = 0;
    for (theirs, ours) in csv.records().zip(rows) {
        for (name, cell) in names.iter().zip(&theirs.unwrap()) {
            let value = match &ours[name] {
                Value::String(text) => text.clone(),
                Value::Null => String::new(),
                value => value.to_string(),
            };
            assert_eq!(cell, value, "{name}");
        }
        count += 1;
    }
    assert_eq!(count, rows.len());
    // A text table has a limit on rows, and prints a note about it.
    let output = fleet.run(&["query", sql, "recordings/"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1000 + 4);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("only the first 1000 rows are shown"), "{said}");
    // The next query of the command reads the Parquet file.
    assert!(fleet.run(&["query", sql, "recordings/", "-o", "rows.parquet"]).status.success());
    assert!(fs::read(fleet.path("rows.parquet")).unwrap().starts_with(b"PAR1"));
    for limit in [0, 1, 5, 9000] {
        let (some, _) = fleet.query(&[&format!("SELECT event FROM events LIMIT {limit}"), "recordings/"]);
        assert_eq!(some.as_array().unwrap().len(), limit.min(rows.len()));
    }
}

#[test]
fn a_job_that_cannot_be_read_has_no_answer() {
    let fleet = Fleet::new();
    let broken = format!("recordings/{}", fleet.plan.file(fleet.plan.broken[0]).display());
    let output = fleet.run(&["query", "SELECT count(*) FROM events", &broken]);
    let said = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        matches!(lines[..], [note, error] if note.starts_with(&format!("note: {broken}: "))
        && error == "error: none of 1 recording could be read"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(2));
    let (rows, _) = fleet.query(&["SELECT count(*) AS n FROM summary", "recordings/"]);
    assert_eq!(rows, json!([{"n": 8}]));
}
