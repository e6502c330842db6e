"""Programs with idle memory: each keeps something that it does not use, or with `mended` does not.

    program.py CASE fault|mended
"""

import sys

import torch
from torch import nn
from torch.nn import functional as F

WIDTH = 2048
BATCH = 4096
STEPS = 3


def layers(count, width=WIDTH):
    return nn.Sequential(*[layer for _ in range(count) for layer in (nn.Linear(width, width), nn.GELU())]).cuda()


def batch():
    return torch.randn(BATCH, WIDTH, device="cuda")


@torch.no_grad()
def kept_until_the_end_of_the_function(is_mended):
    """The features are only needed for the scores, and live until the function returns."""
    encoder, head = layers(2), layers(2)
    for _ in range(STEPS):
        features = encoder(batch())
        scores = features.mean(1)
        if is_mended:
            del features
        head(batch()).sum().add(scores.sum())


def kept_gradients(is_mended):
    """The gradients of a step live through the next forward pass."""
    model = layers(8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        loss = model(batch()).square().mean()
        if not is_mended:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if is_mended:
            optimizer.zero_grad()


@torch.no_grad()
def allocated_at_the_start(is_mended):
    """The histogram is allocated before the model runs, and counted afterwards."""
    model = layers(4)
    counts = None if is_mended else new_counts()
    for _ in range(STEPS):
        tokens = model(batch()).argmax(1)
    counts = counts if counts is not None else new_counts()
    counts.scatter_add_(1, tokens.expand(256, -1), torch.ones(256, BATCH, dtype=torch.int32, device="cuda"))


def new_counts():
    return torch.zeros(256, BATCH * 8, dtype=torch.int32, device="cuda")


@torch.no_grad()
def outputs_in_a_list(is_mended):
    """Every output stays in a list that nothing reads."""
    model = layers(4)
    outputs = []
    correct = torch.zeros((), device="cuda")
    for _ in range(4 * STEPS):
        output = model(batch())
        correct += (output.argmax(1) == 0).sum()
        if not is_mended:
            outputs.append(output)
        del output


def logits_in_single_precision(is_mended):
    """The copy of the logits in single precision lives through the backward pass, which does not need it."""
    body = nn.Linear(WIDTH, WIDTH).cuda().bfloat16()
    head = nn.Linear(WIDTH, 16384).cuda().bfloat16()
    targets = torch.zeros(BATCH, dtype=torch.long, device="cuda")
    for _ in range(STEPS):
        hidden = body(batch().bfloat16())
        logits = head(hidden).float()
        loss = F.cross_entropy(logits, targets)
        if is_mended:
            del logits
        loss.backward()
        body.zero_grad()
        head.zero_grad()


def optimizer_state_without_use(is_mended):
    """The optimizer has a buffer for momentum, which is 0."""
    model = layers(8)
    momenta = []
    for parameter in [] if is_mended else model.parameters():
        momenta.append(torch.zeros_like(parameter))
    for _ in range(STEPS):
        model(batch()).square().mean().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(parameter.grad, alpha=0.1)
                parameter.grad = None


class Attention(nn.Module):
    """Attention with a mask that it keeps and does not use, as some models have for older releases of PyTorch."""

    def __init__(self, has_mask):
        super().__init__()
        self.project = nn.Linear(512, 3 * 512)
        if has_mask:
            self.register_buffer("mask", torch.ones(4096, 4096, device="cuda"))

    def forward(self, x):
        query, key, value = self.project(x).unflatten(2, (3, 8, 64)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return x + mixed.transpose(1, 2).flatten(2)


def a_mask_for_each_layer(is_mended):
    """The masks of all layers."""
    model = nn.Sequential(*[Attention(not is_mended) for _ in range(6)]).cuda()
    for _ in range(STEPS):
        model(torch.randn(2, 4096, 512, device="cuda")).square().mean().backward()
        model.zero_grad()


class Scaled(torch.autograd.Function):
    """Multiplies in single precision. The backward pass needs the input once; the fault saves its copy too."""

    is_mended = False

    @staticmethod
    def forward(context, x):
        wide = x.float()
        scaled = (wide * 0.5).to(x.dtype)
        context.save_for_backward(*((x,) if Scaled.is_mended else (x, wide)))
        return scaled

    @staticmethod
    def backward(context, gradient):
        return (gradient * context.saved_tensors[0]).mul_(0.5)


def an_activation_saved_twice(is_mended):
    """Each layer saves its input in half and in single precision, and uses the first."""
    Scaled.is_mended = is_mended
    model = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(6)).cuda().bfloat16()
    for _ in range(STEPS):
        x = batch().bfloat16()
        for layer in model:
            x = Scaled.apply(layer(x))
        x.square().mean().backward()
        model.zero_grad()


CASES = [
    kept_until_the_end_of_the_function,
    kept_gradients,
    allocated_at_the_start,
    outputs_in_a_list,
    logits_in_single_precision,
    optimizer_state_without_use,
    a_mask_for_each_layer,
    an_activation_saved_twice,
]

if __name__ == "__main__":
    name, kind = sys.argv[1:]
    next(case for case in CASES if case.__name__ == name)(kind == "mended")
    torch.cuda.synchronize()
