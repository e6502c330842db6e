//! Compiles the library of recorded processes from `library/`. The crate embeds it as bytes, so that an installed command carries it.

use std::error::Error;

use vramscope_bare::build::{Library, compile};

fn main() -> Result<(), Box<dyn Error>> {
    for source in ["library", "src/record.rs", "src/ring.rs"] {
        println!("cargo::rerun-if-changed={source}");
    }
    // A later `dlopen` finds the loaded library by this name. It is never unloaded: threads may be inside. The library uses its own
    // functions, although others have their names.
    let name = "libvramscope_recorder.so";
    let link = ["-Wl,-z,nodelete", "-Wl,-Bsymbolic"];
    compile(&["opt-level=3"], &[Library { source: "library/lib.rs", name, link: &link }])
}
