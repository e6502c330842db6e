//! What single frames show about an allocation: a table of known frames, and their combination over a stack.

use vramscope_trace::{FrameId, StackId, Trace};

/// What a known frame in a stack shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Sign {
    /// A module's forward pass runs.
    Forward,
    /// The backward pass runs.
    Backward,
    /// A function with this name runs: part of the backward pass, or the program's code that starts it.
    BackwardFunction,
    /// As the outermost frame: the thread is that of the backward pass.
    BackwardThread,
    /// The optimizer runs.
    Optimizer,
    /// The optimizer makes the state of a parameter.
    OptimizerState,
    /// A module's parameters and buffers are moved or converted.
    Moved,
    /// A module or a parameter is made, or filled from a file.
    Made,
    /// Tensors are read from a file.
    Read,
    /// A tensor is copied to be retained.
    Copied,
    /// The gradient of a parameter is accumulated.
    Accumulate,
    /// Processes exchange data.
    Communication,
    /// Keys and values of past tokens are cached.
    KvCache,
    /// A library allocates its workspace.
    Workspace,
}

/// A kind of known frame, and its sign.
#[derive(Debug)]
pub(super) struct SignRule {
    /// The sign of the frame.
    pub(super) sign: Sign,
    /// A part of the file's path, with `/` on every system; empty for any file.
    pub(super) file: &'static str,
    /// The function of the frame.
    pub(super) function: Function,
    /// An example of such a frame, as file and function.
    #[cfg_attr(not(test), expect(dead_code, reason = "only readers and tests use it"))]
    pub(super) example: (&'static str, &'static str),
}

/// How a rule matches a function.
#[derive(Debug)]
pub(super) enum Function {
    /// Any function of the file.
    Any,
    /// The function with this name.
    Is(&'static str),
    /// Functions whose names contain this.
    Has(&'static str),
}

use Function::{Any, Has, Is};

const fn rule(
    sign: Sign,
    file: &'static str,
    function: Function,
    example: (&'static str, &'static str),
) -> SignRule {
    SignRule { sign, file, function, example }
}

/// All known frames. The innermost known frame of a stack decides what ran. To add one, add a line with a real frame as its
/// example; a test checks each rule against its example and against the examples of other rules.
const SIGNS: &[SignRule] = &[
    // Modules: `torch.nn.Module.to`, `.cuda` and `.half` all go through `_apply`.
    rule(Sign::Moved, "torch/nn/modules/module.py", Is("_apply"), ("torch/nn/modules/module.py", "_apply")),
    rule(
        Sign::Made,
        "torch/nn/modules/module.py",
        Is("_load_from_state_dict"),
        ("torch/nn/modules/module.py", "_load_from_state_dict"),
    ),
    rule(
        Sign::Made,
        "transformers/modeling_utils.py",
        Has("load_"),
        ("transformers/modeling_utils.py", "_load_state_dict_into_meta_model"),
    ),
    rule(
        Sign::Made,
        "transformers/core_model_loading.py",
        Any,
        ("transformers/core_model_loading.py", "_materialize_copy"),
    ),
    rule(
        Sign::Made,
        "accelerate/utils/modeling.py",
        Is("set_module_tensor_to_device"),
        ("accelerate/utils/modeling.py", "set_module_tensor_to_device"),
    ),
    rule(Sign::Made, "safetensors/torch.py", Any, ("safetensors/torch.py", "load_file")),
    rule(Sign::Made, "torch/nn/parameter.py", Any, ("torch/nn/parameter.py", "__new__")),
    rule(Sign::Made, "torch/nn/modules/", Is("__init__"), ("torch/nn/modules/linear.py", "__init__")),
    rule(
        Sign::Made,
        "torch/nn/modules/",
        Is("reset_parameters"),
        ("torch/nn/modules/linear.py", "reset_parameters"),
    ),
    rule(
        Sign::Made,
        "torch/distributed/fsdp/_fully_shard/_fsdp_param.py",
        Is("_init_sharded_param"),
        ("torch/distributed/fsdp/_fully_shard/_fsdp_param.py", "_init_sharded_param"),
    ),
    rule(Sign::Read, "torch/serialization.py", Any, ("torch/serialization.py", "load")),
    rule(Sign::Copied, "", Is("__deepcopy__"), ("torch/_tensor.py", "__deepcopy__")),
    // The forward pass.
    rule(
        Sign::Forward,
        "torch/nn/modules/module.py",
        Is("_call_impl"),
        ("torch/nn/modules/module.py", "_call_impl"),
    ),
    rule(Sign::Forward, "", Is("forward"), ("/home/user/model.py", "forward")),
    rule(Sign::Forward, "", Has("torch::nn::"), ("", "torch::nn::LinearImpl::forward(at::Tensor const&)")),
    // The backward pass. On a GPU, it runs on a separate thread without Python frames, except those of hooks.
    rule(Sign::Backward, "torch/_tensor.py", Is("backward"), ("torch/_tensor.py", "backward")),
    rule(Sign::BackwardFunction, "", Is("backward"), ("/home/user/model.py", "backward")),
    rule(
        Sign::BackwardThread,
        "torch/autograd/function.py",
        Is("apply"),
        ("torch/autograd/function.py", "apply"),
    ),
    rule(
        Sign::Backward,
        "torch/autograd/graph.py",
        Is("_engine_run_backward"),
        ("torch/autograd/graph.py", "_engine_run_backward"),
    ),
    rule(Sign::Backward, "torch/autograd/__init__.py", Any, ("torch/autograd/__init__.py", "_make_grads")),
    rule(
        Sign::Backward,
        "",
        Has("torch::autograd::Engine::"),
        ("", "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)"),
    ),
    rule(
        Sign::Backward,
        "",
        Has("torch::autograd::generated::"),
        ("", "torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&)"),
    ),
    rule(
        Sign::Backward,
        "",
        Has("torch::autograd::CppNode<"),
        ("", "torch::autograd::CppNode<Mine>::apply(std::vector<at::Tensor>&&)"),
    ),
    rule(
        Sign::Backward,
        "torch/utils/checkpoint.py",
        Is("backward"),
        ("torch/utils/checkpoint.py", "backward"),
    ),
    rule(
        Sign::Backward,
        "torch/utils/checkpoint.py",
        Is("unpack_hook"),
        ("torch/utils/checkpoint.py", "unpack_hook"),
    ),
    rule(
        Sign::Backward,
        "torch/utils/checkpoint.py",
        Is("recompute_fn"),
        ("torch/utils/checkpoint.py", "recompute_fn"),
    ),
    rule(
        Sign::Accumulate,
        "",
        Has("torch::autograd::AccumulateGrad::"),
        ("", "torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor>&&)"),
    ),
    // Optimizers. Every `step` of a `torch.optim.Optimizer` goes through a wrapper in `torch/optim/optimizer.py`.
    rule(Sign::Optimizer, "torch/optim/", Any, ("torch/optim/adam.py", "_multi_tensor_adam")),
    rule(
        Sign::Optimizer,
        "deepspeed/runtime/",
        Has("optimizer"),
        ("deepspeed/runtime/zero/stage_1_and_2.py", "initialize_optimizer_states"),
    ),
    rule(
        Sign::Optimizer,
        "",
        Has("torch::optim::"),
        ("", "torch::optim::AdamW::step(std::function<at::Tensor ()>)"),
    ),
    rule(Sign::OptimizerState, "/optim", Is("_init_group"), ("torch/optim/adam.py", "_init_group")),
    rule(Sign::OptimizerState, "/optim", Is("init_state"), ("bitsandbytes/optim/optimizer.py", "init_state")),
    rule(
        Sign::OptimizerState,
        "torch/optim/optimizer.py",
        Is("load_state_dict"),
        ("torch/optim/optimizer.py", "load_state_dict"),
    ),
    // Processes.
    rule(
        Sign::Communication,
        "torch/distributed/distributed_c10d.py",
        Any,
        ("torch/distributed/distributed_c10d.py", "all_gather_into_tensor"),
    ),
    rule(
        Sign::Communication,
        "torch/distributed/_functional_collectives.py",
        Any,
        ("torch/distributed/_functional_collectives.py", "all_reduce"),
    ),
    rule(
        Sign::Communication,
        "torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py",
        Any,
        ("torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py", "foreach_all_gather"),
    ),
    rule(
        Sign::Communication,
        "torch/distributed/fsdp/_fully_shard/_fsdp_param.py",
        Is("alloc_storage"),
        ("torch/distributed/fsdp/_fully_shard/_fsdp_param.py", "alloc_storage"),
    ),
    rule(
        Sign::Communication,
        "torch/nn/parallel/distributed.py",
        Is("_ddp_init_helper"),
        ("torch/nn/parallel/distributed.py", "_ddp_init_helper"),
    ),
    rule(
        Sign::Communication,
        "",
        Has("c10d::Reducer::initialize_buckets"),
        ("", "c10d::Reducer::initialize_buckets(std::vector<...>)"),
    ),
    rule(
        Sign::Communication,
        "",
        Has("c10d::ProcessGroupNCCL::"),
        ("", "c10d::ProcessGroupNCCL::allgather(...)"),
    ),
    // Serving.
    rule(Sign::KvCache, "transformers/cache_utils.py", Any, ("transformers/cache_utils.py", "update")),
    rule(Sign::KvCache, "kv_cache", Any, ("vllm/v1/core/kv_cache_utils.py", "allocate")),
    rule(
        Sign::KvCache,
        "",
        Has("kv_cache"),
        ("vllm/v1/worker/gpu_model_runner.py", "_allocate_kv_cache_tensors"),
    ),
    rule(
        Sign::KvCache,
        "sglang/srt/mem_cache/",
        Any,
        ("sglang/srt/mem_cache/memory_pool.py", "_create_buffers"),
    ),
    // TensorRT-LLM's cache of keys and values is outside of PyTorch's allocator. Its cache of states is not.
    rule(
        Sign::KvCache,
        "tensorrt_llm/_torch/pyexecutor/mamba_cache_manager.py",
        Any,
        ("tensorrt_llm/_torch/pyexecutor/mamba_cache_manager.py", "__init__"),
    ),
    rule(Sign::KvCache, "", Has("setup_cache"), ("/home/user/model.py", "setup_caches")),
    rule(Sign::KvCache, "", Has("past_key_value"), ("generate.py", "_expand_past_key_values")),
    // Libraries.
    rule(Sign::Workspace, "", Has("getCurrentCUDABlasHandle"), ("", "at::cuda::getCurrentCUDABlasHandle()")),
    rule(Sign::Workspace, "", Has("getCUDABlasLtWorkspace"), ("", "at::cuda::getCUDABlasLtWorkspace()")),
    rule(Sign::Workspace, "", Has("at::cuda::getNewWorkspace"), ("", "at::cuda::getNewWorkspace()")),
    rule(
        Sign::Workspace,
        "",
        Has("CUDABlasLtWorkspace"),
        ("", "at::cuda::blas::CUDABlasLtWorkspace::CUDABlasLtWorkspace()"),
    ),
];

/// The signs of a frame: a bit for each matching rule in [`SIGNS`].
type Rules = u64;

const _: () = assert!(SIGNS.len() <= Rules::BITS as usize);

/// The rules for each [`Sign`], precomputed since many signs are checked for every allocation.
const RULES_FOR: [Rules; Sign::Workspace as usize + 1] = {
    let mut rules = [0; Sign::Workspace as usize + 1];
    let mut number = 0;
    while number < SIGNS.len() {
        rules[SIGNS[number].sign as usize] |= 1 << number;
        number += 1;
    }
    rules
};

/// The signs of a stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StackSigns {
    /// The rules that match any of its frames, a bit each.
    rules: Rules,
    /// What ran, according to the innermost frame that shows a phase.
    pub(super) runs: Option<Runs>,
    /// The innermost frame of `Module._apply`.
    pub(super) moved_at: Option<FrameId>,
}

/// What ran when an allocation was made, according to its stack alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runs {
    Forward,
    /// A forward pass inside the backward pass, which recomputes the tensors that a checkpoint dropped.
    Recompute,
    Backward,
    Optimizer,
    /// The model is built, moved or filled.
    Setup,
}

impl StackSigns {
    /// The signs of a stack with one frame that shows `sign`.
    #[cfg(test)]
    pub(super) fn with(sign: Sign) -> Self {
        let number = SIGNS.iter().position(|r| r.sign == sign);
        Self { rules: number.map_or(0, |number| 1 << number), ..Self::default() }
    }

    /// Whether a frame of the stack shows `sign`.
    pub(super) fn has(self, sign: Sign) -> bool {
        self.rules & RULES_FOR[sign as usize] != 0
    }
}

/// The signs of each stack of a trace.
pub(super) struct Signs {
    stacks: Vec<StackSigns>,
}

impl Signs {
    pub(super) fn of(trace: &Trace) -> Self {
        let masks = TextMasks::of(trace);
        let frames: Vec<Rules> = trace
            .frames
            .iter()
            .map(|(_, f)| masks.files[f.filename.index()] & masks.functions[f.name.index()])
            .collect();
        let of_sign = |signs: &[Sign]| -> Rules {
            SIGNS.iter().enumerate().filter(|(_, r)| signs.contains(&r.sign)).map(|(n, _)| 1 << n).sum()
        };
        let moved = of_sign(&[Sign::Moved]);
        let forward = of_sign(&[Sign::Forward]);
        let backward = of_sign(&[Sign::Backward, Sign::Accumulate]);
        let backward_function = of_sign(&[Sign::BackwardFunction]);
        let backward_thread = of_sign(&[Sign::BackwardThread]);
        let optimizer = of_sign(&[Sign::Optimizer, Sign::OptimizerState]);
        let setup = of_sign(&[Sign::Moved, Sign::Made]);
        let stacks = trace.stacks.iter().map(|(_, stack)| {
            let mut signs = StackSigns::default();
            let mut in_backward = stack.last().is_some_and(|f| frames[f.index()] & backward_thread != 0);
            for &frame in stack {
                let matched = frames[frame.index()];
                signs.rules |= matched;
                if matched & moved != 0 && signs.moved_at.is_none() {
                    signs.moved_at = Some(frame);
                }
                in_backward |= matched & backward != 0;
                signs.runs = match signs.runs {
                    // Python and C++ frames are not always in call order, so C++ frames alone do not show which frame is
                    // innermost.
                    Some(runs @ (Runs::Forward | Runs::Backward | Runs::Optimizer)) => Some(runs),
                    _ if matched & forward != 0 => Some(Runs::Forward),
                    _ if matched & backward_function != 0 => Some(Runs::Backward),
                    // Allocations by a constructor within a pass belong to the pass.
                    None if matched & optimizer != 0 => Some(Runs::Optimizer),
                    None if matched & setup != 0 => Some(Runs::Setup),
                    runs => runs,
                };
            }
            if in_backward {
                signs.runs = match signs.runs {
                    Some(Runs::Forward) => Some(Runs::Recompute),
                    runs @ Some(Runs::Optimizer) => runs,
                    _ => Some(Runs::Backward),
                };
            }
            signs
        });
        Self { stacks: stacks.collect() }
    }

    /// Returns the last of the lines at which `Module._apply` moves tensors, if there are several.
    pub(super) fn last_move(&self, trace: &Trace) -> Option<FrameId> {
        let line = |f: &FrameId| trace.frames.get(*f).line;
        let lines = || self.stacks.iter().filter_map(|s| s.moved_at).filter(|&f| line(&f) > 0);
        let (first, last) = (lines().min_by_key(line)?, lines().max_by_key(line)?);
        (line(&first) < line(&last)).then_some(last)
    }

    /// Returns the signs of `stack`; none for `None`.
    pub(super) fn get(&self, stack: Option<StackId>) -> StackSigns {
        stack.map_or_else(StackSigns::default, |s| self.stacks[s.index()])
    }
}

/// The rules that the texts of a trace match, as files and as functions. Each text is matched once, even if many frames share it.
struct TextMasks {
    files: Vec<Rules>,
    functions: Vec<Rules>,
}

impl TextMasks {
    fn of(trace: &Trace) -> Self {
        let mut masks = Self { files: vec![0; trace.strings.len()], functions: vec![0; trace.strings.len()] };
        let (mut seen_files, mut seen_functions) =
            (vec![false; trace.strings.len()], vec![false; trace.strings.len()]);
        for (_, frame) in trace.frames.iter() {
            let file = frame.filename.index();
            if !std::mem::replace(&mut seen_files[file], true) {
                let path = trace.strings.get(frame.filename).replace('\\', "/");
                masks.files[file] = which(|rule| path.contains(rule.file));
            }
            let function = frame.name.index();
            if !std::mem::replace(&mut seen_functions[function], true) {
                let name = trace.strings.get(frame.name);
                masks.functions[function] = which(|rule| rule.function.matches(name));
            }
        }
        masks
    }
}

fn which(matches: impl Fn(&SignRule) -> bool) -> Rules {
    SIGNS.iter().enumerate().filter(|(_, rule)| matches(rule)).map(|(number, _)| 1 << number).sum()
}

impl Function {
    fn matches(&self, name: &str) -> bool {
        match self {
            Any => true,
            Is(whole) => name == *whole,
            Has(part) => name.contains(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the signs that a frame matches.
    fn matched(file: &str, function: &str) -> Vec<Sign> {
        let matches = |r: &&SignRule| file.contains(r.file) && r.function.matches(function);
        SIGNS.iter().filter(matches).map(|r| r.sign).collect()
    }

    #[test]
    fn each_rule_matches_its_example() {
        for rule in SIGNS {
            let (file, function) = rule.example;
            assert!(matched(file, function).contains(&rule.sign), "{rule:?}");
        }
    }

    #[test]
    fn no_sign_is_hidden_by_an_earlier_one() {
        for (number, rule) in SIGNS.iter().enumerate() {
            let (file, function) = rule.example;
            let before = &SIGNS[..number];
            let same =
                |r: &&SignRule| r.sign == rule.sign && file.contains(r.file) && r.function.matches(function);
            assert!(!before.iter().any(|r| same(&r)), "an earlier rule says the same of {:?}", rule.example);
        }
    }

    #[test]
    fn the_users_own_functions_are_no_signs() {
        for (file, function) in [
            ("/home/user/train.py", "<module>"),
            ("/home/user/train.py", "step"),
            ("/home/user/optim/train.py", "main"),
            ("/home/user/model.py", "load_batch"),
        ] {
            assert!(matched(file, function).is_empty(), "{file} {function}: {:?}", matched(file, function));
        }
    }
}
