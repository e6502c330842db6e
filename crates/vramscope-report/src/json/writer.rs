//! JSON output. Characters that would control a terminal are escaped as `\u009b`, which every JSON parser reads as the same text.

use std::io::{self, BufWriter, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

use crate::shown::is_unfit;

/// Writes `value` as indented JSON with a final line break. Characters that control a terminal, change the text direction or are
/// invisible are escaped as `\uXXXX`.
///
/// # Errors
/// Returns the error of `out`.
pub fn write_json(out: impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    write(&mut out, value, PrettyFormatter::new())?;
    out.flush()
}

/// Like [`write_json`], on one line, as a row of JSON Lines.
///
/// # Errors
/// Returns the error of `out`.
pub fn write_json_line(out: impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    write(&mut out, value, CompactFormatter)?;
    out.flush()
}

fn write(out: &mut impl Write, value: &impl Serialize, formatter: impl Formatter) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut *out, Visible(formatter)))?;
    out.write_all(b"\n")
}

/// Formats like `F`, and escapes all invisible characters of strings.
struct Visible<F>(F);

impl<F: Formatter> Formatter for Visible<F> {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|&(_, c)| is_unfit(c)) {
            out.write_all(&rest.as_bytes()[..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_array(out)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array(out)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        self.0.begin_array_value(out, is_first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array_value(out)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object(out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        self.0.begin_object_key(out, is_first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object_value(out)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn it_is_the_same_json_and_steers_nothing() {
        let text = "größe \u{1b}[31m\u{7f}\u{9b}\u{202e}\u{61c}\u{feff}\u{e0041}\u{1d173}模\"\\\n";
        let value = json!({ text: [text, {}, [], 1.5, null], "nested": { "list": [1, [2]] } });
        let mut out = Vec::new();
        write_json(&mut out, &value).unwrap();
        let written = String::from_utf8(out).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), value);
        assert!(!written.chars().any(|c| c != '\n' && is_unfit(c)), "{written}");
        assert!(written.contains("größe") && written.contains("\\udb40\\udc41"), "{written}");
        // The one-line form.
        let mut out = Vec::new();
        write_json_line(&mut out, &value).unwrap();
        let line = String::from_utf8(out).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), value);
        assert!(line.ends_with('\n') && !line.trim_end_matches('\n').chars().any(is_unfit), "{line}");
        // Other characters are written unchanged.
        let plain = json!({ "nested": { "list": [1, [2], [], {}] }, "text": "größe" });
        let mut out = Vec::new();
        write_json(&mut out, &plain).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string_pretty(&plain).unwrap() + "\n");
        let mut out = Vec::new();
        write_json_line(&mut out, &plain).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), plain.to_string() + "\n");
    }
}
