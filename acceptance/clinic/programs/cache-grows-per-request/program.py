import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM


def load_model():
    config = LlamaConfig(
        vocab_size=32000, hidden_size=2560, intermediate_size=4096, num_hidden_layers=2,
        num_attention_heads=20, num_key_value_heads=20, max_position_embeddings=8192,
    )
    with torch.device("cuda"):
        return LlamaForCausalLM(config).half().eval()


@torch.inference_mode()
def generate(model, prompt, new_tokens):
    cache = DynamicCache(config=model.config)
    tokens = prompt
    produced = []
    for _ in range(new_tokens):
        output = model(tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)
        tokens = output.logits[:, -1].argmax(dim=-1, keepdim=True)
        produced.append(tokens)
    return torch.cat(produced, dim=1).cpu()


def serve(requests):
    model = load_model()
    for number in range(requests):
        prompt = torch.randint(0, 32000, (32, 384 + 128 * (number % 3))).cuda()
        answer = generate(model, prompt, new_tokens=5)
        print("request", number, tuple(answer.shape))


if __name__ == "__main__":
    serve(requests=4)
