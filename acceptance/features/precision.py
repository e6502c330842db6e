"""Mixed and low precision."""

import torch
from torch import nn

from cases import Held, bytes_of, case


@case
def autocast_and_grad_scaler():
    held = Held()
    model = nn.Linear(256, 256).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(3):
        with torch.autocast("cuda", dtype=torch.float16):
            y = model(torch.randn(8, 256, device="cuda"))
            assert y.dtype == torch.float16
            loss = y.float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    moments = [state[name] for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    assert len(moments) == 4
    scale = [scaler._scale, scaler._growth_tracker]
    del y, loss
    # Only weights, moments and the scaler's two numbers stay.
    assert held.more() == bytes_of([*model.parameters(), *moments, *scale]), held.more()


@case
def the_scale_of_a_scaler_is_that_of_finite_gradients():
    parameter = nn.Parameter(torch.ones(8, device="cuda"))
    optimizer = torch.optim.SGD([parameter])
    scaler = torch.amp.GradScaler("cuda", init_scale=3.3, growth_factor=2.0, growth_interval=2)
    single = torch.tensor(3.3).item()

    def step():
        scaler.scale(parameter.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        return scaler.get_scale()

    assert scaler.get_scale() == 3.3
    assert [step() for _ in range(5)] == [single, 2 * single, 2 * single, 4 * single, 4 * single]
    state = scaler.state_dict()
    assert state["scale"] == 4 * single and state["_growth_tracker"] == 1, state
    other = torch.amp.GradScaler("cuda")
    other.scale(parameter.sum())
    assert other.get_scale() == 65536.0
    other.load_state_dict(state)
    assert other.get_scale() == 4 * single
    scaler.scale(parameter.sum()).backward()
    scaler.step(optimizer)
    scaler.update(new_scale=7.0)
    assert scaler.get_scale() == 7.0
    assert torch.amp.GradScaler("cuda", enabled=False).get_scale() == 1.0


@case
def bfloat16_takes_half():
    held = Held()
    layers = [nn.Linear(1024, 1024, bias=False, device="cuda", dtype=dtype) for dtype in (torch.float, torch.bfloat16)]
    assert held.more() == 1024 * 1024 * (4 + 2)
    del layers


@case
def matrices_of_8_bits():
    a = torch.randn(32, 64, device="cuda").to(torch.float8_e4m3fn)
    b = torch.randn(16, 64, device="cuda").to(torch.float8_e4m3fn).t()
    one = torch.ones((), device="cuda")
    y = torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    assert y.shape == (32, 16) and y.dtype == torch.bfloat16
    whole = torch._int_mm(a.view(torch.int8), torch.ones(64, 16, dtype=torch.int8, device="cuda"))
    assert whole.dtype == torch.int32
