//! Calls that no row of the table answers. A program must not crash on them, and its user must learn their names.
//!
//! Who looks a function up by a name that is not known gets a stand-in. What programs are linked to is found when they
//! register their kernels: each name that is NVIDIA's and that the loader would take from NVIDIA's own libraries, which
//! refuse to work without their driver, gets a stand-in too.

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

/// How many names can have a stand-in.
const MOST: usize = 1024;

/// Names, in order of their stand-ins.
static NAMES: LazyLock<Mutex<Names>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Names {
    names: Vec<String>,
    numbers: HashMap<String, usize>,
}

/// A function for a name that no row has: it says the name, and that it is not supported.
pub(crate) fn stand_in(name: &str) -> usize {
    let names = &mut *lock(&NAMES);
    let number = match names.numbers.get(name) {
        Some(&number) => number,
        None if names.names.len() < MOST => {
            names.names.push(name.to_owned());
            names.numbers.insert(name.to_owned(), names.names.len() - 1);
            names.names.len() - 1
        }
        // The last one stands for all further names.
        None => MOST - 1,
    };
    STAND_INS[number / 32][number % 32] as usize
}

extern "C" fn met<const NUMBER: usize>() -> c_int {
    let name = lock(&NAMES).names.get(NUMBER).cloned().unwrap_or_default();
    machine().notice(Noticed::Unknown, &name);
    finish(library_of(&name), Err(Refusal::NotSupported))
}

/// The library that a name is of, by how it begins.
fn library_of(name: &str) -> Library {
    PREFIXES
        .iter()
        .find(|(prefix, _)| name.starts_with(prefix))
        .map_or(Library::Driver, |&(_, library)| library)
}

/// How names begin, and whose they are.
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

/// All stand-ins, each a function of its own: a function in C does not know by which name it was called.
macro_rules! stand_ins {
    ($($row:literal)*) => {
        [$(row_of_stand_ins!($row; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)),*]
    };
}

static STAND_INS: [[StandIn; 32]; MOST / 32] =
    stand_ins!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);

/// Gives stand-ins to what newly loaded objects are linked to and the table does not have.
pub(crate) fn look_at_new_objects() {
    objects::each_new(|object| {
        // NVIDIA's own libraries may call each other: nothing of them runs.
        if !object.is_nvidias() {
            object.redirect(|name| {
                let is_theirs = PREFIXES.iter().any(|(prefix, _)| name.starts_with(prefix));
                (is_theirs && table::find(name).is_none()).then(|| stand_in(name))
            });
        }
    });
}

/// Says once that a program brings NVIDIA's runtime itself.
pub(crate) fn say_that_a_runtime_is_linked_statically() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        say(
            "a library in this program brings NVIDIA's runtime linked into itself (CuPy's wheels do), which accepts no driver \
             but NVIDIA's: it cannot run on a phantom GPU",
        );
    }
}
