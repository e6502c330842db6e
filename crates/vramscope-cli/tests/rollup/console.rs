//! Queries of the page's SQL console: allowed statements, positions in errors, limits, and open recordings.

use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

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
    let web = TcpListener::bind("127.0.0.1:0").unwrap();
    web.set_nonblocking(true).unwrap();
    let url = format!("http://{}/secret.csv", web.local_addr().unwrap());
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
        "RESET datafusion.execution.batch_size".to_owned(),
        "PREPARE mine AS SELECT 1".to_owned(),
        format!("PREPARE mine AS COPY (SELECT 1) TO '{out}'"),
        "EXECUTE mine".to_owned(),
        "DEALLOCATE mine".to_owned(),
        "BEGIN".to_owned(),
        "COMMIT".to_owned(),
        "CREATE SCHEMA mine".to_owned(),
        "CREATE DATABASE mine".to_owned(),
        "CREATE FUNCTION mine(INT) RETURNS INT RETURN $1".to_owned(),
        "TRUNCATE events".to_owned(),
        "MERGE INTO events USING summary ON true WHEN MATCHED THEN DELETE".to_owned(),
        "SELECT * INTO mine FROM events".to_owned(),
        format!("CREATE EXTERNAL TABLE mine STORED AS CSV LOCATION '{url}'"),
        format!("EXPLAIN CREATE EXTERNAL TABLE mine STORED AS CSV LOCATION '{url}'"),
        format!("COPY (SELECT 1) TO '{url}'"),
        format!("INSERT INTO '{out}' SELECT 1"),
        "EXPLAIN ANALYZE INSERT INTO events SELECT * FROM events".to_owned(),
        "EXPLAIN ANALYZE SET datafusion.execution.batch_size = 1".to_owned(),
        format!("SELECT * FROM '{url}'"),
        format!("SELECT * FROM \"{url}\""),
        format!("SELECT * FROM \"file://{secret}\""),
        format!("SELECT * FROM read_parquet('{url}')"),
        format!("SELECT read_file('{secret}')"),
        "SELECT * FROM list_files_cache()".to_owned(),
        "SELECT @@version".to_owned(),
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
    assert_eq!(web.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    // The settings are those of before.
    assert_eq!(console.rows("SELECT count(*) FROM events", BOUNDS).columns.len(), 1);
}

/// Each of these took gigabytes, or ended the process: values of a size that the query states, and plans that are deeper than a stack.
#[test]
fn a_query_has_no_value_of_any_size_and_no_plan_of_any_depth() {
    let console = Console::new();
    let chain = |part: &str, by: &str, count: usize| vec![part; count].join(by);
    let in_cube = (0..9).map(|n| format!("event + {n}")).collect::<Vec<_>>().join(", ");
    for sql in [
        "SELECT length(repeat('x', 2000000000))".to_owned(),
        "SELECT sum(length(lpad(line, 100000000))) FROM events".to_owned(),
        "SELECT sum(length(rpad(line, 100000000, 'xy'))) FROM events".to_owned(),
        "SELECT array_length(array_repeat(1, 2000000000))".to_owned(),
        "SELECT array_length(list_repeat(1, 2000000000))".to_owned(),
        "SELECT array_length(array_resize([1], 2000000000))".to_owned(),
        "SELECT array_length(list_resize([1], 2000000000))".to_owned(),
        "SELECT array_length(range(0, 2000000000))".to_owned(),
        "SELECT array_length(generate_series(0, 2000000000))".to_owned(),
        "SELECT CAST(NULL AS INT[2000000000])".to_owned(),
        "SELECT event FROM events WHERE event IN (SELECT [1]::INT[2000000000][1])".to_owned(),
        "EXPLAIN SELECT TRY_CAST([1] AS INT[2000000000])".to_owned(),
        "SELECT arrow_cast([1], 'FixedSizeList(2000000000 x Int64)')".to_owned(),
        "SELECT arrow_try_cast([1], 'FixedSizeList(2000000000 x Int64)')".to_owned(),
        "SELECT approx_percentile_cont(0.5, 2000000000) WITHIN GROUP (ORDER BY event) FROM events".to_owned(),
        "SELECT approx_percentile_cont_with_weight(1, 0.5, 2000000000) WITHIN GROUP (ORDER BY event) FROM events"
            .to_owned(),
        format!("SELECT count(*) FROM events GROUP BY CUBE({in_cube})"),
        format!("SELECT {}", chain("1", "+", 30_000)),
        format!("SELECT {}", chain("'x'", "||", 10_000)),
        format!("SELECT count(*) FROM events WHERE {}", chain("event = 1", " OR ", 5000)),
        format!("SELECT {}true", "NOT ".repeat(10_000)),
        format!("SELECT {}1{}", "(".repeat(20_000), ")".repeat(20_000)),
        chain("SELECT 1", " UNION ALL ", 2000),
    ] {
        let begun = Instant::now();
        let (text, _) = console.error(&sql);
        let start: String = sql.chars().take(100).collect();
        assert!(!text.is_empty() && text.lines().count() == 1, "{start}: {text}");
        assert!(!text.contains("panicked") && begun.elapsed() < BOUNDS.time / 2, "{start}: {text}");
    }
    // Statements below the limits.
    let sum = console.rows(&format!("SELECT {}", chain("1", "+", 1000)), BOUNDS);
    assert_eq!(sum.columns[0].values, [json!(1000)]);
    let numbers = (0..10_000).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let rows = console.rows(&format!("SELECT count(*) > 0 FROM events WHERE event IN ({numbers})"), BOUNDS);
    assert_eq!(rows.columns[0].values, [json!("true")]);
    let rows = console.rows("SELECT count(*) FROM range(1, 10) GROUP BY CUBE(value, value % 2)", BOUNDS);
    assert_eq!(rows.columns[0].values.len(), 9 + 2 + 9 + 1);
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
    for endless in [
        endless,
        "SELECT count(*) FROM generate_series(1, 9223372036854775807)",
        "WITH RECURSIVE more AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM more) SELECT count(*) FROM more",
    ] {
        let error = console.query(endless, bounds, &Cancel::default()).unwrap_err().to_string();
        assert!(error.starts_with("the query took longer than 0.2 s"), "{endless}: {error}");
    }
    let cancel = Cancel::default();
    let cancelled = thread::scope(|scope| {
        let running = scope.spawn(|| console.query(endless, BOUNDS, &cancel));
        thread::sleep(Duration::from_millis(200));
        cancel.cancel();
        running.join().unwrap()
    });
    assert_eq!(cancelled.unwrap_err().to_string(), "the query was cancelled");
}
