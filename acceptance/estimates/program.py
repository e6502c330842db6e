"""Train one of nineteen models for three steps, with one change or none, and print the peak of allocated bytes for each change.

    program.py MODEL [CHANGE ...]
    program.py models

The changes are those that `vramscope report --budget` estimates.
"""

import functools
import gc
import json
import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import checkpointing
import resnet50

STEPS = 3
CHANGES = (
    "none",
    "fused_optimizer",
    "optimizer_without_foreach",
    "autocast_bfloat16",
    "activation_checkpointing",
    "smaller_batch",
    "gradient_accumulation",
    "adam_8bit",
    "save_on_cpu",
    # The mistake that `gradients_to_none` corrects.
    "gradients_kept",
    # The last one: its hooks never let go of the model.
    "optimizer_in_backward",
)


class Lstm(nn.Module):
    """A language model of three recurrent layers."""

    def __init__(self, vocabulary=10000, width=768):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.LSTM(width, width, num_layers=3, batch_first=True)
        self.scores = nn.Linear(width, vocabulary)

    def forward(self, ids):
        scores = self.scores(self.layers(self.tokens(ids))[0])
        return F.cross_entropy(scores[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


class Mlp(nn.Module):
    def __init__(self, width=2048, layers=8):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(layers)])

    def forward(self, x):
        return self.layers(x).pow(2).mean()


class Classifier(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images):
        labels = torch.zeros(len(images), dtype=torch.int64, device=images.device)
        return F.cross_entropy(self.model(images), labels)


class Encoder(nn.Module):
    """PyTorch's own encoder layers, with dropout."""

    def __init__(self, width=512, layers=6):
        super().__init__()
        self.tokens = nn.Embedding(20000, width)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True)
        self.body = nn.TransformerEncoder(layer, layers)
        self.scores = nn.Linear(width, 20000)

    def forward(self, ids):
        scores = self.scores(self.body(self.tokens(ids)))
        return F.cross_entropy(scores.flatten(0, 1), ids.flatten())


class Labeled(nn.Module):
    """A model of transformers that predicts its input."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(input_ids=ids, labels=ids).loss


def hugging_face(kind, **options):
    import transformers

    config = getattr(transformers, f"{kind}Config")(**options)
    config.use_cache = False
    return config, transformers


def gpt2():
    config, transformers = hugging_face("GPT2", n_layer=8, n_embd=512, n_head=8)
    return Labeled(transformers.GPT2LMHeadModel(config))


def llama():
    sizes = {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 8, "num_attention_heads": 12}
    config, transformers = hugging_face("Llama", vocab_size=32000, num_key_value_heads=4, **sizes)
    return Labeled(transformers.LlamaForCausalLM(config))


def bert():
    config, transformers = hugging_face("Bert", hidden_size=512, num_hidden_layers=8, num_attention_heads=8)
    return Labeled(transformers.BertForMaskedLM(config))


def lora():
    from peft import LoraConfig, get_peft_model

    config, transformers = hugging_face("GPT2", n_layer=6, n_embd=512, n_head=8)
    adapters = LoraConfig(r=8, target_modules=["c_attn"], fan_in_fan_out=True)
    return Labeled(get_peft_model(transformers.GPT2LMHeadModel(config), adapters))


def opt():
    sizes = {"hidden_size": 512, "word_embed_proj_dim": 512, "ffn_dim": 2048, "num_hidden_layers": 8}
    config, transformers = hugging_face("OPT", num_attention_heads=8, **sizes)
    return Labeled(transformers.OPTForCausalLM(config))


def t5():
    config, transformers = hugging_face(
        "T5", d_model=512, d_ff=2048, num_layers=6, num_heads=8, decoder_start_token_id=0
    )
    return Labeled(transformers.T5ForConditionalGeneration(config))


def distilbert():
    config, transformers = hugging_face("DistilBert", dim=512, hidden_dim=2048, n_layers=6, n_heads=8)
    return Labeled(transformers.DistilBertForMaskedLM(config))


class Logits(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images):
        return self.model(images).logits


def convnext():
    config, transformers = hugging_face("ConvNext", num_labels=1000)
    return Classifier(Logits(transformers.ConvNextForImageClassification(config)))


def ids(length, vocabulary):
    return lambda batch: torch.randint(vocabulary, (batch, length), device="cuda")


def images(channels, size):
    return lambda batch: torch.randn(batch, channels, size, size, device="cuda")


def momentum(parameters, **options):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, **options)


ADAMW = torch.optim.AdamW
# Models that were added when the estimates were done: no rule was made with them.
LAST = ("opt", "t5", "distilbert", "convnext")
# The model, its input, its batch size, the modules whose children are blocks, and the optimizer.
MODELS = {
    "gpt2": (lambda: checkpointing.decoder(50257, 768, 12, 12), ids(256, 50257), 8, ("blocks",), ADAMW),
    "gpt2-hf": (gpt2, ids(256, 50257), 8, ("model.transformer.h",), ADAMW),
    "llama": (llama, ids(512, 32000), 4, ("model.model.layers",), ADAMW),
    "bert": (bert, ids(256, 30522), 8, ("model.bert.encoder.layer",), ADAMW),
    "lora": (lora, ids(256, 50257), 8, ("model.base_model.model.transformer.h",), ADAMW),
    "vit": (lambda: checkpointing.Vit(768, 12), images(3, 224), 16, ("blocks",), ADAMW),
    "encoder": (Encoder, ids(256, 20000), 8, ("body.layers",), ADAMW),
    "resnet50": (
        lambda: Classifier(resnet50.ResNet50()),
        images(3, 224),
        16,
        [f"model.stage{i}" for i in (1, 2, 3, 4)],
        momentum,
    ),
    "unet": (lambda: checkpointing.UNet((64, 128, 256)), images(4, 64), 16, ("down", "middle", "up"), ADAMW),
    "lstm": (Lstm, ids(64, 10000), 32, (), ADAMW),
    "opt": (opt, ids(256, 50272), 8, ("model.model.decoder.layers",), ADAMW),
    "t5": (t5, ids(256, 32128), 8, ("model.encoder.block", "model.decoder.block"), ADAMW),
    "distilbert": (distilbert, ids(256, 30522), 8, ("model.distilbert.transformer.layer",), ADAMW),
    "convnext": (
        convnext,
        images(3, 224),
        8,
        [f"model.model.convnext.encoder.stages.{i}.layers" for i in range(4)],
        ADAMW,
    ),
    # Small batches: parameters and their states are most of the memory.
    "gpt2-small-batch": (lambda: checkpointing.decoder(50257, 768, 12, 12), ids(64, 50257), 1, ("blocks",), ADAMW),
    "llama-small-batch": (llama, ids(64, 32000), 2, ("model.model.layers",), ADAMW),
    "bert-small-batch": (bert, ids(64, 30522), 2, ("model.bert.encoder.layer",), ADAMW),
    "vit-small-batch": (lambda: checkpointing.Vit(768, 12), images(3, 224), 2, ("blocks",), ADAMW),
    "mlp": (Mlp, lambda batch: torch.randn(batch, 2048, device="cuda"), 8192, ("layers",), torch.optim.Adam),
}


def main(name, *changes):
    if name == "models":
        return print(json.dumps(list(MODELS)))
    peaks = {change: peak(name, change) for change in changes or CHANGES}
    return print(json.dumps({change: peak for change, peak in peaks.items() if peak is not None}))


def peak(name, change):
    """The peak of allocated bytes with the change; None if the program has no place for it."""
    create, batch_of, size, containers, optimizer_of = MODELS[name]
    if change == "adam_8bit" and optimizer_of is momentum or change == "activation_checkpointing" and not containers:
        return None
    torch.backends.cudnn.enabled = name == "lstm"
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    train(create, batch_of, size, containers, optimizer_of, change)
    return torch.cuda.max_memory_allocated()


def train(create, batch_of, size, containers, optimizer_of, change):
    with torch.device("cuda"):
        model = create()
    parameters = [each for each in model.parameters() if each.requires_grad]
    optimizer = optimizer_with(change, parameters, optimizer_of)
    forward = model
    if change == "autocast_bfloat16":
        forward = torch.autocast("cuda", dtype=torch.bfloat16)(forward)
    if change == "activation_checkpointing":
        for block in (block for path in containers for block in model.get_submodule(path).children()):
            block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
    if change == "save_on_cpu":
        forward = offloaded(forward)
    batches = 2 if change == "gradient_accumulation" else 1
    size //= {"smaller_batch": 2, "gradient_accumulation": 2}.get(change, 1)
    for _ in range(STEPS):
        for _ in range(batches):
            loss = forward(batch_of(size))
            loss.backward()
        if optimizer:
            optimizer.step()
            optimizer.zero_grad(set_to_none=change != "gradients_kept")


def optimizer_with(change, parameters, optimizer_of):
    """The optimizer; None if optimizers run in the backward pass."""
    if change == "optimizer_in_backward":
        return in_backward(parameters, optimizer_of)
    if change == "adam_8bit":
        import bitsandbytes

        return getattr(bitsandbytes.optim, optimizer_of.__name__ + "8bit")(parameters)
    options = {"fused_optimizer": {"fused": True}, "optimizer_without_foreach": {"foreach": False}}.get(change, {})
    return optimizer_of(parameters, **options)


def in_backward(parameters, optimizer_of):
    optimizers = {parameter: optimizer_of([parameter]) for parameter in parameters}

    def update(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(update)


def offloaded(forward):
    def run(batch):
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            return forward(batch)

    return run


if __name__ == "__main__":
    main(*sys.argv[1:])
