import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments


class Reviews(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        return {"input_ids": torch.full((64,), 1 + index % 100), "labels": index % 2}


class GradientStatistics(TrainerCallback):
    """Keeps what is needed to plot gradient histograms by layer."""

    def __init__(self):
        self.history = {}

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        for name, parameter in model.named_parameters():
            if parameter.grad is not None and parameter.ndim > 1:
                self.history.setdefault(name, []).append(parameter.grad.flatten())


def main():
    config = BertConfig(hidden_size=1024, num_hidden_layers=1, num_attention_heads=8, intermediate_size=4096, vocab_size=8000)
    model = BertForSequenceClassification(config)
    statistics = GradientStatistics()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=8,
            max_steps=40,
            report_to=[],
            disable_tqdm=True,
            save_strategy="no",
        )
        trainer = Trainer(model=model, args=arguments, train_dataset=Reviews(), callbacks=[statistics])
        trainer.train()
    for name, gradients in statistics.history.items():
        print(name, len(gradients))


if __name__ == "__main__":
    main()
