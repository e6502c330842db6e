//! Compiles the library of recorded processes from `library/`. The crate embeds it as bytes, so that an installed command carries it.
//!
//! The library depends only on Rust's standard library, so one call of the compiler builds it.

use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    for source in ["library", "src/record.rs", "src/ring.rs"] {
        println!("cargo::rerun-if-changed={source}");
    }
    let out = PathBuf::from(std::env::var("OUT_DIR")?).join("libvramscope_recorder.so");
    if is_supported() { compile(&out) } else { Ok(std::fs::write(out, [])?) }
}

/// The library relies on preloading by glibc's loader.
fn is_supported() -> bool {
    let is = |what: &str, wanted: &[&str]| {
        std::env::var(format!("CARGO_CFG_TARGET_{what}")).is_ok_and(|value| wanted.contains(&value.as_str()))
    };
    is("OS", &["linux"]) && is("ENV", &["gnu"]) && is("ARCH", &["x86_64", "aarch64"])
}

fn compile(out: &Path) -> Result<(), Box<dyn Error>> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "vramscope_recorder"]);
    rustc.args([
        "-C",
        "panic=abort",
        "-C",
        "force-unwind-tables=yes",
        "-C",
        "strip=symbols",
        "-C",
        "opt-level=3",
    ]);
    rustc.args(["--target".to_owned(), std::env::var("TARGET")?]);
    // A later `dlopen` finds the loaded library by this name. It is never unloaded: threads may be inside. The library uses its own
    // functions, although others have their names.
    for option in ["-soname,libvramscope_recorder.so", "-z,nodelete", "-Bsymbolic"] {
        rustc.arg("-C").arg(format!("link-arg=-Wl,{option}"));
    }
    if let Some(linker) = std::env::var_os("RUSTC_LINKER") {
        let mut option = OsString::from("linker=");
        option.push(linker);
        rustc.arg("-C").arg(option);
    }
    let status = rustc.arg("library/lib.rs").arg("-o").arg(out).status()?;
    if status.success() { Ok(()) } else { Err("library/lib.rs did not compile".into()) }
}
