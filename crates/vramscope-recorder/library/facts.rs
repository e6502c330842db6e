//! How this process is recorded, as far as only the process itself knows it.

use std::env;

use crate::record::{FACT, text_words};
use crate::ring::Ring;

/// Longest text, in bytes. Longer ones are cut.
const MOST_TEXT: usize = 4096;
/// Environment variables, by the name of the statement. A program may set them itself before it loads PyTorch.
const VARIABLES: [(&str, &[&str]); 5] = [
    ("allocator_conf", &["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"]),
    ("visible_devices", &["CUDA_VISIBLE_DEVICES"]),
    ("rank", &["RANK"]),
    ("local_rank", &["LOCAL_RANK"]),
    ("world_size", &["WORLD_SIZE"]),
];

/// Writes the statements of the environment.
pub(crate) fn write_environment(ring: Ring<'_>) {
    for (name, variables) in VARIABLES {
        let value = variables.iter().find_map(env::var_os);
        // An empty text says that no variable is set.
        let value = value.unwrap_or_default();
        write(ring, name, value.as_encoded_bytes());
    }
}

/// Writes a statement. One for which there is no room is unknown.
pub(crate) fn write(ring: Ring<'_>, name: &str, text: &[u8]) {
    let mut body = [0_u64; 2 + 8 + MOST_TEXT / 8];
    let (name_bytes, name_words) = text_words(name.as_bytes(), &mut body[2..10]);
    let (bytes, words) = text_words(text, &mut body[2 + name_words..]);
    (body[0], body[1]) = (name_bytes as u64, bytes as u64);
    ring.try_write(FACT, &body[..2 + name_words + words]);
}
