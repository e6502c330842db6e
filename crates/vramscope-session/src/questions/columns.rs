//! Binary answers: a JSON head, followed by the columns of numbers that it refers to.
//!
//! ```text
//!   u32 length of the head | head, padded to 8 | column, padded to 8 | column ...
//! ```
//!
//! The head contains `{"u32": [8, 100]}` for a column of 100 numbers that begins 8 bytes after the head. Numbers are little
//! endian. The page creates typed arrays from the columns without copying (`viewer/src/source/columns.ts`).

use serde::Serialize;
use serde_json::{Map, Value};
use vramscope_analysis::Moment;
use vramscope_trace::StackId;

use crate::SessionError;

/// A serialized answer.
pub type Answer = Result<Vec<u8>, SessionError>;

/// An answer before its serialization.
pub type Reply<H> = Result<Written<H>, SessionError>;

/// A head, and the columns that it refers to.
#[derive(Debug)]
pub struct Written<H> {
    /// The head, serialized as JSON.
    pub head: H,
    /// The columns.
    pub columns: Columns,
}

impl<H> From<H> for Written<H> {
    fn from(head: H) -> Self {
        Self { head, columns: Columns::default() }
    }
}

impl<H: Serialize> Written<H> {
    /// Serializes the answer.
    ///
    /// # Errors
    /// Fails if the head is larger than 4 GiB.
    pub fn bytes(&self) -> Answer {
        let head = serde_json::to_vec(&self.head)?;
        let length = u32::try_from(head.len()).map_err(|_| {
            SessionError::Unanswerable("the recording's names are too long for a page".to_owned())
        })?;
        let mut out = Vec::with_capacity(12 + head.len() + self.columns.bytes.len());
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&head);
        out.resize(out.len().next_multiple_of(8), 0);
        out.extend_from_slice(&self.columns.bytes);
        Ok(out)
    }
}

/// The columns of one answer.
#[derive(Debug, Default)]
pub struct Columns {
    bytes: Vec<u8>,
}

macro_rules! column {
    ($column:ident, $kind:ident, $array:literal) => {
        #[doc = concat!(" A column of `", stringify!($kind), "`.")]
        #[derive(Debug, Clone, Copy, Serialize)]
        #[cfg_attr(test, derive(ts_rs::TS), ts(type = $array))]
        pub struct $column {
            /// The offset within the columns in bytes, and the number of values.
            pub $kind: [usize; 2],
        }

        impl Columns {
            #[doc = concat!(" Adds a column of `", stringify!($kind), "`.")]
            pub fn $kind(&mut self, values: impl IntoIterator<Item = $kind>) -> $column {
                let begin = self.bytes.len();
                for value in values {
                    self.bytes.extend_from_slice(&value.to_le_bytes());
                }
                let length = (self.bytes.len() - begin) / size_of::<$kind>();
                self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
                $column { $kind: [begin, length] }
            }
        }
    };
}

column!(U8s, u8, "Uint8Array");
column!(U16s, u16, "Uint16Array");
column!(U32s, u32, "Uint32Array");
column!(F64s, f64, "Float64Array");

impl Columns {
    /// Adds a column of byte counts or addresses. The page's numbers are exact up to 2^53.
    pub fn sizes(&mut self, values: impl IntoIterator<Item = u64>) -> F64s {
        self.f64(values.into_iter().map(|v| v as f64))
    }

    /// Builds an answer: `made` adds the columns and returns the head.
    pub fn answer<H>(made: impl FnOnce(&mut Self) -> H) -> Reply<H> {
        let mut columns = Self::default();
        let head = made(&mut columns);
        Ok(Written { head, columns })
    }
}

/// Marks a missing value in columns of numbers.
pub const NONE: u32 = u32::MAX;

/// The index of a stack in a column; [`NONE`] without a stack.
pub fn stack(id: Option<StackId>) -> u32 {
    id.map_or(NONE, |s| s.index() as u32)
}

/// A moment in a column; [`Moment::NEVER`] becomes [`NONE`].
pub fn moment(m: Moment) -> u32 {
    m.index() as u32
}

/// Converts an answer to JSON: columns become lists, in which `null` stands for [`NONE`].
///
/// # Errors
/// Fails if the bytes are not an answer.
pub fn json(answer: &[u8]) -> Result<Value, SessionError> {
    let invalid = || SessionError::Unanswerable("the answer has an invalid column".to_owned());
    let (length, rest) = answer.split_first_chunk().ok_or_else(invalid)?;
    let length = u32::from_le_bytes(*length) as usize;
    let mut head = serde_json::from_slice(rest.get(..length).ok_or_else(invalid)?)?;
    let columns = answer.get((4 + length).next_multiple_of(8)..).ok_or_else(invalid)?;
    expand(&mut head, columns).ok_or_else(invalid)?;
    Ok(head)
}

/// Replaces references to columns by their values. `None` if one is not inside `columns`.
fn expand(value: &mut Value, columns: &[u8]) -> Option<()> {
    match value {
        Value::Array(values) => values.iter_mut().try_for_each(|value| expand(value, columns)),
        Value::Object(members) => {
            if let Some(values) = column(members, columns)? {
                *value = values;
                return Some(());
            }
            members.values_mut().try_for_each(|value| expand(value, columns))
        }
        _ => Some(()),
    }
}

/// The values of a column, if `members` refer to one.
fn column(members: &Map<String, Value>, columns: &[u8]) -> Option<Option<Value>> {
    let mut all = members.iter();
    let (Some((kind, Value::Array(place))), None) = (all.next(), all.next()) else { return Some(None) };
    let width = match kind.as_str() {
        "u8" => 1,
        "u16" => 2,
        "u32" => 4,
        "f64" => 8,
        _ => return Some(None),
    };
    let [begin, count] = place.as_slice() else { return Some(None) };
    let (begin, count) = (begin.as_u64()? as usize, count.as_u64()? as usize);
    let bytes = columns.get(begin..)?.get(..count.checked_mul(width)?)?;
    let number = |bytes: &[u8]| match *bytes {
        [a] => Value::from(a),
        [a, b] => Value::from(u16::from_le_bytes([a, b])),
        [a, b, c, d] => match u32::from_le_bytes([a, b, c, d]) {
            NONE => Value::Null,
            number => Value::from(number),
        },
        _ => bytes.try_into().map_or(Value::Null, |bytes| Value::from(f64::from_le_bytes(bytes))),
    };
    Some(Some(Value::Array(bytes.chunks_exact(width).map(number).collect())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_begin_at_multiples_of_eight() {
        #[derive(Serialize)]
        struct Head {
            a: U8s,
            b: F64s,
        }
        let answer = Columns::answer(|columns| Head { a: columns.u8([1, 2, 3]), b: columns.f64([0.5]) });
        let answer = answer.unwrap().bytes().unwrap();
        let head = br#"{"a":{"u8":[0,3]},"b":{"f64":[8,1]}}"#;
        assert_eq!(answer[..4], (head.len() as u32).to_le_bytes());
        assert_eq!(&answer[4..4 + head.len()], head);
        let at = (4 + head.len()).next_multiple_of(8);
        assert_eq!(answer[at..at + 8], [1, 2, 3, 0, 0, 0, 0, 0]);
        assert_eq!(answer[at + 8..], 0.5f64.to_le_bytes());
        assert_eq!(json(&answer).unwrap(), serde_json::json!({"a": [1, 2, 3], "b": [0.5]}));
        assert!(json(&answer[..at + 10]).is_err());
    }
}
