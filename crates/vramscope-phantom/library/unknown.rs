//! Calls that are missing in the function table. They must not crash a program, and its user must learn their names.
//!
//! A lookup of an unknown name returns a stand-in. Linked functions are handled when a program registers its kernels: each
//! missing name with NVIDIA's prefixes gets a stand-in too. Otherwise the loader would take it from NVIDIA's own libraries,
//! which fail without their driver.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex};

use crate::calls::finish;
use crate::machine::{lock, machine, say};
use crate::objects;
use crate::state::Noticed;
use crate::status::{Library, Refusal};
use crate::table;

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
    let name = lock(&NAMES).names.get(NUMBER).cloned().unwrap_or_default();
    machine().notice(Noticed::Unknown, &name);
    finish(library_of(&name), Err(Refusal::NotSupported))
}

/// The library of a name, by its prefix.
fn library_of(name: &str) -> Library {
    PREFIXES
        .iter()
        .find(|(prefix, _)| name.starts_with(prefix))
        .map_or(Library::Driver, |&(_, library)| library)
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

/// Redirects the links of newly loaded objects to stand-ins, for NVIDIA's functions that the table lacks.
pub(crate) fn look_at_new_objects() {
    objects::each_new(|object| {
        // NVIDIA's own libraries may call each other: their code never runs.
        if !object.is_nvidias() {
            object.redirect(|name| {
                let is_theirs = PREFIXES.iter().any(|(prefix, _)| name.starts_with(prefix));
                (is_theirs && table::find(name).is_none()).then(|| stand_in(name))
            });
        }
    });
}

/// Reports once that a program contains NVIDIA's runtime, statically linked.
pub(crate) fn say_that_a_runtime_is_linked_statically() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        say(
            "a library in this program statically links NVIDIA's runtime (CuPy's wheels do), which accepts only \
             NVIDIA's driver: it cannot run on a phantom GPU",
        );
    }
}
