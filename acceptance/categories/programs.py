"""Programs whose every allocation has a known category: programs.py FOLDER [PROGRAM ...] records them, on a phantom GPU or any other.

Writes NAME.pickle and NAME.categories.json for each program. The second file has the category of each `alloc` event. It is recorded where a
tensor takes on its role: after the model was moved, in a hook after the gradient was accumulated, from the optimizer's states after its step,
in the hook for saved tensors, and where the program makes its inputs.
"""

import json
import os
import pathlib
import pickle
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

ORDER = ["parameter", "buffer", "optimizer_state", "gradient", "kv_cache", "input", "activation"]


class Roles:
    """The roles of storages: their address, the time, and the category."""

    def __init__(self):
        self.noted, self.in_backward = [], False

    def note(self, tensor, category):
        if tensor.is_sparse:
            self.note(tensor._indices(), category)
            self.note(tensor._values(), category)
        elif tensor.is_cuda:
            self.noted.append((tensor.untyped_storage().data_ptr(), time.time_ns() // 1000, category))

    def model(self, model):
        for parameter in model.parameters():
            self.note(parameter, "parameter")
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(lambda p: self.note(p.grad, "gradient"))
        for buffer in model.buffers():
            self.note(buffer, "buffer")
        return model

    def input(self, *tensors):
        for tensor in tensors:
            self.note(tensor, "input")
        return tensors if len(tensors) > 1 else tensors[0]

    def saving(self):
        def pack(tensor):
            # A tensor that a checkpoint recomputes is needed for a moment only.
            if not self.in_backward:
                self.note(tensor, "activation")
            return tensor

        return torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)

    def backward(self, loss):
        self.in_backward = True
        loss.backward()
        self.in_backward = False

    def step(self, optimizer):
        optimizer.step()
        self.states(optimizer)

    def states(self, optimizer):
        for state in optimizer.state.values():
            for value in state.values():
                if torch.is_tensor(value):
                    self.note(value, "optimizer_state")

    def checkpointed(self, module, x):
        self.note(x, "activation")
        return checkpoint(module, x, use_reentrant=False)

    def of_events(self, trace):
        """The category of each allocation: of several roles, the first in ORDER."""
        events = {}
        for number, event in enumerate(trace):
            if event["action"] == "alloc":
                events.setdefault(event["addr"], []).append((event["time_us"], number))
        found = {}
        for address, when, category in self.noted:
            before = [number for made, number in events.get(address, []) if made <= when]
            if before:
                last = before[-1]
                found[last] = min(found.get(last, category), category, key=ORDER.index)
        numbers = (number for number, event in enumerate(trace) if event["action"] == "alloc")
        return [[number, found.get(number, "other")] for number in numbers]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, w))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Transformer(nn.Module):
    def __init__(self, roles, width=512, layers=6, words=8000, checkpoints=False):
        super().__init__()
        self.roles, self.checkpoints = roles, checkpoints
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, 8) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, words):
        x = self.embedding(words)
        for block in self.blocks:
            x = self.roles.checkpointed(block, x) if self.checkpoints else block(x)
        return self.head(self.norm(x))


class Convolutions(nn.Module):
    def __init__(self, width=48, classes=100):
        super().__init__()
        layers, before = [], 3
        for after in (width, 2 * width, 4 * width):
            layers += [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
            layers += [nn.MaxPool2d(2)]
            before = after
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(before, classes)

    def forward(self, images):
        return self.head(self.layers(images).mean((2, 3)))


def words(roles, batch=8, length=256):
    return roles.input(torch.randint(0, 8000, (batch, length), device="cuda"))


def images(roles, batch=32, size=64):
    data = torch.randn(batch, 3, size, size, device="cuda"), torch.randint(0, 100, (batch,), device="cuda")
    return roles.input(*data)


def next_word(model, ids):
    return F.cross_entropy(model(ids).flatten(0, 1).float(), ids.flatten())


def language(optimizer, steps=3, dtype=None, checkpoints=False, accumulate=1, clip=False, batch=8, length=256):
    def run(roles):
        model = roles.model(Transformer(roles, checkpoints=checkpoints).to("cuda", dtype))
        steps_of = optimizer(model.parameters())
        for _ in range(steps):
            for _ in range(accumulate):
                with roles.saving():
                    loss = next_word(model, words(roles, batch, length)) / accumulate
                roles.backward(loss)
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            roles.step(steps_of)
            steps_of.zero_grad()

    return run


def autocast(roles):
    model = roles.model(Transformer(roles).cuda())
    optimizer, scaler = torch.optim.AdamW(model.parameters()), torch.amp.GradScaler("cuda")
    for _ in range(3):
        optimizer.zero_grad()
        with roles.saving(), torch.autocast("cuda", torch.float16):
            loss = next_word(model, words(roles))
        roles.backward(scaler.scale(loss))
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        roles.states(optimizer)
        scaler.update()


def vision(optimizer, steps=4, zero_first=False, to_none=True, batch=32):
    def run(roles):
        model = roles.model(Convolutions().cuda())
        steps_of = optimizer(model.parameters())
        for _ in range(steps):
            x, y = images(roles, batch)
            if zero_first:
                steps_of.zero_grad(set_to_none=to_none)
            with roles.saving():
                loss = F.cross_entropy(model(x), y)
            roles.backward(loss)
            roles.step(steps_of)
            if not zero_first:
                steps_of.zero_grad(set_to_none=to_none)

    return run


def with_evaluation(roles):
    model, losses = roles.model(Convolutions().cuda()), []
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for _ in range(2):
        model.train()
        for _ in range(3):
            x, y = images(roles)
            with roles.saving():
                loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            roles.backward(loss)
            roles.step(optimizer)
            losses.append(loss.detach())
        model.eval()
        with torch.no_grad():
            for _ in range(3):
                x, y = images(roles)
                losses.append(F.cross_entropy(model(x), y))


def recurrent(kind, optimizer):
    def run(roles):
        model = nn.ModuleList([nn.Embedding(8000, 256), kind(256, 512, 2, batch_first=True), nn.Linear(512, 8000)])
        roles.model(model.cuda())
        steps_of = optimizer(model.parameters())
        for _ in range(3):
            ids = words(roles, 8, 24)
            with roles.saving():
                x, state = model[0](ids), None
                for at in range(ids.shape[1]):
                    y, state = model[1](x[:, at : at + 1], state)
                loss = F.cross_entropy(model[2](y[:, 0]), ids[:, 0])
            roles.backward(loss)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            roles.step(steps_of)
            steps_of.zero_grad()

    return run


def adversarial(roles):
    generator = roles.model(nn.Sequential(nn.Linear(128, 1024), nn.ReLU(), nn.Linear(1024, 3 * 64 * 64), nn.Tanh()).cuda())
    judge = roles.model(nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, 1024), nn.LeakyReLU(), nn.Linear(1024, 1)).cuda())
    of_judge, of_generator = torch.optim.RMSprop(judge.parameters()), torch.optim.RMSprop(generator.parameters())
    for _ in range(3):
        real, noise = roles.input(torch.randn(64, 3 * 64 * 64, device="cuda"), torch.randn(64, 128, device="cuda"))
        with roles.saving():
            fake = generator(noise)
            loss = F.softplus(-judge(real)).mean() + F.softplus(judge(fake.detach())).mean()
        of_judge.zero_grad()
        roles.backward(loss)
        roles.step(of_judge)
        with roles.saving():
            loss = F.softplus(-judge(fake)).mean()
        of_generator.zero_grad()
        roles.backward(loss)
        roles.step(of_generator)


def frozen(roles):
    body, head = Convolutions().cuda().requires_grad_(False), nn.Linear(100, 10).cuda()
    roles.model(body), roles.model(head)
    optimizer = torch.optim.Adam(head.parameters())
    for _ in range(4):
        x, y = images(roles)
        with roles.saving():
            loss = F.cross_entropy(head(body(x)), y % 10)
        optimizer.zero_grad()
        roles.backward(loss)
        roles.step(optimizer)


def averaged(roles):
    model = roles.model(Transformer(roles, layers=3).cuda())
    average = torch.optim.swa_utils.AveragedModel(model)
    for parameter in average.parameters():
        roles.note(parameter, "parameter")
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        with roles.saving():
            loss = next_word(model, words(roles))
        optimizer.zero_grad()
        roles.backward(loss)
        roles.step(optimizer)
        average.update_parameters(model)


def autoencoder(roles):
    down = [nn.Conv2d(3, 64, 4, 2, 1), nn.GroupNorm(8, 64), nn.SiLU(), nn.Conv2d(64, 128, 4, 2, 1), nn.GroupNorm(8, 128), nn.SiLU()]
    up = [nn.ConvTranspose2d(128, 64, 4, 2, 1), nn.SiLU(), nn.ConvTranspose2d(64, 3, 4, 2, 1)]
    model = roles.model(nn.Sequential(*down, *up).cuda())
    optimizer = torch.optim.NAdam(model.parameters())
    for _ in range(3):
        x = images(roles, 16, 128)[0]
        with roles.saving():
            loss = F.mse_loss(model(x), x)
        roles.backward(loss)
        roles.step(optimizer)
        optimizer.zero_grad()


@torch.no_grad()
def inference(roles):
    model = roles.model(Transformer(roles).cuda().eval())
    for _ in range(6):
        model(words(roles, 16)).argmax(-1)


@torch.no_grad()
def classification(roles):
    model = roles.model(Convolutions().half().cuda().eval())
    for batch in (8, 32, 64, 16):
        model(images(roles, batch)[0].half())


def distilled(roles):
    teacher = roles.model(Convolutions(96).cuda().eval().requires_grad_(False))
    model = roles.model(Convolutions().cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, nesterov=True)
    for _ in range(4):
        x, y = images(roles)
        with torch.no_grad():
            wanted = teacher(x).softmax(-1)
        with roles.saving():
            found = model(x)
            loss = F.cross_entropy(found, y) + F.kl_div(found.log_softmax(-1), wanted, reduction="batchmean")
        roles.backward(loss)
        roles.step(optimizer)
        optimizer.zero_grad()


def two_towers(roles):
    pictures, texts = Convolutions(64, 256).cuda(), Transformer(roles, 256, 3).cuda()
    roles.model(pictures), roles.model(texts)
    optimizer = torch.optim.AdamW([*pictures.parameters(), *texts.parameters()])
    for _ in range(3):
        x, ids = images(roles)[0], words(roles, 32, 32)
        with roles.saving(), torch.autocast("cuda", torch.bfloat16):
            scores = F.normalize(pictures(x)) @ F.normalize(texts(ids).mean(1)[:, :256]).T
            loss = F.cross_entropy(scores, torch.arange(32, device="cuda"))
        optimizer.zero_grad()
        roles.backward(loss)
        roles.step(optimizer)


def two_losses(roles):
    body, heads = Convolutions(64, 256).cuda(), nn.ModuleList(nn.Linear(256, 50) for _ in range(2)).cuda()
    roles.model(body), roles.model(heads)
    optimizer = torch.optim.Adam([*body.parameters(), *heads.parameters()])
    for _ in range(3):
        x, y = images(roles)
        with roles.saving():
            found = body(x)
            losses = [F.cross_entropy(head(found), y % 50) for head in heads]
        optimizer.zero_grad()
        roles.in_backward = True
        losses[0].backward(retain_graph=True)
        losses[1].backward()
        roles.in_backward = False
        roles.step(optimizer)


def truncated(roles):
    model = roles.model(nn.LSTM(512, 1024, 3, batch_first=True).cuda())
    optimizer, state = torch.optim.Adadelta(model.parameters()), None
    for _ in range(5):
        x = roles.input(torch.randn(32, 20, 512, device="cuda"))
        with roles.saving():
            y, state = model(x, state)
            loss = y.square().mean()
        state = tuple(part.detach() for part in state)
        optimizer.zero_grad()
        roles.backward(loss)
        nn.utils.clip_grad_value_(model.parameters(), 1.0)
        roles.step(optimizer)


def denoised(roles):
    down = [nn.Conv2d(4, 128, 3, 1, 1), nn.GroupNorm(8, 128), nn.SiLU(), nn.Conv2d(128, 256, 4, 2, 1), nn.SiLU()]
    up = [nn.Upsample(scale_factor=2), nn.Conv2d(256, 128, 3, 1, 1), nn.GroupNorm(8, 128), nn.SiLU(), nn.Conv2d(128, 4, 3, 1, 1)]
    model = roles.model(nn.Sequential(*down, *up).cuda())
    optimizer = torch.optim.AdamW(model.parameters(), amsgrad=True)
    for _ in range(3):
        x, noise = roles.input(torch.randn(16, 4, 64, 64, device="cuda"), torch.randn(16, 4, 64, 64, device="cuda"))
        with roles.saving(), torch.autocast("cuda", torch.float16):
            loss = F.mse_loss(model(x + noise), noise)
        optimizer.zero_grad()
        roles.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        roles.step(optimizer)


def long_training(roles):
    model = roles.model(Transformer(roles, 256, 2, checkpoints=True).cuda())
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    scheduler, losses = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20), []
    for step in range(20):
        with roles.saving():
            loss = next_word(model, words(roles, 4, 128 + 16 * (step % 5)))
        roles.backward(loss)
        roles.step(optimizer)
        optimizer.zero_grad()
        scheduler.step()
        losses.append(loss.item())
        if step % 5 == 4:
            with torch.no_grad():
                next_word(model, words(roles, 16, 128))


def momentum(parameters):
    return torch.optim.SGD(parameters, 0.1, momentum=0.9)


optim = torch.optim
PROGRAMS = {
    "adamw_bfloat16": language(optim.AdamW, dtype=torch.bfloat16),
    "autocast_scaler": autocast,
    "checkpointed": language(optim.AdamW, checkpoints=True),
    "accumulated": language(optim.AdamW, accumulate=4, batch=4),
    "one_by_one": language(lambda p: optim.Adam(p, foreach=False)),
    "fused": language(lambda p: optim.AdamW(p, fused=True), clip=True),
    "clipped_lion": language(lambda p: optim.RMSprop(p, momentum=0.9), clip=True),
    "long_batch": language(momentum, batch=2, length=1024),
    "plain_sgd": vision(lambda p: optim.SGD(p, 0.1)),
    "zeroed_grads": vision(optim.AdamW, zero_first=True, to_none=False),
    "adamax": vision(optim.Adamax, zero_first=True),
    "large_batch": vision(momentum, batch=96),
    "with_evaluation": with_evaluation,
    "lstm_adagrad": recurrent(nn.LSTM, optim.Adagrad),
    "gru_adam": recurrent(nn.GRU, optim.Adam),
    "adversarial": adversarial,
    "frozen_body": frozen,
    "averaged": averaged,
    "autoencoder_nadam": autoencoder,
    "distilled": distilled,
    "two_towers": two_towers,
    "two_losses": two_losses,
    "truncated": truncated,
    "denoised": denoised,
    "long_training": long_training,
    "inference": inference,
    "classification": classification,
}


def record(program, name, folder):
    roles = Roles()
    torch.cuda.memory._record_memory_history(stacks="python")
    program(roles)
    torch.cuda.synchronize()
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    (folder / f"{name}.pickle").write_bytes(pickle.dumps(snapshot))
    tags = {"name": name, "torch": torch.__version__, "allocations": roles.of_events(snapshot["device_traces"][0])}
    (folder / f"{name}.categories.json").write_text(json.dumps(tags))


def main(programs):
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    for name in sys.argv[2:] or programs:
        # In a process of its own, so that the allocator is new.
        if (process := os.fork()) == 0:
            record(programs[name], name, folder)
            os._exit(0)
        if os.waitpid(process, 0)[1] != 0:
            sys.exit(f"{name} failed")


if __name__ == "__main__":
    main(PROGRAMS)
