"""Attention with each of PyTorch's backends."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from cases import case

BATCH, HEADS, LENGTH, WIDTH = 2, 4, 512, 64
# Bytes of the full score matrix, which fused backends never allocate.
SCORES = BATCH * HEADS * LENGTH * LENGTH * 2


def peak(way):
    """The peak of allocated bytes in a forward and a backward pass, without their inputs."""
    query, key, value = (
        torch.randn(BATCH, HEADS, LENGTH, WIDTH, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)
    )
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    with sdpa_kernel(way):
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    assert y.shape == query.shape and y.dtype == torch.bfloat16
    y.sum().backward()
    assert key.grad.shape == key.shape
    return torch.cuda.max_memory_allocated() - before


@case
def flash_efficient_and_math():
    flash, efficient, math = (
        peak(way) for way in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH)
    )
    assert math > flash + SCORES and math > efficient + SCORES, (flash, efficient, math)


@case
def cudnns_own():
    assert peak(SDPBackend.CUDNN_ATTENTION) < SCORES * 2


@case
def with_a_mask_and_dropout():
    query = torch.randn(2, 4, 64, 32, device="cuda", requires_grad=True)
    mask = torch.ones(64, 64, dtype=torch.bool, device="cuda").tril()
    F.scaled_dot_product_attention(query, query, query, attn_mask=mask, dropout_p=0.1).sum().backward()
    assert query.grad.shape == query.shape


@case
def layers_of_torch_nn():
    layer = nn.TransformerEncoderLayer(64, 4, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).cuda()
    x = torch.randn(2, 16, 64, device="cuda")
    model(x).sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())
    # For inference, PyTorch uses a single fused kernel for the whole layer.
    with torch.no_grad():
        assert model.eval()(x).shape == x.shape


@case
def nested_tensors():
    parts = [torch.randn(length, 64, device="cuda") for length in (3, 7, 5)]
    nested = torch.nested.nested_tensor(parts, layout=torch.jagged)
    query = nested.unflatten(-1, [4, 16]).transpose(1, 2)
    y = F.scaled_dot_product_attention(query, query, query)
    assert y.is_nested and y.size(0) == 3


@case
def flex_attention_without_a_compiler():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 256, 256, device="cuda")
    query = torch.randn(1, 2, 256, 32, device="cuda")
    assert flex_attention(query, query, query, block_mask=mask).shape == query.shape
