//! Compiles the phantom library from `library/`, and a second library under NVML's name. The crate embeds both as bytes, so
//! that an installed command carries them.
//!
//! The library depends only on Rust's standard library, so one call of the compiler builds it.

use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=library");
    println!("cargo::rerun-if-changed=src/state.rs");
    println!("cargo::rerun-if-changed=src/architecture.rs");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let (driver, nvml) = (out.join("libcuda.so.1"), out.join("libnvidia-ml.so.1"));
    if is_supported() {
        compile("library/lib.rs", &driver, "libcuda.so.1", &[])?;
        // Programs that open NVML find its functions in the driver library, which this library links.
        let needs =
            ["-Wl,--no-as-needed".to_owned(), driver.display().to_string(), "-Wl,-rpath,$ORIGIN".to_owned()];
        compile("library/nvml_name.rs", &nvml, "libnvidia-ml.so.1", &needs)?;
    } else {
        std::fs::write(driver, [])?;
        std::fs::write(nvml, [])?;
    }
    Ok(())
}

/// The library relies on preloading by glibc's loader.
fn is_supported() -> bool {
    let is = |what: &str, wanted: &[&str]| {
        std::env::var(format!("CARGO_CFG_TARGET_{what}")).is_ok_and(|value| wanted.contains(&value.as_str()))
    };
    is("OS", &["linux"]) && is("ENV", &["gnu"]) && is("ARCH", &["x86_64", "aarch64"])
}

/// Compiles a shared library with the soname `name`.
fn compile(source: &str, out: &Path, name: &str, link: &[String]) -> Result<(), Box<dyn Error>> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "vramscope_phantom"]);
    rustc.args(["-C", "panic=abort", "-C", "force-unwind-tables=yes", "-C", "strip=symbols"]);
    // Several units would compile shared code several times, and the cores have other crates to compile.
    rustc.args(["-C", "codegen-units=1", "-C"]);
    rustc.arg(format!("opt-level={}", if std::env::var("OPT_LEVEL")? == "0" { "0" } else { "2" }));
    rustc.args(["--target".to_owned(), std::env::var("TARGET")?]);
    if let Some(linker) = std::env::var_os("RUSTC_LINKER") {
        let mut option = OsString::from("linker=");
        option.push(linker);
        rustc.arg("-C").arg(option);
    }
    for argument in [format!("-Wl,-soname,{name}")].iter().chain(link) {
        rustc.args(["-C", &format!("link-arg={argument}")]);
    }
    let status = rustc.arg(source).arg("-o").arg(out).status()?;
    if status.success() { Ok(()) } else { Err(format!("{source} did not compile").into()) }
}
