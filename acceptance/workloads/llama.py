"""Train a Llama model from transformers (random weights) with AdamW on sequences whose length varies from step to step."""

import os
import random

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import measure

BATCH = 2
# LENGTHS=512 makes all sequences equally long.
LENGTHS = [int(length) for length in os.environ.get("LENGTHS", "256,384,512,640,768,896").split(",")]


def llama(iterations):
    chance = random.Random(0)
    config = LlamaConfig(
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=8,
        num_attention_heads=16,
        num_key_value_heads=4,
        vocab_size=32000,
        pad_token_id=0,
        use_cache=False,
    )
    model = LlamaForCausalLM(config).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(iterations):
        ids = torch.randint(1, config.vocab_size, (BATCH, chance.choice(LENGTHS)), device="cuda")
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    measure.main(llama, iterations=8)
