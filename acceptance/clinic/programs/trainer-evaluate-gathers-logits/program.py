import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Passages(Dataset):
    def __init__(self, count, length=128, vocab=50257):
        generator = torch.Generator().manual_seed(count)
        self.tokens = torch.randint(0, vocab, (count, length), generator=generator)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


def token_accuracy(prediction):
    guesses = prediction.predictions
    if guesses.ndim == 3:
        guesses = guesses.argmax(-1)
    return {"accuracy": float(np.mean(guesses[:, :-1] == prediction.label_ids[:, 1:]))}


def main():
    config = GPT2Config(n_embd=256, n_layer=2, n_head=4, n_positions=128)
    model = GPT2LMHeadModel(config)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=4,
            per_device_eval_batch_size=4,
            max_steps=3,
            report_to=[],
            disable_tqdm=True,
            save_strategy="no",
        )
        trainer = Trainer(
            model=model,
            args=arguments,
            train_dataset=Passages(32),
            eval_dataset=Passages(160),
            compute_metrics=token_accuracy,
        )
        trainer.train()
        trainer.evaluate()


if __name__ == "__main__":
    main()
