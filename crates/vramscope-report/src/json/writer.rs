//! JSON output. Characters that would control a terminal are escaped as `\u009b`, which every JSON parser reads as the same text.

use std::io::{self, BufWriter, Write};

use serde::Serialize;

use crate::shown::is_unfit;

/// Writes `value` as indented JSON with a final line break. Characters that control a terminal, change the text direction or are
/// invisible are escaped as `\uXXXX`.
///
/// # Errors
/// Returns the error of `out`.
pub fn write_json(out: impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut out = Visible(BufWriter::new(out));
    serde_json::to_writer_pretty(&mut out, value)?;
    out.end()
}

/// Like [`write_json`], on one line, as a row of JSON Lines.
///
/// # Errors
/// Returns the error of `out`.
pub fn write_json_line(out: impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut out = Visible(BufWriter::new(out));
    serde_json::to_writer(&mut out, value)?;
    out.end()
}

/// Escapes all invisible characters of JSON except line breaks. Only strings have such characters, and the serializer escapes the line
/// breaks in strings. It writes whole characters.
struct Visible<W>(W);

impl<W: Write> Visible<W> {
    fn end(mut self) -> io::Result<()> {
        self.0.write_all(b"\n")?;
        self.0.flush()
    }
}

impl<W: Write> Write for Visible<W> {
    fn write(&mut self, json: &[u8]) -> io::Result<usize> {
        let mut rest = str::from_utf8(json).map_err(io::Error::other)?;
        while let Some((at, c)) = rest.char_indices().find(|&(_, c)| c != '\n' && is_unfit(c)) {
            self.0.write_all(&rest.as_bytes()[..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(self.0, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        self.0.write_all(rest.as_bytes())?;
        Ok(json.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn json_output_escapes_control_characters_and_keeps_its_value() {
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
