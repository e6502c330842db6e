"""Two threads in forward at once, each with its own model."""

import json
from pathlib import Path

from torch_on_phantom import events, needs_torch, python

pytestmark = needs_torch

# Each layer of each thread has a unique width, so an allocation's size identifies its module.
THREADS = """
import json, sys, threading, torch, vramscope.torch
from torch import nn

class Wide(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, width, bias=False) for width in widths)

    def forward(self, x):
        return [torch.exp(layer(x)) for layer in self.layers]

widths = [range(1024 + 16 * number, 6000, 256) for number in range(2)]
names = ["even", "odd"]
with torch.no_grad():
    models = [Wide(each).cuda() for each in widths]
    x = torch.randn(256, 64, device="cuda")
    for model in models:
        model(x)
    sys.setswitchinterval(1e-5)
    both = threading.Barrier(2)

    def work(model):
        with torch.no_grad():
            for _ in range(20):
                both.wait()
                model(x)

    whole = nn.ModuleDict(dict(zip(names, models)))
    with vramscope.torch.record("run.pickle", model=whole):
        workers = [threading.Thread(target=work, args=(model,)) for model in models]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
print(json.dumps({f"{name}.layers.{number}": 4 * 256 * width
                  for name, each in zip(names, widths) for number, width in enumerate(each)}))
print(hasattr(torch._C, "_cuda_setMemoryMetadata"))
"""


def test_threads_do_not_share_a_place(tmp_path: Path) -> None:

    done = python(tmp_path, THREADS)
    assert done.returncode == 0, done.stderr
    sizes = json.loads(done.stdout.splitlines()[0])
    has_metadata = done.stdout.splitlines()[1] == "True"
    of_size = {size: path for path, size in sizes.items()}
    agreed = total = 0
    for event in events(tmp_path / "run.pickle"):
        if event["action"] == "alloc" and event["size"] in of_size:
            text = event.get("user_metadata", "")
            path = of_size[event["size"]]
            # The layer allocates its result; the model allocates the result of `exp`.
            is_right = f";module={path};" in text or f";module={path.split('.')[0]};" in text
            agreed += event["size"] * is_right
            total += event["size"]
            assert "thread=" not in text
    assert total > 0
    print("agreed", agreed / total)
    # Before 2.11, events do not record the thread.
    assert agreed / total >= (0.99 if has_metadata else 0.5)
