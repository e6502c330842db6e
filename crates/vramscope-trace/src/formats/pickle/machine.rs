//! A pickle machine for data: it keeps CPython's stack, marks and memo, and hands every container to the
//! [`Assembler`] as it closes. It can build dictionaries, lists, tuples and plain values, and nothing else.
//!
//! CPython puts a container into the memo before filling it, libtorch after; a list may arrive in batches.
//! So a list stays *open* in a slot of its own until something refers to it or takes it; a dictionary
//! closes with its first batch, for no record of a snapshot has as many as a thousand keys.

use std::num::NonZeroU32;

use hashbrown::HashMap;

use super::opcode::*;
use super::spans::Spans;
use crate::error::ReadError;
use crate::formats::LONGEST_STRING;
use crate::formats::assembler::{Assembler, Value, push_element, push_joined};
use crate::formats::window::Window;
use crate::ids::{FrameId, StackId};
use crate::notices::Notices;
use crate::trace::Trace;

type Result<T> = std::result::Result<T, ReadError>;

/// Containers inside each other; a snapshot has about eight.
const DEEPEST: usize = 128;

/// Bytes of the longest opcode with its argument: `LONG4` of nine bytes.
const LONGEST: usize = 14;

/// `pickle` appends at most this many elements at a time.
const BATCH: usize = 1000;

/// Lists open at a time; a snapshot has about as many as it is deep, and one for each device.
const MOST_OPEN: usize = 1 << 16;

/// Reads a pickle, its `PROTO` opcode included.
pub(in crate::formats) fn read(window: Window<'_>) -> Result<(Trace, Notices, u8)> {
    let mut machine = Machine {
        window,
        assembler: Assembler::new()?,
        protocol: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
        sparse_memo: HashMap::new(),
        lists: Vec::new(),
        vacant: Vec::new(),
        spans: Spans::new(),
    };
    let root = machine.run()?;
    machine.window.fill(1)?;
    if !machine.window.here().is_empty() {
        machine.assembler.notices().trailing_bytes = true;
    }
    let (trace, notices) = machine.assembler.finish(root)?;
    Ok((trace, notices, machine.protocol))
}

struct Machine<'s> {
    window: Window<'s>,
    assembler: Assembler,
    protocol: u8,
    stack: Vec<Value>,
    /// Heights never fall below the one before, nor exceed the stack's.
    marks: Vec<Mark>,
    /// Entries 0, 1, 2 ...; writers number them in order.
    memo: Vec<Value>,
    /// Entries beyond the first gap: an index in the file is not to be trusted with an allocation.
    sparse_memo: HashMap<u32, Value>,
    /// Slots of open lists, and which of them are vacant.
    lists: Vec<OpenList>,
    vacant: Vec<u32>,
    spans: Spans,
}

#[derive(Clone, Copy)]
struct Mark {
    /// Height of the stack at the mark.
    height: usize,
    /// Where the mark stands in the file.
    at: u64,
}

/// A list that may still grow.
#[derive(Default)]
struct OpenList {
    /// Its place in the memo.
    memo: Option<u32>,
    /// Its elements, where they came as one batch of references to frames.
    stack: Option<StackId>,
    /// Its elements while all of them are frames otherwise.
    frames: Vec<FrameId>,
    /// Its elements in all other cases.
    values: Vec<Value>,
    /// What it became; from then on it must not grow.
    closed: Option<Value>,
}

impl OpenList {
    fn is_empty(&self) -> bool {
        self.stack.is_none() && self.frames.is_empty() && self.values.is_empty()
    }
}

impl Machine<'_> {
    fn run(&mut self) -> Result<Value> {
        loop {
            if self.window.here().len() < LONGEST {
                self.refill()?;
            }
            let at = self.window.offset();
            let Some(&opcode) = self.window.here().first() else {
                return Err(self.truncated("the pickle"));
            };
            self.window.advance(1);
            match opcode {
                BINGET => {
                    let [i] = self.take()?;
                    self.get(u32::from(i), at)?;
                }
                LONG_BINGET => {
                    let i = u32::from_le_bytes(self.take()?);
                    self.get(i, at)?;
                }
                MARK => self.mark(at)?,
                MEMOIZE => {
                    let i = u32::try_from(self.memo.len() + self.sparse_memo.len())
                        .map_err(|_| damaged(at, "the memo is full"))?;
                    self.put(i, at)?;
                }
                EMPTY_DICT => {
                    self.push(Value::OpenDict(None));
                    self.memoize_new();
                }
                EMPTY_LIST => {
                    self.open_list(at)?;
                    self.memoize_new();
                }
                APPENDS => self.appends(at)?,
                SETITEMS => {
                    let mark = self.pop_mark(at)?;
                    self.set_items(mark, at)?;
                }
                BININT => {
                    let n = i32::from_le_bytes(self.take()?);
                    self.push(Value::Int(n.into()));
                }
                BININT1 => {
                    let [n] = self.take()?;
                    self.push(Value::Int(n.into()));
                }
                BININT2 => {
                    let n = u16::from_le_bytes(self.take()?);
                    self.push(Value::Int(n.into()));
                }
                LONG1 => {
                    let [n] = self.take()?;
                    self.long(n.into(), at)?;
                }
                LONG4 => {
                    let n = u32::from_le_bytes(self.take()?);
                    self.long(n.into(), at)?;
                }
                BINFLOAT => {
                    let x = f64::from_be_bytes(self.take()?);
                    self.push(Value::Float(x));
                }
                NONE => self.push(Value::None),
                NEWTRUE => self.push(Value::Bool(true)),
                NEWFALSE => self.push(Value::Bool(false)),
                SHORT_BINUNICODE | SHORT_BINSTRING => {
                    let [n] = self.take()?;
                    self.string(n.into(), at)?;
                }
                BINUNICODE | BINSTRING => {
                    let n = u32::from_le_bytes(self.take()?);
                    self.string(n.into(), at)?;
                }
                BINUNICODE8 => {
                    let n = u64::from_le_bytes(self.take()?);
                    self.string(n, at)?;
                }
                SHORT_BINBYTES => {
                    let [n] = self.take()?;
                    self.bytes(n.into())?;
                }
                BINBYTES => {
                    let n = u32::from_le_bytes(self.take()?);
                    self.bytes(n.into())?;
                }
                BINBYTES8 | BYTEARRAY8 => {
                    let n = u64::from_le_bytes(self.take()?);
                    self.bytes(n)?;
                }
                BINPUT => {
                    let [i] = self.take()?;
                    self.put(i.into(), at)?;
                }
                LONG_BINPUT => {
                    let i = u32::from_le_bytes(self.take()?);
                    self.put(i, at)?;
                }
                APPEND => {
                    let item = self.pop(at)?;
                    let slot = self.list_below(self.stack.len(), at)?;
                    self.append(slot, item);
                }
                SETITEM => {
                    let Some(height) = self.stack.len().checked_sub(2) else { return Err(underflow(at)) };
                    self.set_items(Mark { height, at }, at)?;
                }
                EMPTY_TUPLE => self.push(Value::EmptyList),
                TUPLE1 => self.tuple(1, at)?,
                TUPLE2 => self.tuple(2, at)?,
                TUPLE3 => self.tuple(3, at)?,
                TUPLE => {
                    let mark = self.pop_mark(at)?;
                    self.tuple(self.stack.len() - mark.height, at)?;
                }
                EMPTY_SET => self.push(Value::Opaque),
                ADDITEMS => {
                    let mark = self.pop_mark(at)?;
                    self.drop_down_to(mark.height)?;
                }
                FROZENSET => {
                    let mark = self.pop_mark(at)?;
                    self.drop_down_to(mark.height)?;
                    self.push(Value::Opaque);
                }
                POP => {
                    self.pop(at)?;
                }
                POP_MARK => {
                    let mark = self.pop_mark(at)?;
                    self.drop_down_to(mark.height)?;
                }
                DUP => {
                    let v = self.pop(at)?;
                    self.push(v);
                    self.push(v);
                }
                PROTO => {
                    let [protocol] = self.take()?;
                    if !(2..=5).contains(&protocol) {
                        return Err(damaged(at, format!("pickle protocol {protocol}, known are 2 to 5")));
                    }
                    self.protocol = protocol;
                }
                FRAME => {
                    // Its length only helps readers that buffer by it.
                    let [_, _, _, _, _, _, _, _] = self.take()?;
                }
                STOP => return self.pop(at),
                other => return Err(refuse(other, at)),
            }
        }
    }

    /// The next `N` bytes, all part of one opcode.
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.window.here().first_chunk::<N>() {
            Some(&bytes) => {
                self.window.advance(N);
                Ok(bytes)
            }
            None => Err(self.truncated("an opcode")),
        }
    }

    fn truncated(&self, inside: &'static str) -> ReadError {
        ReadError::Truncated { offset: self.window.offset() + self.window.here().len() as u64, inside }
    }

    /// Has the next opcode and its argument at hand, strings apart, where the file goes on.
    #[cold]
    fn refill(&mut self) -> Result<()> {
        // A byte of the file may push sixteen of memory; a snapshot takes what it pushes soon after.
        if self.stack.len() as u64 > (1 << 16) + self.window.offset() / 8 {
            return Err(damaged(self.window.offset(), "a list or dictionary that never closes"));
        }
        // Bytes that are at hand count only once they are decoded.
        self.assembler.check_memory(self.waiting(), self.window.offset())?;
        fill_opcode(&mut self.window, 0)
    }

    /// Bytes of memory that hold values which no record has taken yet.
    fn waiting(&self) -> usize {
        let open = self.lists.iter().map(|l| l.values.capacity() * 2 + l.frames.capacity()).sum::<usize>();
        // An entry of the map takes its size and a half, and the map is at least a third full.
        let memo = self.memo.len() + 5 * self.sparse_memo.len();
        (self.stack.len() + memo + open) * size_of::<Value>()
    }

    #[inline]
    fn push(&mut self, v: Value) {
        self.stack.push(v);
    }

    /// Takes the value on top, closed.
    fn pop(&mut self, at: u64) -> Result<Value> {
        if self.stack.len() <= self.floor() {
            return Err(underflow(at));
        }
        if let Some(Value::Events { first, len }) = self.stack.last_mut()
            && *len > 1
        {
            *len -= 1;
            return Ok(Value::Events { first: *first + *len, len: 1 });
        }
        match self.stack.pop() {
            Some(v) => self.closed(v),
            None => Err(underflow(at)),
        }
    }

    fn mark(&mut self, at: u64) -> Result<()> {
        if let Some(&Value::Open(slot)) = self.stack.get(self.floor()..).and_then(<[Value]>::last)
            && self.lists[slot as usize].closed.is_none()
            && self.lists[slot as usize].values.is_empty()
            && self.append_frames(slot)?
        {
            return Ok(());
        }
        if self.marks.len() >= DEEPEST {
            return Err(too_deep(at));
        }
        // What the fast path took into the list came after this mark.
        self.marks.push(Mark { height: self.stack.len(), at });
        Ok(())
    }

    /// The common case, a batch of references to frames: takes them without touching the stack, and the
    /// `APPENDS` behind them. False where something else follows; then nothing was taken.
    fn append_frames(&mut self, slot: u32) -> Result<bool> {
        if let Some((stack, bytes)) = self.spans.guess() {
            if self.window.here().len() < bytes.len() && bytes.starts_with(self.window.here()) {
                self.window.fill(bytes.len())?;
            }
            if self.lists[slot as usize].is_empty() && self.window.here().starts_with(bytes) {
                self.window.advance(bytes.len());
                self.lists[slot as usize].stack = Some(stack);
                self.spans.came(stack);
                return Ok(true);
            }
        }
        self.spread(slot);
        let list = &mut self.lists[slot as usize];
        let before = list.frames.len();
        let mut i = 0;
        loop {
            // Looking ahead must not consume, so the whole batch has to be at hand.
            if self.window.here().len() < i + LONGEST {
                fill_opcode(&mut self.window, i)?;
            }
            let bytes = &self.window.here()[i..];
            let (index, length) = match *bytes {
                [LONG_BINGET, a, b, c, d, ..] => (u32::from_le_bytes([a, b, c, d]), 5),
                [BINGET, a, ..] => (u32::from(a), 2),
                [FRAME, _, _, _, _, _, _, _, _, ..] => {
                    i += 9;
                    continue;
                }
                [APPENDS, ..] => {
                    // A full batch may be followed by another; any other is the whole list.
                    if before == 0 && (1..BATCH).contains(&list.frames.len()) {
                        let stack = self.assembler.intern_stack(&list.frames)?;
                        list.frames.clear();
                        list.stack = Some(stack);
                        self.spans.keep(stack, &self.window.here()[..=i]);
                        self.spans.came(stack);
                    }
                    self.window.advance(i + 1);
                    return Ok(true);
                }
                _ => break,
            };
            match self.memo.get(index as usize) {
                Some(&Value::Frame(frame)) => list.frames.push(frame),
                _ => break,
            }
            i += length;
        }
        list.frames.truncate(before);
        Ok(false)
    }

    /// Turns a list that is a whole stack into one that can take more.
    fn spread(&mut self, slot: u32) {
        let list = &mut self.lists[slot as usize];
        if let Some(stack) = list.stack.take() {
            list.frames.extend_from_slice(self.assembler.frames_of(stack));
        }
    }

    fn pop_mark(&mut self, at: u64) -> Result<Mark> {
        self.marks.pop().ok_or_else(|| damaged(at, "a batch ends that never began"))
    }

    fn open_list(&mut self, at: u64) -> Result<()> {
        let slot = match self.vacant.pop() {
            Some(slot) => slot,
            None if self.lists.len() < MOST_OPEN => {
                self.lists.push(OpenList::default());
                (self.lists.len() - 1) as u32
            }
            None => return Err(too_deep(at)),
        };
        self.push(Value::Open(slot));
        Ok(())
    }

    /// Takes the `MEMOIZE` that CPython puts behind every new container.
    #[inline(always)]
    fn memoize_new(&mut self) {
        if self.window.here().first() != Some(&MEMOIZE) || !self.sparse_memo.is_empty() {
            return;
        }
        let Ok(i) = u32::try_from(self.memo.len()) else { return };
        let v = match self.stack.last_mut() {
            Some(Value::OpenDict(memo)) => {
                *memo = NonZeroU32::MIN.checked_add(i);
                Value::Opaque
            }
            Some(&mut Value::Open(slot)) => {
                self.lists[slot as usize].memo = Some(i);
                Value::Open(slot)
            }
            _ => return,
        };
        self.window.advance(1);
        self.memo.push(v);
    }

    /// Where values above the last mark begin: no opcode may reach below it.
    #[inline]
    fn floor(&self) -> usize {
        self.marks.last().map_or(0, |m| m.height)
    }

    /// The place right below `height`, where a container waits for what is above.
    fn below(&self, height: usize, at: u64) -> Result<usize> {
        height.checked_sub(1).filter(|&i| i >= self.floor()).ok_or_else(|| underflow(at))
    }

    /// The slot of the open list right below `height`.
    fn list_below(&self, height: usize, at: u64) -> Result<u32> {
        match self.stack.get(self.below(height, at)?).copied() {
            Some(Value::Open(slot)) if self.lists[slot as usize].closed.is_none() => Ok(slot),
            Some(Value::Open(_)) => Err(damaged(at, "a list that grows after it was referred to")),
            _ => Err(damaged(at, "something is appended to what is not a list")),
        }
    }

    fn append(&mut self, slot: u32, item: Value) {
        self.spread(slot);
        let list = &mut self.lists[slot as usize];
        match item {
            Value::Frame(frame) if list.values.is_empty() => list.frames.push(frame),
            _ => {
                list.values.extend(list.frames.drain(..).map(Value::Frame));
                push_element(&mut list.values, 0, item);
            }
        }
    }

    fn appends(&mut self, at: u64) -> Result<()> {
        let mark = self.pop_mark(at)?;
        let slot = self.list_below(mark.height, at)?;
        self.close_from(mark.height)?;
        for i in mark.height..self.stack.len() {
            self.append(slot, self.stack[i]);
        }
        self.stack.truncate(mark.height);
        Ok(())
    }

    /// Closes the dictionary below `mark` with the keys and values above it.
    fn set_items(&mut self, mark: Mark, at: u64) -> Result<()> {
        let below = self.below(mark.height, at)?;
        self.close_from(mark.height)?;
        let items = &self.stack[mark.height..];
        if !items.len().is_multiple_of(2) {
            return Err(damaged(at, "a dictionary with a key but no value"));
        }
        match self.stack[below] {
            Value::OpenDict(memo) => {
                let value = self.assembler.record(items, Some(mark.at))?;
                if let Some(memo) = memo {
                    self.memo_set(memo.get() - 1, value);
                }
                self.stack.truncate(below);
                self.push_record(value);
                Ok(())
            }
            Value::Opaque => {
                self.stack.truncate(mark.height);
                Ok(())
            }
            _ => Err(damaged(at, "items are set in what is not an open dictionary")),
        }
    }

    /// Pushes a closed value; events that follow each other in one batch become one value.
    #[inline]
    fn push_record(&mut self, value: Value) {
        if matches!(value, Value::Events { .. }) && self.stack.len() > self.floor() {
            push_joined(&mut self.stack, value);
        } else {
            self.stack.push(value);
        }
    }

    fn tuple(&mut self, n: usize, at: u64) -> Result<()> {
        let Some(start) = self.stack.len().checked_sub(n).filter(|&s| s >= self.floor()) else {
            return Err(underflow(at));
        };
        self.close_from(start)?;
        let value = self.assembler.list(&self.stack[start..])?;
        self.stack.truncate(start);
        self.push(value);
        Ok(())
    }

    fn drop_down_to(&mut self, height: usize) -> Result<()> {
        self.close_from(height)?;
        self.stack.truncate(height);
        Ok(())
    }

    /// Closes every value from `height` up.
    fn close_from(&mut self, height: usize) -> Result<()> {
        for i in height..self.stack.len() {
            if matches!(self.stack[i], Value::Open(_) | Value::OpenDict(_)) {
                self.stack[i] = self.closed(self.stack[i])?;
            }
        }
        Ok(())
    }

    /// `v` as its new owner sees it: an open container closes, and its slot becomes vacant.
    fn closed(&mut self, v: Value) -> Result<Value> {
        match v {
            Value::Open(slot) => {
                let value = self.close(slot)?;
                let list = &mut self.lists[slot as usize];
                list.memo = None;
                list.closed = None;
                self.vacant.push(slot);
                Ok(value)
            }
            Value::OpenDict(_) => Ok(Value::Opaque),
            v => Ok(v),
        }
    }

    /// Settles what an open list is. Its slot stays, for the stack still refers to it.
    fn close(&mut self, slot: u32) -> Result<Value> {
        let list = &mut self.lists[slot as usize];
        if let Some(value) = list.closed {
            return Ok(value);
        }
        let value = if let Some(stack) = list.stack.take() {
            Value::Stack(stack)
        } else if list.frames.is_empty() {
            self.assembler.list(&list.values)?
        } else {
            Value::Stack(self.assembler.intern_stack(&list.frames)?)
        };
        list.frames.clear();
        list.values.clear();
        // Slots are many and used again; few lists are long.
        if list.values.capacity() > BATCH {
            list.values = Vec::new();
        }
        list.closed = Some(value);
        if let Some(i) = list.memo
            && self.memo_get(i) == Some(Value::Open(slot))
        {
            self.memo_set(i, value);
        }
        Ok(value)
    }

    fn memo_get(&self, i: u32) -> Option<Value> {
        self.memo.get(i as usize).or_else(|| self.sparse_memo.get(&i)).copied()
    }

    fn memo_set(&mut self, i: u32, v: Value) {
        let next = self.memo.len();
        match self.memo.get_mut(i as usize) {
            Some(entry) => {
                if matches!(entry, Value::Frame(_)) {
                    self.spans.forget();
                }
                *entry = v;
            }
            None if i as usize == next && self.sparse_memo.is_empty() => self.memo.push(v),
            None => {
                self.sparse_memo.insert(i, v);
            }
        }
    }

    #[inline(always)]
    fn get(&mut self, i: u32, at: u64) -> Result<()> {
        match self.memo.get(i as usize) {
            Some(&v @ (Value::Str(_) | Value::Frame(_) | Value::Stack(_))) => {
                self.stack.push(v);
                Ok(())
            }
            _ => self.get_other(i, at),
        }
    }

    fn get_other(&mut self, i: u32, at: u64) -> Result<()> {
        let v = match self.memo_get(i) {
            Some(Value::Open(slot)) => self.close(slot)?,
            Some(v) => v,
            None => return Err(damaged(at, format!("memo entry {i} is used before it is made"))),
        };
        self.push_record(v);
        Ok(())
    }

    fn put(&mut self, i: u32, at: u64) -> Result<()> {
        let v = match self.stack.last_mut() {
            None => return Err(underflow(at)),
            Some(Value::OpenDict(memo)) => {
                *memo = NonZeroU32::MIN.checked_add(i);
                // Until it closes, a reference to it can only come from inside itself.
                Value::Opaque
            }
            Some(&mut Value::Open(slot)) => {
                let list = &mut self.lists[slot as usize];
                if list.memo.is_none() && list.is_empty() {
                    list.memo = Some(i);
                    Value::Open(slot)
                } else {
                    self.close(slot)?
                }
            }
            Some(&mut Value::Events { first, len }) => Value::Events { first: first + len - 1, len: 1 },
            Some(&mut v) => v,
        };
        self.memo_set(i, v);
        Ok(())
    }

    /// An integer of `n` bytes, little end first, two's complement.
    #[inline(always)]
    fn long(&mut self, n: u64, at: u64) -> Result<()> {
        let v = match n {
            0 => Value::Int(0),
            1..=8 => {
                let n = n as usize;
                let mut word = [0; 8];
                match (self.window.here().first_chunk::<8>(), self.window.here().get(..n)) {
                    (Some(bytes), _) => word = *bytes,
                    (None, Some(bytes)) => word[..n].copy_from_slice(bytes),
                    (None, None) => return Err(self.truncated("an integer")),
                }
                self.window.advance(n);
                // Shifting up and down again drops what follows the number and spreads its sign.
                let unused = 64 - 8 * n as u32;
                Value::Int((i64::from_le_bytes(word) << unused) >> unused)
            }
            9 => {
                let word: [u8; 8] = self.take()?;
                let [sign] = self.take()?;
                let word = u64::from_le_bytes(word);
                match (sign, i64::try_from(word)) {
                    (0, Ok(n)) => Value::Int(n),
                    (0, Err(_)) => Value::Big(word),
                    _ => return Err(damaged(at, "an integer beyond 64 bits")),
                }
            }
            _ => return Err(damaged(at, "an integer beyond 64 bits")),
        };
        self.push(v);
        Ok(())
    }

    fn string(&mut self, n: u64, at: u64) -> Result<()> {
        let Some(n) = usize::try_from(n).ok().filter(|&n| n <= LONGEST_STRING) else {
            return Err(damaged(at, format!("a string of {n} bytes, a snapshot has none so long")));
        };
        self.window.fill(n)?;
        let Some(bytes) = self.window.here().get(..n) else { return Err(self.truncated("a string")) };
        let v = match String::from_utf8_lossy(bytes) {
            std::borrow::Cow::Borrowed(s) => self.assembler.string(s)?,
            std::borrow::Cow::Owned(s) => {
                self.assembler.notices().mended_strings += 1;
                self.assembler.string(&s)?
            }
        };
        self.window.advance(n);
        self.push(v);
        Ok(())
    }

    /// Bytes mean nothing in a snapshot; steps over them.
    fn bytes(&mut self, mut n: u64) -> Result<()> {
        while n > 0 {
            self.window.fill(1)?;
            let here = (self.window.here().len() as u64).min(n);
            if here == 0 {
                return Err(self.truncated("a string of bytes"));
            }
            self.window.advance(here as usize);
            n -= here;
        }
        self.push(Value::Opaque);
        Ok(())
    }
}

/// Has the opcode that stands `ahead` bytes further at hand, with its argument. Waits for nothing that
/// follows: a pipe may hold no more, and what is wrong with the opcode is to be told all the same.
#[cold]
fn fill_opcode(window: &mut Window<'_>, ahead: usize) -> Result<()> {
    window.fill(ahead + 1)?;
    if let Some(&opcode) = window.here().get(ahead) {
        let length = ahead + 1 + argument(opcode);
        window.fill(length)?;
        let digits = match *window.here().get(ahead + 1..).unwrap_or_default() {
            [n, ..] if opcode == LONG1 => n.into(),
            [a, b, c, d, ..] if opcode == LONG4 => u32::from_le_bytes([a, b, c, d]),
            _ => 0,
        };
        // Longer integers are refused unseen.
        window.fill(length + digits.min(9) as usize)?;
    }
    Ok(())
}

fn damaged(offset: u64, what: impl Into<String>) -> ReadError {
    ReadError::Damaged { offset, what: what.into() }
}

fn underflow(at: u64) -> ReadError {
    damaged(at, "an opcode finds too little on the stack")
}

fn too_deep(at: u64) -> ReadError {
    damaged(at, "containers are nested too deep, a snapshot has about eight inside each other")
}

fn refuse(opcode: u8, offset: u64) -> ReadError {
    match can_run_code(opcode) {
        Some((name, why)) => ReadError::Refused { name, offset, why },
        None if opcode.is_ascii_graphic() => {
            damaged(offset, format!("unknown opcode `{}`", char::from(opcode)))
        }
        None => damaged(offset, format!("unknown opcode 0x{opcode:02x}")),
    }
}
