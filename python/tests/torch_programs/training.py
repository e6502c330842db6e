"""Small training programs; each ends after a few steps."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

STEPS = int(os.environ.get("STEPS", "4"))


def mlp(
    optimizer: type[torch.optim.Optimizer], keep_gradients: bool = False, amp: bool = False, late: bool = False
) -> Callable:
    def program(begin: Callable[..., None]) -> None:
        model = nn.Sequential(
            nn.Linear(512, 2048),
            nn.BatchNorm1d(2048),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(2048, 2048),
            nn.GELU(),
            nn.Linear(2048, 10),
        ).cuda()
        steps = optimizer(model.parameters(), lr=0.01)
        for number in range(STEPS):
            if number == int(late):
                begin(model, steps)
            steps.zero_grad(set_to_none=not keep_gradients)
            data = torch.randn(256, 512, device="cuda")
            labels = torch.randint(10, (256,), device="cuda")
            with torch.autocast("cuda", enabled=amp):
                loss = F.cross_entropy(model(data), labels)
            loss.backward()
            steps.step()

    return program


def gan(begin: Callable[..., None]) -> None:
    generator = nn.Sequential(nn.Linear(64, 1024), nn.LeakyReLU(0.2), nn.Linear(1024, 4096), nn.Tanh()).cuda()
    critic = nn.Sequential(nn.Linear(4096, 1024), nn.LeakyReLU(0.2), nn.Linear(1024, 1)).cuda()
    of_generator = torch.optim.Adam(generator.parameters())
    of_critic = torch.optim.Adam(critic.parameters())
    begin([generator, critic], [of_generator, of_critic])
    for _ in range(STEPS):
        real = torch.randn(128, 4096, device="cuda")
        fake = generator(torch.randn(128, 64, device="cuda"))
        of_critic.zero_grad()
        loss = F.softplus(-critic(real)).mean() + F.softplus(critic(fake.detach())).mean()
        loss.backward()
        of_critic.step()
        of_generator.zero_grad()
        F.softplus(-critic(fake)).mean().backward()
        of_generator.step()


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.into = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        query, key, value = (
            part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.into(x).chunk(3, dim=-1)
        )
        x = F.scaled_dot_product_attention(query, key, value, dropout_p=0.1, is_causal=True)
        x = x.transpose(1, 2)
        return self.out(x.reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, 8)
        self.norm2 = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, words: int = 5000, width: int = 256, layers: int = 4) -> None:
        super().__init__()
        self.tokens = nn.Embedding(words, width)
        self.positions = nn.Embedding(256, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.scores = nn.Linear(width, words, bias=False)
        self.scores.weight = self.tokens.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.size(1), device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.scores(self.norm(x))


def gpt(late: bool = False, train: str = "") -> Callable:
    def program(begin: Callable[..., None]) -> None:
        model = Gpt().cuda()
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(train in name)
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
        for number in range(STEPS):
            if number == int(late):
                begin(model, optimizer)
            ids = torch.randint(5000, (8, 64 * (1 + number % 3)), device="cuda")
            scores = model(ids)
            loss = F.cross_entropy(scores[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return program


def resnet50(begin: Callable[..., None]) -> None:
    # The model used by the phantom GPU programs.
    sys.path.append(str(Path(__file__).parents[3] / "acceptance/workloads"))
    from resnet50 import ResNet50

    model = ResNet50().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    begin(model, optimizer)
    for _ in range(STEPS):
        images, labels = torch.randn(8, 3, 128, 128, device="cuda"), torch.randint(1000, (8,), device="cuda")
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()


def lora(begin: Callable[..., None]) -> None:
    """PEFT's low-rank adapters in a transformers GPT-2."""
    from peft import LoraConfig, get_peft_model
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=4, n_head=8, n_embd=256)
    gpt2 = GPT2LMHeadModel(config)
    model = get_peft_model(gpt2, LoraConfig(r=8, target_modules=["c_attn"], fan_in_fan_out=True)).cuda()
    optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad])
    begin(model, optimizer)
    for _ in range(STEPS):
        ids = torch.randint(config.vocab_size, (4, 128), device="cuda")
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def irregular(surprise: int | None = None) -> Callable:
    """Accumulates the gradients of three batches. Some batches are larger, and some steps skip a part of the model for
    evaluation. At most one step has an unexpected penalty."""

    def program(begin: Callable[..., None]) -> None:
        model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Dropout(0.1), nn.Linear(512, 10)).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        begin(model, optimizer)
        for number in range(STEPS):
            data = torch.randn(96 if number % 9 == 4 else 64, 256, device="cuda")
            loss = model(data).square().mean()
            if number == surprise:
                loss = loss + sum(weight.square().sum() for weight in model.parameters())
            loss.backward()
            if number % 3 == 2:
                optimizer.step()
                optimizer.zero_grad()
            if number % 9 == 8:
                with torch.no_grad():
                    model.eval()(torch.randn(128, 256, device="cuda"))
                model.train()

    return program


PROGRAMS: dict[str, Callable[[Callable[..., None]], None]] = {
    "mlp-adam": mlp(torch.optim.Adam),
    "mlp-adam-late": mlp(torch.optim.Adam, late=True),
    "mlp-sgd-keepgrads": mlp(torch.optim.SGD, keep_gradients=True),
    "mlp-amp": mlp(torch.optim.Adam, amp=True),
    "gan-adam": gan,
    "gpt-adamw": gpt(),
    "gpt-adamw-late": gpt(late=True),
    "gpt-part": gpt(train="attention"),
    "resnet50-sgd": resnet50,
    "lora-adamw": lora,
    "irregular": irregular(),
    "surprise": irregular(surprise=85),
}
