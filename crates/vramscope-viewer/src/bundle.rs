//! The container of binary answers: a JSON head and named columns.
//!
//! ```text
//!   u32 length of the head | head, padded to 8 | column, padded to 8 | column ...
//! ```
//!
//! The head is `{"json": anything, "columns": [[name, "u8" | "u16" | "u32" | "f64", length], ...]}`, numbers are little
//! endian. The page makes typed arrays of the columns without copying (`viewer/src/source/bundle.ts`).

use std::borrow::Cow;

use serde::Serialize;

use crate::ViewError;

/// The answer of a binary endpoint.
pub(crate) type Answer = Result<Vec<u8>, ViewError>;

/// The name of a column.
pub(crate) type Name = Cow<'static, str>;

/// A bundle under construction.
pub(crate) struct Bundle<J> {
    head: Head<J>,
    body: Vec<u8>,
}

#[derive(Serialize)]
struct Head<J> {
    json: J,
    columns: Vec<(Name, &'static str, usize)>,
}

macro_rules! column {
    ($kind:ident, $name:literal) => {
        #[doc = concat!("Adds a column of `", $name, "`.")]
        pub(crate) fn $kind(
            mut self,
            name: impl Into<Name>,
            values: impl IntoIterator<Item = $kind>,
        ) -> Self {
            let begin = self.body.len();
            for value in values {
                self.body.extend_from_slice(&value.to_le_bytes());
            }
            let length = (self.body.len() - begin) / size_of::<$kind>();
            self.head.columns.push((name.into(), $name, length));
            self.body.resize(self.body.len().next_multiple_of(8), 0);
            self
        }
    };
}

impl<J: Serialize> Bundle<J> {
    pub(crate) fn new(json: J) -> Self {
        Self { head: Head { json, columns: Vec::new() }, body: Vec::new() }
    }

    column!(u8, "u8");
    column!(u16, "u16");
    column!(u32, "u32");
    column!(f64, "f64");

    /// Adds a column of bytes or addresses. The page's numbers are exact up to 2^53.
    pub(crate) fn bytes(self, name: &'static str, values: impl IntoIterator<Item = u64>) -> Self {
        self.f64(name, values.into_iter().map(|v| v as f64))
    }

    /// The whole of it.
    pub(crate) fn finish(self) -> Answer {
        let head = serde_json::to_vec(&self.head)?;
        let length = u32::try_from(head.len()).map_err(|_| ViewError::TooMuch)?;
        let mut out = Vec::with_capacity(12 + head.len() + self.body.len());
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&head);
        out.resize(out.len().next_multiple_of(8), 0);
        out.extend_from_slice(&self.body);
        Ok(out)
    }
}

/// Stands for "no such thing" in columns of numbers.
pub(crate) const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_begin_at_multiples_of_eight() {
        let bundle = Bundle::new("x").u8("a", [1, 2, 3]).f64("b", [0.5]).finish().unwrap();
        let head = br#"{"json":"x","columns":[["a","u8",3],["b","f64",1]]}"#;
        assert_eq!(bundle[..4], (head.len() as u32).to_le_bytes());
        assert_eq!(&bundle[4..4 + head.len()], head);
        let at = (4 + head.len()).next_multiple_of(8);
        assert_eq!(bundle[at..at + 8], [1, 2, 3, 0, 0, 0, 0, 0]);
        assert_eq!(bundle[at + 8..], 0.5f64.to_le_bytes());
    }
}
