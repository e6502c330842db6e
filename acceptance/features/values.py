"""Programs that wait for values or divide by them. They need `--values random=SEED`."""

import torch

from cases import case


@case
def waits_for_a_value():
    x = torch.randn((), device="cuda")
    while x.sigmoid().item() < 0.9:
        pass
    while not (x > 0).item():
        pass


@case
def divides_by_a_value():
    x = torch.randn(10, device="cuda")
    assert 1 / x.abs().sum().item() > 0
    assert 100 // torch.randint(1, 9, (1,), device="cuda").item() >= 0
    assert all(1 / value > 0 for value in (x * 2).tolist())


@case
def stops_where_it_converges():
    before, steps = 1.0, 0
    while True:
        loss = torch.randn(8, device="cuda").square().mean().item()
        steps += 1
        if loss < before / 100:
            break
        before = loss
    assert steps >= 1


@case
def a_scaler_skips_no_step():
    parameter = torch.nn.Parameter(torch.ones(8, device="cuda"))
    optimizer = torch.optim.Adam([parameter])
    scaler = torch.amp.GradScaler("cuda")
    scaler.scale(parameter.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 65536.0
    assert optimizer.state[parameter]["exp_avg"].is_cuda
