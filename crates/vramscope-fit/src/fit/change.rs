//! Changes to a program: their names, their costs, and the lines that make them.

use serde_json::{Map, Value, json};
use vramscope_report::{bytes, counted};

use crate::phantom::changes::Facts;

/// A change to a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// Settings of PyTorch's allocator.
    Conf(String),
    /// `fused=True` for PyTorch's optimizers.
    Fused,
    /// `foreach=False` for PyTorch's optimizers.
    WithoutForeach,
    /// Autocast to bfloat16 around the forward pass of the module at a path.
    Autocast(String),
    /// Activation checkpointing of the modules at these paths, which are some of `all` blocks.
    Checkpoint { paths: Vec<String>, all: Option<usize> },
    /// Gradient accumulation over a number of smaller batches.
    Accumulate(u64),
    /// An optimizer for each parameter, which updates it in the backward pass and frees its gradient.
    OptimizerInBackward,
    /// bitsandbytes' Adam instead of PyTorch's.
    Adam8bit,
    /// The tensors that the forward pass of the module at a path saves are kept in host memory.
    SaveOnCpu(String),
    /// Fully sharded data parallel over a number of cards: the modules at `paths`, which are some of the module at `path`.
    FullyShard { cards: u32, path: String, paths: Vec<String> },
}

/// All [keys](Change::key), in the order of [`Change::expense`].
pub(crate) const KEYS: [&str; 10] = [
    "allocator_conf",
    "fused_optimizer",
    "optimizer_without_foreach",
    "autocast_bfloat16",
    "activation_checkpointing",
    "gradient_accumulation",
    "optimizer_in_backward",
    "adam_8bit",
    "save_on_cpu",
    "fully_shard",
];

impl Change {
    /// The position from cheap to expensive: first the changes that only use memory better, then those that change the precision or
    /// take more time.
    pub(crate) fn expense(&self) -> u8 {
        match self {
            Self::Conf(_) => 0,
            Self::Fused => 1,
            Self::WithoutForeach => 2,
            Self::Autocast(_) => 3,
            Self::Checkpoint { .. } => 4,
            Self::Accumulate(_) => 5,
            Self::OptimizerInBackward => 6,
            Self::Adam8bit => 7,
            Self::SaveOnCpu(_) => 8,
            Self::FullyShard { .. } => 9,
        }
    }

    /// Whether both can be made at the same time.
    pub(crate) fn goes_with(&self, other: &Self) -> bool {
        let kind = |change: &Self| match change {
            // All of them choose an optimizer.
            Self::Fused | Self::WithoutForeach | Self::OptimizerInBackward | Self::Adam8bit => u8::MAX,
            // Both save the same tensors.
            Self::Checkpoint { .. } | Self::SaveOnCpu(_) => u8::MAX - 1,
            change => change.expense(),
        };
        let excludes = |one: &Self, other: &Self| {
            matches!(
                (one, other),
                // Accumulation needs the gradients that the optimizer would free.
                (Self::Accumulate(_), Self::OptimizerInBackward)
                    // Sharding replaces the parameters, and bitsandbytes has no sharded ones.
                    | (Self::FullyShard { .. }, Self::OptimizerInBackward | Self::Adam8bit)
            )
        };
        kind(self) != kind(other) && !excludes(self, other) && !excludes(other, self)
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::Conf(_) => "allocator settings".to_owned(),
            Self::Fused => "fused optimizer".to_owned(),
            Self::WithoutForeach => "optimizer with foreach=False".to_owned(),
            Self::Autocast(_) => "autocast to bfloat16".to_owned(),
            Self::Checkpoint { paths, all: Some(all) } => {
                format!("activation checkpointing, {} of {}", paths.len(), counted(*all as u64, "block"))
            }
            Self::Checkpoint { paths, all: None } => {
                format!("activation checkpointing, {}", counted(paths.len() as u64, "module"))
            }
            Self::Accumulate(batches) => format!("gradient accumulation over {batches} batches"),
            Self::OptimizerInBackward => "optimizer in the backward pass".to_owned(),
            Self::Adam8bit => "8-bit Adam".to_owned(),
            Self::SaveOnCpu(_) => "saved tensors in host memory".to_owned(),
            Self::FullyShard { cards, .. } => {
                format!("fully sharded over {}", counted((*cards).into(), "card"))
            }
        }
    }

    /// The stable name in JSON.
    pub(crate) fn key(&self) -> &'static str {
        KEYS[usize::from(self.expense())]
    }

    /// The method of `changes.py` that makes the change, and its argument; `None` for allocator settings.
    pub(crate) fn method(&self) -> Option<(&'static str, Value)> {
        Some(match self {
            Self::Conf(_) => return None,
            Self::Fused => ("optimizer_options", json!({"fused": true, "foreach": null})),
            Self::WithoutForeach => ("optimizer_options", json!({"foreach": false})),
            Self::Autocast(path) => ("autocast", json!(path)),
            Self::Checkpoint { paths, .. } => ("checkpoint", json!(paths)),
            Self::Accumulate(_) => ("accumulate", json!(true)),
            Self::OptimizerInBackward => ("optimizer_in_backward", json!(true)),
            Self::Adam8bit => ("adam_8bit", json!(true)),
            Self::SaveOnCpu(path) => ("save_on_cpu", json!(path)),
            Self::FullyShard { path, paths, .. } => ("fully_shard", json!({"path": path, "paths": paths})),
        })
    }

    /// The price of the change. `facts` are those of the unchanged program, `changed` those of the changed one.
    pub(crate) fn cost(&self, facts: &Facts, changed: &Facts) -> Cost {
        let mut cost = Cost::default();
        cost.text = match self {
            Self::Conf(_) | Self::Fused => "none".to_owned(),
            Self::WithoutForeach => "a slower optimizer step".to_owned(),
            Self::Autocast(_) => "lower precision".to_owned(),
            Self::Checkpoint { paths, .. } => {
                let (share, basis) = recomputed(facts, paths);
                cost.recomputed_share = Some(share);
                cost.recomputed_by = Some(basis);
                format!("{:.0} % of the forward pass again, by {basis}", share * 100.0)
            }
            Self::Accumulate(batches) => format!("{batches} smaller batches per step"),
            Self::OptimizerInBackward => {
                "no clipping by the norm of all gradients, no accumulation".to_owned()
            }
            Self::Adam8bit => "optimizer states of 8 bits".to_owned(),
            Self::SaveOnCpu(_) => {
                // To the host and back.
                let copied = 2 * changed.offloaded_bytes / changed.steps.max(1);
                cost.copied_bytes = Some(copied);
                format!("{} copied per step", bytes(copied))
            }
            Self::FullyShard { cards, .. } => {
                format!("{}, which exchange parameters and gradients", counted((*cards).into(), "card"))
            }
        };
        cost
    }

    /// The lines that make the change.
    pub(crate) fn lines(&self, facts: &Facts) -> Vec<String> {
        match self {
            Self::Conf(conf) => vec![format!("export PYTORCH_CUDA_ALLOC_CONF={conf}")],
            Self::Fused => vec![format!("optimizer = torch.optim.{}(..., fused=True)", optimizer(facts))],
            Self::WithoutForeach => {
                vec![format!("optimizer = torch.optim.{}(..., foreach=False)", optimizer(facts))]
            }
            Self::Autocast(path) => {
                let model = module(path);
                vec![format!(
                    "{model}.forward = torch.autocast(\"cuda\", dtype=torch.bfloat16)({model}.forward)"
                )]
            }
            Self::Checkpoint { paths, .. } => {
                let mut all = vec![
                    "import functools".to_owned(),
                    "from torch.utils.checkpoint import checkpoint".to_owned(),
                ];
                if facts.model.as_ref().is_some_and(|model| model.uses_cache) {
                    all.push("model.config.use_cache = False".to_owned());
                }
                all.push(format!("for block in {}:", blocks(paths)));
                all.push(
                    "    block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)"
                        .to_owned(),
                );
                all
            }
            Self::Accumulate(batches) => vec![
                format!("if (batch_number + 1) % {batches} == 0:  # and divide the loss by {batches}"),
                "    optimizer.step()".to_owned(),
                "    optimizer.zero_grad()".to_owned(),
            ],
            Self::OptimizerInBackward => vec![
                format!(
                    "optimizers = {{p: torch.optim.{}([p], ...) for p in model.parameters()}}",
                    optimizer(facts)
                ),
                "def update(p):".to_owned(),
                "    optimizers[p].step()".to_owned(),
                "    optimizers[p].zero_grad()".to_owned(),
                "for p in model.parameters():  # and remove optimizer.step()".to_owned(),
                "    p.register_post_accumulate_grad_hook(update)".to_owned(),
            ],
            Self::Adam8bit => vec![format!("optimizer = bitsandbytes.optim.{}8bit(...)", optimizer(facts))],
            Self::SaveOnCpu(path) => vec![
                "with torch.autograd.graph.save_on_cpu(pin_memory=True):".to_owned(),
                format!("    output = {}(...)", module(path)),
            ],
            Self::FullyShard { cards, path, paths } => {
                let mut all = vec![
                    "# before the model is created".to_owned(),
                    "import os".to_owned(),
                    "torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"]))".to_owned(),
                    "torch.distributed.init_process_group(\"nccl\")".to_owned(),
                    format!(
                        "# between the model and the optimizer; start the program with torchrun --nproc-per-node {cards}"
                    ),
                    "from torch.distributed.fsdp import fully_shard".to_owned(),
                ];
                if !paths.is_empty() {
                    all.push(format!("for block in {}:", blocks(paths)));
                    all.push("    fully_shard(block)".to_owned());
                }
                all.push(format!("fully_shard({})", module(path)));
                all
            }
        }
    }
}

/// The price of a change.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Cost {
    pub(crate) text: String,
    /// The part of the forward pass that is computed again.
    pub(crate) recomputed_share: Option<f64>,
    /// The quantity of `recomputed_share`.
    pub(crate) recomputed_by: Option<&'static str>,
    /// Bytes copied between the GPU and the host, per step.
    pub(crate) copied_bytes: Option<u64>,
}

impl Cost {
    /// The price of several changes.
    pub(crate) fn of_all(costs: &[Self]) -> Self {
        let mut all = Self::default();
        for cost in costs {
            all.recomputed_share = all.recomputed_share.or(cost.recomputed_share);
            all.recomputed_by = all.recomputed_by.or(cost.recomputed_by);
            all.copied_bytes = all.copied_bytes.or(cost.copied_bytes);
        }
        let texts: Vec<&str> =
            costs.iter().map(|cost| cost.text.as_str()).filter(|&text| text != "none").collect();
        all.text = if texts.is_empty() { "none".to_owned() } else { texts.join("; ") };
        all
    }
}

/// The changes as the JSON that `changes.py` reads.
pub(crate) fn methods(changes: &[Change]) -> Map<String, Value> {
    changes.iter().filter_map(Change::method).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The part of the forward pass in these modules: of its floating-point operations, or of the bytes that it saves if none are known.
fn recomputed(facts: &Facts, paths: &[String]) -> (f64, &'static str) {
    let Some(forward) = &facts.forward else { return (1.0, "saved bytes") };
    if forward.total_flops > 0 {
        let of: u64 = paths.iter().filter_map(|path| forward.flops.get(path)).sum();
        return (of as f64 / forward.total_flops as f64, "FLOPs");
    }
    let of = forward.modules.iter().filter(|call| paths.contains(&call.path));
    let of: u64 = of.map(|call| call.saved_bytes[1] - call.saved_bytes[0]).sum();
    (of as f64 / forward.saved_bytes.max(1) as f64, "saved bytes")
}

fn optimizer(facts: &Facts) -> &str {
    facts.optimizers.first().map_or("AdamW", |optimizer| optimizer.class.as_str())
}

/// The Python expression of the module at a path of the model.
fn module(path: &str) -> String {
    let is_name = |part: &str| {
        part.chars().all(|c| c.is_alphanumeric() || c == '_')
            && !part.starts_with(|c: char| c.is_ascii_digit())
    };
    match path {
        "" => "model".to_owned(),
        path if path.split('.').all(is_name) => format!("model.{path}"),
        path => format!("model.get_submodule(\"{path}\")"),
    }
}

/// The Python expression of the modules at these paths.
fn blocks(paths: &[String]) -> String {
    let split = |path: &String| match path.rsplit_once('.') {
        Some((parent, number)) => (parent.to_owned(), number.parse().ok()),
        None => (String::new(), path.parse().ok()),
    };
    let places: Vec<(String, Option<usize>)> = paths.iter().map(split).collect();
    let first = places.first().map_or("", |(parent, _)| parent);
    let is_start =
        places.iter().enumerate().all(|(i, (parent, number))| parent == first && *number == Some(i));
    if is_start {
        return format!("{}[:{}]", module(first), paths.len());
    }
    let names: Vec<String> = paths.iter().map(|path| format!("\"{path}\"")).collect();
    format!("map(model.get_submodule, [{}])", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        serde_json::from_value(json!({
            "model": {"class": "Net", "dtypes": {"float32": 100}, "uses_cache": true},
            "optimizers": [{"class": "Adam", "foreach": null, "fused": null}], "steps": 4, "applied": [],
            "offloaded_bytes": 4096, "has_bitsandbytes": false,
            "forward": {"path": "", "flops": {"": 1000, "body.0": 250, "body.1": 500}, "total_flops": 1000,
                "saved_bytes": 100, "parameter_bytes": 0, "modules": [
                    {"path": "body.0", "saved_bytes": [0, 40], "parameter_bytes": [0, 0], "input_bytes": 8},
                    {"path": "body.1", "saved_bytes": [40, 90], "parameter_bytes": [0, 0], "input_bytes": 8}]},
        }))
        .unwrap()
    }

    fn paths(paths: &[&str]) -> Vec<String> {
        paths.iter().map(|&path| path.to_owned()).collect()
    }

    #[test]
    fn lines_name_the_modules() {
        let lines = Change::Checkpoint { paths: paths(&["body.0", "body.1"]), all: Some(2) }.lines(&facts());
        assert_eq!(lines[2..4], ["model.config.use_cache = False", "for block in model.body[:2]:"]);
        assert_eq!(blocks(&paths(&["0", "1", "2"])), "model[:3]");
        assert_eq!(blocks(&paths(&["0.layers.0"])), "model.get_submodule(\"0.layers\")[:1]");
        assert_eq!(
            blocks(&paths(&["layer1.0", "layer2.0"])),
            "map(model.get_submodule, [\"layer1.0\", \"layer2.0\"])"
        );
        assert_eq!(
            Change::Autocast("net".to_owned()).lines(&facts()),
            ["model.net.forward = torch.autocast(\"cuda\", dtype=torch.bfloat16)(model.net.forward)"]
        );
    }

    #[test]
    fn costs_are_shares_of_operations_or_of_saved_bytes() {
        let change = Change::Checkpoint { paths: paths(&["body.0"]), all: Some(2) };
        let mut facts = facts();
        assert_eq!(change.cost(&facts, &facts).text, "25 % of the forward pass again, by FLOPs");
        facts.forward.as_mut().unwrap().total_flops = 0;
        assert_eq!(change.cost(&facts, &facts).text, "40 % of the forward pass again, by saved bytes");
        assert_eq!(Change::SaveOnCpu(String::new()).cost(&facts, &facts).copied_bytes, Some(2048));
        let both = Cost::of_all(&[Change::Fused.cost(&facts, &facts), change.cost(&facts, &facts)]);
        assert_eq!(both.text, "40 % of the forward pass again, by saved bytes");
        assert_eq!(both.recomputed_share, Some(0.4));
    }

    #[test]
    fn one_optimizer_is_chosen() {
        assert!(!Change::Fused.goes_with(&Change::Adam8bit));
        assert!(!Change::Autocast(String::new()).goes_with(&Change::Autocast(String::new())));
        assert!(Change::Fused.goes_with(&Change::Autocast(String::new())));
        let checkpoint = Change::Checkpoint { paths: Vec::new(), all: None };
        assert!(
            !checkpoint.goes_with(&Change::SaveOnCpu(String::new()))
                && checkpoint.goes_with(&Change::Adam8bit)
        );
        assert!(!Change::OptimizerInBackward.goes_with(&Change::Accumulate(2)));
        let sharded =
            Change::FullyShard { cards: 2, path: String::new(), paths: paths(&["body.0", "body.1"]) };
        assert!(!sharded.goes_with(&Change::Adam8bit) && sharded.goes_with(&Change::Autocast(String::new())));
        assert_eq!(
            sharded.lines(&facts())[6..],
            ["for block in model.body[:2]:", "    fully_shard(block)", "fully_shard(model)"]
        );
    }
}
