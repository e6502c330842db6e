//! Where CPython's structures have what a stack needs. Sources: `Include/cpython/pystate.h`, `Include/internal/pycore_frame.h`,
//! `Include/cpython/code.h` and `Include/cpython/unicodeobject.h` of each release. A minor release never changes them.

use std::ffi::{c_ulong, c_void};

use crate::captured::mixed;
use crate::next::look_up;

/// Offsets in bytes.
#[derive(Debug)]
pub(crate) struct Layout {
    /// In `PyThreadState`: the current frame, or the `_PyCFrame` that has it.
    state_frame: usize,
    /// In `_PyCFrame` (3.11 and 3.12): the current frame.
    c_frame: Option<usize>,
    /// In `_PyInterpreterFrame`: the code object, the calling frame, the current instruction, and who owns the frame.
    code: usize,
    previous: usize,
    instruction: usize,
    owner: usize,
    /// In `PyCodeObject`: the first instruction, and `co_filename`, `co_name`, `co_linetable` and `co_firstlineno`.
    first_instruction: usize,
    path: usize,
    name: usize,
    line_table: usize,
    first_line: usize,
    /// The size of `PyASCIIObject`, which the text follows, and of `PyCompactUnicodeObject`.
    ascii: usize,
    compact: usize,
}

/// `FRAME_OWNED_BY_CSTACK` (3.12 and 3.13): a frame between a C function and the interpreter, without code.
const OWNED_BY_C: u8 = 3;

/// Python 3.11, 3.12 and 3.13.
static LAYOUTS: [Layout; 3] = [
    Layout {
        state_frame: 56,
        c_frame: Some(8),
        code: 32,
        previous: 48,
        instruction: 56,
        owner: 69,
        first_instruction: 184,
        path: 112,
        name: 120,
        line_table: 136,
        first_line: 72,
        ascii: 48,
        compact: 72,
    },
    Layout {
        state_frame: 56,
        c_frame: Some(0),
        code: 0,
        previous: 8,
        instruction: 56,
        owner: 70,
        first_instruction: 192,
        path: 112,
        name: 120,
        line_table: 136,
        first_line: 68,
        ascii: 40,
        compact: 56,
    },
    Layout {
        state_frame: 72,
        c_frame: None,
        code: 0,
        previous: 8,
        instruction: 56,
        owner: 70,
        first_instruction: 200,
        path: 112,
        name: 120,
        line_table: 136,
        first_line: 68,
        ascii: 40,
        compact: 56,
    },
];

/// In every string: its number of characters, and its state.
const LENGTH: usize = 16;
const STATE: usize = 32;
/// Bits of a string's state: the bytes of a character, and whether the text follows the structure and is ASCII.
const STATE_KIND: u32 = 7 << 2;
const STATE_COMPACT: u32 = 1 << 5;
const STATE_ASCII: u32 = 1 << 6;

/// More frames than any stack has: ends a walk in a structure that is not a list of frames.
const MOST_FRAMES: usize = 1 << 16;

/// A code object of a running function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Code<'a> {
    layout: &'a Layout,
    object: *const u8,
}

impl Layout {
    /// The layout of a release, by `Py_Version`. `None` for unknown releases, and for builds without the lock.
    pub(crate) fn of(version: c_ulong) -> Option<&'static Self> {
        let (major, minor) = (version >> 24, version >> 16 & 0xff);
        // Only builds without the lock have this function. Their objects are larger.
        let is_free_threaded =
            !look_up(std::ptr::null_mut(), c"_Py_MergeZeroLocalRefcount".as_ptr()).is_null();
        if major != 3 || is_free_threaded {
            return None;
        }
        LAYOUTS.get(usize::try_from(minor).ok()?.checked_sub(11)?)
    }

    /// Calls `visit` with the code object and the position (a byte offset in its instructions) of each running function, innermost first,
    /// until it returns false.
    ///
    /// # Safety
    /// `state` is the calling thread's state, of a release with this layout.
    pub(crate) unsafe fn frames(&self, state: *const c_void, mut visit: impl FnMut(Code<'_>, i32) -> bool) {
        // SAFETY: the caller's promise, and the sources above. The thread's frames do not change while it runs this.
        unsafe {
            let mut frame: *const u8 = field(state.cast(), self.state_frame);
            if let Some(offset) = self.c_frame {
                if frame.is_null() {
                    return;
                }
                frame = field(frame, offset);
            }
            for _ in 0..MOST_FRAMES {
                if frame.is_null() {
                    return;
                }
                if frame.add(self.owner).read() != OWNED_BY_C {
                    let object: *const u8 = field(frame, self.code);
                    let instruction: usize = field(frame, self.instruction);
                    let first = object as usize + self.first_instruction;
                    let code = Code { layout: self, object };
                    if !visit(code, instruction.wrapping_sub(first) as i32) {
                        return;
                    }
                }
                frame = field(frame, self.previous);
            }
        }
    }
}

impl Code<'_> {
    pub(crate) fn address(self) -> *mut c_void {
        self.object.cast_mut().cast()
    }

    /// Identifies a position. The object's address alone does not: later code may have the same address.
    #[inline]
    pub(crate) fn site(self, position: i32) -> u64 {
        // SAFETY: a running function keeps its code object alive, and `frames` promises the layout.
        let (line_table, name, first_line) = unsafe {
            (
                field::<u64>(self.object, self.layout.line_table),
                field::<u64>(self.object, self.layout.name),
                field::<u32>(self.object, self.layout.first_line),
            )
        };
        let place = u64::from(first_line) << 32 | u64::from(position as u32);
        mixed(self.object as u64 ^ name.rotate_left(16) ^ line_table.rotate_left(32), place)
    }

    /// Copies the function's name in UTF-8, and returns its size in bytes.
    pub(crate) fn copy_name(self, out: &mut [u8]) -> usize {
        self.copy_text(self.layout.name, out)
    }

    /// Copies the source file's path in UTF-8, and returns its size in bytes.
    pub(crate) fn copy_path(self, out: &mut [u8]) -> usize {
        self.copy_text(self.layout.path, out)
    }

    fn copy_text(self, offset: usize, out: &mut [u8]) -> usize {
        // SAFETY: the code object has a string there, which never changes. A compact string has `length` characters of the size in its
        // state after its structure.
        unsafe {
            let string: *const u8 = field(self.object, offset);
            let length: usize = field(string, LENGTH);
            let state: u32 = field(string, STATE);
            if state & STATE_COMPACT == 0 {
                return 0;
            }
            let text =
                string.add(if state & STATE_ASCII == 0 { self.layout.compact } else { self.layout.ascii });
            let mut used = 0;
            for i in 0..length {
                let character = match (state & STATE_KIND) >> 2 {
                    1 => u32::from(text.add(i).read()),
                    2 => u32::from(field::<u16>(text, 2 * i)),
                    _ => field::<u32>(text, 4 * i),
                };
                let character = char::from_u32(character).unwrap_or(char::REPLACEMENT_CHARACTER);
                let Some(room) = out.get_mut(used..used + character.len_utf8()) else { break };
                used += character.encode_utf8(room).len();
            }
            used
        }
    }
}

/// The value at an offset of a structure.
///
/// # Safety
/// The structure has a value of this type there.
#[inline]
unsafe fn field<T: Copy>(structure: *const u8, offset: usize) -> T {
    // SAFETY: the caller's promise.
    unsafe { structure.add(offset).cast::<T>().read_unaligned() }
}
