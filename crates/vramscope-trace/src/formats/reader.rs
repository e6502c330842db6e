//! [`Reader`]: reads a recording or a log of samples from a file or a stream.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use super::ahead::Ahead;
use super::compression::{Compression, Expanded, Taken, in_words};
use super::format::Contents;
use super::start::{FirstObject, other_file, own_json};
use super::window::{CHUNK, WhenNeeded, Window};
use super::{FormatReader, Opened, READERS, ReadOptions, Recording, foreign, keys, log, open, samples};
use crate::error::ReadError;
use crate::operators::OperatorTrace;
use crate::samples::SampleForm;
use crate::trace::DeviceTrace;

/// Reads a recording or a log of samples of any known format. The first bytes determine the format, not the file's name.
///
/// One function sets the source: [`open`](Self::open), [`file`](Self::file), [`new`](Self::new) or [`ahead`](Self::ahead). Options
/// follow, and [`read`](Self::read) or [`read_any`](Self::read_any) reads it to its end.
///
/// ```no_run
/// use vramscope_trace::formats::{ReadOptions, Reader};
///
/// let recording = Reader::open("snapshot.pickle.zst")?
///     .options(ReadOptions { expanded_bytes: Some(80 << 30), ..ReadOptions::default() })
///     .progress(|bytes| eprintln!("{bytes} bytes read"))
///     .read()?;
/// println!("{}", recording.format);
/// # Ok::<(), vramscope_trace::ReadError>(())
/// ```
///
/// Memory use stays within a small multiple of the bytes read, for any source, and no data can run code. [`ReadOptions`] limit the
/// decompressed size and the memory.
#[must_use]
pub struct Reader<'r> {
    source: Source<'r>,
    length: Option<u64>,
    options: ReadOptions,
    progress: Box<dyn FnMut(u64) + 'r>,
    is_cancelled: Box<dyn Fn() -> bool + Send + 'r>,
}

enum Source<'r> {
    OnDemand(Box<dyn Read + 'r>),
    Ahead(Box<dyn Read + Send + 'r>),
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("length", &self.length)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl<'r> Reader<'r> {
    /// Reads a stream on demand, so an error in the first bytes does not wait for more.
    pub fn new(stream: impl Read + 'r) -> Self {
        Self::of(Source::OnDemand(Box::new(stream)), None)
    }

    /// Reads a stream whose reads always end. A separate thread reads and decompresses ahead of the decoding thread. With only one core,
    /// the stream is read on demand.
    pub fn ahead(stream: impl Read + Send + 'r) -> Self {
        Self::of(Source::Ahead(Box::new(stream)), None)
    }

    /// Reads an open file: [ahead](Self::ahead) if it is a regular file larger than one chunk of 512 KiB, else on demand.
    pub fn file(file: &'r File) -> Self {
        Self::of_file(file, file.metadata().ok().filter(|m| m.is_file()).map(|m| m.len()))
    }

    /// Opens the file at `path`, and reads it as [`file`](Self::file) does.
    ///
    /// # Errors
    /// [`ReadError::Open`] if the file cannot be opened or is a folder.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        let (file, length) = open::open(path.as_ref())?;
        Ok(Self::of_file(file, length))
    }

    fn of_file(file: impl Read + Send + 'r, length: Option<u64>) -> Self {
        if length.is_some_and(|length| length > CHUNK as u64) {
            Self::of(Source::Ahead(Box::new(file)), length)
        } else {
            Self::of(Source::OnDemand(Box::new(file)), length)
        }
    }

    fn of(source: Source<'r>, length: Option<u64>) -> Self {
        let options = ReadOptions::default();
        Self { source, length, options, progress: Box::new(|_| {}), is_cancelled: Box::new(|| false) }
    }

    /// Length of the source in bytes, if it is a regular file.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// Sets limits and readers of other crates.
    pub fn options(self, options: ReadOptions) -> Self {
        Self { options, ..self }
    }

    /// Calls `progress` now and then with the number of bytes read from the source.
    pub fn progress(self, progress: impl FnMut(u64) + 'r) -> Self {
        Self { progress: Box::new(progress), ..self }
    }

    /// Ends with [`ReadError::Cancelled`] once `is_cancelled` returns true. It is called before each read from the source, possibly on
    /// another thread.
    pub fn cancel(self, is_cancelled: impl Fn() -> bool + Send + 'r) -> Self {
        Self { is_cancelled: Box::new(is_cancelled), ..self }
    }

    /// Reads a snapshot or a [log](super::log).
    ///
    /// # Errors
    /// If the source fails, is not a recording, exceeds a limit, or was cancelled. A log of samples is [`ReadError::Samples`], before it
    /// is read.
    pub fn read(self) -> Result<Recording, ReadError> {
        match self.read_wanted(Wanted::Recording)? {
            Opened::Recording(recording) => Ok(recording),
            Opened::Samples { .. } => Err(ReadError::Samples),
        }
    }

    /// Reads a recording or a log of samples.
    ///
    /// # Errors
    /// As [`read`](Self::read), except that a log of samples is accepted.
    pub fn read_any(self) -> Result<Opened, ReadError> {
        self.read_wanted(Wanted::Any)
    }

    /// Reads the operators, kernels and annotations of a trace of `torch.profiler`, with or without memory events.
    ///
    /// # Errors
    /// As [`read`](Self::read). Another file is [`ReadError::NotOperators`].
    pub fn read_operators(self) -> Result<OperatorTrace, ReadError> {
        self.read_with(|mut window, _| {
            window.fill(1)?;
            let is_json = matches!(window.here().first(), Some(b'{' | b' ' | b'\n' | b'\r' | b'\t' | 0xef));
            if is_json && matches!(form_of_json(&mut window), Ok(JsonForm::TorchProfiler)) {
                foreign::read_operators(window)
            } else {
                Err(ReadError::NotOperators)
            }
        })
    }

    fn read_wanted(self, wanted: Wanted) -> Result<Opened, ReadError> {
        let options = self.options;
        self.read_with(|window, compression| read_plain(wanted, options, window, compression))
    }

    /// Decompresses the source and decodes it.
    fn read_with<T>(self, decode: impl Decode<T>) -> Result<T, ReadError> {
        let Self { source, options, mut progress, is_cancelled, length: _ } = self;
        let taken = &Taken::default();
        let progress = &mut || progress(taken.bytes());
        match source {
            Source::Ahead(stream) if thread::available_parallelism().is_ok_and(|cores| cores.get() > 1) => {
                read_ahead(decode, options, Cancellable { stream, is_cancelled }, taken, progress)
            }
            Source::Ahead(stream) => {
                read_on_demand(decode, options, Cancellable { stream, is_cancelled }, taken, progress)
            }
            Source::OnDemand(stream) => {
                read_on_demand(decode, options, Cancellable { stream, is_cancelled }, taken, progress)
            }
        }
    }
}

/// A stream that fails after a cancellation.
struct Cancellable<'r, R> {
    stream: R,
    is_cancelled: Box<dyn Fn() -> bool + Send + 'r>,
}

impl<R: Read> Read for Cancellable<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if (self.is_cancelled)() {
            return Err(io::Error::other(ReadError::Cancelled));
        }
        self.stream.read(out)
    }
}

/// Accepted contents of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// A recording; a log of samples is rejected before it is read.
    Recording,
    /// A recording or a log of samples.
    Any,
}

/// Decodes decompressed bytes.
trait Decode<T>: Fn(Window<'_>, Compression) -> Result<T, ReadError> {}

impl<T, F: Fn(Window<'_>, Compression) -> Result<T, ReadError>> Decode<T> for F {}

fn read_on_demand<T>(
    decode: impl Decode<T>,
    options: ReadOptions,
    stream: impl Read,
    taken: &Taken,
    progress: &mut dyn FnMut(),
) -> Result<T, ReadError> {
    let stream = Expanded::new(stream, taken, options.expanded_bytes)?;
    let compression = stream.compression();
    let window = Window::new(WhenNeeded { stream, progress }, options.memory_bytes);
    in_words(compression, decode(window, compression))
}

fn read_ahead<T>(
    decode: impl Decode<T>,
    options: ReadOptions,
    stream: impl Read + Send,
    taken: &Taken,
    progress: &mut dyn FnMut(),
) -> Result<T, ReadError> {
    let mut stream = Expanded::new(stream, taken, options.expanded_bytes)?;
    let compression = stream.compression();
    let read = thread::scope(|scope| {
        let ahead = Ahead::start(scope, &mut stream, progress)?;
        io::Result::Ok(decode(Window::new(ahead, options.memory_bytes), compression))
    });
    // If the thread did not start, nothing was read yet.
    let read = read.unwrap_or_else(|_| {
        let window = Window::new(WhenNeeded { stream, progress }, options.memory_bytes);
        decode(window, compression)
    });
    in_words(compression, read)
}

fn read_plain(
    wanted: Wanted,
    options: ReadOptions,
    mut window: Window<'_>,
    compression: Compression,
) -> Result<Opened, ReadError> {
    let reader = |start: &[u8]| {
        let mut all = options.readers.iter().chain(READERS).filter(|_| !start.is_empty());
        all.find(|reader| reader.takes(start)).copied()
    };
    // Fill no more than one byte: a pipe may not have more yet.
    window.fill(1)?;
    let mut found = reader(window.here());
    if found.is_none() {
        window.fill(64)?;
        found = reader(window.here());
    }
    if window.here().first() == Some(&b'\n') {
        window.fill(3)?;
    }
    let form = match window.here() {
        // Not JSON, although it begins with a newline.
        here @ [b'\n', 1..=8, ..] => {
            found = Some(&foreign::Jax as &dyn FormatReader).filter(|jax| jax.takes(here));
            None
        }
        [b'{' | b'[' | b' ' | b'\n' | b'\r' | b'\t' | 0xef, ..] => match form_of_json(&mut window)? {
            JsonForm::Snapshot => None,
            JsonForm::Samples(form) => Some(form),
            JsonForm::TorchProfiler => {
                found = Some(&foreign::TorchProfiler);
                None
            }
        },
        here if found.is_none() && here.contains(&b',') => {
            window.fill(SHORT)?;
            samples::form_of_table(window.here())
        }
        _ => None,
    };
    match (form, wanted) {
        (Some(_), Wanted::Recording) => return Err(ReadError::Samples),
        (Some(form), Wanted::Any) => {
            let log = samples::read(form, window)?;
            return Ok(Opened::Samples { log, compression });
        }
        (None, _) => {}
    }
    if found.is_none() && form.is_none() {
        // The beginning of a log may be damaged.
        window.fill(log::SOUGHT)?;
        found = log::run_of_chunks(window.here()).map(|_| &log::Log as &dyn FormatReader);
    }
    let Some(found) = found else {
        window.fill(SHORT)?;
        return Err(other_file(window.here()));
    };
    let mut log = Vec::new();
    let keeps_log = options.keeps_log && log::Log.takes(window.here());
    let window = if keeps_log { window.copied_to(&mut log) } else { window };
    let Contents { trace, notices, format } = found.read(window)?;
    check_sizes(trace.devices.iter())?;
    if trace.operators.is_some() {
        log.truncate(log::without_operators(&log).len());
    }
    let log = (!log.is_empty()).then(|| log.into());
    Ok(Opened::Recording(Recording { trace: Arc::new(trace), format, compression, notices, log }))
}

/// Whether a snapshot of PyTorch may begin with this key.
fn is_of_a_snapshot(key: &str) -> bool {
    // A row of a log may begin with its time, and the list of GPUs with a name.
    !matches!(key, "time_us" | "name") && keys::KEYS.contains(&key)
}

/// Maximum bytes of a table's header.
const SHORT: usize = 4 << 10;

/// The format of a JSON text.
enum JsonForm {
    /// A snapshot, or no known format.
    Snapshot,
    /// A log of samples.
    Samples(SampleForm),
    /// A trace of `torch.profiler`.
    TorchProfiler,
}

/// Returns the format of a JSON text, or an error that names the file if it is another output of vramscope. Requests no more bytes once
/// the first key shows the format.
fn form_of_json(window: &mut Window<'_>) -> Result<JsonForm, ReadError> {
    const MOST: usize = 64 << 10;
    loop {
        let here = window.here();
        let length = here.len();
        let Some(object) = FirstObject::of(here) else { return Ok(JsonForm::Snapshot) };
        match object.keys.first() {
            Some(key) if is_of_a_snapshot(key) => return Ok(JsonForm::Snapshot),
            Some(key) if key == "schemaVersion" && !object.in_list => return Ok(JsonForm::TorchProfiler),
            _ => {}
        }
        if let Some(form) = samples::form_of_json(&object) {
            return Ok(JsonForm::Samples(form));
        }
        let is_all = object.is_whole || length >= MOST;
        if !is_all {
            window.fill(length + 1)?;
        }
        if is_all || window.here().len() == length {
            return own_json(&object).map_or(Ok(JsonForm::Snapshot), Err);
        }
    }
}

/// Limits the sum of all sizes, so that no partial sum can overflow 64 bits, even after rounding.
fn check_sizes<'d>(devices: impl Iterator<Item = &'d DeviceTrace>) -> Result<(), ReadError> {
    for d in devices {
        let events = d.events.iter().map(|e| u128::from(e.size));
        let segments = d.segments.iter().map(|s| u128::from(s.total_size));
        let blocks = d.blocks.iter().flat_map(|b| [b.size, b.requested_size].map(u128::from));
        if events.chain(segments).chain(blocks).sum::<u128>() >= 1 << 61 {
            let path = format!("device {}", d.device);
            let what = "has sizes that sum to more than 2^61 bytes, beyond any device".to_owned();
            return Err(ReadError::Schema { path, what });
        }
    }
    Ok(())
}
