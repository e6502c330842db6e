//! `vramscope view`

use crate::args::ReadArgs;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::{fs, io};

use anyhow::{Context as _, anyhow, bail};
use vramscope::report::{Shown, bytes};
use vramscope::session::{operators_fit, own_operators};
use vramscope::trace::OperatorTrace;
use vramscope::trace::ReadError;
use vramscope::trace::formats::{ReadOptions, Reader, Recording};
use vramscope::viewer::self_contained;
use vramscope::viewer::{Library, OpenFile, PageFile, Server, SourceFolders, ViewError};

use crate::console::console;
use crate::input;
use crate::output::Output;
use crate::say::say;

/// Explore recordings in the browser: every allocation over time, at any size
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope view snapshot.pickle
  vramscope view before.pickle after.pickle
  vramscope view snapshot.pickle --html page.html

The page is served on this machine only, under a secret address, until Ctrl-C. Starting a browser puts the address into the
process list, where other users of the machine may see it; --no-open starts no browser.")]
pub(crate) struct ViewArgs {
    /// Recordings, as for `report`; `-` is standard input. With none, files can be dropped onto the page
    pub(crate) files: Vec<PathBuf>,
    /// Write one self-contained page that opens from disk, instead of serving; `-` is standard output
    #[arg(long, value_name = "OUT")]
    pub(crate) html: Option<PathBuf>,
    /// The port to serve on [default: a free one]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true,
        conflicts_with = "html"
    )]
    pub(crate) port: u16,
    /// Show source files from this folder beside the memory of their lines; nothing outside of it is read. Repeat it for further folders
    #[arg(long, value_name = "DIR", conflicts_with = "html")]
    pub(crate) source: Vec<PathBuf>,
    /// Show the operators, kernels and annotations of this trace of `torch.profiler` above the memory of the run that it is of. Repeat it
    /// for traces of further files
    #[arg(long, value_name = "TRACE", requires = "files")]
    pub(crate) operators: Vec<PathBuf>,
    /// Print the address and do not open a browser
    #[arg(long, conflicts_with = "html")]
    pub(crate) no_open: bool,
    /// Print the address, or the written file, as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

/// The output of `vramscope view --html --json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "WrittenPage"))]
pub(crate) struct PageJson {
    page: String,
    bytes: usize,
}

/// The output of `vramscope view --json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ServedPage"))]
pub(crate) struct AddressJson {
    /// The page's address, which contains a secret.
    url: String,
}

pub(crate) fn run(args: &ViewArgs) -> anyhow::Result<()> {
    match &args.html {
        Some(out) => write_page(args, out),
        None => serve(args),
    }
}

/// Writes one self-contained page.
fn write_page(args: &ViewArgs, out: &Path) -> anyhow::Result<()> {
    if args.files.is_empty() {
        bail!("--html: give at least one recording");
    }
    if args.json && out == Path::new("-") {
        bail!("--json: standard output is already used by the page");
    }
    let recordings = args
        .files
        .iter()
        .map(|file| read(file, args.reading.options(), |_, _| {}))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let inputs: Vec<&Path> = args.files.iter().map(PathBuf::as_path).collect();
    let output = Output::named(out, &inputs)?;
    let traces: Vec<_> = args
        .operators
        .iter()
        .map(|path| read_trace(path, args.reading.options()))
        .collect::<Result<_, _>>()?;
    let own: Vec<_> = recordings.iter().map(|(name, recording)| own_trace(name, recording)).collect();
    let mut files: Vec<_> = recordings
        .iter()
        .zip(&own)
        .map(|((name, recording), own)| {
            let operators = own.as_ref().map(|trace| (name.as_str(), trace));
            PageFile { operators, ..PageFile::new(name, recording) }
        })
        .collect();
    for (name, trace) in &traces {
        beside_the_first(name, &mut files, |file| {
            let told = operators_fit(file.recording, name, trace)?;
            file.operators = Some((name.as_str(), trace));
            Ok(told)
        })?;
    }
    let page = self_contained(&files, &[])?;
    output.write_whole(page.as_bytes())?;
    if args.json {
        return super::print_json(&PageJson { page: out.display().to_string(), bytes: page.len() });
    }
    if out != Path::new("-") {
        say(&format!("{}: {}", out.display(), bytes(page.len() as u64)));
    }
    Ok(())
}

/// Serves the page. The browser loads the page while the files are read.
fn serve(args: &ViewArgs) -> anyhow::Result<()> {
    // Checks the files before a browser opens.
    for file in args.files.iter().chain(&args.operators).filter(|f| *f != Path::new("-")) {
        fs::metadata(file).map_err(|e| ReadError::open(file, e))?;
    }
    let sources = SourceFolders::open(&args.source)
        .map_err(|(path, e)| anyhow!("--source {}: {e}", Shown::of(&path.display().to_string())))?;
    let library =
        Arc::new(Library::default().with_sources(sources).with_sql(console(None, &args.reading, true)));
    let how = Serve { port: args.port, no_open: args.no_open, json: args.json };
    let serving = begin(how, &library)?;
    let mut opened = Vec::new();
    for file in &args.files {
        let told = |bytes, total| library.reads(&input::name(file), bytes, total);
        let (name, recording) = read(file, args.reading.options(), told)?;
        opened.push(OpenFile::open(name, recording).context("cannot start a thread for answers")?);
    }
    for path in &args.operators {
        let (name, trace) = read_trace(path, args.reading.options())?;
        let trace = Arc::new(trace);
        beside_the_first(&name, &mut opened, |file| file.add_operators(&name, &trace))?;
    }
    for file in opened {
        library.add(file);
    }
    library.complete();
    until_it_ends(serving)
}

/// Reads a trace, and returns it with its name.
fn read_trace(path: &Path, options: ReadOptions) -> anyhow::Result<(String, OperatorTrace)> {
    let name = input::name(path);
    let trace = Reader::open(path).and_then(|reader| reader.options(options).read_operators());
    let trace = trace.with_context(|| format!("--operators {}", Shown::of(&name)))?;
    Ok((name, trace))
}

/// Returns the trace that a recording has, and says how their clocks are related, or why the trace cannot be shown.
fn own_trace(name: &str, recording: &Recording) -> Option<OperatorTrace> {
    match own_operators(name, recording) {
        Ok(own) => own.map(|(trace, told)| {
            say(&format!("{}: {told}", Shown::of(name)));
            trace
        }),
        Err(why) => {
            say(&format!("operators are not shown: {}", Shown::of(&why.to_string())));
            None
        }
    }
}

/// Adds a trace to the first file that it fits, and says how their clocks are related.
fn beside_the_first<F>(
    name: &str,
    files: &mut [F],
    mut add: impl FnMut(&mut F) -> Result<String, ViewError>,
) -> anyhow::Result<()> {
    let mut first = None;
    for file in files {
        match add(file) {
            Ok(told) => {
                say(&format!("{}: {told}", Shown::of(name)));
                return Ok(());
            }
            Err(why) => first = first.or(Some(why)),
        }
    }
    // Without a file, the arguments are refused.
    first.map_or(Ok(()), |why| Err(anyhow!("--operators {}", Shown::of(&why.to_string()))))
}

/// Options for serving a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Serve {
    /// The port; 0 chooses a free one.
    pub(super) port: u16,
    /// Whether to open no browser.
    pub(super) no_open: bool,
    /// Whether to print the address as JSON.
    pub(super) json: bool,
}

/// Starts to serve `library`, prints the address, and opens a browser.
pub(super) fn begin(how: Serve, library: &Arc<Library>) -> anyhow::Result<Serving> {
    let server = Server::bind(how.port).with_context(|| format!("port {}", how.port))?;
    let url = server.url();
    let library = Arc::clone(library);
    let serving = std::thread::spawn(move || server.serve(library));
    if how.json {
        super::print_json(&AddressJson { url: url.clone() })?;
    } else {
        super::print_text(&format!("{url}\n"))?;
    }
    if !how.no_open && open::that_detached(&url).is_err() {
        say("note: no browser could be started; open the address above in a browser");
    }
    Ok(serving)
}

/// The thread of a running server.
type Serving = JoinHandle<io::Result<()>>;

pub(super) fn until_it_ends(serving: Serving) -> anyhow::Result<()> {
    match serving.join() {
        Ok(served) => served.context("the server stopped"),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn read(
    file: &Path,
    options: ReadOptions,
    told: impl FnMut(u64, Option<u64>),
) -> anyhow::Result<(String, Recording)> {
    // The self-contained page has a log as a log.
    let options = ReadOptions { keeps_log: true, ..options };
    Ok((input::name(file), input::read_with(file, options, told)?))
}
