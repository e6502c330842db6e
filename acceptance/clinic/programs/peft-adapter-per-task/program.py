import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM


def load_base():
    config = LlamaConfig(
        vocab_size=16000,
        hidden_size=2048,
        intermediate_size=5632,
        num_hidden_layers=2,
        num_attention_heads=16,
        num_key_value_heads=4,
    )
    return LlamaForCausalLM(config)


def lora(rank=512):
    return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=["q_proj", "v_proj", "up_proj", "down_proj"], task_type="CAUSAL_LM")


def tune(model, steps=1):
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=2e-4)
    for _ in range(steps):
        tokens = torch.randint(0, 16000, (2, 128), device="cuda")
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def main(tasks=10):
    model = get_peft_model(load_base().cuda(), lora(), adapter_name="task0")
    for task in range(tasks):
        if task > 0:
            model.add_adapter(f"task{task}", lora())
            model.set_adapter(f"task{task}")
        tune(model)
        print("tuned task", task)


main()
