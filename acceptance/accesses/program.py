"""Run a program under a dispatch mode, and write the tensors of each operator to a file in the folder TRACED.

    TRACED=FOLDER program.py NAME

A line has the operator, the number of events of the allocator before and after it, and the addresses of its tensors.
"""

import json
import os
import pathlib
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Operators that access no memory, besides views.
NOTHING = {
    "detach",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "lift_fresh",
    "new_empty",
    "new_empty_strided",
    "record_stream",
    "resize_",
    "set_",
    "_has_compatible_shallow_copy_type",
}
# Operators that read the shape and the type of their first argument only.
SHAPES = {"full_like", "new_full", "new_ones", "new_zeros", "ones_like", "rand_like", "randn_like", "zeros_like"}
# Arguments and results that an operator does not access.
UNREAD = {
    "native_layer_norm_backward": {"bias"},
    # cuDNN returns the mean and the variance of the batch instead.
    "cudnn_batch_norm_backward": {"running_mean", "running_var"},
    "native_batch_norm_backward": {"running_mean", "running_var"},
    # Without dropout there are no random numbers; with it, their seed may be a number of the host.
    "_scaled_dot_product_flash_attention": {"philox_seed", "philox_offset"},
    "_scaled_dot_product_efficient_attention": {"philox_seed", "philox_offset"},
    "_scaled_dot_product_flash_attention_backward": {"philox_seed", "philox_offset"},
    "_scaled_dot_product_efficient_attention_backward": {"philox_seed", "philox_offset"},
    "_scaled_dot_product_cudnn_attention": {"philox_seed", "philox_offset"},
    "_scaled_dot_product_cudnn_attention_backward": {"philox_seed", "philox_offset"},
}


def run(name):
    """Runs a program under the dispatch mode."""
    rank = os.environ.get("RANK")
    out = open(pathlib.Path(os.environ["TRACED"]) / (f"traced-rank{rank}" if rank else "traced"), "w")  # noqa: SIM115
    device = int(os.environ.get("LOCAL_RANK", 0))
    torch.cuda.set_device(device)
    torch.cuda.init()

    def events():
        """The number of events of the allocator so far."""
        counted = torch._C._cuda_memoryStats(device)
        each = [counted[what]["all"][how] for what in ("allocation", "segment") for how in ("allocated", "freed")]
        return sum(each) + counted["num_ooms"]

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
            if any("DTensor" in kind.__name__ for kind in types):
                # Its operators on local tensors follow.
                return NotImplemented
            kwargs = kwargs or {}
            before = events()
            result = operator(*args, **kwargs)
            used = tensors(operator, args, kwargs, result)
            if used:
                out.write(json.dumps([str(operator), before, events(), used]) + "\n")
            return result

    def tensors(operator, args, kwargs, result):
        name = operator.__name__.split(".")[0]
        if name in NOTHING or getattr(operator, "is_view", False):
            return []
        schema = operator._schema
        results = result if isinstance(result, tuple) else (result,)
        named = [*zip(schema.returns, results)] + ([] if name in SHAPES else [*zip(schema.arguments, args)])
        leaves = tree_leaves([[value for of, value in named if of.name not in UNREAD.get(name, ())], kwargs])
        found = {
            leaf.data_ptr()
            for leaf in leaves
            if isinstance(leaf, torch.Tensor) and leaf.is_cuda and leaf.numel() > 0 and leaf.data_ptr() != 0
        }
        return sorted(found)

    with Operators():
        globals()[f"run_{name}"]()
    out.close()


def train(model, step, iterations=3, **options):
    optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad], **options)
    for _ in range(iterations):
        step().backward()
        optimizer.step()
        optimizer.zero_grad()


def run_gpt2():
    import gpt2

    gpt2.gpt2(3)


def run_resnet50():
    import resnet50

    model = resnet50.ResNet50().cuda()

    def step():
        images = torch.randn(8, 3, 224, 224, device="cuda")
        labels = torch.randint(1000, (8,), device="cuda")
        return torch.nn.functional.cross_entropy(model(images), labels)

    train(model, step)


def run_llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=512,
        intermediate_size=1376,
        num_hidden_layers=6,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=8000,
        attn_implementation="sdpa",
    )
    model = LlamaForCausalLM(config).to("cuda", torch.bfloat16)

    def step():
        ids = torch.randint(config.vocab_size, (2, 256), device="cuda")
        return model(input_ids=ids, labels=ids).loss

    train(model, step)


def run_lora():
    import lora

    lora.lora(3)


def run_lstm():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(5000, 256)
            self.lstm = torch.nn.LSTM(256, 512, 2, batch_first=True, dropout=0.1)
            self.scores = torch.nn.Linear(512, 5000)

        def forward(self, ids):
            return self.scores(self.lstm(self.embedding(ids))[0])

    model = Model().cuda()

    def step():
        ids = torch.randint(5000, (8, 65), device="cuda")
        return torch.nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

    train(model, step)


def run_fsdp2():
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard

    import ranks

    dist.init_process_group("nccl")
    torch.manual_seed(0)
    model = ranks.transformer().cuda()
    for block in model[1]:
        fully_shard(block)
    fully_shard(model)

    def step():
        ids = torch.randint(ranks.VOCABULARY, (ranks.BATCH, ranks.LENGTH), device="cuda")
        return torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())

    train(model, step)
    dist.destroy_process_group()


if __name__ == "__main__":
    run(sys.argv[1])
