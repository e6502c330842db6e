import sys
import traceback

import torch
from torch import nn

history = []


def cell(function):
    """Runs a cell as an interactive shell does: shows the error and goes on."""
    try:
        history.append((function.__name__, function()))
    except Exception as error:
        sys.last_exc = error
        traceback.print_exc(limit=1)


def make_model(width):
    model = nn.Sequential(nn.Linear(1024, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 50))
    return model.cuda()


def fit(config):
    model = make_model(config["width"])
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    for step in range(5):
        x = torch.randn(config["batch"], 1024, device="cuda")
        y = torch.randint(0, 50, (config["batch"],), device="cuda")
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {"steps": step + 1, "schedule": config["schedule"]}


def first_try():
    return fit({"width": 8192, "lr": 1e-3, "batch": 16384})


def second_try():
    return fit({"width": 8192, "lr": 1e-3, "batch": 16384, "schedule": "cosine"})


cell(first_try)
torch.cuda.empty_cache()
result = second_try()
print(result)
