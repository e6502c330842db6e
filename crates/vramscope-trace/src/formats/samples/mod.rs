//! Logs of samples from `vramscope monitor` and trackers: CSV, JSON Lines, JSON.
//!
//! A log may span days, and its writer may have been killed. So rows are read one at a time into bounded memory, and invalid rows are
//! ignored and counted.

mod fields;
mod gather;
mod guard;
mod json;
mod row;
mod table;

use std::fmt;
use std::io::{self, BufRead as _, BufReader};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::start::FirstObject;
use super::window::Window;
use crate::error::ReadError;
use crate::samples::{SampleForm, SampleLog};
use fields::Field;
use gather::Gather;
use guard::Guard;
use json::Cell;
use row::Row;
use table::read_table;

/// Maximum size in bytes of a row, or of a text in a row.
const LONGEST_ROW: usize = 1 << 20;

/// Returns the format of the log with this first object; `None` if it is not a log, or not yet recognizable as one.
pub(super) fn form_of_json(object: &FirstObject) -> Option<SampleForm> {
    if !object.in_list && object.has("summary") && object.has("results") {
        return Some(SampleForm::SavedResults);
    }
    let is_row = object.keys.iter().any(|key| is_time(key));
    let is_of_a_bundle = object.has("version") && object.has("files");
    (is_row && !is_of_a_bundle).then_some(if object.in_list {
        SampleForm::Json
    } else {
        SampleForm::JsonLines
    })
}

/// Like [`form_of_json`], for a table that begins with these bytes.
pub(super) fn form_of_table(start: &[u8]) -> Option<SampleForm> {
    let line = start.split(|&b| b == b'\n').next().unwrap_or_default();
    let names: Vec<&str> =
        line.split(|&b| b == b',').map(text).map(|name| name.trim().trim_matches('"')).collect();
    let in_use = |name: &&str| matches!(Field::of_row(name), Some(Field::Now(_)));
    // Exported events also have times, but they also have an action.
    let is_log =
        names.iter().any(|name| is_time(name)) && names.iter().any(in_use) && !names.contains(&"action");
    is_log.then_some(SampleForm::Csv)
}

/// Whether a field of this name is the time of a row. The top level of a PyTorch snapshot has no such name.
fn is_time(name: &str) -> bool {
    Field::of_row(name).is_some_and(Field::is_time)
}

/// Reads a log of this format from its first byte.
pub(super) fn read(form: SampleForm, window: Window<'_>) -> Result<SampleLog, ReadError> {
    let mut gather = Gather::new(form);
    let cut_off = match form {
        SampleForm::JsonLines => read_lines(window, &mut gather),
        SampleForm::Csv => read_table(window, &mut gather),
        SampleForm::Json | SampleForm::SavedResults => read_json(window, &mut gather),
    }?;
    let rows = gather.rows();
    let log = gather.finish(cut_off);
    if log.series.is_empty() && log.calls.is_empty() && log.events.is_empty() && log.damage.bad_rows == rows {
        return Err(ReadError::NoSamples { rows });
    }
    Ok(log)
}

/// Treats an early end of the stream as the end of the log, because its writer was killed. Returns other errors.
fn stopped(error: io::Error) -> Result<bool, ReadError> {
    if error.kind() == io::ErrorKind::UnexpectedEof { Ok(true) } else { Err(error.into()) }
}

fn read_lines(mut window: Window<'_>, gather: &mut Gather) -> Result<bool, ReadError> {
    // Whether the line is too long and its beginning was skipped.
    let mut too_long = false;
    loop {
        let mut searched = 0;
        let end = loop {
            if let Err(e) = window.fill(searched + 1) {
                return stopped(e);
            }
            let here = window.here();
            match here[searched..].iter().position(|&b| b == b'\n') {
                Some(at) => break Some(searched + at),
                None if here.len() == searched => break None,
                None => searched = here.len(),
            }
            if searched > LONGEST_ROW {
                too_long = true;
                window.advance(searched);
                searched = 0;
            }
        };
        let line = &window.here()[..end.unwrap_or(searched)];
        let is_empty = line.trim_ascii().is_empty();
        let row = if too_long || is_empty { None } else { json::row(line) };
        let Some(end) = end else {
            // The last line has no newline: it is complete, or its writer was killed.
            let is_cut = row.is_none() && (too_long || !is_empty);
            row.into_iter().for_each(|row| gather.push(Some(row)));
            return Ok(is_cut);
        };
        if too_long || !is_empty {
            gather.push(row);
        }
        too_long = false;
        window.advance(end + 1);
    }
}

/// Reads a list of rows, or an object of saved results that has such a list.
fn read_json(window: Window<'_>, gather: &mut Gather) -> Result<bool, ReadError> {
    let mut stream = BufReader::new(Guard::new(window));
    let mut text = serde_json::Deserializer::from_reader(&mut stream);
    let read = Whole(gather).deserialize(&mut text).and_then(|()| text.end());
    match read {
        Ok(()) => Ok(false),
        Err(e) if e.is_io() => stopped(e.into()),
        Err(e) if gather.rows() == 0 => Err(ReadError::Json(e.to_string())),
        Err(e) if e.is_eof() => Ok(true),
        Err(_) => read_rest(stream, gather),
    }
}

/// Reads the rows behind a damaged one: each begins with a brace behind a comma. Returns whether the text ends before its list does.
fn read_rest(mut stream: BufReader<Guard<'_>>, gather: &mut Gather) -> Result<bool, ReadError> {
    // A damaged row at the end of the text is cut off.
    let mut is_damaged = true;
    let mut last = 0;
    loop {
        let here = match stream.fill_buf() {
            Ok(here) => here,
            Err(e) => return stopped(e),
        };
        let Some(&byte) = here.first() else { return Ok(is_damaged || last != b']') };
        if std::mem::take(&mut is_damaged) {
            gather.push(None);
        }
        if byte != b'{' || last != b',' {
            last = if byte.is_ascii_whitespace() { last } else { byte };
            stream.consume(1);
            continue;
        }
        let mut row = Row::default();
        let mut text = serde_json::Deserializer::from_reader(&mut stream);
        match (Cell { field: Some(Field::Row), row: &mut row }).deserialize(&mut text) {
            Ok(()) => gather.push(Some(row)),
            Err(e) if e.is_io() => return stopped(e.into()),
            Err(e) => is_damaged = !e.is_eof(),
        }
        last = b'}';
    }
}

/// Parser of a whole JSON log.
struct Whole<'g>(&'g mut Gather);

impl<'de> DeserializeSeed<'de> for Whole<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Whole<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of samples, or saved results")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        loop {
            let mut row = Row::default();
            let next = list.next_element_seed(Cell { field: Some(Field::Row), row: &mut row })?;
            if next.is_none() {
                return Ok(());
            }
            self.0.push(Some(row));
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "snapshots" => map.next_value_seed(Whole(self.0))?,
                "results" => map.next_value_seed(Results(self.0))?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Parser of the results of profiled functions.
struct Results<'g>(&'g mut Gather);

/// The relevant fields of a result.
#[derive(Deserialize)]
struct CallResult {
    #[serde(default)]
    function_name: String,
    #[serde(default)]
    peak_memory_usage: Option<u64>,
    #[serde(default)]
    memory_diff: Option<i64>,
}

impl<'de> DeserializeSeed<'de> for Results<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Results<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of results")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(call) = list.next_element::<CallResult>()? {
            self.0.call(call.function_name, call.peak_memory_usage, call.memory_diff.unwrap_or(0));
        }
        Ok(())
    }
}

/// Returns a table cell as text; empty if it is not UTF-8.
fn text(cell: &[u8]) -> &str {
    std::str::from_utf8(cell).unwrap_or_default()
}
