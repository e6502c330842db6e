"""Train low-rank adapters (PEFT's LoRA) on a GPT-2 from transformers, whose random weights are frozen."""

import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

import measure

BATCH = 4
LENGTH = 128


def lora(iterations):
    config = GPT2Config(n_layer=6, n_head=8, n_embd=512)
    model = get_peft_model(GPT2LMHeadModel(config), LoraConfig(r=8, target_modules=["c_attn"], fan_in_fan_out=True)).cuda()
    optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad])
    for _ in range(iterations):
        ids = torch.randint(config.vocab_size, (BATCH, LENGTH), device="cuda")
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    measure.main(lora, iterations=3)
