"""Programs of the check: `program.py NAME` runs one."""

import copy
import io
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

GPU = "cuda"


def sequential(*widths):
    layers = [layer for pair in zip(widths, widths[1:]) for layer in (nn.Linear(*pair), nn.GELU())]
    return nn.Sequential(*layers[:-1]).to(GPU)


def steps(parameters, loss_of, optimizer=torch.optim.AdamW, **options):
    """Three training steps that print the loss, as most programs do."""
    optimizer = optimizer(list(parameters), **options)
    for _ in range(3):
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())


def randn(*shape):
    return torch.randn(*shape, device=GPU)


def labels(count, *shape):
    return torch.randint(0, count, shape, device=GPU)


class LanguageModel(nn.Module):
    def __init__(self, width=256, words=1000):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(512, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, norm_first=True)
        self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(2))
        self.head = nn.Linear(width, words)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.size(1), device=ids.device))
        mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1), device=ids.device)
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=True)
        return self.head(x)


def next_word_loss(model):
    ids = labels(1000, 4, 128)
    return F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


# ---- ordinary programs ----


def mlp():
    model = sequential(784, 1024, 10)
    steps(model.parameters(), lambda: F.cross_entropy(model(randn(64, 784)), labels(10, 64)))


def encoder():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True), 2).to(GPU)
    padding = torch.zeros(8, 64, dtype=torch.bool, device=GPU)
    padding[0, 50:] = True
    steps(model.parameters(), lambda: model(randn(8, 64, 256), src_key_padding_mask=padding).square().mean())


def causal_lm():
    model = LanguageModel().to(GPU)
    steps(model.parameters(), lambda: next_word_loss(model))


def lora():
    model = LanguageModel().to(GPU).requires_grad_(False)
    low, high = nn.Linear(256, 8, bias=False).to(GPU), nn.Linear(8, 256, bias=False).to(GPU)
    model.words.register_forward_hook(lambda module, arguments, result: result + high(low(result)))
    steps([*low.parameters(), *high.parameters()], lambda: next_word_loss(model))


def gan():
    maker, critic = sequential(64, 256, 784), sequential(784, 256, 1)
    of_maker, of_critic = torch.optim.Adam(maker.parameters()), torch.optim.Adam(critic.parameters())
    for _ in range(3):
        made = maker(randn(64, 64))
        loss = F.softplus(critic(made.detach())).mean() + F.softplus(-critic(randn(64, 784))).mean()
        of_critic.zero_grad()
        loss.backward()
        of_critic.step()
        of_maker.zero_grad()
        F.softplus(-critic(made)).mean().backward()
        of_maker.step()
        print(loss.item())


def vae():
    encode, decode = sequential(784, 256, 64), sequential(32, 256, 784)

    def loss():
        x = randn(64, 784)
        mean, log = encode(x).chunk(2, dim=1)
        again = decode(mean + torch.randn_like(mean) * log.exp())
        return F.mse_loss(again, x) + (mean.square() + log.exp() - log).mean()

    steps([*encode.parameters(), *decode.parameters()], loss)


def autoencoder():
    model = sequential(784, 128, 784)
    steps(model.parameters(), lambda: F.mse_loss(model(randn(32, 784)), randn(32, 784)), torch.optim.RMSprop)


def contrastive():
    images, texts = sequential(512, 256, 128), sequential(300, 256, 128)

    def loss():
        scores = F.normalize(images(randn(32, 512)), dim=1) @ F.normalize(texts(randn(32, 300)), dim=1).T
        return F.cross_entropy(scores, torch.arange(32, device=GPU))

    steps([*images.parameters(), *texts.parameters()], loss)


def q_learning():
    model = sequential(8, 128, 4)
    frozen = copy.deepcopy(model)

    def loss():
        state, following = randn(32, 8), randn(32, 8)
        action = model(state).argmax(1, keepdim=True)
        best = frozen(following).max(1).values.detach()
        return F.mse_loss(model(state).gather(1, action).squeeze(1), best)

    steps(model.parameters(), loss)


def diffusion():
    model = sequential(65, 256, 64)
    noise = torch.linspace(0.01, 0.99, 100, device=GPU)

    def loss():
        t = labels(100, 32)
        x, error, kept = randn(32, 64), randn(32, 64), noise[t].unsqueeze(1)
        return F.mse_loss(model(torch.cat([kept.sqrt() * x + (1 - kept).sqrt() * error, kept], dim=1)), error)

    steps(model.parameters(), loss)


def accumulation():
    model = sequential(256, 512, 10)

    def loss():
        parts = [F.cross_entropy(model(randn(16, 256)), labels(10, 16)) for _ in range(4)]
        return sum(parts) / len(parts)

    steps(model.parameters(), loss)


def scaler():
    model = sequential(256, 512, 10)
    optimizer, scaling = torch.optim.AdamW(model.parameters()), torch.amp.GradScaler()
    for _ in range(3):
        with torch.autocast("cuda", torch.float16):
            loss = F.cross_entropy(model(randn(32, 256)), labels(10, 32))
        optimizer.zero_grad()
        scaling.scale(loss).backward()
        scaling.unscale_(optimizer)
        print(nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        scaling.step(optimizer)
        scaling.update()


def checkpointing():
    layers = [sequential(256, 1024, 256) for _ in range(4)]

    def loss():
        x = randn(64, 256)
        for layer in layers:
            x = x + checkpoint(layer, x, use_reentrant=False)
        return x.square().mean()

    steps([parameter for layer in layers for parameter in layer.parameters()], loss)


def moving_average():
    model = sequential(256, 512, 10)
    average = torch.optim.swa_utils.AveragedModel(model)

    def loss():
        average.update_parameters(model)
        return F.cross_entropy(model(randn(32, 256)), labels(10, 32))

    steps(model.parameters(), loss)


def momentum():
    model = sequential(256, 512, 10)
    steps(model.parameters(), lambda: model(randn(32, 256)).square().mean(), torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True)


def graph_network():
    model, read = sequential(64, 128, 64), nn.Linear(64, 7).to(GPU)
    ends = torch.randint(0, 100, (2, 400)).to(GPU)

    def loss():
        x = randn(100, 64)
        sums = torch.zeros_like(x).index_add_(0, ends[1], model(x)[ends[0]])
        degree = torch.bincount(ends[1], minlength=100).clamp(min=1).unsqueeze(1)
        return F.cross_entropy(read(sums / degree), labels(7, 100))

    steps([*model.parameters(), *read.parameters()], loss)


def retrieval():
    with torch.no_grad():
        index, query = F.normalize(randn(5000, 128), dim=1), randn(16, 128)
        best = (query @ index.T).topk(10)
        print(best.values.cpu().shape, index[best.indices].mean().item())


def distillation():
    teacher, student = sequential(128, 1024, 10), sequential(128, 64, 10)

    def loss():
        x = randn(32, 128)
        with torch.no_grad():
            wanted = teacher(x).softmax(1)
        return F.kl_div(student(x).log_softmax(1), wanted, reduction="batchmean")

    steps(student.parameters(), loss)


def inference():
    model = LanguageModel().to(GPU).eval()
    ids = labels(1000, 2, 16)
    with torch.inference_mode():
        for _ in range(8):
            ids = torch.cat([ids, model(ids)[:, -1:].argmax(-1)], dim=1)
    print(ids.tolist())


def offloading():
    model = sequential(256, 2048, 10)

    def loss():
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            return model(randn(64, 256)).square().mean()

    steps(model.parameters(), loss)


# ---- programs with unknowns ----


def experts():
    """A loop over experts: how many tokens each has depends on computed scores."""
    gate, all_experts = nn.Linear(256, 8, bias=False).to(GPU), [sequential(256, 2048, 256) for _ in range(8)]

    def loss():
        x = randn(4096, 256)
        weights, chosen = gate(x).softmax(-1).topk(2)
        result = torch.zeros_like(x)
        for number, expert in enumerate(all_experts):
            tokens, place = torch.where(chosen == number)
            result.index_add_(0, tokens, expert(x[tokens]) * weights[tokens, place, None])
        return result.square().mean()

    steps([*gate.parameters(), *(p for expert in all_experts for p in expert.parameters())], loss)


def mask():
    scores = randn(1 << 22)
    print(scores[scores > 0.5].shape)


def side_stream():
    """Memory that a side stream uses is freed before the GPU is done with it."""
    side = torch.cuda.Stream()
    for _ in range(4):
        x = randn(1 << 25)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x.sum()
        x.record_stream(side)
        del x
    torch.cuda.synchronize()


def endless():
    while True:
        randn(1 << 20)
        time.sleep(0.01)


# ---- programs that need known values ----


def resumed_adamw():
    """A checkpoint is loaded to the GPU, with the step counters of its optimizer."""

    def made():
        model = sequential(256, 256, 10)
        return model, torch.optim.AdamW(model.parameters())

    model, optimizer = made()
    model(randn(8, 256)).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    torch.save((model.state_dict(), optimizer.state_dict()), file)
    file.seek(0)
    states = torch.load(file, map_location=GPU)
    model, optimizer = made()
    model.load_state_dict(states[0])
    optimizer.load_state_dict(states[1])
    for state in optimizer.state.values():
        state["step"] = state["step"].to(GPU)
    model(randn(8, 256)).sum().backward()
    optimizer.step()
    assert optimizer.state[next(model.parameters())]["step"].item() == 2


def batched_cache():
    """Each row of a cache has its own length."""
    keys = torch.zeros(4, 2, 64, 32, device=GPU)
    lengths = torch.tensor([3, 7, 1, 5], device=GPU)
    keys[torch.arange(4, device=GPU), :, lengths] = randn(4, 2, 32)
    lengths += 1
    longest = int(lengths.max())
    valid = torch.arange(longest, device=GPU)[None] < lengths[:, None]
    assert longest == 8 and len(valid.nonzero()) == 20
    assert [keys[row, :, :count].size(1) for row, count in enumerate(lengths.tolist())] == [4, 8, 2, 6]


def packed_lengths():
    """Sequences without padding, with the positions where they begin."""
    ends = torch.tensor([0, 5, 14, 30], device=GPU, dtype=torch.int32)
    lengths = ends.diff()
    x = randn(int(ends[-1]), 64)
    places = torch.repeat_interleave(torch.arange(3, device=GPU), lengths)
    padded = torch.zeros(3, int(lengths.max()), 64, device=GPU)
    within = torch.arange(len(x), device=GPU) - ends[:-1].long()[places]
    padded[places, within] = x
    assert padded.shape == (3, 16, 64) and [len(part) for part in x.split(lengths.tolist())] == [5, 9, 16]


def equal_to_one():
    """A fused loss skips its multiplication if the incoming gradient is one."""

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            context.save_for_backward(x)
            return x.sum()

        @staticmethod
        def backward(context, gradient):
            (x,) = context.saved_tensors
            is_one = torch.equal(gradient, torch.tensor(1.0, device=gradient.device))
            assert is_one
            return torch.ones_like(x) if is_one else gradient * x

    Scaled.apply(randn(1000).requires_grad_()).backward()


def nonzero():
    print(list(randn(10, 10).gt(0).nonzero().shape))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
