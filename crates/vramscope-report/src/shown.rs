//! Makes external text safe to print: names from recordings, output of other programs, file names, arguments.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::ops::Deref;

use unicode_width::UnicodeWidthChar as _;

/// Limit on the bytes of a text that are read and shown. Names of C++ templates can have a few thousand.
pub const LONGEST_SHOWN: usize = 8 << 10;

/// Limit on the combining marks of one letter; further marks are escaped. Languages need fewer.
const MOST_MARKS: usize = 4;

/// External text that is safe to print: on one line, of bounded length, without characters that move the cursor, change colors, change
/// the text direction or are invisible. Such characters are escaped as `\u{1b}`.
///
/// Only this module creates values, so a function that takes a `Shown` need not check it again.
///
/// ```
/// use vramscope_report::Shown;
///
/// assert_eq!(Shown::of("größe").to_string(), "größe");
/// assert_eq!(Shown::of("a\u{1b}[31mb\n").to_string(), "a\\u{1b}[31mb\\u{a}");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shown(String);

impl Shown {
    /// The first [`LONGEST_SHOWN`] bytes of `text`; ends with an ellipsis if `text` is longer.
    pub fn of(text: &str) -> Self {
        Self::at_most(text, LONGEST_SHOWN)
    }

    /// The first `bytes` bytes of `text`; ends with an ellipsis if `text` is longer.
    pub fn at_most(text: &str, bytes: usize) -> Self {
        let end = text.floor_char_boundary(bytes);
        let mut shown = escaped(&text[..end]);
        if end < text.len() {
            shown.push('…');
        }
        Self(shown)
    }

    /// The last [`LONGEST_SHOWN`] bytes of `text`, after an ellipsis if `text` is longer. Use it for paths, whose end matters most.
    pub fn end_of(text: &str) -> Self {
        let start = text.ceil_char_boundary(text.len().saturating_sub(LONGEST_SHOWN));
        if start == 0 {
            return Self::of(text);
        }
        Self(format!("…{}", escaped(&text[start..])))
    }

    /// A text that is built from fixed words and bounded parts.
    pub(crate) fn joined(text: &str) -> Self {
        Self(escaped(text))
    }

    /// A text of several lines with styles that may contain names. Characters other than line breaks and styles that control the
    /// terminal are escaped: the last check before a terminal.
    pub fn page(text: &str) -> Cow<'_, str> {
        if !text.chars().any(|c| c != '\n' && is_unfit(c)) {
            return text.into();
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(|c| c != '\n' && is_unfit(c)) {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let length = match style(rest) {
                Some(length) => {
                    out.push_str(&rest[..length]);
                    length
                }
                None => rest.chars().next().map_or(0, |c| {
                    push(&mut out, c);
                    c.len_utf8()
                }),
            };
            rest = &rest[length..];
        }
        out.push_str(rest);
        out.into()
    }
}

/// Length in bytes of the style sequence (`ESC [ 1 ; 31 m`) at the start of `text`.
fn style(text: &str) -> Option<usize> {
    let numbers = text.strip_prefix("\u{1b}[")?;
    let end = numbers.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    numbers[end..].starts_with('m').then_some(2 + end + 1)
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut marks = 0;
    for c in text.chars() {
        marks = if c.width() == Some(0) { marks + 1 } else { 0 };
        if is_unfit(c) || marks > MOST_MARKS {
            push(&mut out, c);
        } else {
            out.push(c);
        }
    }
    out
}

fn push(out: &mut String, c: char) {
    let _ = write!(out, "{}", c.escape_unicode());
}

/// Whether the character controls a terminal, ends a line, changes the text direction or is invisible: the characters of Unicode's
/// categories Cc, Cf, Zl and Zp, and those with the property `Default_Ignorable_Code_Point`.
pub(crate) fn is_unfit(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
            | '\u{890}'..='\u{891}' | '\u{8e2}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

impl Deref for Shown {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Shown {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<Shown> for String {
    fn from(shown: Shown) -> Self {
        shown.0
    }
}

impl From<Shown> for Cow<'_, str> {
    fn from(shown: Shown) -> Self {
        shown.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_invisible_and_direction_characters_are_written_as_numbers() {
        for (text, shown) in [
            ("a\u{1b}[31mb\n", "a\\u{1b}[31mb\\u{a}"),
            ("größe 模型 e\u{301}", "größe 模型 e\u{301}"),
            ("\u{202e}evil", "\\u{202e}evil"),
            ("\u{7f}\u{9b}31m", "\\u{7f}\\u{9b}31m"),
            ("\u{61c}\u{200b}\u{feff}\u{2028}\u{ad}", "\\u{61c}\\u{200b}\\u{feff}\\u{2028}\\u{ad}"),
            ("\u{e0041}\u{fe0f}\u{3164}", "\\u{e0041}\\u{fe0f}\\u{3164}"),
            ("e\u{301}\u{301}\u{301}\u{301}\u{301}", "e\u{301}\u{301}\u{301}\u{301}\\u{301}"),
        ] {
            assert_eq!(&*Shown::of(text), shown);
            // Idempotent.
            assert_eq!(&*Shown::of(shown), shown);
        }
    }

    #[test]
    fn length_is_bounded() {
        for text in ["x".repeat(5_000_000), "\u{301}".repeat(1_000_000), "\u{1b}".repeat(1_000_000)] {
            let (beginning, end) = (Shown::of(&text), Shown::end_of(&text));
            assert!(beginning.ends_with('…') && end.starts_with('…'));
            assert!(beginning.len().max(end.len()) < 9 * LONGEST_SHOWN, "{}", beginning.len());
        }
        assert_eq!(&*Shown::end_of("a/b"), "a/b");
    }

    #[test]
    fn a_page_keeps_its_lines_and_styles_and_nothing_else() {
        let page = "\u{1b}[1mPeak\u{1b}[0m\n  \u{1b}[1;31mname\u{1b}[m\n";
        assert!(matches!(Shown::page("plain\n"), Cow::Borrowed(_)));
        assert_eq!(Shown::page(page), page);
        for (text, shown) in [
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("\u{1b}[1;\u{1b}[1m", "\\u{1b}[1;\u{1b}[1m"),
            ("a\r\nb\u{9b}1m\u{1b}", "a\\u{d}\nb\\u{9b}1m\\u{1b}"),
        ] {
            assert_eq!(Shown::page(text), shown);
        }
    }
}
