//! What frames of PyTorch and of other packages tell of a program: rows of a table, found by the path of the file.

use hashbrown::HashMap;

use crate::places::{PlaceId, Places};

/// Something that a program does and that its stacks show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feature {
    /// What it is, as the object of "uses".
    pub name: &'static str,
    /// Part of the path of the file that a frame of it is in.
    pub file: &'static str,
    /// Such a file.
    pub example: &'static str,
}

/// What is told apart. To add something is to add its row.
pub static FEATURES: &[Feature] = &[
    feature("code that torch.compile made", "torchinductor_", "/tmp/torchinductor_user/ab/cabc.py"),
    feature(
        "graphs of torch.compile",
        "torch/_functorch/_aot_autograd/",
        "torch/_functorch/_aot_autograd/utils.py",
    ),
    feature("CUDA graphs", "torch/cuda/graphs.py", "torch/cuda/graphs.py"),
    feature("automatic mixed precision", "torch/amp/autocast_mode.py", "torch/amp/autocast_mode.py"),
    feature("a gradient scaler", "torch/amp/grad_scaler.py", "torch/amp/grad_scaler.py"),
    feature("clipped gradients", "torch/nn/utils/clip_grad.py", "torch/nn/utils/clip_grad.py"),
    feature("averaged weights", "torch/optim/swa_utils.py", "torch/optim/swa_utils.py"),
    feature(
        "DistributedDataParallel",
        "torch/nn/parallel/distributed.py",
        "torch/nn/parallel/distributed.py",
    ),
    feature("DataParallel", "torch/nn/parallel/data_parallel.py", "torch/nn/parallel/data_parallel.py"),
    feature(
        "fully sharded data parallelism",
        "torch/distributed/fsdp/",
        "torch/distributed/fsdp/_runtime_utils.py",
    ),
    feature("DeepSpeed", "deepspeed/runtime/", "deepspeed/runtime/engine.py"),
    feature("bitsandbytes", "bitsandbytes/", "bitsandbytes/nn/modules.py"),
    feature("adapters of PEFT", "peft/tuners/", "peft/tuners/lora/layer.py"),
    feature("FlashAttention", "flash_attn/", "flash_attn/flash_attn_interface.py"),
    feature("saved tensors on the host", "torch/autograd/graph.py", "torch/autograd/graph.py"),
];

const fn feature(name: &'static str, file: &'static str, example: &'static str) -> Feature {
    Feature { name, file, example }
}

/// Activation checkpointing: what lies inside of a frame of this file, run by a backward pass, is a forward pass that is
/// repeated.
const CHECKPOINT: &str = "torch/utils/checkpoint.py";

/// The functions of that file that repeat a forward pass.
const RECOMPUTING: [&str; 3] = ["recompute_fn", "unpack_hook", "backward"];

/// Every optimizer's `step` is called from here.
const OPTIMIZER: &str = "torch/optim/optimizer.py";

/// What the frames of a stack tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// A forward pass that is repeated inside of the backward pass: how many of the innermost places are of it.
    pub(super) recomputed: Option<usize>,
    /// The optimizer whose step this is: the place of its function.
    pub(super) optimizer: Option<PlaceId>,
    /// Numbers of [`FEATURES`].
    pub(super) features: Vec<usize>,
}

/// What the path of a file tells.
#[derive(Debug)]
struct FileMarks {
    is_checkpoint: bool,
    is_optimizer: bool,
    features: Vec<usize>,
}

/// Reads stacks; each path is looked at once, for many places may share one.
pub(super) struct Reader<'p> {
    places: &'p Places,
    files: HashMap<usize, FileMarks>,
}

impl<'p> Reader<'p> {
    pub(super) fn of(places: &'p Places) -> Self {
        Self { places, files: HashMap::new() }
    }

    /// What the places of a stack tell, innermost first.
    pub(super) fn read(&mut self, stack: &[PlaceId]) -> Marks {
        let mut marks = Marks::default();
        for (at, &id) in stack.iter().enumerate() {
            let place = self.places.get(id);
            let file = self.files.entry(place.file_number).or_insert_with(|| FileMarks::of(&place.file));
            if file.is_checkpoint && RECOMPUTING.contains(&&*place.function) {
                marks.recomputed.get_or_insert(at);
            }
            if file.is_optimizer && marks.optimizer.is_none() {
                marks.optimizer = at.checked_sub(1).and_then(|inside| stack.get(inside).copied());
            }
            marks.features.extend(&file.features);
        }
        marks.features.sort_unstable();
        marks.features.dedup();
        marks
    }
}

impl FileMarks {
    fn of(path: &str) -> Self {
        Self {
            is_checkpoint: path.ends_with(CHECKPOINT),
            is_optimizer: path.ends_with(OPTIMIZER),
            features: (0..FEATURES.len()).filter(|&number| path.contains(FEATURES[number].file)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_is_found_in_its_example_alone() {
        for (number, feature) in FEATURES.iter().enumerate() {
            assert_eq!(FileMarks::of(feature.example).features, [number], "{}", feature.name);
        }
    }
}
