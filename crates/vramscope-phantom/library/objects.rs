//! The shared objects of this process, and the functions that they link to.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use vramscope_bare::objects;

use crate::machine::lock;

/// The path of the first loaded object whose file name starts with `start`.
pub(crate) fn path_of(start: &str) -> Option<String> {
    let mut found = None;
    objects::each(|object| {
        let is_it = object.file_name().starts_with(start.as_bytes());
        if is_it {
            found = Some(object.name.to_string_lossy().into_owned());
        }
        !is_it
    });
    found
}

/// Whether NVIDIA made an object, judged by the name of its file.
pub(crate) fn is_nvidias(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    ["libcu", "libnv", "libnccl"].iter().any(|start| name.starts_with(start))
}

/// Base addresses of the objects that were already visited, and the loader's counts at the last visit.
static SEEN: Mutex<(Vec<usize>, (u64, u64))> = Mutex::new((Vec::new(), (0, 0)));

/// Redirects links of the objects that were loaded since the last call: those to undefined functions that `is_missing` selects, to the
/// addresses from `instead`. NVIDIA's own libraries may call each other: their code never runs.
pub(crate) fn redirect_new(is_missing: impl Fn(&str) -> bool, instead: impl Fn(&str) -> usize) {
    let mut seen = lock(&SEEN);
    let counts = objects::counts();
    if counts == seen.1 {
        return;
    }
    seen.1 = counts;
    let mut links = Vec::new();
    objects::each(|object| {
        if seen.0.contains(&object.base) || is_nvidias(&object.name.to_string_lossy()) {
            return true;
        }
        seen.0.push(object.base);
        let sealed = object.sealed();
        object.slots(|slot| {
            if let Ok(name) = slot.name.to_str()
                && slot.own.is_none()
                && !slot.is_variable
                && is_missing(name)
            {
                let address = std::ptr::from_ref(slot.word) as usize;
                links.push((name.to_owned(), address, sealed.contains(&address)));
            }
        });
        true
    });
    for (name, address, is_sealed) in links {
        // SAFETY: a word of a loaded object, which is aligned.
        let word = unsafe { objects::word(address) };
        objects::change(word, word.load(Ordering::Relaxed), instead(&name), is_sealed);
    }
}
