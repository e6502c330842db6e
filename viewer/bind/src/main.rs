//! Writes the JavaScript that calls the page's engine, and the engine without what only the compiler needs: `vramscope-bind ENGINE.wasm
//! FOLDER`. `viewer/engine.sh` runs it.

use anyhow::Context as _;
use wasm_bindgen_cli_support::Bindgen;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let engine = arguments.next().context("name the compiled engine, and the folder to write to")?;
    let folder = arguments.next().context("name the folder to write to")?;
    Bindgen::new()
        .input_path(engine)
        .web(true)?
        .remove_name_section(true)
        .remove_producers_section(true)
        .typescript(true)
        .generate(folder)
}
