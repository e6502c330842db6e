"""Cases that run out of memory on purpose: their run does not fit."""

import torch

from torch.utils.checkpoint import checkpoint

from cases import case


@case
def out_of_memory_is_pytorchs_own_error():
    total = torch.cuda.get_device_properties(0).total_memory
    try:
        torch.empty(2 * total, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        assert f"GPU 0 has a total capacity of {total / 2**30:.2f} GiB" in str(error), error
    else:
        raise AssertionError("an allocation of twice the device's memory succeeded")
    assert torch.cuda.memory_stats()["num_ooms"] == 1


@case
def a_fraction_of_the_device():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(0.25)
    try:
        kept = torch.empty(total // 5, dtype=torch.uint8, device="cuda")
        try:
            torch.empty(total // 5, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError as error:
            assert "0.25" in str(error) or "25.00%" in str(error) or "allowed" in str(error), error
        else:
            raise AssertionError("an allocation beyond the fraction succeeded")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert kept.is_cuda


@case
def it_goes_on_after_that():
    """A program that catches the error can retry with a smaller size."""
    total = torch.cuda.get_device_properties(0).total_memory
    size = 2 * total
    while True:
        try:
            x = torch.empty(size, dtype=torch.uint8, device="cuda")
            break
        except torch.OutOfMemoryError:
            size //= 2
    assert x.numel() == total // 2


@case
def out_of_memory_while_a_checkpoint_is_computed_again():
    def too_large(x):
        if torch._C._current_graph_task_id() < 0:
            return x * x
        # The first tensor is freed while the second allocation's exception unwinds.
        return pair(torch.empty(1024, device="cuda"), torch.empty(1 << 50, device="cuda"))

    def pair(first, second):
        return first + second

    x = torch.randn(64, device="cuda", requires_grad=True)
    try:
        checkpoint(too_large, x, use_reentrant=False).sum().backward()
    except torch.OutOfMemoryError:
        pass
    else:
        raise AssertionError("it fits")
