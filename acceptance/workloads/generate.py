"""Generate tokens with a Llama model from transformers (random weights), and keep its key-value cache."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import measure

BATCH = 4
PROMPT = 64


def generate(iterations):
    config = LlamaConfig(
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=8,
        num_attention_heads=16,
        num_key_value_heads=4,
        vocab_size=32000,
        pad_token_id=0,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config).cuda().eval()
    for _ in range(iterations):
        ids = torch.randint(1, config.vocab_size, (BATCH, PROMPT), device="cuda")
        model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=32, do_sample=False)


if __name__ == "__main__":
    measure.main(generate, iterations=2)
