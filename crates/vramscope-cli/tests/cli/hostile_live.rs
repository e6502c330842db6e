//! Programs that claim to serve memory but misbehave: `top` keeps answering its user, and `monitor` ends with a message and a log.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead as _, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::top::{Home, Screen};
use crate::vramscope;

/// A text that would control a terminal or a spreadsheet.
const HOSTILE: &str = "=1+1\u{1b}[2J\u{1b}]0;title\u{7}\r\n\u{9b}31m\u{7f}\u{202e}\u{61c}\u{200b}\u{feff}";

/// The response of a server to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// Sends a byte now and then, and never a whole line.
    Drips,
    /// Sends as many bytes as possible, and never a whole line.
    Pours,
    /// Answers with an error that contains control characters.
    Complains,
    /// Reads the request and does not answer.
    IsSilent,
    /// Starts an answer and closes the connection.
    Breaks,
    /// Sends an invalid answer.
    Babbles,
}
use Habit::{Babbles, Breaks, Complains, Drips, IsSilent, Pours};

const HABITS: [Habit; 6] = [Drips, Pours, Complains, IsSilent, Breaks, Babbles];

/// All habits in parallel, because such tests mostly wait.
fn with_every_habit(test: impl Fn(Habit) + Sync) {
    let test = &test;
    std::thread::scope(|scope| {
        for habit in HABITS {
            scope.spawn(move || test(habit));
        }
    });
}

impl Habit {
    fn answer(self, to: &mut UnixStream) -> std::io::Result<()> {
        match self {
            Drips => loop {
                to.write_all(b" ")?;
                std::thread::sleep(Duration::from_millis(20));
            },
            Pours => loop {
                to.write_all(&[b'x'; 64 << 10])?;
            },
            Complains => writeln!(to, "{}", json!({ "error": HOSTILE.repeat(1000) })),
            IsSilent => Ok(()),
            Breaks => {
                to.write_all(b"{\"time_us\": 1, \"now\": {")?;
                to.shutdown(std::net::Shutdown::Both)
            }
            Babbles => to.write_all("[[[[\u{9b}31m\u{202e}\n".as_bytes()),
        }
    }
}

/// Serves at `path` while this test runs: greets correctly, unless its habit prevents it, and then follows its habit.
fn serve(path: &Path, habit: Habit, greets: bool) {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || follow(stream, habit, greets));
        }
    });
}

fn follow(mut stream: UnixStream, habit: Habit, greets: bool) -> std::io::Result<()> {
    let questions = BufReader::new(stream.try_clone()?);
    for question in questions.lines() {
        if greets && question?.contains("hello") {
            let title = format!("fake{HOSTILE}");
            let hello = json!({"vramscope_live": 1, "pid": 1, "title": title, "source_name": HOSTILE,
                "device_id": null, "collects_holders": true});
            writeln!(stream, "{hello}")?;
        } else {
            habit.answer(&mut stream)?;
        }
    }
    Ok(())
}

/// Our output may contain line ends and styles, which are not requested here.
fn steers(text: &str) -> bool {
    text.chars().any(|c| c != '\n' && !c.is_ascii_graphic() && HOSTILE.contains(c))
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("fake.sock")
}

#[test]
fn top_answers_its_user_whatever_the_program_does() {
    for habit in HABITS {
        for end in ["q", "TERM"] {
            let home = Home::new();
            serve(&socket(home.path()), habit, true);
            let args = "--interval 0.1 --socket fake.sock";
            let Some(screen) = Screen::start(&home, args, 100, 24) else { return };
            let shown = screen.until("fake");
            assert!(!steers(&shown), "{habit:?}: {shown}");
            // Before and after the time limit of an answer.
            if end == "TERM" && habit != Breaks && habit != Pours {
                // Only the beginning fits into the column.
                screen.until(match habit {
                    Drips | IsSilent => "- no response",
                    Complains => "- =1+1",
                    _ => "- invalid resp",
                });
            }
            if end == "q" {
                screen.press("q");
            } else {
                let pid = fs::read_to_string(screen.file("pid")).unwrap();
                assert!(Command::new("kill").args(["-s", end, pid.trim()]).status().unwrap().success());
            }
            screen.is_given_back();
        }
    }
}

#[test]
fn monitor_ends_with_a_sentence_and_a_log() {
    with_every_habit(|habit| {
        for name in ["log.jsonl", "log.csv"] {
            let folder = tempfile::tempdir().unwrap();
            serve(&socket(folder.path()), habit, true);
            let log = folder.path().join(name);
            let mut command = vramscope(&["monitor", "fake.sock", "--interval", "0.05", "--duration", "0.3"]);
            let output = command.arg("--output").arg(&log).current_dir(folder.path()).output().unwrap();
            let [said, told] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
            assert_eq!(output.status.code(), Some(0), "{habit:?}: {told}");
            assert!(!steers(&said) && !steers(&told), "{habit:?}: {said}{told}");
            let how = match habit {
                Breaks => "has ended: 0 samples",
                _ => "0 samples",
            };
            assert!(said.contains(how), "{habit:?}: {said}");
            if habit != Breaks {
                assert!(said.contains(" failed; the last: "), "{habit:?}: {said}");
            }
            let log = fs::read_to_string(log).unwrap();
            assert!(!steers(&log), "{habit:?}: {log}");
            let events: Vec<String> = match name {
                "log.csv" => {
                    let mut csv = csv::Reader::from_reader(log.as_bytes());
                    let rows: Vec<csv::StringRecord> = csv.records().map(Result::unwrap).collect();
                    assert!(rows.iter().flatten().all(|cell| !cell.starts_with('=')), "{habit:?}: {log}");
                    rows.iter().map(|row| row[1].to_owned()).collect()
                }
                _ => {
                    let rows = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
                    rows.map(|row| row["event"].as_str().unwrap().to_owned()).collect()
                }
            };
            assert_eq!(events.first().map(String::as_str), Some("start"), "{habit:?}: {log}");
            assert_eq!(events.last().map(String::as_str), Some("stop"), "{habit:?}: {log}");
        }
    });
}

/// A program that does not even send a greeting does not block.
#[test]
fn a_program_without_a_greeting_is_refused_in_one_sentence() {
    with_every_habit(|habit| {
        let home = Home::new();
        let path = socket(home.path());
        serve(&path, habit, false);
        let path = path.to_str().unwrap();
        for args in [&["monitor", path][..], &["top", "--json", "--socket", path]] {
            let mut command = vramscope(args);
            let output = command.env("XDG_RUNTIME_DIR", home.path()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{habit:?}: {said}");
            assert!(said.starts_with("error: ") && said.lines().count() == 1, "{habit:?}: {said}");
            assert!(!steers(&said), "{habit:?}: {said}");
        }
    });
}
