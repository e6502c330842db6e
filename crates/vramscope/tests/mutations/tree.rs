//! A snapshot as a tree of values, like Python's dictionaries and lists. The tests mutate it, and write it as JSON or pickle.

use std::fmt::Write as _;

/// One value of a snapshot.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tree {
    Nothing,
    Bool(bool),
    /// Wider than any reader accepts, so that numbers can leave its range.
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Tree>),
    Tuple(Vec<Tree>),
    /// Keys in the order of the file; a key may occur twice.
    Dict(Vec<(String, Tree)>),
    /// A reference to the container this many levels above: a cycle. JSON has none.
    Up(usize),
}

impl Tree {
    /// Returns the tree of a JSON value.
    pub(crate) fn of(json: &serde_json::Value) -> Self {
        use serde_json::Value::*;
        match json {
            Null => Self::Nothing,
            Bool(b) => Self::Bool(*b),
            Number(n) => n.as_i128().map_or_else(|| Self::Float(n.as_f64().unwrap()), Self::Int),
            String(s) => Self::Text(s.clone()),
            Array(items) => Self::List(items.iter().map(Self::of).collect()),
            Object(items) => Self::Dict(items.iter().map(|(k, v)| (k.clone(), Self::of(v))).collect()),
        }
    }

    /// Returns the direct children.
    fn children(&self) -> Vec<&Self> {
        match self {
            Self::List(items) | Self::Tuple(items) => items.iter().collect(),
            Self::Dict(items) => items.iter().map(|(_, v)| v).collect(),
            _ => Vec::new(),
        }
    }

    fn children_mut(&mut self) -> Vec<&mut Self> {
        match self {
            Self::List(items) | Self::Tuple(items) => items.iter_mut().collect(),
            Self::Dict(items) => items.iter_mut().map(|(_, v)| v).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the number of values in the tree, including itself.
    pub(crate) fn count(&self) -> usize {
        self.values().len()
    }

    /// Returns the nesting depth of containers.
    pub(crate) fn depth(&self) -> usize {
        1 + self.children().into_iter().map(Self::depth).max().unwrap_or(0)
    }

    /// Returns all values in the tree in breadth-first order, itself first.
    pub(crate) fn values(&self) -> Vec<&Self> {
        let mut values = vec![self];
        let mut next = 0;
        while let Some(value) = values.get(next) {
            let children = value.children();
            values.extend(children);
            next += 1;
        }
        values
    }

    /// Returns the `wanted` value with index `number` modulo their count.
    pub(crate) fn pick_mut(&mut self, number: u32, wanted: fn(&Self) -> bool) -> Option<&mut Self> {
        let count = self.values().into_iter().filter(|value| wanted(value)).count();
        let mut left = number as usize % count.max(1);
        self.nth_mut(&mut left, wanted)
    }

    /// Returns the `wanted` value with `left` others before it in depth-first order. `left` is counted down.
    fn nth_mut(&mut self, left: &mut usize, wanted: fn(&Self) -> bool) -> Option<&mut Self> {
        if wanted(self) {
            match left.checked_sub(1) {
                Some(fewer) => *left = fewer,
                None => return Some(self),
            }
        }
        self.children_mut().into_iter().find_map(|child| child.nth_mut(left, wanted))
    }

    /// Whether JSON and pickle can both represent it, with the same meaning.
    pub(crate) fn is_common(&self) -> bool {
        let here = match self {
            Self::Int(n) => (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(n),
            Self::Float(x) => x.is_finite(),
            // Pickles set at most a thousand keys at a time, and no record has more.
            Self::Dict(items) => items.len() <= 1000,
            Self::Up(_) => false,
            _ => true,
        };
        here && self.children().into_iter().all(Self::is_common)
    }

    /// Returns JSON as Python's `json.dump` writes it, including `NaN`.
    pub(crate) fn json(&self) -> String {
        let mut out = String::new();
        self.write_json(&mut out);
        out
    }

    fn write_json(&self, out: &mut String) {
        match self {
            Self::Nothing | Self::Up(_) => out.push_str("null"),
            Self::Bool(b) => write!(out, "{b}").unwrap(),
            Self::Int(n) => write!(out, "{n}").unwrap(),
            Self::Float(x) if x.is_nan() => out.push_str("NaN"),
            Self::Float(x) if x.is_infinite() => out.push_str("Infinity"),
            Self::Float(x) => write!(out, "{x:?}").unwrap(),
            Self::Text(s) => out.push_str(&serde_json::Value::from(s.as_str()).to_string()),
            Self::List(items) | Self::Tuple(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { ", " });
                    item.write_json(out);
                }
                out.push(']');
            }
            Self::Dict(items) => {
                out.push('{');
                for (i, (key, value)) in items.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { ", " });
                    write!(out, "{}: ", serde_json::Value::from(key.as_str())).unwrap();
                    value.write_json(out);
                }
                out.push('}');
            }
        }
    }
}
