"""Profiles a training loop on a GPU: prints the peak of each function, and the memory retained from step to step.

python profile_training.py
"""

import torch
import vramscope


@vramscope.profile_function
def forward(model: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
    """Returns the loss of a batch."""
    loss: torch.Tensor = model(batch).square().mean()
    return loss


@vramscope.profile_function
def backward(loss: torch.Tensor) -> None:
    """Computes the gradients."""
    loss.backward()


@vramscope.profile_function
def train_step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, history: list[torch.Tensor]) -> None:
    """Runs one step, with a common mistake."""
    loss = forward(model, torch.ones(4096, 1024, device="cuda"))
    backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    history.append(loss)  # `loss.item()` would keep a number; this retains 512 bytes on the GPU per step


def main() -> None:
    """Trains and prints the results."""
    profiler = vramscope.GPUMemoryProfiler()
    vramscope.set_global_profiler(profiler)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    history: list[torch.Tensor] = []
    for _ in range(20):
        train_step(model, optimizer, history)
    for name, function in profiler.get_summary()["function_summaries"].items():
        print(f"{name}: {function['call_count']} calls, peak {function['peak_memory'] >> 20} MiB")
    for suspect in profiler.leaks():
        print("leaks:", suspect)


if __name__ == "__main__":
    main()
