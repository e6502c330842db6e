//! Writes a tree as a pickle, in the encodings of CPython, libtorch and others.

use crate::tree::Tree;

/// The encoding of a pickle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    /// The protocol, 2 to 5.
    pub(crate) protocol: u8,
    /// When containers are stored in the memo.
    pub(crate) memo: Memo,
    /// Which values are written once, and then referred to.
    pub(crate) shared: Shared,
    /// Whether to append list elements one by one, not in batches.
    pub(crate) one_by_one: bool,
    /// Whether to write integers and texts with the longest opcode.
    pub(crate) long: bool,
}

/// When containers are stored in the memo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memo {
    Never,
    /// Like CPython.
    BeforeFilling,
    /// Like libtorch.
    AfterFilling,
}

/// Which values are written once, and then referred to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shared {
    Nothing,
    /// Texts, frames and lists of them, like PyTorch.
    Frames,
    /// All equal values, including events and blocks; no recorder does this.
    Everything,
}

/// Returns the pickle of `tree`.
pub(crate) fn write(tree: &Tree, style: Style) -> Vec<u8> {
    let out = vec![0x80, style.protocol];
    let mut writer = Writer { out, style, next: 0, known: Vec::new(), open: Vec::new() };
    writer.value(tree);
    writer.out.push(b'.');
    writer.out
}

struct Writer<'t> {
    out: Vec<u8>,
    style: Style,
    /// The next index of the memo.
    next: u32,
    /// The values that can be referred to, with their memo indices.
    known: Vec<(&'t Tree, u32)>,
    /// Memo indices of the surrounding containers, outermost first; `None` if not stored yet.
    open: Vec<Option<u32>>,
}

impl<'t> Writer<'t> {
    fn value(&mut self, tree: &'t Tree) {
        let shared = match self.style.shared {
            Shared::Nothing => false,
            Shared::Frames => is_shared(tree),
            Shared::Everything => matches!(tree, Tree::Text(_) | Tree::List(_) | Tree::Dict(_)),
        } && self.style.memo != Memo::Never;
        if shared && let Some(&(_, place)) = self.known.iter().find(|(known, _)| *known == tree) {
            return self.get(place);
        }
        let place = match tree {
            Tree::Nothing => return self.out.push(b'N'),
            Tree::Bool(b) => return self.out.push(if *b { 0x88 } else { 0x89 }),
            Tree::Int(n) => return self.int(*n),
            Tree::Float(x) => {
                self.out.push(b'G');
                return self.out.extend(x.to_be_bytes());
            }
            Tree::Up(levels) => {
                let above = self.open.len().checked_sub(levels + 1);
                return match above.and_then(|i| self.open[i]) {
                    Some(place) => self.get(place),
                    None => self.out.push(b'N'),
                };
            }
            Tree::Text(s) => {
                self.text(s);
                if !shared {
                    return;
                }
                self.put()
            }
            Tree::Tuple(items) => {
                self.tuple(items);
                return;
            }
            Tree::List(items) => {
                let place = self.begin(b']');
                self.list(items);
                self.end(place)
            }
            Tree::Dict(items) => {
                let place = self.begin(b'}');
                self.dict(items);
                self.end(place)
            }
        };
        if shared && let Some(place) = place {
            self.known.push((tree, place));
        }
    }

    /// Starts a container with its opcode.
    fn begin(&mut self, opcode: u8) -> Option<u32> {
        self.out.push(opcode);
        let place = if self.style.memo == Memo::BeforeFilling { self.put() } else { None };
        self.open.push(place);
        place
    }

    fn end(&mut self, place: Option<u32>) -> Option<u32> {
        self.open.pop();
        if self.style.memo == Memo::AfterFilling { self.put() } else { place }
    }

    fn list(&mut self, items: &'t [Tree]) {
        if self.style.one_by_one {
            for item in items {
                self.value(item);
                self.out.push(b'a');
            }
            return;
        }
        for batch in items.chunks(1000) {
            self.out.push(b'(');
            batch.iter().for_each(|item| self.value(item));
            self.out.push(b'e');
        }
    }

    fn dict(&mut self, items: &'t [(String, Tree)]) {
        for batch in items.chunks(1000) {
            let single = batch.len() == 1 && self.style.one_by_one;
            if !single {
                self.out.push(b'(');
            }
            for (key, value) in batch {
                self.text(key);
                self.value(value);
            }
            self.out.push(if single { b's' } else { b'u' });
        }
    }

    fn tuple(&mut self, items: &'t [Tree]) {
        let marked = self.style.long || items.len() > 3;
        if marked {
            self.out.push(b'(');
        }
        self.open.push(None);
        items.iter().for_each(|item| self.value(item));
        self.open.pop();
        self.out.push(match items.len() {
            _ if marked => b't',
            0 => b')',
            n => 0x84 + n as u8,
        });
    }

    fn text(&mut self, s: &str) {
        match u8::try_from(s.len()) {
            Ok(n) if self.style.protocol >= 4 && !self.style.long => self.out.extend([0x8c, n]),
            _ if self.style.protocol >= 4 => {
                self.out.push(0x8d);
                self.out.extend((s.len() as u64).to_le_bytes());
            }
            _ => {
                self.out.push(b'X');
                self.out.extend((s.len() as u32).to_le_bytes());
            }
        }
        self.out.extend(s.as_bytes());
    }

    fn int(&mut self, n: i128) {
        match (u8::try_from(n), u16::try_from(n), i32::try_from(n)) {
            (Ok(n), ..) if !self.style.long => self.out.extend([b'K', n]),
            (_, Ok(n), _) if !self.style.long => {
                self.out.push(b'M');
                self.out.extend(n.to_le_bytes());
            }
            (.., Ok(n)) if !self.style.long => {
                self.out.push(b'J');
                self.out.extend(n.to_le_bytes());
            }
            _ => {
                // The shortest two's complement.
                let bytes = n.to_le_bytes();
                let unused = if n < 0 { n.leading_ones() } else { n.leading_zeros() };
                let length = 16 - (unused - 1) as usize / 8;
                self.out.extend([0x8a, length as u8]);
                self.out.extend(&bytes[..length]);
            }
        }
    }

    fn get(&mut self, place: u32) {
        match u8::try_from(place) {
            Ok(place) => self.out.extend([b'h', place]),
            Err(_) => {
                self.out.push(b'j');
                self.out.extend(place.to_le_bytes());
            }
        }
    }

    fn put(&mut self) -> Option<u32> {
        let place = self.next;
        self.next += 1;
        match u8::try_from(place) {
            _ if self.style.protocol >= 4 => self.out.push(0x94),
            Ok(place) => self.out.extend([b'q', place]),
            Err(_) => {
                self.out.push(b'r');
                self.out.extend(place.to_le_bytes());
            }
        }
        Some(place)
    }
}

/// PyTorch refers to equal texts, frames and stacks.
fn is_shared(tree: &Tree) -> bool {
    match tree {
        Tree::Text(_) => true,
        Tree::Dict(items) => items.first().is_some_and(|(key, _)| key == "name" || key == "filename"),
        Tree::List(items) => {
            !items.is_empty() && items.iter().all(|item| matches!(item, Tree::Dict(_)) && is_shared(item))
        }
        _ => false,
    }
}
