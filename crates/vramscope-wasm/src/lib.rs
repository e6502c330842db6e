//! The engine of the page, for a worker of a browser: it reads files and answers the page's questions, as the server of
//! `vramscope view` does.

use std::collections::HashMap;
use std::io::{self, Read};

use vramscope_analysis::Cancel;
use vramscope_trace::formats;
use vramscope_viewer::{About, OpenRecording, Question, ViewError};
use wasm_bindgen::prelude::{JsError, JsValue, wasm_bindgen};

#[wasm_bindgen]
extern "C" {
    /// A file on the disk, as the page reads it.
    pub type Stream;

    /// Fills `into` with the bytes that come next, and returns how many these are; 0 at the end.
    #[wasm_bindgen(method, catch)]
    fn read(this: &Stream, into: &mut [u8]) -> Result<usize, JsValue>;

    /// Is told how many bytes were read so far.
    #[wasm_bindgen(method)]
    fn progress(this: &Stream, bytes: f64);
}

impl Read for &Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let told = |e: JsValue| e.as_string().unwrap_or_else(|| format!("{e:?}"));
        Stream::read(self, into).map_err(|e| io::Error::other(told(e)))
    }
}

/// The open files, by the numbers that the page gives them.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct Engine {
    files: HashMap<usize, OpenRecording>,
}

#[wasm_bindgen]
impl Engine {
    /// An engine without files.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a file and makes it ready. `about` is what the page knows of a recording that it carries, as JSON.
    ///
    /// # Errors
    /// Where it is no recording.
    pub fn open(
        &mut self,
        file: usize,
        name: String,
        about: Option<String>,
        stream: &Stream,
    ) -> Result<(), JsError> {
        let read = formats::read(stream, &mut |bytes| stream.progress(bytes as f64));
        let recording = read.map_err(|why| ViewError::Unreadable { name: name.clone(), why })?;
        let about = about.map(|about| About::of_json(&about)).transpose()?;
        if let Some(open) = OpenRecording::of(name, about, recording, &Cancel::default()) {
            self.files.insert(file, open);
        }
        Ok(())
    }

    /// What the page asks for first of a file, as JSON.
    ///
    /// # Errors
    /// Where it is not open.
    pub fn overview(&self, file: usize) -> Result<Vec<u8>, JsError> {
        Ok(self.file(file)?.overview_json()?)
    }

    /// The answer to a question about a device, which is asked as JSON.
    ///
    /// # Errors
    /// Where the file is not open, or the question makes no sense.
    pub fn ask(&self, file: usize, device: usize, question: &str) -> Result<Vec<u8>, JsError> {
        let question = Question::of_json(question.as_bytes())?;
        let other = question.other_file().map(|other| self.file(other)).transpose()?;
        Ok(question.answer(self.file(file)?, device, other, &Cancel::default())?)
    }

    /// Closes a file; its memory is free.
    pub fn close(&mut self, file: usize) {
        self.files.remove(&file);
    }

    fn file(&self, file: usize) -> Result<&OpenRecording, ViewError> {
        self.files.get(&file).ok_or(ViewError::NoFile(file))
    }
}
