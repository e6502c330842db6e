//! The SQL console with an engine that answers what it was given.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use vramscope_analysis::Cancel;
use vramscope_session::Session;
use vramscope_viewer::{Library, Server, SqlAnswer, SqlColumn, SqlEngine, SqlError, SqlFile, SqlTable};

use crate::{Address, example};

const LONG: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Echo {
    /// Is told when a query that never ends has begun, and when it was cancelled.
    told: Mutex<Sender<&'static str>>,
}

impl SqlEngine for Echo {
    fn tables(&self) -> Vec<SqlTable> {
        vec![SqlTable { name: "events".to_owned(), columns: vec!["event".to_owned()] }]
    }

    fn answer(&self, sql: &str, open: Vec<(usize, Arc<Session>)>, cancel: &Cancel) -> SqlAnswer {
        if sql == "forever" {
            self.told.lock().unwrap().send("begun").unwrap();
            while !cancel.is_cancelled() {
                std::thread::sleep(Duration::from_millis(1));
            }
            self.told.lock().unwrap().send("cancelled").unwrap();
        }
        let file = |(position, session): (usize, Arc<Session>)| SqlFile {
            rank: 7,
            name: session.name().to_owned(),
            position,
        };
        let column =
            SqlColumn { name: "sql".to_owned(), is_number: false, values: vec![sql.into(), Value::Null] };
        SqlAnswer {
            columns: vec![column],
            files: open.into_iter().map(file).collect(),
            error: (sql == "wrong").then(|| SqlError { text: "no such word".to_owned(), at: Some((1, 2)) }),
            ..SqlAnswer::default()
        }
    }
}

#[test]
fn queries_are_about_the_open_recordings_and_end_with_their_connection() {
    let (told, tells) = channel();
    let library = Arc::new(Library::default().with_sql(Ok(Arc::new(Echo { told: Mutex::new(told) }))));
    library.add(example("leak.pickle"));
    library.add(example("oom.pickle"));
    library.complete();
    let server = Server::bind(0).unwrap();
    let address = Address::of(&server.url());
    std::thread::spawn(move || server.serve(library));
    let tables: Value = serde_json::from_slice(&address.get("api/sql").body).unwrap();
    assert_eq!(tables, json!({ "missing": null, "tables": [{ "name": "events", "columns": ["event"] }] }));
    let ask = |body: &str| address.ask("POST", &address.path("api/sql"), &[], body.as_bytes());
    let answered = |sql: &str| -> Value {
        serde_json::from_slice(&ask(&json!({ "sql": sql }).to_string()).body).unwrap()
    };
    let file = |name, position| json!({ "rank": 7, "name": name, "position": position });
    let both = answered("SELECT");
    assert_eq!(both["files"], json!([file("leak.pickle", 0), file("oom.pickle", 1)]));
    assert_eq!(both["columns"], json!([{ "name": "sql", "is_number": false, "values": ["SELECT", null] }]));
    assert_eq!(answered("wrong")["error"], json!({ "text": "no such word", "at": [1, 2] }));
    // A closed recording is left out; positions stay.
    assert_eq!(address.ask("POST", &address.path("api/0/close"), &[], b"").status, 204);
    assert_eq!(answered("SELECT")["files"], json!([file("oom.pickle", 1)]));
    for (body, status) in [("", 400), ("{}", 400), ("{\"sql\": 3}", 400)] {
        assert_eq!(ask(body).status, status, "{body}");
    }
    let long = json!({ "sql": " ".repeat(64 << 10) }).to_string();
    assert_eq!(ask(&long).status, 413);
    // Closing the connection cancels the query.
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: {}\r\ncontent-length: 17\r\n\r\n{{\"sql\":\"forever\"}}",
        address.path("api/sql"),
        address.host
    );
    let mut stream = std::net::TcpStream::connect(&address.host).unwrap();
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    assert_eq!(tells.recv_timeout(LONG), Ok("begun"));
    drop(stream);
    assert_eq!(tells.recv_timeout(LONG), Ok("cancelled"));
}

#[test]
fn a_server_without_an_engine_has_no_tables() {
    let address = crate::server();
    let tables: Value = serde_json::from_slice(&address.get("api/sql").body).unwrap();
    let why = "the program that serves this page has no SQL engine";
    assert_eq!(tables, json!({ "missing": why, "tables": [] }));
    let refused = address.ask("POST", &address.path("api/sql"), &[], b"{\"sql\":\"SELECT 1\"}");
    assert_eq!((refused.status, refused.text()), (400, json!({ "error": why }).to_string()));
}
