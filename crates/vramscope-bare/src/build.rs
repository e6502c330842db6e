//! Compiles shared libraries in a build script. Their crate embeds them as bytes, so that an installed command carries them.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A shared library, compiled to `OUT_DIR`.
#[derive(Debug, Clone)]
pub struct Library<'a> {
    /// The Rust source of its root.
    pub source: &'a str,
    /// File name and soname.
    pub name: &'a str,
    /// Further arguments of the linker.
    pub link: &'a [&'a str],
}

/// Compiles libraries that use this crate, with the compiler's codegen options `options`. On systems without glibc's loader, on which
/// nothing is preloaded, the files are empty.
///
/// # Errors
/// The compiler's messages are in the build script's output.
pub fn compile(options: &[&str], libraries: &[Library<'_>]) -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    if !is_supported() {
        return libraries.iter().try_for_each(|library| Ok(std::fs::write(out.join(library.name), [])?));
    }
    let shared = out.join("libvramscope_bare.rlib");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    run(rustc("vramscope_bare", "rlib", options)?.arg(root).arg("-o").arg(&shared))?;
    let mut dependency = std::ffi::OsString::from("vramscope_bare=");
    dependency.push(shared);
    let name = std::env::var("CARGO_PKG_NAME")?.replace('-', "_");
    for library in libraries {
        let mut rustc = rustc(&name, "cdylib", options)?;
        rustc.arg("--extern").arg(&dependency);
        if let Some(mut linker) = std::env::var_os("RUSTC_LINKER") {
            linker = [std::ffi::OsStr::new("linker="), &linker].into_iter().collect();
            rustc.arg("-C").arg(linker);
        }
        for argument in [&*format!("-Wl,-soname,{}", library.name)].iter().chain(library.link) {
            rustc.args(["-C", &format!("link-arg={argument}")]);
        }
        run(rustc.arg(library.source).arg("-o").arg(out.join(library.name)))?;
    }
    Ok(())
}

/// The libraries rely on preloading by glibc's loader.
fn is_supported() -> bool {
    let is = |what: &str, wanted: &[&str]| {
        std::env::var(format!("CARGO_CFG_TARGET_{what}")).is_ok_and(|value| wanted.contains(&value.as_str()))
    };
    is("OS", &["linux"]) && is("ENV", &["gnu"]) && is("ARCH", &["x86_64", "aarch64"])
}

/// The compiler, for the target of the build.
fn rustc(name: &str, kind: &str, options: &[&str]) -> Result<Command, Box<dyn Error>> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition", "2024", "--crate-type", kind, "--crate-name", name]);
    rustc.args(["--target", &std::env::var("TARGET")?]);
    let usual = ["panic=abort", "force-unwind-tables=yes", "strip=symbols"];
    rustc.args(usual.iter().chain(options).flat_map(|option| ["-C", option]));
    Ok(rustc)
}

fn run(command: &mut Command) -> Result<(), Box<dyn Error>> {
    if command.status()?.success() { Ok(()) } else { Err(format!("{command:?} failed").into()) }
}
