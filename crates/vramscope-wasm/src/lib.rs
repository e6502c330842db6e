//! The engine of the page as WebAssembly, for a web worker. It reads files and answers the page's requests, as the server of `vramscope
//! view` does.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::Arc;

use vramscope_analysis::Cancel;
use vramscope_session::{About, OpenRecording, Question};
use vramscope_trace::formats::{ReadOptions, Reader};
use wasm_bindgen::prelude::{JsError, JsValue, wasm_bindgen};

#[wasm_bindgen]
extern "C" {
    /// A file on disk, read by the page.
    pub type Stream;

    /// Fills `into` with the next bytes. Returns the number of bytes; 0 at the end of the file.
    #[wasm_bindgen(method, catch)]
    fn read(this: &Stream, into: &mut [u8]) -> Result<usize, JsValue>;

    /// Reports the number of bytes read so far.
    #[wasm_bindgen(method)]
    fn progress(this: &Stream, bytes: f64);
}

impl Read for &Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let told = |e: JsValue| e.as_string().unwrap_or_else(|| format!("{e:?}"));
        Stream::read(self, into).map_err(|e| io::Error::other(told(e)))
    }
}

/// Reads a file of the page, or one from the disk.
fn reader(stream: &Stream, is_own: bool) -> Reader<'_> {
    // The page's own files may be compressed to any degree.
    let options = ReadOptions { expanded_bytes: is_own.then_some(u64::MAX), ..ReadOptions::default() };
    Reader::new(stream).options(options).progress(|bytes| stream.progress(bytes as f64))
}

/// The open files, by the page's file numbers.
#[wasm_bindgen(js_name = Engine)]
#[derive(Debug, Default)]
pub struct PageEngine {
    files: HashMap<usize, OpenRecording>,
}

#[wasm_bindgen(js_class = Engine)]
impl PageEngine {
    /// Creates an engine without files.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads and opens a file. `about` is the JSON metadata of a recording that the page embeds.
    ///
    /// # Errors
    /// If the file is not a recording.
    pub fn open(
        &mut self,
        file: usize,
        name: String,
        about: Option<String>,
        stream: &Stream,
    ) -> Result<(), JsError> {
        let recording =
            reader(stream, about.is_some()).read().map_err(|why| JsError::new(&format!("{name}: {why}")))?;
        let about = about.map(|about| About::of_json(&about)).transpose()?;
        if let Some(open) = OpenRecording::of(name, about, recording, &Cancel::default()) {
            self.files.insert(file, open);
        }
        Ok(())
    }

    /// Shows the operators of a trace of `torch.profiler` beside an open file. `is_own`: the page embeds the trace.
    ///
    /// # Errors
    /// If the file is not such a trace, or not of the recorded run.
    pub fn operators(&self, file: usize, name: String, is_own: bool, stream: &Stream) -> Result<(), JsError> {
        let read = reader(stream, is_own).read_operators();
        let trace = read.map_err(|why| JsError::new(&format!("{name}: {why}")))?;
        self.file(file)?.add_operators(&name, Arc::new(trace))?;
        Ok(())
    }

    /// The data that the page requests first for a file, as JSON.
    ///
    /// # Errors
    /// If the file is not open.
    pub fn overview(&self, file: usize) -> Result<Vec<u8>, JsError> {
        Ok(self.file(file)?.overview_json()?)
    }

    /// Answers a request about a device. The request and the answer are JSON.
    ///
    /// # Errors
    /// If the file is not open, or the request is invalid.
    pub fn ask(&self, file: usize, device: usize, question: &str) -> Result<Vec<u8>, JsError> {
        let question = Question::of_json(question.as_bytes())?;
        let other = question.other_file().map(|other| self.file(other)).transpose()?;
        Ok(question.answer(self.file(file)?, device, other, &Cancel::default())?)
    }

    /// Closes a file and frees its memory.
    pub fn close(&mut self, file: usize) {
        self.files.remove(&file);
    }

    fn file(&self, file: usize) -> Result<&OpenRecording, JsError> {
        self.files
            .get(&file)
            .ok_or_else(|| JsError::new(&format!("file {file} is not open; reload this page")))
    }
}
