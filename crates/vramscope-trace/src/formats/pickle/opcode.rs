//! The opcodes of pickle protocols 2 to 5, with the names of CPython's `pickletools`.

pub(super) const MARK: u8 = b'(';
pub(super) const STOP: u8 = b'.';
pub(super) const POP: u8 = b'0';
pub(super) const POP_MARK: u8 = b'1';
pub(super) const DUP: u8 = b'2';
pub(super) const BINFLOAT: u8 = b'G';
pub(super) const BININT: u8 = b'J';
pub(super) const BININT1: u8 = b'K';
pub(super) const BININT2: u8 = b'M';
pub(super) const NONE: u8 = b'N';
pub(super) const BINSTRING: u8 = b'T';
pub(super) const SHORT_BINSTRING: u8 = b'U';
pub(super) const BINUNICODE: u8 = b'X';
pub(super) const BINBYTES: u8 = b'B';
pub(super) const SHORT_BINBYTES: u8 = b'C';
pub(super) const EMPTY_DICT: u8 = b'}';
pub(super) const EMPTY_LIST: u8 = b']';
pub(super) const EMPTY_TUPLE: u8 = b')';
pub(super) const APPEND: u8 = b'a';
pub(super) const APPENDS: u8 = b'e';
pub(super) const SETITEM: u8 = b's';
pub(super) const SETITEMS: u8 = b'u';
pub(super) const TUPLE: u8 = b't';
pub(super) const BINGET: u8 = b'h';
pub(super) const LONG_BINGET: u8 = b'j';
pub(super) const BINPUT: u8 = b'q';
pub(super) const LONG_BINPUT: u8 = b'r';
pub(super) const PROTO: u8 = 0x80;
pub(super) const TUPLE1: u8 = 0x85;
pub(super) const TUPLE2: u8 = 0x86;
pub(super) const TUPLE3: u8 = 0x87;
pub(super) const NEWTRUE: u8 = 0x88;
pub(super) const NEWFALSE: u8 = 0x89;
pub(super) const LONG1: u8 = 0x8a;
pub(super) const LONG4: u8 = 0x8b;
pub(super) const SHORT_BINUNICODE: u8 = 0x8c;
pub(super) const BINUNICODE8: u8 = 0x8d;
pub(super) const BINBYTES8: u8 = 0x8e;
pub(super) const EMPTY_SET: u8 = 0x8f;
pub(super) const ADDITEMS: u8 = 0x90;
pub(super) const FROZENSET: u8 = 0x91;
pub(super) const MEMOIZE: u8 = 0x94;
pub(super) const FRAME: u8 = 0x95;
pub(super) const BYTEARRAY8: u8 = 0x96;

/// Returns the size of an opcode's argument in bytes. For an opcode with a length prefix: size of the prefix.
pub(super) fn argument(opcode: u8) -> usize {
    match opcode {
        BININT1 | BINGET | BINPUT | PROTO | LONG1 | SHORT_BINSTRING | SHORT_BINBYTES | SHORT_BINUNICODE => 1,
        BININT2 => 2,
        BININT | LONG_BINGET | LONG_BINPUT | LONG4 | BINSTRING | BINUNICODE | BINBYTES => 4,
        BINFLOAT | FRAME | BINUNICODE8 | BINBYTES8 | BYTEARRAY8 => 8,
        _ => 0,
    }
}

/// Name of an opcode that can run code, and what it could do.
pub(super) fn can_run_code(opcode: u8) -> Option<(&'static str, &'static str)> {
    const IMPORTS: &str = "it imports a Python function or class";
    const CALLS: &str = "it calls a Python function or class";
    const ASKS: &str = "it requests an object from the reading program";
    Some(match opcode {
        b'c' => ("GLOBAL", IMPORTS),
        0x93 => ("STACK_GLOBAL", IMPORTS),
        0x82 => ("EXT1", IMPORTS),
        0x83 => ("EXT2", IMPORTS),
        0x84 => ("EXT4", IMPORTS),
        b'R' => ("REDUCE", CALLS),
        b'i' => ("INST", CALLS),
        b'o' => ("OBJ", CALLS),
        0x81 => ("NEWOBJ", CALLS),
        0x92 => ("NEWOBJ_EX", CALLS),
        b'b' => ("BUILD", "it calls `__setstate__`"),
        b'P' => ("PERSID", ASKS),
        b'Q' => ("BINPERSID", ASKS),
        _ => return None,
    })
}
