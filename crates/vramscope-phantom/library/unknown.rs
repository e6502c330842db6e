//! Stand-ins for calls that are missing in the function table. They must not crash a program, and its user must learn their
//! names.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{LazyLock, Mutex};

use crate::calls::finish;
use crate::machine::{lock, machine};
use crate::state::Noticed;
use crate::status::{Library, Refusal};

/// The maximum number of names with a stand-in.
const MOST: usize = 1024;

/// Names, in the order of their stand-ins.
static NAMES: LazyLock<Mutex<Names>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Names {
    names: Vec<String>,
    numbers: HashMap<String, usize>,
}

/// A function for an unknown name. It reports the name and returns "not supported".
pub(crate) fn stand_in(name: &str) -> usize {
    let names = &mut *lock(&NAMES);
    let number = match names.numbers.get(name) {
        Some(&number) => number,
        None if names.names.len() < MOST => {
            names.names.push(name.to_owned());
            names.numbers.insert(name.to_owned(), names.names.len() - 1);
            names.names.len() - 1
        }
        // The last stand-in serves all further names.
        None => MOST - 1,
    };
    STAND_INS[number / 32][number % 32] as usize
}

extern "C" fn met<const NUMBER: usize>() -> c_int {
    met_unknown(NUMBER)
}

/// One function for all stand-ins: with a copy in each, compiling them would take as long as the rest of the library.
#[inline(never)]
fn met_unknown(number: usize) -> c_int {
    let name = lock(&NAMES).names.get(number).cloned().unwrap_or_default();
    machine().notice(Noticed::Unknown, &name);
    finish(library_of(&name), Err(Refusal::NotSupported))
}

/// Whether a name has a prefix of NVIDIA's functions.
pub(crate) fn is_nvidias(name: &str) -> bool {
    library_by_prefix(name).is_some()
}

/// The library of a name, by its prefix.
fn library_of(name: &str) -> Library {
    library_by_prefix(name).unwrap_or(Library::Driver)
}

fn library_by_prefix(name: &str) -> Option<Library> {
    PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|&(_, library)| library)
}

/// Prefixes of names, with their libraries.
const PREFIXES: [(&str, Library); 14] = [
    ("cuda", Library::Runtime),
    ("__cuda", Library::Runtime),
    ("nvml", Library::Nvml),
    ("cublas", Library::Cublas),
    ("cudnn", Library::Cudnn),
    ("cusolver", Library::Cusolver),
    ("cusparse", Library::Cusparse),
    ("cufft", Library::Cufft),
    ("curand", Library::Curand),
    ("nccl", Library::Nccl),
    ("pnccl", Library::Nccl),
    ("cuFile", Library::Cufile),
    ("cupti", Library::Cupti),
    ("nvshmem", Library::Nvshmem),
];

type StandIn = extern "C" fn() -> c_int;

/// A row of 32 stand-ins.
macro_rules! row_of_stand_ins {
    ($row:expr; $($n:literal)*) => { [$(met::<{ $row * 32 + $n }>),*] };
}

/// All stand-ins, one function each: a C function does not know the name under which it was called.
macro_rules! stand_ins {
    ($($row:literal)*) => {
        [$(row_of_stand_ins!($row; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)),*]
    };
}

static STAND_INS: [[StandIn; 32]; MOST / 32] =
    stand_ins!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
