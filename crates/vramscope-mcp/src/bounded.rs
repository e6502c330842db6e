//! Answers of bounded size: cuts lists, stacks and texts, and reports the parts left out.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::bail;
use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};
use vramscope_report::{ROWS, write_json_line};

/// Limit on the JSON of one answer in bytes: an assistant must be able to read it at once.
pub(super) const LARGEST: usize = 48 << 10;

/// Upper bound of the argument `top`.
pub(super) const MOST_ROWS: usize = 200;

/// Upper bound of the `frames` argument.
pub(super) const MOST_FRAMES: usize = 100;

/// Default of the `frames` argument.
pub(super) const FRAMES: usize = 8;

/// Limit on the members of a list of plain values; such lists are short.
const PLAIN: usize = 64;

/// Limits on the parts of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    rows: usize,
    frames: usize,
    /// Limit on each text in bytes.
    text: usize,
}

impl Limits {
    /// Limits on the rows of each list and the frames of each stack.
    ///
    /// # Errors
    /// A limit is zero, or above its upper bound.
    pub(super) fn new(rows: Option<usize>, frames: Option<usize>) -> anyhow::Result<Self> {
        let of = |name, asked: Option<usize>, usual, most| match asked {
            None => Ok(usual),
            Some(n) if (1..=most).contains(&n) => Ok(n),
            Some(n) => bail!("{name}: {n} is not from 1 to {most}"),
        };
        Ok(Self {
            rows: of("top", rows, ROWS, MOST_ROWS)?,
            frames: of("frames", frames, FRAMES, MOST_FRAMES)?,
            text: 1000,
        })
    }

    /// Limit on the rows of each list.
    pub(super) fn rows(self) -> usize {
        self.rows
    }

    /// The next lower limits: frames first, because rows are more useful. `None` if nothing is left to cut.
    fn tighter(self) -> Option<Self> {
        match self {
            Self { frames: 4.., .. } => Some(Self { frames: self.frames / 2, ..self }),
            Self { rows: 2.., .. } => Some(Self { rows: self.rows / 2, ..self }),
            Self { frames: 2.., .. } => Some(Self { frames: 1, ..self }),
            Self { text: 100.., .. } => Some(Self { text: self.text / 4, ..self }),
            _ => None,
        }
    }
}

/// The parts that were left out of an answer.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// Rows left out, by the path of their list.
    rows: BTreeMap<String, u64>,
    frames: u64,
    texts: u64,
    /// Whether the limits were lowered below the requested ones, to fit into [`LARGEST`].
    for_size: bool,
}

impl LeftOut {
    /// Adds rows of a list that was cut before.
    pub(super) fn rows(&mut self, list: &str, rows: usize) {
        if rows > 0 {
            *self.rows.entry(list.to_owned()).or_default() += rows as u64;
        }
    }

    /// Whether nothing was left out.
    fn is_nothing(&self) -> bool {
        self.rows.is_empty() && self.frames == 0 && self.texts == 0
    }

    fn json(&self, how: &str) -> Value {
        let mut told = Map::new();
        if !self.rows.is_empty() {
            told.insert("rows".to_owned(), json!(self.rows));
        }
        for (key, number) in [("frames", self.frames), ("texts_cut", self.texts)] {
            if number > 0 {
                told.insert(key.to_owned(), number.into());
            }
        }
        let why =
            format!("An answer has at most {LARGEST} bytes: request one device, or fewer rows or frames. ");
        let why = if self.for_size { &why } else { "" };
        told.insert("how_to_get_it".to_owned(), format!("{why}{how}").into());
        told.into()
    }
}

/// An answer within the limits.
#[derive(Debug)]
pub(super) struct Bounded {
    /// The answer as a JSON object.
    pub(super) value: Value,
    /// The answer as text, with invisible characters escaped, at most [`LARGEST`] bytes.
    pub(super) text: String,
}

/// Serializes an answer and cuts it to the limits. `how` is a sentence: how to get the parts left out.
///
/// # Errors
/// The answer is not a JSON object, or is too large even with one row per list, which no recording can cause.
pub(super) fn bounded(
    answer: &impl Serialize,
    mut limits: Limits,
    mut left_out: LeftOut,
    how: &str,
) -> anyhow::Result<Bounded> {
    let mut json = serde_json::to_string(answer)?;
    loop {
        let mut value = cut(&json, limits, &mut left_out)?;
        let plain = value.to_string();
        if !left_out.is_nothing()
            && let Value::Object(keys) = &mut value
        {
            keys.insert("left_out".to_owned(), left_out.json(how));
        }
        let mut text = Vec::new();
        write_json_line(&mut text, &value)?;
        if text.len() <= LARGEST {
            return Ok(Bounded { value, text: String::from_utf8(text)?.trim_end().to_owned() });
        }
        let Some(tighter) = limits.tighter() else { bail!("the answer is too large; request one device") };
        limits = tighter;
        left_out.for_size = true;
        json = plain;
    }
}

/// Deserializes `json` within the limits.
fn cut(json: &str, limits: Limits, left_out: &mut LeftOut) -> anyhow::Result<Value> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let part = Part { limits, left_out, path: &KeyPath { around: None, key: "" } };
    Ok(part.deserialize(&mut deserializer)?)
}

/// The path of a value in an answer: the keys that lead to it.
struct KeyPath<'p> {
    around: Option<&'p Self>,
    key: &'p str,
}

impl KeyPath<'_> {
    /// The path, as `devices.ooms.holders`.
    fn name(&self) -> String {
        match self.around.map(KeyPath::name) {
            Some(around) if !around.is_empty() => format!("{around}.{}", self.key),
            _ => self.key.to_owned(),
        }
    }

    fn is_stack(&self) -> bool {
        matches!(self.key, "stack" | "freed_at")
    }
}

/// Deserializes a value up to the limits. Parts beyond them take no memory.
struct Part<'p> {
    limits: Limits,
    left_out: &'p mut LeftOut,
    path: &'p KeyPath<'p>,
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        if value.len() <= self.limits.text {
            return Ok(value.into());
        }
        self.left_out.texts += 1;
        Ok(format!("{}…", &value[..value.floor_char_boundary(self.limits.text)]).into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let Self { limits, left_out, path } = self;
        let mut list = Vec::new();
        loop {
            let most = match list.first() {
                _ if path.is_stack() => limits.frames,
                Some(Value::Object(_)) => limits.rows,
                _ => PLAIN,
            };
            if list.len() == most {
                break;
            }
            let member = Part { limits, left_out: &mut *left_out, path };
            match members.next_element_seed(member)? {
                Some(member) => list.push(member),
                None => return Ok(list.into()),
            }
        }
        let mut more = 0;
        while members.next_element::<IgnoredAny>()?.is_some() {
            more += 1;
        }
        if path.is_stack() {
            left_out.frames += more as u64;
        } else {
            left_out.rows(&path.name(), more);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let Self { limits, left_out, path } = self;
        let mut map = Map::new();
        let mut frames = 0;
        while let Some(key) = entries.next_key::<String>()? {
            let inside = KeyPath { around: Some(path), key: &key };
            let before = left_out.frames;
            let value = entries.next_value_seed(Part { limits, left_out: &mut *left_out, path: &inside })?;
            if inside.is_stack() {
                frames += left_out.frames - before;
            }
            map.insert(key, value);
        }
        if frames > 0 {
            // The JSON of the commands has this key as well, for very deep stacks.
            let told = map.get("frames_left_out").and_then(Value::as_u64).unwrap_or(0);
            map.insert("frames_left_out".to_owned(), told.saturating_add(frames).into());
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(rows: usize, frames: usize) -> Limits {
        Limits::new(Some(rows), Some(frames)).unwrap()
    }

    #[test]
    fn a_small_answer_is_not_cut() {
        let answer = json!({"a": [1, 2, {"b": null}], "stack": [{"line": 1}], "x": -1.5, "y": true});
        let whole = bounded(&answer, limits(3, 1), LeftOut::default(), "").unwrap();
        assert_eq!(whole.value, answer);
        assert_eq!(serde_json::from_str::<Value>(&whole.text).unwrap(), answer);
    }

    #[test]
    fn rows_and_frames_are_cut_and_counted() {
        let stack: Vec<Value> = (0..5).map(|line| json!({"line": line})).collect();
        let row = json!({"bytes": 1, "stack": stack, "freed_at": stack, "frames_left_out": 7});
        let rows = |n| vec![row.clone(); n];
        let answer = json!({"devices": [{"holders": rows(5), "floor": [1, 2, 3, 4]}, {"holders": rows(3)}]});
        let mut before = LeftOut::default();
        before.rows("devices.holders", 10);
        let cut = bounded(&answer, limits(2, 3), before, "Ask.").unwrap().value;
        let row = &cut["devices"][0]["holders"][1];
        assert_eq!(cut["devices"][0]["holders"].as_array().unwrap().len(), 2);
        assert_eq!(cut["devices"][0]["floor"], json!([1, 2, 3, 4]));
        assert_eq!(row["stack"], json!([{"line": 0}, {"line": 1}, {"line": 2}]));
        assert_eq!(row["frames_left_out"], 7 + 2 + 2);
        let left_out = &cut["left_out"];
        assert_eq!(left_out["rows"], json!({"devices.holders": 10 + 3 + 1}));
        assert_eq!(left_out["frames"], 4 * 4);
        assert_eq!(left_out["how_to_get_it"], "Ask.");
    }

    #[test]
    fn no_answer_exceeds_the_limit() {
        // Many rows, with texts and stacks that grow when they are escaped.
        let stack =
            vec![json!({"filename": "\u{202e}".repeat(1200), "line": 1, "name": "\"".repeat(1200)}); 30];
        let row = json!({"key": "x".repeat(20_000), "stack": stack, "plain": vec!["y".repeat(900); 100]});
        let answer =
            json!({"devices": vec![json!({"ooms": vec![row.clone(); 4], "leaks": vec![row; 4]}); 3]});
        let cut = bounded(&answer, limits(200, 100), LeftOut::default(), "Ask.").unwrap();
        assert!(cut.text.len() <= LARGEST, "{}", cut.text.len());
        assert!(
            cut.value["left_out"]["how_to_get_it"].as_str().unwrap().starts_with("An answer has at most")
        );
        assert_eq!(serde_json::from_str::<Value>(&cut.text).unwrap(), cut.value);
    }

    #[test]
    fn limits_have_limits() {
        for (rows, frames) in [(Some(0), None), (Some(201), None), (None, Some(0)), (None, Some(usize::MAX))]
        {
            let error = Limits::new(rows, frames).unwrap_err().to_string();
            assert!(error.contains("is not from 1 to"), "{error}");
        }
    }
}
