//! `vramscope view`

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use vramscope::viewer::{Library, OpenRecording, Server};

use crate::args::ViewArgs;
use crate::input;

pub(crate) fn run(args: &ViewArgs) -> anyhow::Result<()> {
    serve(args)
}

/// Serves the page. The browser loads it while the files are read.
fn serve(args: &ViewArgs) -> anyhow::Result<()> {
    let server = Server::bind(args.port).with_context(|| format!("port {}", args.port))?;
    let url = server.url();
    let library = Arc::new(Library::default());
    let serving = std::thread::spawn({
        let library = Arc::clone(&library);
        move || server.serve(library)
    });
    if args.json {
        super::print_json(&serde_json::json!({ "url": url }))?;
    } else {
        writeln!(io::stdout(), "{url}")?;
    }
    if !args.no_open && open::that_detached(&url).is_err() {
        writeln!(anstream::stderr(), "note: no browser could be started; open the address above in one")?;
    }
    for file in &args.files {
        library.add(read(file)?);
    }
    library.complete();
    match serving.join() {
        Ok(served) => served.context("the server stopped"),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn read(file: &PathBuf) -> anyhow::Result<OpenRecording> {
    Ok(OpenRecording::new(input::name(file), input::read(file)?))
}
