//! [`TensorNote`]: the tensor in an allocation, as the Python package describes it.

/// Prefixes of the lines in `user_metadata`.
const TENSOR: &str = "vramscope-tensor:";
const REFERRER: &str = "vramscope-referrer:";

/// The tensor in an allocation, and the Python objects that refer to it.
///
/// The Python package appends its lines to `user_metadata` when it takes a snapshot:
///
/// ```text
/// vramscope-tensor:dtype=float32;shape=(1024, 768);name=fc.weight
/// vramscope-referrer:main (train.py:12): history[17].loss
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TensorNote<'a> {
    /// Type of the values, as `float32`.
    pub dtype: &'a str,
    /// The shape as Python writes it, as `(1024, 768)`. The largest tensor counts if several share the memory.
    pub shape: &'a str,
    /// The name: of a parameter as `fc.weight`, of its gradient as `gradient of fc.weight`, of an optimizer state as
    /// `exp_avg of fc.weight`. Empty if the tensor is none of these.
    pub name: &'a str,
    /// Chains of references from a variable to the tensor, at most three.
    pub referrers: Vec<&'a str>,
}

impl<'a> TensorNote<'a> {
    /// Parses `user_metadata`. `None` if it does not describe a tensor.
    #[must_use]
    pub fn parse(metadata: &'a str) -> Option<Self> {
        let lines = &metadata[Self::start(metadata)?..];
        let mut note = Self::default();
        for line in lines.split('\n') {
            if let Some(chain) = line.strip_prefix(REFERRER) {
                note.referrers.push(chain);
            } else if let Some(tensor) = line.strip_prefix(TENSOR) {
                // A name may contain any character, so it comes last.
                let (facts, name) = tensor.split_once(";name=").unwrap_or((tensor, ""));
                note.name = name;
                for fact in facts.split(';') {
                    match fact.split_once('=') {
                        Some(("dtype", dtype)) => note.dtype = dtype,
                        Some(("shape", shape)) => note.shape = shape,
                        _ => {}
                    }
                }
            }
        }
        Some(note)
    }

    /// Returns `user_metadata` without the lines about a tensor.
    #[must_use]
    pub fn strip(metadata: &str) -> &str {
        let own = &metadata[..Self::start(metadata).unwrap_or(metadata.len())];
        own.strip_suffix('\n').unwrap_or(own)
    }

    /// Index of the first line about a tensor. The lines are the last ones.
    fn start(metadata: &str) -> Option<usize> {
        let begins_line = |at: &usize| *at == 0 || metadata.as_bytes().get(at - 1) == Some(&b'\n');
        metadata.match_indices(TENSOR).map(|(at, _)| at).find(begins_line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Category, Purpose};

    const LINES: &str = "vramscope-tensor:dtype=float32;shape=(2, 3);name=a;b=c\nvramscope-referrer:x.y[0]\nvramscope-referrer:z";

    #[test]
    fn a_note_is_read_after_other_lines() {
        for own in ["", "loader\nworker", "loader\nvramscope:category=input;module=fc"] {
            let text = if own.is_empty() { LINES.to_owned() } else { format!("{own}\n{LINES}") };
            let note = TensorNote::parse(&text).unwrap();
            assert_eq!((note.dtype, note.shape, note.name), ("float32", "(2, 3)", "a;b=c"));
            assert_eq!(note.referrers, ["x.y[0]", "z"]);
            assert_eq!(TensorNote::strip(&text), own);
        }
    }

    #[test]
    fn a_purpose_beside_a_note_is_read() {
        let text = format!("own\nvramscope:category=input;module=fc\n{LINES}");
        assert_eq!(Purpose::parse(&text).category, Some(Category::Input));
        assert_eq!(Purpose::parse(&text).module, Some("fc"));
        assert_eq!(Purpose::strip(&text), "own");
        assert_eq!(Purpose::strip(LINES), "");
    }

    #[test]
    fn texts_without_a_tensor_note_have_none() {
        for text in ["", "a vramscope-tensor:dtype=x", "vramscope:category=input"] {
            assert_eq!(TensorNote::parse(text), None, "{text}");
            assert_eq!(TensorNote::strip(text), text);
        }
        assert_eq!(TensorNote::parse("vramscope-tensor:"), Some(TensorNote::default()));
    }
}
