"""DataLoaders with workers."""

import torch
from torch.utils.data import DataLoader, Dataset

from cases import case


class Numbers(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        return torch.full((8,), float(index)), index


def loads(**options):
    seen = []
    for x, index in DataLoader(Numbers(), batch_size=4, pin_memory=True, **options):
        assert x.is_pinned()
        on_device = x.to("cuda", non_blocking=True)
        assert torch.equal(on_device.cpu(), x)
        seen += index.tolist()
    assert sorted(seen) == list(range(16))


@case
def without_workers():
    loads()


@case
def workers_that_are_forked():
    torch.zeros(3, device="cuda")
    loads(num_workers=2, multiprocessing_context="fork")


@case
def workers_that_are_spawned():
    loads(num_workers=2, multiprocessing_context="spawn", persistent_workers=True)


@case
def a_fork_cannot_use_the_gpu():
    """PyTorch itself refuses this, on any GPU."""
    torch.zeros(3, device="cuda")
    context = torch.multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    process = context.Process(target=try_the_gpu, args=(answers,))
    process.start()
    answer = answers.get()
    process.join()
    assert "Cannot re-initialize CUDA" in answer, answer


def try_the_gpu(answers):
    try:
        torch.zeros(3, device="cuda")
        answers.put("went through")
    except RuntimeError as error:
        answers.put(str(error))
