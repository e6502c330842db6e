"""bitsandbytes: 8-bit and 4-bit optimizers and layers. Its library contains its own kernels, and NVIDIA's runtime."""

import torch
from torch import nn

from cases import Held, bytes_of, case


@case(needs=["bitsandbytes"])
def an_optimizer_of_8_bits():
    import bitsandbytes

    model = nn.Linear(4096, 4096).cuda()
    model(torch.randn(8, 4096, device="cuda")).sum().backward()
    held = Held()
    optimizer = bitsandbytes.optim.Adam8bit(model.parameters())
    optimizer.step()
    weight = optimizer.state[model.weight]
    assert weight["state1"].dtype == weight["state2"].dtype == torch.uint8
    # Each moment takes one byte, plus one number per block of 256. The bias is small, so its moments have 32 bits.
    states = {tensor.data_ptr(): tensor for state in optimizer.state.values() for tensor in state.values() if torch.is_tensor(tensor)}
    tables = {tensor.data_ptr(): tensor for tensor in optimizer.name2qmap.values()}
    assert held.more() == bytes_of({**states, **tables}.values()), held.more()
    assert 2 * 4096 * 4096 < held.more() < 2.05 * 4096 * 4096


@case(needs=["bitsandbytes"])
def layers_of_8_and_4_bits():
    import bitsandbytes

    for layer, most in [
        (bitsandbytes.nn.Linear8bitLt(1024, 1024, bias=False, has_fp16_weights=False), 1.05),
        (bitsandbytes.nn.Linear4bit(1024, 1024, bias=False, compute_dtype=torch.half), 0.6),
    ]:
        held = Held()
        layer = layer.cuda()
        # Bytes per weight, including the scaling factors.
        assert 0.5 * 1024**2 <= held.more() <= most * 1024**2, held.more()
        y = layer(torch.randn(8, 1024, device="cuda", dtype=torch.half, requires_grad=True))
        assert y.shape == (8, 1024) and y.dtype == torch.half
        y.sum().backward()


@case(needs=["bitsandbytes", "transformers", "accelerate"])
def a_model_that_is_loaded_in_8_bits():
    import tempfile

    from generation import llama
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    with tempfile.TemporaryDirectory() as folder:
        llama().save_pretrained(folder)
        for config in (BitsAndBytesConfig(load_in_8bit=True), BitsAndBytesConfig(load_in_4bit=True)):
            model = AutoModelForCausalLM.from_pretrained(folder, quantization_config=config, device_map={"": 0})
            weight = model.model.layers[0].self_attn.q_proj.weight
            assert weight.is_cuda and weight.dtype in (torch.int8, torch.uint8), weight.dtype
            ids = torch.ones(1, 8, dtype=torch.long, device="cuda")
            assert model(ids).logits.shape[:2] == (1, 8)
            del model
