//! Runs of a program on phantom GPUs.
//!
//! `attempt` is one run, `extremes` runs what a phantom GPU cannot know, and `certainty` decides how certain the peak is. `cards` decides
//! which cards need a run and which a replay, `fits` combines both. The analysis (`replay/gpus.rs`) finds the cards that fit; the sentences
//! about them are here. The Python files are copied to the program: `sitecustomize.py` records, `history.py` shares the history with a
//! program that records too, `values.py` and `ranks.py` help programs that wait for values or for other processes, `follow.py` computes
//! known values, `choices.py` takes a candidate, `changes.py` changes the program for `vramscope fit`.

pub(crate) mod attempt;
mod cards;
pub(crate) mod certainty;
pub(crate) mod changes;
mod child;
pub(crate) mod chosen_gpu;
mod demands;
pub(crate) mod extremes;
mod fits;
mod json;
mod list;
mod rank;
pub(crate) mod recordings;
mod request;
mod run;
pub(crate) mod text;
pub(crate) mod unknowns;
mod without_recording;

pub use json::Json as RunJson;
pub use list::{ListedGpu, list_text, listed_gpus};
pub use request::{GpuRequest, GpuSpeed, Routing, RunRequest, Values};
pub use run::run;
pub use text::Answer as RunAnswer;
