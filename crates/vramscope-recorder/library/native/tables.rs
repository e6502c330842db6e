//! Unwind tables of an object: `.eh_frame_hdr` and `.eh_frame`, as the x86-64 psABI and the Linux Standard Base describe them. The calls of
//! DWARF that compilers use are understood; anything else ends the stack.

use super::rules::Rule;

/// A position in mapped tables. Reading beyond `end` gives `None`.
#[derive(Debug, Clone, Copy)]
struct Bytes {
    at: usize,
    end: usize,
}

/// DWARF's numbers of the registers.
const RBP: u64 = 6;
const RSP: u64 = 7;
const RETURN_ADDRESS: u64 = 16;

/// Encodings of pointers (`DW_EH_PE_*`).
const OMIT: u8 = 0xff;
const PC_RELATIVE: u8 = 0x10;
const DATA_RELATIVE: u8 = 0x30;
const INDIRECT: u8 = 0x80;

impl Bytes {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let next = self.at.checked_add(N).filter(|&next| next <= self.end)?;
        // SAFETY: the tables are mapped up to `end`, as long as their object is loaded, and it stays loaded.
        let bytes = unsafe { (self.at as *const [u8; N]).read_unaligned() };
        self.at = next;
        Some(bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn unsigned(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    }

    fn signed(&mut self) -> Option<i64> {
        let (mut value, mut shift) = (0_i64, 0);
        loop {
            let byte = self.byte()?;
            value |= i64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if byte & 0x80 == 0 {
                let sign = if byte & 0x40 != 0 && shift < 64 { -1_i64 << shift } else { 0 };
                return Some(value | sign);
            }
        }
    }

    /// An encoded pointer. `data` is the start of `.eh_frame_hdr`.
    fn pointer(&mut self, encoding: u8, data: usize) -> Option<usize> {
        let here = self.at;
        let value = match encoding & 0x0f {
            0x00 | 0x04 => u64::from_le_bytes(self.take()?) as i64,
            0x01 => self.unsigned()? as i64,
            0x02 => u16::from_le_bytes(self.take()?).into(),
            0x03 => self.u32()?.into(),
            0x09 => self.signed()?,
            0x0a => i16::from_le_bytes(self.take()?).into(),
            0x0b => i32::from_le_bytes(self.take()?).into(),
            0x0c => i64::from_le_bytes(self.take()?),
            _ => return None,
        };
        let base = match encoding & 0x70 {
            0x00 => 0,
            PC_RELATIVE => here,
            DATA_RELATIVE => data,
            _ => return None,
        };
        Some(base.wrapping_add_signed(value as isize)).filter(|_| encoding & INDIRECT == 0)
    }
}

/// The tables of a loaded object: the start of `.eh_frame_hdr`, and the end of the mapped part of the object that has both tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tables {
    pub(super) header: usize,
    pub(super) end: usize,
}

impl Tables {
    /// The rule for an address in this object.
    pub(super) fn rule(self, address: usize) -> Rule {
        self.entry(address).and_then(|entry| self.rule_in(entry, address)).unwrap_or(Rule::END)
    }

    /// The address of the entry (FDE) that may describe the address: the last one that begins before it.
    fn entry(self, address: usize) -> Option<usize> {
        let mut header = Bytes { at: self.header, end: self.end };
        let [version, frame, count, table] = header.take()?;
        // Every linker writes this table.
        if version != 1 || count == OMIT || table != DATA_RELATIVE | 0x0b {
            return None;
        }
        header.pointer(frame, self.header)?;
        let count = header.pointer(count, self.header)?;
        let start = header.at;
        // Each row has the first address of a function and the address of its entry, relative to the header, with four bytes each.
        let row = |i: usize| {
            let mut row = Bytes { at: start + 8 * i, end: self.end };
            let [address, entry] =
                [row.u32()?, row.u32()?].map(|n| self.header.wrapping_add_signed(n as i32 as isize));
            Some((address, entry))
        };
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if row(middle)?.0 <= address { low = middle + 1 } else { high = middle }
        }
        row(low.checked_sub(1)?).map(|(_, entry)| entry)
    }

    /// The rule of an entry for an address; `None` if the entry does not describe it.
    fn rule_in(self, entry: usize, address: usize) -> Option<Rule> {
        let mut fde = Bytes { at: entry, end: self.end };
        let length = fde.u32()? as usize;
        fde.end = fde.at.checked_add(length).filter(|&end| end <= self.end)?;
        let here = fde.at;
        let cie = here.checked_sub(fde.u32()? as usize)?;
        let cie = Cie::read(Bytes { at: cie, end: self.end })?;
        let start = fde.pointer(cie.pointers, self.header)?;
        let size = fde.pointer(cie.pointers & 0x0f, 0)?;
        if address.wrapping_sub(start) >= size || cie.is_signal {
            return None;
        }
        if cie.has_augmentation {
            let skipped = fde.unsigned()? as usize;
            fde.at = fde.at.checked_add(skipped)?;
        }
        let mut state = State::default();
        state.run(cie.instructions, &cie, 0, usize::MAX)?;
        state.initial = (state.frame, state.bp);
        state.run(fde, &cie, start, address)?;
        state.rule(address)
    }
}

/// What entries share (CIE).
struct Cie {
    code_factor: u64,
    data_factor: i64,
    pointers: u8,
    has_augmentation: bool,
    is_signal: bool,
    instructions: Bytes,
}

impl Cie {
    fn read(mut bytes: Bytes) -> Option<Self> {
        let length = bytes.u32()? as usize;
        bytes.end = bytes.at.checked_add(length).filter(|&end| end <= bytes.end)?;
        let _id = bytes.u32()?;
        let version = bytes.byte()?;
        let mut texts = bytes;
        while bytes.byte()? != 0 {}
        let code_factor = bytes.unsigned()?;
        let data_factor = bytes.signed()?;
        let return_address = if version == 1 { bytes.byte()?.into() } else { bytes.unsigned()? };
        if return_address != RETURN_ADDRESS {
            return None;
        }
        let (mut pointers, mut has_augmentation, mut is_signal) = (0, false, false);
        loop {
            match texts.byte()? {
                0 => break,
                b'z' => {
                    has_augmentation = true;
                    bytes.unsigned()?;
                }
                b'R' => pointers = bytes.byte()?,
                b'L' => drop(bytes.byte()?),
                b'P' => {
                    let encoding = bytes.byte()?;
                    bytes.pointer(encoding & !INDIRECT, 0)?;
                }
                b'S' => is_signal = true,
                _ => return None,
            }
        }
        Some(Self { code_factor, data_factor, pointers, has_augmentation, is_signal, instructions: bytes })
    }
}

/// How the frame's address is computed.
#[derive(Debug, Clone, Copy, Default)]
enum Frame {
    #[default]
    Unknown,
    /// A register and an offset.
    Register(u64, i64),
    /// A DWARF expression, in these bytes.
    Expression(usize, usize),
}

/// The state of DWARF's machine: the frame's address, and where `rbp` is stored relative to it.
#[derive(Default)]
struct State {
    frame: Frame,
    bp: Option<i64>,
    initial: (Frame, Option<i64>),
    remembered: [(Frame, Option<i64>); 8],
    depth: usize,
    /// The return address is not where it should be, so there is no caller.
    is_last: bool,
}

impl State {
    /// Executes instructions up to an address.
    fn run(&mut self, mut code: Bytes, cie: &Cie, start: usize, address: usize) -> Option<()> {
        let mut location = start;
        while code.at < code.end {
            let instruction = code.byte()?;
            let low = u64::from(instruction & 0x3f);
            let mut forward = |delta: u64| {
                location = location.wrapping_add((delta * cie.code_factor) as usize);
                location > address
            };
            match (instruction >> 6, instruction) {
                (1, _) => {
                    if forward(low) {
                        return Some(());
                    }
                }
                (2, _) => {
                    let offset = code.unsigned()? as i64;
                    self.stored(low, Some(offset.checked_mul(cie.data_factor)?));
                }
                (3, _) => self.restore(low),
                (_, 0x00) => {}
                (_, 0x01) => location = code.pointer(cie.pointers, 0)?,
                (_, 0x02) => {
                    let delta = code.byte()?;
                    if forward(delta.into()) {
                        return Some(());
                    }
                }
                (_, 0x03) => {
                    let delta = u16::from_le_bytes(code.take()?);
                    if forward(delta.into()) {
                        return Some(());
                    }
                }
                (_, 0x04) => {
                    let delta = code.u32()?;
                    if forward(delta.into()) {
                        return Some(());
                    }
                }
                // DW_CFA_offset_extended, and with a signed offset.
                (_, 0x05) => {
                    let (register, offset) = (code.unsigned()?, code.unsigned()? as i64);
                    self.stored(register, Some(offset.checked_mul(cie.data_factor)?));
                }
                (_, 0x11) => {
                    let (register, offset) = (code.unsigned()?, code.signed()?);
                    self.stored(register, Some(offset.checked_mul(cie.data_factor)?));
                }
                (_, 0x06) => {
                    let register = code.unsigned()?;
                    self.restore(register);
                }
                // DW_CFA_undefined: of the return address, it marks the first function of a thread.
                (_, 0x07) => match code.unsigned()? {
                    RETURN_ADDRESS => self.is_last = true,
                    register => self.stored(register, None),
                },
                (_, 0x08) => {
                    let register = code.unsigned()?;
                    self.stored(register, None);
                }
                // DW_CFA_register.
                (_, 0x09) => {
                    let (register, _) = (code.unsigned()?, code.unsigned()?);
                    if matches!(register, RBP | RETURN_ADDRESS) {
                        return None;
                    }
                }
                (_, 0x0a) => {
                    *self.remembered.get_mut(self.depth)? = (self.frame, self.bp);
                    self.depth += 1;
                }
                (_, 0x0b) => {
                    self.depth = self.depth.checked_sub(1)?;
                    (self.frame, self.bp) = self.remembered[self.depth];
                }
                (_, 0x0c) => self.frame = Frame::Register(code.unsigned()?, code.unsigned()? as i64),
                (_, 0x12) => {
                    let (register, offset) = (code.unsigned()?, code.signed()?);
                    self.frame = Frame::Register(register, offset.checked_mul(cie.data_factor)?);
                }
                (_, 0x0d) => {
                    let register = code.unsigned()?;
                    let Frame::Register(_, offset) = self.frame else { return None };
                    self.frame = Frame::Register(register, offset);
                }
                (_, 0x0e) => {
                    let offset = code.unsigned()? as i64;
                    let Frame::Register(register, _) = self.frame else { return None };
                    self.frame = Frame::Register(register, offset);
                }
                (_, 0x13) => {
                    let offset = code.signed()?.checked_mul(cie.data_factor)?;
                    let Frame::Register(register, _) = self.frame else { return None };
                    self.frame = Frame::Register(register, offset);
                }
                (_, 0x0f) => {
                    let size = code.unsigned()? as usize;
                    self.frame = Frame::Expression(code.at, size);
                    code.at = code.at.checked_add(size)?;
                }
                // DW_CFA_expression: where a register is stored. For `rbp`, only `rbp + offset` is understood.
                (_, 0x10) => {
                    let register = code.unsigned()?;
                    let size = code.unsigned()? as usize;
                    let mut expression = Bytes { at: code.at, end: code.at.checked_add(size)? };
                    code.at = expression.end;
                    if register == RETURN_ADDRESS {
                        return None;
                    }
                    if register == RBP {
                        // GCC realigns the stack, and stores the caller's `rbp` where `rbp` points to: 0 bytes from there.
                        let is_here = expression.byte()? == 0x76 && expression.signed()? == 0;
                        self.bp = is_here.then_some(AT_BP);
                    }
                }
                // DW_CFA_val_expression, DW_CFA_val_offset: values of other registers.
                (_, 0x16) => {
                    let (register, size) = (code.unsigned()?, code.unsigned()? as usize);
                    if register == RBP {
                        return None;
                    }
                    code.at = code.at.checked_add(size)?;
                }
                // DW_CFA_GNU_args_size.
                (_, 0x2e) => drop(code.unsigned()?),
                _ => return None,
            }
        }
        Some(())
    }

    fn stored(&mut self, register: u64, offset: Option<i64>) {
        match register {
            RBP => self.bp = offset,
            RETURN_ADDRESS if offset != Some(-8) => self.is_last = true,
            _ => {}
        }
    }

    fn restore(&mut self, register: u64) {
        if register == RBP {
            self.bp = self.initial.1;
        }
    }

    fn rule(&self, address: usize) -> Option<Rule> {
        if self.is_last {
            return None;
        }
        match self.frame {
            Frame::Register(RSP, offset) if self.bp != Some(AT_BP) => {
                Some(Rule::new(false, offset, false, self.bp))
            }
            Frame::Register(RBP, offset) => {
                let bp = if self.bp == Some(AT_BP) { Some(-offset) } else { self.bp };
                Some(Rule::new(true, offset, false, bp))
            }
            Frame::Expression(at, size) => self.expression(Bytes { at, end: at.checked_add(size)? }, address),
            _ => None,
        }
    }

    /// The expressions that compilers and linkers write.
    fn expression(&self, mut code: Bytes, address: usize) -> Option<Rule> {
        match code.byte()? {
            // Of a realigned stack: `*(rbp + offset)`. The caller's `rbp` is where `rbp` points to.
            0x76 => {
                let offset = code.signed()?;
                let bp = (self.bp == Some(AT_BP)).then_some(0);
                (code.byte()? == 0x06 && code.at == code.end).then(|| Rule::new(true, offset, true, bp))
            }
            // Of a procedure linkage table: `rsp + 8 + ((rip & 15) >= 11) * 8`. Linkers write other numbers than 11.
            0x77 if self.bp.is_none() => {
                let offset = code.signed()?;
                let [0x80, 0x00, 0x3f, 0x1a, number @ 0x30..=0x4f, 0x2a, 0x33, 0x24, 0x22] = code.take()?
                else {
                    return None;
                };
                let pushed = if address & 15 >= usize::from(number - 0x30) { 8 } else { 0 };
                Some(Rule::new(false, offset + pushed, false, None))
            }
            _ => None,
        }
    }
}

/// Stands for "where `rbp` points to", which is no offset from the frame's address.
const AT_BP: i64 = i64::MIN;
