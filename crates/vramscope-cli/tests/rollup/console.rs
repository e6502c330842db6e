//! Queries of the page's SQL console: allowed statements, positions in errors, limits, and open recordings.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::json;
use vramscope::analysis::Cancel;
use vramscope::fleet::{Rank, RankFile, RecordingPlace};
use vramscope::trace::formats;
use vramscope_rollup::{Bounds, Job, OpenSessions, QueryError, ReadingOptions, Rows, tables};
use vramscope_session::{ADVICE, Session};

const BOUNDS: Bounds = Bounds { rows: 1000, bytes: 1 << 20, time: Duration::from_secs(60) };

/// The name of a recording that is open. There is no such file.
const OPEN: &str = "no such folder/open.pickle";

/// Queries over an open recording, rank 3.
struct Console {
    session: Arc<Session>,
}

impl Console {
    fn new() -> Self {
        let file = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/leak.pickle")).unwrap();
        let recording = formats::read(&file[..]).unwrap();
        Self { session: Arc::new(Session::new("leak.pickle".to_owned(), recording, ADVICE)) }
    }

    fn query(&self, sql: &str, bounds: Bounds, cancel: &Cancel) -> Result<Rows, QueryError> {
        let rank = Rank { number: 3, ..Rank::default() };
        let recordings = vec![RankFile { rank, place: RecordingPlace::Here(OPEN.into()), length: 0 }];
        let job = Job {
            recordings,
            reading: ReadingOptions { no_cache: true, ..ReadingOptions::default() },
            at_once: 0,
            cluster: None,
        };
        job.rows(sql, OpenSessions::from([(OPEN.to_owned(), Arc::clone(&self.session))]), bounds, cancel)
    }

    fn rows(&self, sql: &str, bounds: Bounds) -> Rows {
        self.query(sql, bounds, &Cancel::default()).unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    fn error(&self, sql: &str) -> (String, Option<(u64, u64)>) {
        match self.query(sql, BOUNDS, &Cancel::default()) {
            Err(QueryError::Sql { text, at }) => (text, at),
            other => panic!("{sql}: {other:?}"),
        }
    }
}

#[test]
fn open_recordings_are_not_read_again() {
    let console = Console::new();
    let events = console.session.trace().devices[0].events.len();
    let rows = console.rows("SELECT rank, file, count(*) AS n FROM events GROUP BY rank, file", BOUNDS);
    let columns: Vec<_> =
        rows.columns.iter().map(|c| (c.name.as_str(), c.is_number, c.values.clone())).collect();
    assert_eq!(
        columns,
        [
            ("rank", true, vec![json!(3)]),
            ("file", false, vec![json!(OPEN)]),
            ("n", true, vec![json!(events)])
        ]
    );
    assert_eq!((rows.is_cut, rows.notes), (false, vec![]));
    let rows = console.rows("SELECT rank, error, peak_allocated_bytes > 0 AS positive FROM summary", BOUNDS);
    let values: Vec<_> = rows.columns.into_iter().map(|column| column.values).collect();
    assert_eq!(values, [vec![json!(3)], vec![json!(null)], vec![json!("true")]]);
    for (table, columns) in tables() {
        let rows = console.rows(&format!("SELECT * FROM {table} LIMIT 1"), BOUNDS);
        assert_eq!(rows.columns.into_iter().map(|c| c.name).collect::<Vec<_>>(), columns, "{table}");
    }
}

#[test]
fn statements_only_read_the_open_recordings() {
    let console = Console::new();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (secret, out) = (path("secret.csv"), path("out.csv"));
    std::fs::write(&secret, "a,b\n1,2\n").unwrap();
    for sql in [
        format!("CREATE EXTERNAL TABLE mine STORED AS CSV LOCATION '{secret}'"),
        "CREATE TABLE mine AS SELECT 1".to_owned(),
        "CREATE VIEW mine AS SELECT 1".to_owned(),
        "DROP TABLE events".to_owned(),
        format!("COPY (SELECT 1) TO '{out}'"),
        format!("EXPLAIN ANALYZE COPY (SELECT 1) TO '{out}'"),
        "INSERT INTO events SELECT * FROM events".to_owned(),
        "UPDATE events SET event = 1".to_owned(),
        "DELETE FROM events".to_owned(),
        "SET datafusion.execution.batch_size = 1".to_owned(),
        "PREPARE mine AS SELECT 1".to_owned(),
        "BEGIN".to_owned(),
        format!("SELECT * FROM '{secret}'"),
        format!("SELECT * FROM \"{secret}\""),
        format!("SELECT * FROM read_csv('{secret}')"),
        format!("SELECT * FROM parquet_metadata('{secret}')"),
        "SELECT 1; SELECT 2".to_owned(),
        String::new(),
    ] {
        let (text, _) = console.error(&sql);
        assert!(!text.is_empty() && text.lines().count() == 1, "{sql}: {text}");
    }
    let refused = "only queries that read are allowed, not ";
    assert!(console.error(&format!("COPY (SELECT 1) TO '{out}'")).0.starts_with(refused));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    // The settings are those of before.
    assert_eq!(console.rows("SELECT count(*) FROM events", BOUNDS).columns.len(), 1);
}

#[test]
fn errors_have_the_position_of_the_word() {
    let console = Console::new();
    for (sql, at) in [
        ("CHOOSE rank", (1, 1)),
        ("SELECT event,\n  nothing\nFROM events", (2, 3)),
        ("SELECT 1 FROM nowhere", (1, 15)),
        ("SELECT\n*\nFROM events\nWHERE )", (4, 7)),
    ] {
        let (text, found) = console.error(sql);
        assert_eq!(found, Some(at), "{sql}: {text}");
    }
}

#[test]
fn results_are_limited_in_rows_bytes_and_time() {
    let console = Console::new();
    let count = |rows: &Rows| rows.columns.iter().map(|column| column.values.len()).collect::<Vec<_>>();
    let all = "SELECT event, action FROM events ORDER BY event";
    let rows = console.rows(all, Bounds { rows: 7, ..BOUNDS });
    assert_eq!((count(&rows), rows.is_cut), (vec![7, 7], true));
    let events = console.session.trace().devices[0].events.len();
    let rows = console.rows(all, Bounds { rows: events, ..BOUNDS });
    assert_eq!((count(&rows), rows.is_cut), (vec![events, events], false));
    let rows = console.rows(all, Bounds { bytes: 100, ..BOUNDS });
    assert!(rows.is_cut && (5..100).contains(&count(&rows)[0]), "{:?}", count(&rows));
    let endless = "SELECT count(*) FROM events a CROSS JOIN events b CROSS JOIN events c WHERE a.event + b.event + c.event < 0";
    let bounds = Bounds { time: Duration::from_millis(200), ..BOUNDS };
    let error = console.query(endless, bounds, &Cancel::default()).unwrap_err().to_string();
    assert!(error.starts_with("the query took longer than 0.2 s"), "{error}");
    let cancel = Cancel::default();
    let cancelled = thread::scope(|scope| {
        let running = scope.spawn(|| console.query(endless, BOUNDS, &cancel));
        thread::sleep(Duration::from_millis(200));
        cancel.cancel();
        running.join().unwrap()
    });
    assert_eq!(cancelled.unwrap_err().to_string(), "the query was cancelled");
}
