//! Changes to a part of a recorded program, and the peak that the changed program would have.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use vramscope_basics::gpus::{self, Gpu};
use vramscope_trace::Category;

use super::activations::{grows_with_batch, offload};
use super::blocks::{self, Call};
use super::program::{Changed, Item, Program, is_activation};
use crate::categories::{AllocationCategories, PassPhase};
use crate::findings::Uses;
use crate::groups::{By, HolderKey, stack_key};
use crate::history::{History, Moment};
use crate::stacks::Frames;
use vramscope_basics::Cancel;

/// Allocations, and a change to them: `layer:h.*.mlp=checkpoint`.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// The allocations.
    pub of: MarkedAllocations,
    /// The change.
    pub change: ProgramChange,
}

/// The allocations of a [`Mark`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarkedAllocations {
    /// Those of a line of the user's code: the end of the file's path, and the line. Written as `line:train.py:12`.
    Line(String, u32),
    /// Those of a module and of the modules in it. A part of the path that is `*` stands for any name. Written as `layer:h.*.mlp`.
    Layer(String),
    /// Those of a category. Written as `category:optimizer_state`.
    Category(Category),
    /// Those whose sizes follow from the batch. Written as `batch`.
    Batch,
}

/// A change of a [`Mark`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ProgramChange {
    /// Freed at the last use, where the recording has [accesses](vramscope_trace::Accesses). Written as `free`.
    Free,
    /// Activations are freed after the forward pass of their module, and are there again for its backward pass. Written as `checkpoint`.
    Checkpoint,
    /// Kept in host memory: activations until shortly before their use, optimizer states between optimizer steps. Written as `offload`.
    Offload,
    /// The bytes times a factor, such as 0.5 for half of the precision. Written as `x0.5`.
    Scale(f64),
}

/// The estimated effect of marks on a recorded program.
#[derive(Debug, Clone, PartialEq)]
pub struct MarkedProgram {
    /// The marks, each with the number of allocations that it changes.
    pub marks: Vec<(Mark, usize)>,
    /// The recorded peak of allocated bytes. If a request failed, it counts.
    pub recorded_peak: u64,
    /// The estimated peak with the changes.
    pub peak: u64,
}

/// Upper limit of factors.
const LARGEST_FACTOR: f64 = 1024.0;

impl FromStr for Mark {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "expected GROUP=CHANGE, as layer:h.*.mlp=checkpoint";
        let (of, change) = text.rsplit_once('=').ok_or(form)?;
        let of = match of.split_once(':') {
            None if of == "batch" => MarkedAllocations::Batch,
            Some(("line", place)) => {
                let (file, line) =
                    place.rsplit_once(':').ok_or("expected line:FILE:LINE, as line:train.py:12")?;
                let line = line.parse().map_err(|_| format!("{line:?} is not a line number"))?;
                MarkedAllocations::Line(file.to_owned(), line)
            }
            Some(("layer", path)) => MarkedAllocations::Layer(path.to_owned()),
            Some(("category", name)) => {
                MarkedAllocations::Category(Category::named(name).ok_or_else(|| {
                    format!("unknown category; use one of {}", Category::ALL.map(Category::name).join(", "))
                })?)
            }
            _ => {
                return Err(format!(
                    "{form}; groups are line:FILE:LINE, layer:PATH, category:NAME and batch"
                ));
            }
        };
        let change = match (change, change.strip_prefix('x')) {
            ("free", _) => ProgramChange::Free,
            ("checkpoint", _) => ProgramChange::Checkpoint,
            ("offload", _) => ProgramChange::Offload,
            (_, Some(factor)) => {
                let factor = factor.parse::<f64>().ok().filter(|x| *x > 0.0 && *x <= LARGEST_FACTOR);
                ProgramChange::Scale(factor.ok_or("expected a factor above 0 and at most 1024, as x2")?)
            }
            _ => return Err("unknown change; use one of free, checkpoint, offload, x0.5".to_owned()),
        };
        if of == MarkedAllocations::Batch && !matches!(change, ProgramChange::Scale(_)) {
            return Err("a batch takes a factor, as batch=x2".to_owned());
        }
        Ok(Self { of, change })
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            MarkedAllocations::Line(file, line) => write!(f, "line:{file}:{line}=")?,
            MarkedAllocations::Layer(path) => write!(f, "layer:{path}=")?,
            MarkedAllocations::Category(category) => write!(f, "category:{}=", category.name())?,
            MarkedAllocations::Batch => f.write_str("batch=")?,
        }
        match self.change {
            ProgramChange::Free => f.write_str("free"),
            ProgramChange::Checkpoint => f.write_str("checkpoint"),
            ProgramChange::Offload => f.write_str("offload"),
            ProgramChange::Scale(factor) => write!(f, "x{factor}"),
        }
    }
}

impl MarkedProgram {
    /// Estimates the peak with all marks. Returns `None` if it was cancelled.
    #[must_use]
    pub fn of(history: &History, frames: &Frames, marks: &[Mark], cancel: &Cancel) -> Option<Self> {
        let categories = AllocationCategories::of(history);
        let program = Program::of_any(history, &categories);
        let marker = Marker { program: &program, frames };
        let mut changed = program.changed();
        let mut counts = vec![0; marks.len()];
        // Factors first: the other changes act on the scaled sizes.
        let is_scale = |mark: &Mark| matches!(mark.change, ProgramChange::Scale(_));
        let (scales, others): (Vec<usize>, Vec<usize>) =
            (0..marks.len()).partition(|&at| is_scale(&marks[at]));
        for at in scales.into_iter().chain(others) {
            if cancel.is_cancelled() {
                return None;
            }
            counts[at] = marker.apply(&marks[at], &mut changed);
        }
        let marks = marks.iter().cloned().zip(counts).collect();
        Some(Self { marks, recorded_peak: program.peak, peak: changed.peak() })
    }
}

/// Returns the smallest known GPU that has room for these bytes and a CUDA context; `None` if there is no such GPU.
#[must_use]
pub fn smallest_gpu_for(bytes: u64) -> Option<&'static Gpu> {
    gpus::with_room_for(bytes, 0).map(|(gpu, _)| gpu).next()
}

/// Whether a path is that of the module or in it; a part `*` of `wanted` stands for any name.
fn is_in_layer(path: &str, wanted: &str) -> bool {
    let mut parts = path.split('.');
    wanted.split('.').all(|want| parts.next().is_some_and(|part| want == "*" || want == part))
}

/// Finds the items of marks in a program, and changes them.
struct Marker<'p> {
    program: &'p Program<'p>,
    frames: &'p Frames,
}

impl<'p> Marker<'p> {
    fn layer(&self, item: &Item) -> Option<&'p Arc<str>> {
        let history = self.program.history;
        self.program.categories.layer(&history.allocations[item.id? as usize])
    }

    fn is_at(&self, item: &Item, file: &str, line: u32) -> bool {
        let history = self.program.history;
        let HolderKey::Line(frame) = stack_key(history, self.frames, item.stack, By::Line) else {
            return false;
        };
        let trace = history.trace();
        let frame = trace.frames.get(frame);
        let rest = trace.strings.get(frame.filename).strip_suffix(file);
        frame.line == line && rest.is_some_and(|rest| rest.is_empty() || rest.ends_with(['/', '\\']))
    }

    /// The marked items, with their indices, in order.
    fn items(&self, of: &MarkedAllocations) -> Vec<(usize, Item)> {
        let program = self.program;
        let activations: HashSet<u64> = program.activations().map(|(_, item)| item.size).collect();
        let is_marked = |item: &Item| match of {
            MarkedAllocations::Line(file, line) => self.is_at(item, file, *line),
            MarkedAllocations::Layer(wanted) => {
                self.layer(item).is_some_and(|path| is_in_layer(path, wanted))
            }
            MarkedAllocations::Category(category) => item.category == *category,
            MarkedAllocations::Batch => grows_with_batch(item, &activations),
        };
        program.indexed().filter(|(_, item)| is_marked(item)).map(|(at, item)| (at, *item)).collect()
    }

    /// Applies a mark. Returns the number of changed items.
    fn apply(&self, mark: &Mark, changed: &mut Changed<'_>) -> usize {
        let items = self.items(&mark.of);
        match mark.change {
            ProgramChange::Scale(factor) => {
                for &(at, _) in &items {
                    changed.sizes[at] = (changed.sizes[at] as f64 * factor).ceil() as u64;
                }
                items.len()
            }
            ProgramChange::Free => items.into_iter().filter(|of| self.free(of, changed)).count(),
            ProgramChange::Checkpoint => self.checkpoint(&mark.of, &items, changed),
            ProgramChange::Offload => {
                let (activations, others): (Vec<_>, Vec<_>) =
                    items.into_iter().partition(|(_, item)| is_activation(item));
                offload(changed, &activations);
                activations.len() + others.iter().filter(|of| self.offload_state(of, changed)).count()
            }
        }
    }

    /// Ends an item at its last use. Returns whether it is known and earlier.
    fn free(&self, &(at, item): &(usize, Item), changed: &mut Changed<'_>) -> bool {
        let history = self.program.history;
        let uses = item.id.and_then(|id| Uses::of(history, &history.allocations[id as usize]));
        // An allocation that is never used is not needed at all.
        let end = match uses {
            None => return false,
            Some(None) => item.from,
            Some(Some(uses)) => Moment::from_index(uses.last.index() + 1),
        };
        if end >= item.to {
            return false;
        }
        changed.cut(at, end);
        true
    }

    /// Checkpoints the calls of the marked modules, or those of all blocks with what they have of the marked items. Returns the number of
    /// activations that are not kept.
    fn checkpoint(
        &self,
        of: &MarkedAllocations,
        items: &[(usize, Item)],
        changed: &mut Changed<'_>,
    ) -> usize {
        let program = self.program;
        let mut calls: Vec<Vec<u32>> = Vec::new();
        if let MarkedAllocations::Layer(wanted) = of {
            let depth = wanted.split('.').count();
            let passes: Vec<Moment> = program.passes_of(PassPhase::Forward).map(|pass| pass.from).collect();
            let mut of_module: HashMap<(Vec<&str>, usize), usize> = HashMap::new();
            let of_forward = items.iter().filter(|(_, item)| item.phase == PassPhase::Forward);
            for (at, item) in of_forward {
                let Some(path) = self.layer(item) else { continue };
                let pass = passes.partition_point(|&from| from <= item.from);
                let call =
                    *of_module.entry((path.split('.').take(depth).collect(), pass)).or_insert_with(|| {
                        calls.push(Vec::new());
                        calls.len() - 1
                    });
                calls[call].extend(u32::try_from(*at));
            }
        } else {
            let marked: HashSet<usize> = items.iter().map(|&(at, _)| at).collect();
            let is_left = |at: u32| {
                let at = at as usize;
                marked.contains(&at) || !is_activation(&program.items[at])
            };
            let left = |call: &Call| call.items().iter().copied().filter(|&at| is_left(at)).collect();
            calls.extend(blocks::calls(program).iter().map(left));
        }
        let calls: Vec<Call> = calls.into_iter().map(|items| Call::of(program, items)).collect();
        blocks::checkpoint(program, changed, calls.iter())
    }

    /// Keeps an optimizer state on the device only in optimizer steps. Returns whether the item is one.
    fn offload_state(&self, &(at, item): &(usize, Item), changed: &mut Changed<'_>) -> bool {
        if item.category != Category::OptimizerState {
            return false;
        }
        let size = std::mem::take(&mut changed.sizes[at]);
        for pass in self.program.passes_of(PassPhase::Optimizer) {
            let (from, to) = (pass.from.max(item.from), pass.to.min(item.to));
            if from < to {
                changed.add(from, to, size);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use vramscope_basics::gpus::NEWEST_CUDA;

    use super::*;

    #[test]
    fn marks_are_read_as_they_are_written() {
        for text in [
            "line:src/train.py:12=free",
            "layer:h.*.mlp=checkpoint",
            "category:optimizer_state=offload",
            "category:parameter=x0.5",
            "batch=x2",
            "line:a=b:c.py:1=x1024",
        ] {
            assert_eq!(text.parse::<Mark>().unwrap().to_string(), text);
        }
        for (text, why) in [
            ("", "expected GROUP=CHANGE"),
            ("batch", "expected GROUP=CHANGE"),
            ("batch=free", "a batch takes a factor"),
            ("category:none=free", "unknown category"),
            ("line:train.py=free", "expected line:FILE:LINE"),
            ("line:train.py:x=free", "is not a line number"),
            ("layer:h=melt", "unknown change"),
            ("batch=x0", "expected a factor"),
            ("batch=xNaN", "expected a factor"),
            ("batch=xinf", "expected a factor"),
            ("all=free", "groups are"),
        ] {
            assert!(text.parse::<Mark>().unwrap_err().contains(why), "{text}");
        }
    }

    #[test]
    fn modules_are_named_by_their_paths() {
        for (path, wanted, expected) in [
            ("h.0.mlp.fc", "h.*.mlp", true),
            ("h.0.mlp", "h.*.mlp", true),
            ("h.0", "h.*.mlp", false),
            ("head", "h", false),
            ("h.0", "*", true),
            ("h", "", false),
        ] {
            assert_eq!(is_in_layer(path, wanted), expected, "{path} {wanted}");
        }
    }

    #[test]
    fn the_smallest_gpu_has_room_for_a_context() {
        let gpu = smallest_gpu_for(10 << 30).unwrap();
        let needed = (10 << 30) + *gpu.context_bytes(NEWEST_CUDA).end();
        assert!(gpu.total_bytes >= needed);
        let smaller =
            gpus::by_size().into_iter().filter(|one| one.total_bytes < gpu.total_bytes && !one.integrated);
        for one in smaller {
            assert!(one.total_bytes < (10 << 30) + *one.context_bytes(NEWEST_CUDA).end(), "{}", one.name);
        }
        assert!(smallest_gpu_for(u64::MAX).is_none());
    }
}
