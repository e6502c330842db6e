"""Twenty more programs whose every allocation has a known category: unseen.py FOLDER [PROGRAM ...], as programs.py.

They were written after the rules that infer categories without stacks, and measure how these rules do on programs of other kinds.
"""

import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from programs import main, momentum


def normal(roles, *shape):
    return roles.input(torch.randn(*shape, device="cuda"))


def numbers(roles, most, *shape):
    return roles.input(torch.randint(0, most, shape, device="cuda"))


def train(roles, optimizer, loss_of, steps=4, clip=None):
    for _ in range(steps):
        with roles.saving():
            loss = loss_of()
        optimizer.zero_grad()
        roles.backward(loss)
        if clip:
            nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], clip)
        roles.step(optimizer)


class Residual(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after),
        )  # fmt: skip
        self.skip = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


def residual_network(width=64, classes=100):
    blocks = [Residual(3, width, 2), Residual(width, 2 * width, 2), Residual(2 * width, 4 * width, 2)]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, classes))


class Encoder(nn.Module):
    """A transformer of PyTorch's own layers over tokens or patches."""

    def __init__(self, width=384, layers=4, dropout=0.0, words=6000, out=6000):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, width // 64, 4 * width, dropout, batch_first=True, norm_first=True) for _ in range(layers)
        )
        self.head = nn.Linear(width, out)

    def hidden(self, ids):
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        return x

    def forward(self, ids):
        return self.head(self.hidden(ids))


class UNet(nn.Module):
    def __init__(self, channels=4, width=64, levels=3):
        super().__init__()
        sizes = [width << level for level in range(levels)]
        self.first = nn.Conv2d(channels, width, 3, 1, 1)
        self.down = nn.ModuleList(nn.Conv2d(a, b, 4, 2, 1) for a, b in zip(sizes, sizes[1:]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 4, 2, 1) for a, b in zip(sizes, sizes[1:]))
        self.join = nn.ModuleList(nn.Conv2d(2 * a, a, 3, 1, 1) for a in sizes[:-1])
        self.last = nn.Conv2d(width, channels, 3, 1, 1)

    def forward(self, x):
        x, skips = F.silu(self.first(x)), []
        for down in self.down:
            skips.append(x)
            x = F.silu(down(x))
        for up, join in zip(reversed(self.up), reversed(self.join)):
            x = F.silu(join(torch.cat([up(x), skips.pop()], 1)))
        return self.last(x)


@torch.inference_mode()
def image_inference(roles):
    model = roles.model(residual_network().cuda().eval())
    for _ in range(8):
        model(normal(roles, 32, 3, 96, 96)).softmax(-1)


def tagger(roles):
    model = nn.ModuleList([nn.Embedding(6000, 200), nn.LSTM(200, 300, 2, batch_first=True, bidirectional=True), nn.Linear(600, 40)])
    roles.model(model.cuda())

    def loss():
        words, wanted = numbers(roles, 6000, 32, 40), numbers(roles, 40, 32, 40)
        return F.cross_entropy(model[2](model[1](model[0](words))[0]).flatten(0, 1), wanted.flatten())

    train(roles, optim.Adam(model.parameters()), loss, clip=5.0)


def dropout_encoder(roles):
    model = roles.model(Encoder(dropout=0.1).cuda())

    def loss():
        ids = numbers(roles, 6000, 16, 128)
        return F.cross_entropy(model(ids).transpose(1, 2), ids, label_smoothing=0.1)

    train(roles, optim.AdamW(model.parameters(), weight_decay=0.1), loss)


def accumulated_patches(roles):
    patches, model = nn.Conv2d(3, 384, 16, 16).cuda(), Encoder(out=100).cuda()
    roles.model(patches), roles.model(model)
    optimizer = optim.SGD([*patches.parameters(), *model.parameters()], 0.1, momentum=0.9, nesterov=True)
    for _ in range(3):
        for _ in range(4):
            images, wanted = normal(roles, 16, 3, 160, 160), numbers(roles, 100, 16)
            with roles.saving():
                x = patches(images).flatten(2).transpose(1, 2)
                for layer in model.layers:
                    x = layer(x)
                loss = F.cross_entropy(model.head(x.mean(1)), wanted) / 4
            roles.backward(loss)
        roles.step(optimizer)
        optimizer.zero_grad()


def convolutional_gan(roles):
    up = [nn.ConvTranspose2d(100, 256, 4), nn.BatchNorm2d(256), nn.ReLU(), nn.ConvTranspose2d(256, 128, 4, 4), nn.ReLU()]
    generator = roles.model(nn.Sequential(*up, nn.ConvTranspose2d(128, 3, 4, 4), nn.Tanh()).cuda())
    down = [nn.Conv2d(3, 128, 4, 4), nn.LeakyReLU(0.2), nn.Conv2d(128, 256, 4, 4), nn.LeakyReLU(0.2), nn.Conv2d(256, 1, 4)]
    judge = roles.model(nn.Sequential(*down).cuda())
    of_generator, of_judge = (optim.Adam(m.parameters(), 2e-4, (0.5, 0.999)) for m in (generator, judge))
    for _ in range(4):
        real, noise = normal(roles, 64, 3, 64, 64), normal(roles, 64, 100, 1, 1)
        of_judge.zero_grad()
        with roles.saving():
            loss = F.softplus(-judge(real)).mean()
        roles.backward(loss)
        with roles.saving():
            fake = generator(noise)
            loss = F.softplus(judge(fake.detach())).mean()
        roles.backward(loss)
        roles.step(of_judge)
        of_generator.zero_grad()
        with roles.saving():
            loss = F.softplus(-judge(fake)).mean()
        roles.backward(loss)
        roles.step(of_generator)


def variational(roles):
    encoder = nn.Sequential(nn.Linear(3072, 1200), nn.ReLU(), nn.Linear(1200, 256))
    decoder = nn.Sequential(nn.Linear(128, 1200), nn.ReLU(), nn.Linear(1200, 3072), nn.Sigmoid())
    model = roles.model(nn.ModuleList([encoder, decoder]).cuda())

    def loss():
        x = roles.input(torch.rand(512, 3072, device="cuda"))
        mean, spread = model[0](x).chunk(2, 1)
        found = model[1](mean + torch.randn_like(mean) * (spread / 2).exp())
        return F.binary_cross_entropy(found, x, reduction="sum") - 0.5 * (1 + spread - mean.square() - spread.exp()).sum()

    train(roles, optim.Adam(model.parameters()), loss)


@torch.no_grad()
def sampling(roles):
    model = roles.model(UNet(levels=4).cuda().eval())
    for _ in range(2):
        x = normal(roles, 16, 4, 64, 64)
        for step in range(12):
            x = x - 0.1 * model(x) + 0.01 * step * torch.randn_like(x)


def policy_gradient(roles):
    policy = roles.model(nn.Sequential(nn.Linear(64, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 8)).cuda())
    optimizer = optim.Adam(policy.parameters())
    for _ in range(5):
        log_probabilities, rewards = [], []
        for _ in range(20):
            state = normal(roles, 128, 64)
            with roles.saving():
                actions = torch.distributions.Categorical(logits=policy(state))
                chosen = actions.sample()
                log_probabilities.append(actions.log_prob(chosen))
            rewards.append(torch.randn(128, device="cuda"))
        returns = torch.stack(rewards).flip(0).cumsum(0).flip(0)
        with roles.saving():
            loss = -(torch.stack(log_probabilities) * (returns - returns.mean())).sum()
        optimizer.zero_grad()
        roles.backward(loss)
        roles.step(optimizer)


def contrastive(roles):
    body, head = residual_network(48, 256).cuda(), nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 64)).cuda()
    roles.model(body), roles.model(head)

    def loss():
        views = torch.cat([normal(roles, 32, 3, 64, 64), normal(roles, 32, 3, 64, 64)])
        found = F.normalize(head(body(views)))
        scores = (found @ found.T / 0.1).masked_fill(torch.eye(64, dtype=torch.bool, device="cuda"), -9e9)
        return F.cross_entropy(scores, torch.arange(64, device="cuda").roll(32))

    train(roles, momentum([*body.parameters(), *head.parameters()]), loss)


def scaled_segmentation(roles):
    model, scaler = roles.model(UNet(3).cuda()), torch.amp.GradScaler("cuda")
    optimizer = optim.Adam(model.parameters())
    for _ in range(4):
        images = normal(roles, 8, 3, 128, 128)
        with roles.saving(), torch.autocast("cuda", torch.float16):
            loss = F.binary_cross_entropy_with_logits(model(images).float(), images.sigmoid())
        roles.backward(scaler.scale(loss))
        scaler.step(optimizer)
        roles.states(optimizer)
        scaler.update()
        optimizer.zero_grad()


def checkpointed_adafactor(roles):
    model = roles.model(Encoder(layers=6).cuda().bfloat16())

    def loss():
        ids = numbers(roles, 6000, 8, 256)
        x = model.embedding(ids)
        for layer in model.layers:
            roles.note(x, "activation")
            x = checkpoint(layer, x, use_reentrant=False)
        return F.cross_entropy(model.head(x).transpose(1, 2).float(), ids)

    train(roles, optim.Adafactor(model.parameters()), loss)


def sparse_embeddings(roles):
    table = roles.model(nn.EmbeddingBag(50_000, 128, sparse=True).cuda())
    head = roles.model(nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 1)).cuda())
    of_table, of_head = optim.SGD(table.parameters(), 0.1), optim.Adagrad(head.parameters())
    roles.states(of_head)
    for _ in range(5):
        items, wanted = numbers(roles, 50_000, 1024, 20), roles.input(torch.rand(1024, 1, device="cuda"))
        with roles.saving():
            loss = F.binary_cross_entropy_with_logits(head(table(items)), wanted)
        roles.backward(loss)
        for optimizer in (of_table, of_head):
            roles.step(optimizer)
            optimizer.zero_grad()


def messages(roles):
    layers = roles.model(nn.ModuleList([nn.Linear(256, 256), nn.Linear(256, 256), nn.Linear(256, 16)]).cuda())
    nodes, sources, targets = normal(roles, 20_000, 256), numbers(roles, 20_000, 60_000), numbers(roles, 20_000, 60_000)
    wanted = numbers(roles, 16, 20_000)

    def loss():
        x = nodes
        for layer in layers[:2]:
            x = F.relu(layer(torch.zeros_like(x).index_add(0, targets, x[sources])))
        return F.cross_entropy(layers[2](F.dropout(x)), wanted)

    train(roles, optim.Adam(layers.parameters(), weight_decay=5e-4), loss, steps=5)


def evaluated_first(roles):
    widths = [2048, 1024, 512, 1024, 2048]
    model = [part for pair in zip(widths, widths[1:]) for part in (nn.Linear(*pair), nn.GELU())]
    model = roles.model(nn.Sequential(*model[:-1]).cuda())
    optimizer = optim.RMSprop(model.parameters(), momentum=0.9, centered=True)

    def loss():
        x = normal(roles, 256, 2048)
        return F.l1_loss(model(x), x)

    for _ in range(2):
        with torch.no_grad():
            for _ in range(4):
                loss()
        train(roles, optimizer, loss, steps=4)


def hidden_distillation(roles):
    teacher = roles.model(Encoder(layers=6).cuda().eval().requires_grad_(False))
    student = roles.model(Encoder(layers=2).cuda())

    def loss():
        ids = numbers(roles, 6000, 16, 64)
        with torch.no_grad():
            wanted = teacher.hidden(ids)
        found = student.hidden(ids)
        return F.mse_loss(found, wanted) + F.cross_entropy(student.head(found).transpose(1, 2), ids)

    train(roles, optim.AdamW(student.parameters(), foreach=False), loss)


def learned_to_learn(roles):
    model = roles.model(nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 256)).cuda())

    def loss():
        weights = dict(model.named_parameters())
        for _ in range(2):
            x = normal(roles, 64, 256)
            inner = F.mse_loss(torch.func.functional_call(model, weights, (x,)), x)
            gradients = torch.autograd.grad(inner, weights.values(), create_graph=True)
            weights = {name: w - 0.01 * g for (name, w), g in zip(weights.items(), gradients)}
        x = normal(roles, 64, 256)
        return F.mse_loss(torch.func.functional_call(model, weights, (x,)), x)

    train(roles, optim.Adam(model.parameters()), loss)


def given_gradient(roles):
    model = roles.model(Encoder(width=256, dropout=0.1, layers=3).cuda())
    optimizer = optim.AdamW(model.parameters())
    for _ in range(5):
        ids, gradient = numbers(roles, 6000, 8, 128), normal(roles, 8, 128, 256)
        with roles.saving():
            found = model.hidden(ids)
        roles.in_backward = True
        found.backward(gradient)
        roles.in_backward = False
        roles.step(optimizer)
        optimizer.zero_grad()


@torch.no_grad()
def generation(roles):
    width, heads = 512, 8
    model = nn.ModuleDict(
        {
            "words": nn.Embedding(8000, width),
            "qkv": nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(6)),
            "out": nn.ModuleList(nn.Linear(width, width) for _ in range(6)),
            "head": nn.Linear(width, 8000),
        }
    )
    roles.model(model.half().cuda().eval())
    for _ in range(2):
        ids, caches = numbers(roles, 8000, 16, 64), [None] * 6
        for _ in range(24):
            x = model["words"](ids)
            for layer, (qkv, out) in enumerate(zip(model["qkv"], model["out"])):
                q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in qkv(x).chunk(3, -1))
                if caches[layer] is not None:
                    k, v = torch.cat([caches[layer][0], k], 2), torch.cat([caches[layer][1], v], 2)
                caches[layer] = k, v
                roles.note(k, "kv_cache"), roles.note(v, "kv_cache")
                x = x + out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
            ids = model["head"](x[:, -1:]).argmax(-1)


@torch.inference_mode()
def varying_inference(roles):
    model = roles.model(Encoder(layers=5).cuda().half().eval())
    for batch, length in [(8, 64), (24, 128), (4, 200), (16, 96), (32, 48), (12, 160)]:
        model(numbers(roles, 6000, batch, length)).argmax(-1).cpu()


class Lion(optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 1e-4})

    @torch.no_grad()
    def step(self):
        for p in (p for group in self.param_groups for p in group["params"]):
            state = self.state[p]
            if not state:
                state["average"] = torch.zeros_like(p)
            p.add_(state["average"].lerp(p.grad, 0.1).sign_(), alpha=-1e-4)
            state["average"].lerp_(p.grad, 0.01)


def lion_with_average(roles):
    model = roles.model(residual_network(96).cuda())
    averages = [p.detach().clone() for p in model.parameters()]
    for average in averages:
        roles.note(average, "parameter")
    optimizer = Lion(model.parameters())

    def loss():
        return F.cross_entropy(model(normal(roles, 32, 3, 64, 64)), numbers(roles, 100, 32))

    for _ in range(4):
        train(roles, optimizer, loss, steps=1)
        with torch.no_grad():
            torch._foreach_lerp_(averages, list(model.parameters()), 0.01)


PROGRAMS = [
    image_inference, tagger, dropout_encoder, accumulated_patches, convolutional_gan, variational, sampling, policy_gradient, contrastive,
    scaled_segmentation, checkpointed_adafactor, sparse_embeddings, messages, evaluated_first, hidden_distillation, learned_to_learn,
    given_gradient, generation, varying_inference, lion_with_average,
]  # fmt: skip

if __name__ == "__main__":
    main({program.__name__: program for program in PROGRAMS})
