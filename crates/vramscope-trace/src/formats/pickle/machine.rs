//! A pickle machine for data only. It has CPython's stack, marks and memo, and passes every container to the [`Assembler`] as it
//! closes. It builds dictionaries, lists, tuples and plain values, and nothing else.
//!
//! CPython puts a container into the memo before filling it, libtorch afterwards, and a list may arrive in batches. So a list stays
//! *open* in a separate slot until a value refers to it or takes it. A dictionary closes with its first batch, because no record of a
//! snapshot has a thousand keys.

use std::num::NonZeroU32;

use super::memo::{Entry, Memo};
use super::opcode::*;
use super::shape::Shape;
use super::spans::{Spans, begins_with};
use crate::error::ReadError;
use crate::formats::assembler::{Assembler, EntryOrRecord, Value, push_element, push_joined};
use crate::formats::window::Window;
use crate::formats::{Contents, Format, LONGEST_STRING};
use crate::ids::{FrameId, StackId};

type Result<T> = std::result::Result<T, ReadError>;

/// Maximum nesting depth of containers; a snapshot has a depth of about eight.
const DEEPEST: usize = 128;

/// Size in bytes of the longest opcode with its argument: `LONG4` with nine bytes.
const LONGEST: usize = 14;

/// Maximum number of elements that `pickle` appends at once.
const BATCH: usize = 1000;

/// Maximum number of open lists. A snapshot has about as many as its depth, plus one for each device.
const MOST_OPEN: usize = 1 << 16;

/// Reads a pickle, including its `PROTO` opcode.
pub(super) fn read(window: Window<'_>) -> Result<Contents> {
    let mut machine = Machine {
        assembler: Assembler::new(window.most_memory())?,
        window,
        protocol: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Memo::default(),
        lists: Vec::new(),
        vacant: Vec::new(),
        shape: Shape::new(),
        spans: Spans::new(),
    };
    let root = machine.run()?;
    machine.window.fill(1)?;
    if !machine.window.here().is_empty() {
        machine.assembler.notices().trailing_bytes = true;
    }
    let (trace, notices) = machine.assembler.finish(root)?;
    Ok(Contents { trace, notices, format: Format::Pickle { protocol: machine.protocol } })
}

struct Machine<'s> {
    window: Window<'s>,
    assembler: Assembler,
    protocol: u8,
    stack: Vec<Value>,
    /// Heights never decrease and never exceed the stack's height.
    marks: Vec<Mark>,
    memo: Memo,
    /// Slots of open lists, and the vacant ones among them.
    lists: Vec<OpenList>,
    vacant: Vec<u32>,
    shape: Shape,
    spans: Spans,
}

#[derive(Clone, Copy)]
struct Mark {
    /// Height of the stack at the mark.
    height: usize,
    /// Byte offset of the mark in the file.
    at: u64,
}

/// A list that may still grow.
#[derive(Default)]
struct OpenList {
    /// Index in the memo.
    memo: Option<u32>,
    /// All elements, if they arrived as one batch of references to frames.
    stack: Option<StackId>,
    /// The elements, if all are frames and `stack` is `None`.
    frames: Vec<FrameId>,
    /// The elements in any other case.
    values: Vec<Value>,
    /// The final value. The list must not grow any more.
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
            if self.plain()? {
                continue;
            }
            let at = self.window.offset();
            let Some(&opcode) = self.window.here().first() else {
                return Err(self.truncated("the pickle"));
            };
            self.window.advance(1);
            match opcode {
                MARK => self.mark(at)?,
                MEMOIZE => {
                    let i = u32::try_from(self.memo.len()).map_err(|_| damaged(at, "the memo is full"))?;
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
                    self.shape.keep(self.stack.get(mark.height..).unwrap_or_default());
                    self.set_items(mark, at)?;
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
                        return Err(damaged(at, format!("pickle protocol {protocol}; supported are 2 to 5")));
                    }
                    self.protocol = protocol;
                }
                FRAME => {
                    // The length only helps readers that buffer frames.
                    let [_, _, _, _, _, _, _, _] = self.take()?;
                }
                STOP => return self.pop(at),
                // Complete opcodes of these kinds are handled by `plain`.
                BINGET | LONG_BINGET | BININT | BININT1 | BININT2 => return Err(self.truncated("an opcode")),
                other => return Err(refuse(other, at)),
            }
        }
    }

    /// Runs the next opcode if it is complete and is a common one that pushes a plain value. Otherwise returns false and consumes
    /// nothing.
    #[inline(always)]
    fn plain(&mut self) -> Result<bool> {
        match *self.window.here() {
            [BINGET, i, ..] => {
                self.window.advance(2);
                self.get(i.into(), 2)?;
            }
            [LONG_BINGET, a, b, c, d, ..] => {
                self.window.advance(5);
                self.get(u32::from_le_bytes([a, b, c, d]), 5)?;
            }
            [BININT1, n, ..] => {
                self.window.advance(2);
                self.push(Value::Int(n.into()));
            }
            [BININT2, a, b, ..] => {
                self.window.advance(3);
                self.push(Value::Int(u16::from_le_bytes([a, b]).into()));
            }
            [BININT, a, b, c, d, ..] => {
                self.window.advance(5);
                self.push(Value::Int(i32::from_le_bytes([a, b, c, d]).into()));
            }
            [LONG1, n @ 1..=8, a, b, c, d, e, f, g, h, ..] => {
                self.window.advance(2 + usize::from(n));
                // Shifting left and right again drops the bytes after the number and extends its sign.
                let unused = 64 - 8 * u32::from(n);
                let word = i64::from_le_bytes([a, b, c, d, e, f, g, h]);
                self.push(Value::Int((word << unused) >> unused));
            }
            [NONE, ..] => {
                self.window.advance(1);
                self.push(Value::None);
            }
            [opcode @ (NEWTRUE | NEWFALSE), ..] => {
                self.window.advance(1);
                self.push(Value::Bool(opcode == NEWTRUE));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes the next `N` bytes, all part of one opcode.
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

    /// Makes the next opcode and its argument available, except for strings, if the file has more bytes.
    #[cold]
    fn refill(&mut self) -> Result<()> {
        // One byte of the file may push 16 bytes of memory. A snapshot consumes pushed values soon.
        if self.stack.len() as u64 > (1 << 16) + self.window.offset() / 8 {
            return Err(damaged(self.window.offset(), "a list or dictionary that never closes"));
        }
        // Bytes at hand count only after they are decoded.
        self.assembler.check_memory(self.waiting(), self.window.offset())?;
        fill_opcode(&mut self.window, 0)
    }

    /// Memory, in bytes, of values that no record uses yet.
    fn waiting(&self) -> usize {
        let open = self.lists.iter().map(|l| l.values.capacity() * 2 + l.frames.capacity()).sum::<usize>();
        (self.stack.len() + open) * size_of::<Value>() + self.memo.memory()
    }

    #[inline]
    fn push(&mut self, v: Value) {
        self.stack.push(v);
    }

    /// Takes the top value and closes it.
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
        // The elements that the fast path added to the list came after this mark.
        let height = self.stack.len();
        self.marks.push(Mark { height, at });
        if matches!(self.stack.last(), Some(Value::OpenDict(_))) { self.fields() } else { Ok(()) }
    }

    /// Fast path for an entry with the same keys as the previous one. Reads its fields while they match, and closes it if it ends
    /// there. [`run`](Self::run) reads the rest of an entry that differs.
    fn fields(&mut self) -> Result<()> {
        let (mut taken, mut open) = (0, None);
        while let Some(key) = self.shape.key(taken) {
            let here = self.window.here();
            match here.first_chunk() {
                // The value after the key is also at hand.
                Some(bytes) if key.begins(bytes) && here.len() >= key.length + LONGEST => {}
                _ => return Ok(()),
            }
            self.window.advance(key.length);
            self.push(Value::Str(key.key));
            if !self.plain()? {
                open = open.or(Some(self.stack.len()));
                if !self.list_of_frames()? {
                    return Ok(());
                }
            }
            taken += 1;
        }
        let at = self.window.offset();
        if taken > 0 && self.window.here().first() == Some(&SETITEMS) {
            self.window.advance(1);
            let mark = self.pop_mark(at)?;
            self.close_from(open.unwrap_or(self.stack.len()))?;
            self.set_closed_items(mark, at)?;
        }
        Ok(())
    }

    /// Fast path for a list of frames that was written before. Returns false if something else follows; the consumed opcodes then have
    /// the same effect as in [`run`](Self::run).
    fn list_of_frames(&mut self) -> Result<bool> {
        let at = self.window.offset();
        if self.window.here().first() != Some(&EMPTY_LIST) {
            return Ok(false);
        }
        self.window.advance(1);
        self.open_list(at)?;
        self.memoize_new();
        if self.window.here().first() == Some(&MARK) {
            self.window.advance(1);
            let marks = self.marks.len();
            self.mark(at + 1)?;
            return Ok(self.marks.len() == marks);
        }
        Ok(true)
    }

    /// Fast path for a batch of references to frames: reads them without the stack, including the final `APPENDS`. Otherwise returns
    /// false and consumes nothing.
    fn append_frames(&mut self, slot: u32) -> Result<bool> {
        let is_empty = self.lists[slot as usize].is_empty();
        if is_empty && let Some(number) = self.guessed()? {
            self.lists[slot as usize].stack = Some(self.spans.came(number));
            return Ok(true);
        }
        let Some((references, length)) = self.references()? else { return Ok(false) };
        // A full batch may be followed by another one; any other batch is the whole list.
        let is_whole = is_empty && (1..BATCH).contains(&references);
        if is_whole && let Some(number) = self.spans.find(&self.window.here()[..length]) {
            self.lists[slot as usize].stack = Some(self.spans.came(number));
            self.window.advance(length);
            return Ok(true);
        }
        self.spread(slot);
        let list = &mut self.lists[slot as usize];
        let before = list.frames.len();
        let bytes = &self.window.here()[..length];
        if !push_frames(&self.memo, bytes, &mut list.frames) {
            list.frames.truncate(before);
            return Ok(false);
        }
        if is_whole {
            let stack = self.assembler.intern_stack(&list.frames)?;
            list.frames.clear();
            list.stack = Some(stack);
            self.spans.keep(stack, bytes);
        }
        self.window.advance(length);
        Ok(true)
    }

    /// Skips the batch if it was predicted. Returns its number.
    fn guessed(&mut self) -> Result<Option<u32>> {
        for (number, bytes) in self.spans.guesses().into_iter().flatten() {
            if self.window.here().len() < bytes.len() && bytes.starts_with(self.window.here()) {
                self.window.fill(bytes.len())?;
            }
            if begins_with(self.window.here(), bytes) {
                self.window.advance(bytes.len());
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// Returns the number of references before an `APPENDS`, and their size in bytes including it. All these bytes are then available.
    /// `None` if something else follows, or if the first reference is not a frame.
    fn references(&mut self) -> Result<Option<(usize, usize)>> {
        let (mut references, mut i) = (0, 0);
        loop {
            // Looking ahead must not consume, so the whole batch must be at hand.
            if self.window.here().len() < i + LONGEST {
                fill_opcode(&mut self.window, i)?;
            }
            // At the end of the file, fewer bytes than an opcode may remain.
            match *self.window.here().get(i..).unwrap_or_default() {
                [APPENDS, ..] => return Ok(Some((references, i + 1))),
                [FRAME, ..] => i += 9,
                ref bytes => match reference(bytes) {
                    Some((first, _)) if references == 0 && self.memo.frame(first).is_none() => {
                        return Ok(None);
                    }
                    Some((_, length)) if references < BATCH => (references, i) = (references + 1, i + length),
                    _ => return Ok(None),
                },
            }
        }
    }

    /// Converts a list that is a whole stack to one that can grow.
    fn spread(&mut self, slot: u32) {
        let list = &mut self.lists[slot as usize];
        if let Some(stack) = list.stack.take() {
            list.frames.extend_from_slice(self.assembler.frames_of(stack));
        }
    }

    fn pop_mark(&mut self, at: u64) -> Result<Mark> {
        self.marks.pop().ok_or_else(|| damaged(at, "a batch ends without a start"))
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

    /// Consumes the `MEMOIZE` that CPython writes after every new container.
    #[inline(always)]
    fn memoize_new(&mut self) {
        if self.window.here().first() != Some(&MEMOIZE) {
            return;
        }
        match self.stack.last_mut() {
            Some(Value::OpenDict(memo)) => {
                let Some(i) = self.memo.push_container(None) else { return };
                *memo = NonZeroU32::MIN.checked_add(i);
            }
            Some(&mut Value::Open(slot)) => {
                let Some(i) = self.memo.push_container(Some(slot)) else { return };
                self.lists[slot as usize].memo = Some(i);
            }
            _ => return,
        }
        self.window.advance(1);
    }

    /// Height of the last mark. No opcode may reach below it.
    #[inline]
    fn floor(&self) -> usize {
        self.marks.last().map_or(0, |m| m.height)
    }

    /// Returns the index of the value below `height`, which must be a container.
    fn below(&self, height: usize, at: u64) -> Result<usize> {
        height.checked_sub(1).filter(|&i| i >= self.floor()).ok_or_else(|| underflow(at))
    }

    /// Slot of the open list below `height`.
    fn list_below(&self, height: usize, at: u64) -> Result<u32> {
        match self.stack.get(self.below(height, at)?).copied() {
            Some(Value::Open(slot)) if self.lists[slot as usize].closed.is_none() => Ok(slot),
            Some(Value::Open(_)) => Err(damaged(at, "a list that grows after a value referred to it")),
            _ => Err(damaged(at, "an append to a value that is not a list")),
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
        self.close_from(mark.height)?;
        self.set_closed_items(mark, at)
    }

    fn set_closed_items(&mut self, mark: Mark, at: u64) -> Result<()> {
        let below = self.below(mark.height, at)?;
        let items = &self.stack[mark.height..];
        if !items.len().is_multiple_of(2) {
            return Err(damaged(at, "a dictionary with a key but no value"));
        }
        match self.stack[below] {
            Value::OpenDict(memo) => {
                let value = match self.assembler.entry_or_record(items, Some(mark.at))? {
                    EntryOrRecord::Entry(first) => Value::Events { first, len: 1 },
                    EntryOrRecord::Record(value) => value,
                };
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
            _ => Err(damaged(at, "items are set in a value that is not an open dictionary")),
        }
    }

    /// Pushes a closed value. Consecutive events in one batch become one value.
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

    /// Closes all values from `height` up.
    fn close_from(&mut self, height: usize) -> Result<()> {
        for i in height..self.stack.len() {
            if matches!(self.stack[i], Value::Open(_) | Value::OpenDict(_)) {
                self.stack[i] = self.closed(self.stack[i])?;
            }
        }
        Ok(())
    }

    /// `v` for its new owner: an open container closes, and its slot becomes vacant.
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

    /// Determines the value of an open list. Its slot remains, because the stack still refers to it.
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
        // There are many slots, which are reused, but few long lists.
        if list.values.capacity() > BATCH {
            list.values = Vec::new();
        }
        list.closed = Some(value);
        if let Some(i) = list.memo
            && self.memo.get(i) == Some(Value::Open(slot))
        {
            self.memo_set(i, value);
        }
        Ok(value)
    }

    fn memo_set(&mut self, i: u32, v: Value) {
        match self.memo.set(i, v) {
            None => self.shape.put(i, v),
            // The bytes that refer to this frame have a new meaning from now on.
            Some(Value::Frame(_)) => self.spans.forget(),
            Some(before) => self.shape.overwritten(before),
        }
    }

    /// Pushes value `i` of the memo, for an opcode of `length` bytes that was consumed.
    #[inline(always)]
    fn get(&mut self, i: u32, length: u64) -> Result<()> {
        match self.memo.entry(i) {
            Some(Entry::Str(id)) => self.stack.push(Value::Str(id)),
            Some(Entry::Stack(id)) => self.stack.push(Value::Stack(id)),
            Some(Entry::Frame(id)) => self.stack.push(Value::Frame(id)),
            _ => return self.get_other(i, length),
        }
        Ok(())
    }

    fn get_other(&mut self, i: u32, length: u64) -> Result<()> {
        let v = match self.memo.get(i) {
            Some(Value::Open(slot)) => self.close(slot)?,
            Some(v) => v,
            None => {
                let at = self.window.offset() - length;
                return Err(damaged(at, format!("memo entry {i} is used before it is set")));
            }
        };
        self.push_record(v);
        Ok(())
    }

    fn put(&mut self, i: u32, at: u64) -> Result<()> {
        let v = match self.stack.last_mut() {
            None => return Err(underflow(at)),
            Some(Value::OpenDict(memo)) => {
                *memo = NonZeroU32::MIN.checked_add(i);
                // Until the dictionary closes, only its own contents can refer to it.
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

    /// Reads an integer of `n` bytes, little-endian, two's complement.
    fn long(&mut self, n: u64, at: u64) -> Result<()> {
        let Some(n) = usize::try_from(n).ok().filter(|&n| n <= 9) else {
            return Err(damaged(at, "an integer beyond 64 bits"));
        };
        let Some(bytes) = self.window.here().get(..n) else { return Err(self.truncated("an integer")) };
        let is_negative = bytes.last().is_some_and(|&high| high >= 0x80);
        let mut word = [if is_negative { 0xff } else { 0 }; 16];
        word[..n].copy_from_slice(bytes);
        let number = i128::from_le_bytes(word);
        self.window.advance(n);
        match (i64::try_from(number), u64::try_from(number)) {
            (Ok(number), _) => self.push(Value::Int(number)),
            (_, Ok(number)) => self.push(Value::Big(number)),
            _ => return Err(damaged(at, "an integer beyond 64 bits")),
        }
        Ok(())
    }

    fn string(&mut self, n: u64, at: u64) -> Result<()> {
        let Some(n) = usize::try_from(n).ok().filter(|&n| n <= LONGEST_STRING) else {
            return Err(damaged(at, format!("a string of {n} bytes; no snapshot has one that long")));
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

    /// Skips bytes, which mean nothing in a snapshot.
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

/// Returns the memo index that an opcode refers to, and the size of the opcode in bytes.
#[inline]
fn reference(bytes: &[u8]) -> Option<(u32, usize)> {
    match *bytes {
        [LONG_BINGET, a, b, c, d, ..] => Some((u32::from_le_bytes([a, b, c, d]), 5)),
        [BINGET, a, ..] => Some((a.into(), 2)),
        _ => None,
    }
}

/// Appends the frames of a batch of references. Returns false if a reference is not a frame.
fn push_frames(memo: &Memo, mut bytes: &[u8], frames: &mut Vec<FrameId>) -> bool {
    loop {
        match bytes {
            [APPENDS, ..] => return true,
            [FRAME, ..] => bytes = bytes.get(9..).unwrap_or_default(),
            _ => {
                let Some((index, length)) = reference(bytes) else { return false };
                let Some(frame) = memo.frame(index) else { return false };
                frames.push(frame);
                bytes = &bytes[length..];
            }
        }
    }
}

/// Makes the opcode `ahead` bytes further available, with its argument. Does not wait for later bytes: a pipe may have no more, and an
/// error in the opcode must be reported anyway.
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
        // Longer integers are rejected without reading them.
        window.fill(length + digits.min(9) as usize)?;
    }
    Ok(())
}

fn damaged(offset: u64, what: impl Into<String>) -> ReadError {
    ReadError::Damaged { offset, what: what.into() }
}

fn underflow(at: u64) -> ReadError {
    damaged(at, "an opcode needs more values than the stack has")
}

fn too_deep(at: u64) -> ReadError {
    damaged(at, "containers are nested too deeply; a snapshot has about eight levels")
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
