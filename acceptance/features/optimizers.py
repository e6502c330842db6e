"""Every optimizer of torch.optim, with each of its implementations."""

import torch
from torch import nn

from cases import Held, bytes_of, case

WAYS = [{"foreach": False}, {"foreach": True}, {"fused": True}, {"capturable": True}]


def step(make):
    model = nn.Linear(512, 512).cuda()
    optimizer = make(model.parameters())
    for _ in range(2):
        model(torch.randn(8, 512, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


@case
def adam_in_every_way():
    for way in WAYS:
        held = Held()
        model, optimizer = step(lambda weights: torch.optim.AdamW(weights, **way))
        states = [value for state in optimizer.state.values() for value in state.values() if value.is_cuda]
        # Two moments per weight. Some implementations also keep the step count on the GPU.
        assert len(states) == (6 if way.get("fused") or way.get("capturable") else 4), way
        assert held.more() == bytes_of([*model.parameters(), *states]), way
        del model, optimizer, states


@case
def every_optimizer():
    for name in ("SGD", "Adam", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "ASGD"):
        for foreach in (False, True):
            model, _ = step(lambda weights: getattr(torch.optim, name)(weights, lr=0.01, foreach=foreach))
            assert model.weight.shape == (512, 512)
    step(lambda weights: torch.optim.Adafactor(weights))


@case
def schedules_clips_and_averages():
    model = nn.Linear(64, 64).cuda()
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    for _ in range(2):
        model(torch.randn(8, 64, device="cuda")).sum().backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        average.update_parameters(model)
    assert norm.is_cuda and next(average.parameters()).is_cuda
