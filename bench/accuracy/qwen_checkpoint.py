"""Writes a Qwen3.5 text model with zero weights: python3 bench/accuracy/qwen_checkpoint.py 0.8B FOLDER

The folder is a checkpoint that `from_pretrained` of transformers loads. It has the shapes and the type (bfloat16) of the published models.
So a training program needs the same GPU memory, and nothing is downloaded. Needs torch and transformers 5.
"""

import sys

import torch
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

# The published number of parameters, and the sizes in which the models differ.
SIZES = {
    "0.8B": (752_393_024, {"hidden_size": 1024, "intermediate_size": 3584}),
    "2B": (1_881_825_088, {"hidden_size": 2048, "intermediate_size": 6144}),
}


def main():
    """Writes the checkpoint that the command line names."""
    if len(sys.argv) != 3 or sys.argv[1] not in SIZES:
        sys.exit(f"usage: qwen_checkpoint.py {'|'.join(SIZES)} FOLDER")
    parameters, sizes = SIZES[sys.argv[1]]
    config = Qwen3_5TextConfig(
        num_hidden_layers=24,
        num_attention_heads=8,
        num_key_value_heads=2,
        linear_num_value_heads=16,
        tie_word_embeddings=True,
        **sizes,
    )
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("meta"):
        model = Qwen3_5ForCausalLM(config)
    if (found := model.num_parameters()) != parameters:
        sys.exit(f"this transformers makes a model of {found:,} parameters; the published one has {parameters:,}")
    model.to_empty(device="cpu")
    model.tie_weights()
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            tensor.zero_()
    model.save_pretrained(sys.argv[2])


if __name__ == "__main__":
    main()
