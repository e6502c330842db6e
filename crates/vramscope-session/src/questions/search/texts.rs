//! Searches for texts and patterns in the names of a recording.
//!
//! A pattern may come from a link, so it is a regular expression of the crate `regex`: its time is linear in the text, and its
//! size is limited. It supports no look-around and no back references.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};
use vramscope_analysis::Cancel;
use vramscope_report::Names;
use vramscope_trace::Category;

use crate::SessionError;
use crate::questions::bits::Bits;
use crate::questions::conditions::FrameField;
use crate::questions::conditions::Sought;
use crate::questions::conditions::TagField;
use crate::questions::device::OpenDevice;

/// The maximum length of a text or pattern, in bytes.
const LONGEST_SOUGHT: usize = 1 << 10;

/// The maximum size of a compiled pattern in bytes, which limits the time per byte of text. `\w` in all letter cases takes a
/// fifth of it.
const LARGEST_PATTERN: usize = 1 << 18;

/// The maximum nesting depth of a pattern's groups.
const DEEPEST_PATTERN: u32 = 32;

/// The maximum number of bytes of a path or function name that are searched. Many frames may share a text, and no known system
/// has longer paths.
const LONGEST_NAME: usize = 4 << 10;

/// The number of frames between two checks for cancellation.
const FRAMES_AT_ONCE: usize = 256;

/// Searches for a text or a pattern, ignoring case.
pub(super) struct Finder(Regex);

impl Finder {
    /// # Errors
    /// Returns a text that says what is wrong.
    pub(super) fn of(sought: &Sought) -> Result<Self, String> {
        let Sought { text, is_pattern } = sought;
        if text.len() > LONGEST_SOUGHT {
            return Err(format!("a search text has at most {LONGEST_SOUGHT} bytes"));
        }
        let pattern = if *is_pattern { Cow::Borrowed(text.as_str()) } else { regex::escape(text).into() };
        let regex = RegexBuilder::new(&pattern)
            .case_insensitive(true)
            .size_limit(LARGEST_PATTERN)
            .dfa_size_limit(LARGEST_PATTERN)
            .nest_limit(DEEPEST_PATTERN)
            .build();
        regex.map(Self).map_err(|why| match why {
            regex::Error::CompiledTooBig(_) => format!("/{text}/: the pattern is too large"),
            _ => format!(
                "/{text}/: invalid regular expression (look-around and back references are not supported)"
            ),
        })
    }

    fn finds(&self, within: &str) -> bool {
        self.0.is_match(within)
    }
}

/// The stacks with a matching frame in `field`. For [`FrameField::Line`], only the frame that names the stack counts.
pub(super) fn stacks_with(
    device: &OpenDevice,
    field: FrameField,
    finder: &Finder,
    cancel: &Cancel,
) -> Result<Bits, SessionError> {
    let (trace, frames) = (device.history().trace(), device.frames());
    let names = Names { trace, frames };
    let mut has = Vec::with_capacity(trace.frames.len());
    for (id, frame) in trace.frames.iter() {
        if id.index().is_multiple_of(FRAMES_AT_ONCE) && cancel.is_cancelled() {
            return Err(SessionError::Cancelled);
        }
        let file = || end_of(trace.strings.get(frame.filename));
        let function = || start_of(trace.strings.get(frame.name));
        has.push(match field {
            FrameField::File => finder.finds(&file()),
            FrameField::Function => finder.finds(function()),
            FrameField::Line => finder.finds(&String::from(names.frame(id))),
            FrameField::Any => {
                finder.finds(&String::from(names.frame(id)))
                    || finder.finds(&format!("{}:{} {}", file(), frame.line, function()))
            }
        });
    }
    let stacks = trace.stacks.iter().filter(|(id, stack)| match field {
        FrameField::Line => frames.own_frame(trace, *id).is_some_and(|own| has[own.index()]),
        _ => stack.iter().any(|frame| has[frame.index()]),
    });
    Ok(Bits::of(stacks.map(|(id, _)| id.index())))
}

/// The end of a very long path, with an ellipsis.
fn end_of(path: &str) -> Cow<'_, str> {
    match path.len() {
        0..=LONGEST_NAME => path.into(),
        bytes => format!("…{}", &path[path.ceil_char_boundary(bytes - LONGEST_NAME)..]).into(),
    }
}

/// The start of a very long name.
fn start_of(name: &str) -> &str {
    &name[..name.floor_char_boundary(LONGEST_NAME)]
}

/// The positions in the device's tag table whose `field` matches.
pub(super) fn tags_with(
    device: &OpenDevice,
    field: TagField,
    sought: &Sought,
    finder: &Finder,
) -> Result<Bits, String> {
    let texts: Vec<bool> = match field {
        TagField::Stream | TagField::Pool => Vec::new(),
        _ => {
            device.tags.texts.iter().map(|text| finder.finds(start_of(text.get(device.history())))).collect()
        }
    };
    let finds_nothing = finder.finds("");
    let has = |text: Option<u32>| text.map_or(finds_nothing, |number| texts[number as usize]);
    let stream = if field == TagField::Stream { Some(stream_of(&sought.text)?) } else { None };
    let tags = device.tags.table.iter().enumerate().filter(|(_, tags)| match field {
        TagField::Stream => Some(tags.stream) == stream,
        TagField::Pool => is_pool(tags.pool, sought, finder),
        TagField::Layer => has(tags.layer),
        TagField::Context => has(tags.compile_context),
        TagField::Metadata => has(tags.user_metadata),
    });
    Ok(Bits::of(tags.map(|(number, _)| number)))
}

/// Parses a stream: `0x3`, `3`, `default`, `stream 0x3`.
fn stream_of(text: &str) -> Result<u64, String> {
    let number = text.trim_start_matches("stream ");
    let parsed = match number.strip_prefix("0x") {
        _ if matches!(text, "default" | "default stream") => Ok(0),
        Some(hex) => u64::from_str_radix(hex, 16),
        None => number.parse(),
    };
    parsed.map_err(|_| format!("stream:{text}: expected a number, as in stream:0x3, or stream:default"))
}

/// Whether a pool matches by its numbers (`1.0`) or by a part of its name.
fn is_pool(pool: Option<[u64; 2]>, sought: &Sought, finder: &Finder) -> bool {
    let name = match pool {
        None => "pool not recorded".to_owned(),
        Some([0, 0]) => "default pool".to_owned(),
        Some([a, b]) => format!("private pool ({a}, {b})"),
    };
    let text = sought.text.as_str();
    if sought.is_pattern {
        finder.finds(&name)
    } else if is_pair(text) {
        pool.is_some_and(|[a, b]| format!("{a}.{b}") == text)
    } else if pool.is_none() {
        text == "none"
    } else {
        typed(&name).contains(&typed(text))
    }
}

/// Whether a text is two numbers with a point: `1.0`.
fn is_pair(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    text.split_once('.').is_some_and(|(a, b)| is_number(a) && is_number(b))
}

/// The name of a pool as users type it: `private pool 1.0`.
fn typed(pool: &str) -> String {
    pool.to_lowercase().replace(['(', ')'], "").replace(", ", ".").replace(',', ".")
}

/// For each category, whether its name matches. Spaces may replace underscores.
pub(super) fn categories_with(sought: &Sought) -> Result<[bool; Category::ALL.len()], String> {
    let text = if sought.is_pattern { sought.text.clone() } else { sought.text.replace(' ', "_") };
    let finder = Finder::of(&Sought { text, ..*sought })?;
    Ok(Category::ALL.map(|category| finder.finds(category.name())))
}

/// The intervals of the moments right after allocations in regions with a matching name.
pub(super) fn regions_with(device: &OpenDevice, finder: &Finder) -> Vec<[u32; 2]> {
    let strings = &device.history().trace().strings;
    let mut named = std::collections::HashMap::new();
    let runs = device.runs().iter().filter(|run| {
        *named.entry(run.name).or_insert_with(|| finder.finds(start_of(strings.get(run.name))))
    });
    runs.map(|run| [run.from.index() as u32 + 1, run.to.index() as u32])
        .filter(|[from, to]| from <= to)
        .collect()
}

/// The intervals of the moments right after allocations in phases with a matching name.
pub(super) fn phases_with(device: &OpenDevice, sought: &Sought) -> Result<Vec<[u32; 2]>, String> {
    let text = if sought.is_pattern { sought.text.clone() } else { sought.text.replace(' ', "_") };
    let finder = Finder::of(&Sought { text, ..*sought })?;
    let phases = device.purposes().steps.phases.iter().filter(|p| finder.finds(p.phase.name()));
    Ok(phases.map(|p| [p.from.index() as u32 + 1, p.to.index() as u32]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finder(text: &str, is_pattern: bool) -> Result<Finder, String> {
        Finder::of(&Sought { text: text.to_owned(), is_pattern })
    }

    #[test]
    fn patterns_take_linear_time() {
        // A backtracking engine needs 2^100,000 steps.
        let text = format!("{}b", "a".repeat(100_000));
        for pattern in ["(a+)+$", "^(a|a)*$", "(a*)*c", "(.*a){12}c"] {
            assert!(!finder(pattern, true).unwrap().finds(&text), "{pattern}");
        }
    }

    #[test]
    fn patterns_are_bounded() {
        for (pattern, why) in [
            (r"(\w{100}){1000}".to_owned(), "too large"),
            (format!("{}a{}", "(".repeat(100), ")".repeat(100)), "invalid regular expression"),
            ("a".repeat(5000), "at most 1024 bytes"),
            ("(".to_owned(), "invalid regular expression"),
            (r"(a)\1".to_owned(), "invalid regular expression"),
            ("(?=a)".to_owned(), "invalid regular expression"),
        ] {
            let refused = finder(&pattern, true).err().unwrap_or_default();
            assert!(refused.contains(why), "{pattern}: {refused}");
        }
        // Patterns that people type are accepted.
        for pattern in [r"\w+\s+\w+", r"^[\w.]+/(q|k|v)_proj\b.*", r"a b\/c", "[а-я]{2,8}"] {
            assert!(finder(pattern, true).is_ok(), "{pattern}");
        }
    }

    #[test]
    fn search_texts_are_literal_and_ignore_case() {
        assert!(finder("F(X)", false).unwrap().finds("def f(x):"));
        assert!(!finder("f.x", false).unwrap().finds("f(x"));
        assert!(finder("ÄRGER", true).unwrap().finds("ärger"));
    }

    #[test]
    fn pools_are_found_by_numbers_and_names() {
        let is = |text: &str, pool| {
            let sought = Sought { text: text.to_owned(), is_pattern: false };
            is_pool(pool, &sought, &Finder::of(&sought).unwrap())
        };
        for text in ["1.0", "private pool 1.0", "private pool (1, 0)", "private"] {
            assert!(is(text, Some([1, 0])), "{text}");
            assert!(!is(text, Some([0, 0])) && !is(text, None), "{text}");
        }
        assert!(is("default", Some([0, 0])) && is("none", None) && !is("none", Some([1, 0])));
        assert!(!is("1.0", Some([11, 0])));
    }

    #[test]
    fn streams_are_numbers() {
        for (text, number) in [("3", 3), ("0x3", 3), ("stream 0x3", 3), ("default", 0), ("default stream", 0)]
        {
            assert_eq!(stream_of(text), Ok(number), "{text}");
        }
        assert!(stream_of("99999999999999999999999").is_err() && stream_of("0x").is_err());
    }
}
