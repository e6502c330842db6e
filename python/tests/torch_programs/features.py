"""Programs that each use one PyTorch feature; a recording must not change their behavior.

Each takes `begin(model, optimizer)`, calls it when its model is built, and returns its computed values.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

Begin = Callable[..., None]


DEVICE = "cuda"


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, call: Callable[..., torch.Tensor] | None = None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(64) for _ in range(3))
        self.out = nn.Linear(64, 8)
        self.call = call or (lambda block, x: block(x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = self.call(block, x)
        return self.out(x.mean(1))


def net(call: Callable[..., torch.Tensor] | None = None) -> Net:
    return Net(call).to(DEVICE)


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device=DEVICE)


def data() -> torch.Tensor:
    return random(32, 16, 64)


def train(
    begin: Begin,
    call: Callable[..., torch.Tensor] | None = None,
    loss: Callable[[Any, torch.Tensor], torch.Tensor] | None = None,
    backward: Callable[[Any, torch.Tensor], None] | None = None,
    prepare: Callable[[nn.Module], Any] | None = None,
) -> list[torch.Tensor]:
    model = net(call)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    begin(model, optimizer)
    used = prepare(model) if prepare else model
    for _ in range(3):
        optimizer.zero_grad()
        value = loss(used, data()) if loss else used(data()).square().mean()
        if backward:
            backward(model, value)
        else:
            value.backward()
        optimizer.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


def checkpointed(use_reentrant: bool) -> Callable[[Begin], Any]:
    def program(begin: Begin) -> Any:
        def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
            return model(x.requires_grad_()).square().mean()

        return train(begin, lambda block, x: checkpoint(block, x, use_reentrant=use_reentrant), loss)

    return program


LAST_LAYERS: dict[str, Callable[[], nn.Module]] = {
    "Linear": lambda: nn.Linear(64, 64),
    "LayerNorm": lambda: nn.LayerNorm(64),
    "RMSNorm": lambda: nn.RMSNorm(64),
    "BatchNorm": lambda: nn.BatchNorm1d(16),
    "GroupNorm": lambda: nn.GroupNorm(4, 16),
    "Dropout": lambda: nn.Dropout(0.1),
}


def checkpointed_to(last: str) -> Callable[[Begin], Any]:
    """Checkpoints blocks that end in this layer, in both modes."""

    def program(begin: Begin) -> Any:
        def prepare(model: nn.Module) -> nn.Module:
            model.last = LAST_LAYERS[last]().to(DEVICE)
            return model

        def loss(model: Any, x: torch.Tensor) -> torch.Tensor:
            x.requires_grad_()
            for block in model.blocks:
                for use_reentrant in (False, True):
                    whole = nn.Sequential(block, model.last)
                    x = checkpoint(whole, x, use_reentrant=use_reentrant)
            return x.square().mean()

        return train(begin, loss=loss, prepare=prepare)

    return program


def sequential(begin: Begin) -> Any:
    def loss(model: Any, x: torch.Tensor) -> torch.Tensor:
        return checkpoint_sequential(list(model.blocks), 2, x, use_reentrant=False).mean()

    return train(begin, loss=loss)


def compiled(backend: str, **options: Any) -> Callable[[Begin], Any]:
    return lambda begin: train(begin, prepare=lambda model: torch.compile(model, backend=backend, **options))


def functional_gradients(begin: Begin) -> Any:
    """Per-sample gradients, with the code of torch.func's tutorial."""
    model = net()
    begin(model, torch.optim.SGD(model.parameters(), 0.1))
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def loss(parameters: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, parameters, (x.unsqueeze(0),)).square().sum()

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, data())
    after = model(data()).mean()
    after.backward()
    return [*each.values(), after]


def functional_derivatives(begin: Begin) -> Any:
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh()).to(DEVICE)
    begin(model, torch.optim.SGD(model.parameters(), 0.1))
    x = random(8)
    derivative = torch.func.jacrev(model)(x)
    value, back = torch.func.vjp(model, x)
    pushed = torch.func.jvp(model, (x,), (torch.ones(8, device=DEVICE),))
    second = torch.func.hessian(lambda x: model(x).sum())(x)
    return [
        derivative,
        value,
        *back(torch.ones(8, device=DEVICE)),
        *pushed,
        second,
        torch.func.vmap(model)(random(4, 8)),
    ]


def functional_compiled(begin: Begin) -> Any:
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh()).to(DEVICE)
    begin(model, torch.optim.SGD(model.parameters(), 0.1))

    @torch.compile(backend="aot_eager", fullgraph=True)
    def gradient(x: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda x: x.sin().sum())(x)

    return [gradient(random(8)), model(random(8)).sum()]


def refused_hooks(begin: Begin) -> Any:
    """torch.func refuses hooks of the program, with and without a recording."""
    model = net()
    begin(model, torch.optim.SGD(model.parameters(), 0.1))
    try:
        with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
            torch.func.grad(lambda x: x.sin().sum())(random(8))
    except RuntimeError as error:
        said = str(error)[:60]
    return [said, *train(lambda *_: None)]


def double_backward(begin: Begin) -> Any:
    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        x.requires_grad_()
        (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        return (gradient.norm(2, dim=-1) - 1).square().mean()

    return train(begin, loss=loss)


def gradients_by_grad(begin: Begin) -> Any:
    def backward(model: nn.Module, loss: torch.Tensor) -> None:
        parameters = list(model.parameters())
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.grad = gradient

    return train(begin, backward=backward)


def inference(begin: Begin) -> Any:
    model = net()
    begin(model, torch.optim.SGD(model.parameters(), 0.1))
    with torch.inference_mode():
        first = model(data())
    with torch.no_grad():
        second = model(data())
    third = model(data() + second.mean())
    third.sum().backward()
    return [first.clone(), second, third]


def autocast(begin: Begin) -> Any:
    scaler = torch.amp.GradScaler(DEVICE)
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    begin(model, optimizer)
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = model(data()).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return list(model.parameters())


def graphed(begin: Begin) -> Any:
    if DEVICE == "cpu":
        return []
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), capturable=True)
    begin(model, optimizer)
    x = data()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad()
    with torch.cuda.graph(graph):
        model(x).mean().backward()
        optimizer.step()
    for _ in range(3):
        x.copy_(data())
        graph.replay()
    callable_ = torch.cuda.make_graphed_callables(net(), (data(),))
    callable_(data()).mean().backward()
    return []


def scripted(begin: Begin) -> Any:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(64, 64)
            self.second = nn.Linear(64, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(torch.tanh(self.first(x)))

    model = torch.jit.script(Plain().to(DEVICE))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    begin(model, optimizer)
    for _ in range(4):
        optimizer.zero_grad()
        model(data()).square().mean().backward()
        optimizer.step()
    fresh = torch.jit.script(Plain().to(DEVICE))
    fresh(data()).mean().backward()
    return list(model.parameters())


def traced(begin: Begin) -> Any:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    begin(model, optimizer)
    made = torch.jit.trace(model, data())
    for _ in range(3):
        optimizer.zero_grad()
        made(data()).square().mean().backward()
        optimizer.step()
    return [str(made.graph).count("aten::"), *model.parameters()]


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        result = x**3
        ctx.save_for_backward(x, result)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        x, _ = ctx.saved_tensors
        return 3 * x * x * gradient


def own_function(begin: Begin) -> Any:
    return train(begin, lambda block, x: Cube.apply(block(x)))


def accumulation(begin: Begin) -> Any:
    def backward(model: nn.Module, loss: torch.Tensor) -> None:
        loss.backward()
        for _ in range(3):
            model(data()).mean().backward()

    return train(begin, backward=backward)


def retained(begin: Begin) -> Any:
    def backward(_: nn.Module, loss: torch.Tensor) -> None:
        loss.backward(retain_graph=True)
        loss.backward()

    return train(begin, backward=backward)


def offloaded(begin: Begin) -> Any:
    """The program sets hooks for saved tensors inside the recording."""

    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        with torch.autograd.graph.save_on_cpu():
            return model(x).square().mean()

    return train(begin, loss=loss)


def offloaded_outside(begin: Begin) -> Any:
    """The program sets hooks for saved tensors before the recording."""
    with torch.autograd.graph.save_on_cpu():
        return train(begin)


def anomalies(begin: Begin) -> Any:
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        return train(begin)


def closure(begin: Begin) -> Any:
    model = net()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)
    begin(model, optimizer)
    x = data()

    def evaluate() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    optimizer.step(evaluate)
    return list(model.parameters())


def steps_in_backward(begin: Begin) -> Any:
    model = net()
    each = {parameter: torch.optim.SGD([parameter], 0.1, momentum=0.9) for parameter in model.parameters()}

    def step(parameter: torch.Tensor) -> None:
        each[parameter].step()
        each[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    begin(model, list(each.values()))
    for _ in range(3):
        model(data()).square().mean().backward()
    return list(model.parameters())


def own_hooks(begin: Begin) -> Any:
    def prepare(model: nn.Module) -> nn.Module:
        model.blocks[1].register_full_backward_hook(lambda *_: None)
        model.blocks[0].register_forward_hook(lambda *given: given[2] * 2)
        model.out.register_forward_pre_hook(lambda *given: (given[1][0] + 1,))
        return model

    return train(begin, prepare=prepare)


def operations(begin: Begin) -> Any:
    """A dispatch mode sees the same operations."""
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[str] = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            # PyTorch detaches the values that saved-tensor hooks return.
            if function is not torch.ops.aten.detach.default:
                seen.append(str(function))
            return function(*args, **(kwargs or {}))

    model = net()
    begin(model, torch.optim.SGD(model.parameters(), 0.1))
    with Log():
        model(data()).mean().backward()
    return seen


def failed_backward(begin: Begin) -> Any:
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(*given: Any) -> torch.Tensor:
            return given[1].clone()

        @staticmethod
        def backward(*_: Any) -> torch.Tensor:
            raise ZeroDivisionError("of the program")

    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    begin(model, optimizer)
    said = []
    for number in range(4):
        optimizer.zero_grad()
        result = model(data())
        try:
            (Fails.apply(result) if number % 2 else result).square().mean().backward()
        except ZeroDivisionError as error:
            said.append(str(error))
        optimizer.step()
    return [*said, *model.parameters()]


def failed_recomputation(begin: Begin) -> Any:
    """Raises exceptions that free GPU tensors while they unwind, during recomputation by checkpoints."""
    model = net()
    begin(model, torch.optim.SGD(model.parameters(), 0.1))
    said = []

    def beside(tensor: torch.Tensor, _: object) -> torch.Tensor:
        return tensor

    def fails(x: torch.Tensor) -> torch.Tensor:
        y = model(x)
        if torch._C._current_graph_task_id() >= 0:
            return beside(random(64), [][0])
        return y

    for use_reentrant in (False, True):
        try:
            checkpoint(fails, data().requires_grad_(), use_reentrant=use_reentrant).sum().backward()
        except IndexError as error:
            said.append(str(error))
    return said


def copied(begin: Begin) -> Any:
    model = net(torch.nn.Module.__call__)
    begin(model, torch.optim.SGD(model.parameters(), 0.1))
    results = []
    for _ in range(3):
        model = copy.deepcopy(model)
        results.append(model(data()).square().mean())
        results[-1].backward()
    return results


def threads(begin: Begin) -> Any:
    """Two threads in forward at once, each with its own model."""
    import threading

    models = [net(), net()]
    begin(models, [torch.optim.SGD(model.parameters(), 0.1) for model in models])
    both = threading.Barrier(2)

    def work(model: nn.Module) -> None:
        for _ in range(5):
            both.wait()
            model(data()).square().mean().backward()

    workers = [threading.Thread(target=work, args=(model,)) for model in models]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return []  # The threads share a random generator in no fixed order.


PROGRAMS: dict[str, Callable[[Begin], Any]] = {
    "checkpoint-reentrant": checkpointed(True),
    "checkpoint": checkpointed(False),
    "checkpoint-sequential": sequential,
    **{f"checkpoint-to-{last}": checkpointed_to(last) for last in LAST_LAYERS},
    "compile-eager": compiled("eager"),
    "compile-aot-eager": compiled("aot_eager"),
    "compile-fullgraph": compiled("aot_eager", fullgraph=True),
    "compile-inductor": compiled("inductor"),
    "func-grad-vmap": functional_gradients,
    "func-derivatives": functional_derivatives,
    "func-compiled": functional_compiled,
    "func-refuses-hooks": refused_hooks,
    "double-backward": double_backward,
    "autograd-grad": gradients_by_grad,
    "inference": inference,
    "autocast": autocast,
    "cuda-graphs": graphed,
    "jit-script": scripted,
    "jit-trace": traced,
    "own-function": own_function,
    "accumulation": accumulation,
    "retain-graph": retained,
    "save-on-cpu": offloaded,
    "save-on-cpu-outside": offloaded_outside,
    "anomaly": anomalies,
    "closure": closure,
    "steps-in-backward": steps_in_backward,
    "own-hooks": own_hooks,
    "dispatch-mode": operations,
    "failed-backward": failed_backward,
    "failed-recomputation": failed_recomputation,
    "copied": copied,
    "threads": threads,
}
