//! Compiles the phantom library from `library/`, and a second library under NVML's name. The crate embeds both as bytes, so
//! that an installed command carries them.

use std::error::Error;
use std::path::Path;

use vramscope_bare::build::{Library, compile};

fn main() -> Result<(), Box<dyn Error>> {
    for source in ["library", "src/state.rs", "src/architecture.rs"] {
        println!("cargo::rerun-if-changed={source}");
    }
    // Several units would compile shared code several times, and the cores have other crates to compile.
    let optimization = if std::env::var("OPT_LEVEL")? == "0" { "opt-level=0" } else { "opt-level=2" };
    let driver = Path::new(&std::env::var("OUT_DIR")?).join("libcuda.so.1").display().to_string();
    // Programs that open NVML find its functions in the driver library, which this library links.
    let links_driver = ["-Wl,--no-as-needed", &driver, "-Wl,-rpath,$ORIGIN"];
    let libraries = [
        Library { source: "library/lib.rs", name: "libcuda.so.1", link: &[] },
        Library { source: "library/nvml_name.rs", name: "libnvidia-ml.so.1", link: &links_driver },
    ];
    compile(&["codegen-units=1", optimization], &libraries)
}
