"""Recurrent networks, and CTC loss."""

import torch
from torch import nn
from torch.nn import functional as F

from cases import Held, bytes_of, case


@case
def every_kind():
    for kind, gates in [(nn.RNN, 1), (nn.GRU, 3), (nn.LSTM, 4)]:
        model = kind(32, 64, 2, bidirectional=True, dropout=0.1).cuda()
        assert model.weight_ih_l0.shape == (gates * 64, 32)
        y = model(torch.randn(10, 4, 32, device="cuda"))[0]
        assert y.shape == (10, 4, 128)
        y.sum().backward()
        assert all(weight.grad is not None for weight in model.parameters())


@case
def weights_lie_in_one_block():
    """cuDNN needs a model's weights in one contiguous block, so PyTorch moves them."""
    held = Held()
    model = nn.LSTM(32, 64, 2).cuda()
    storages = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    assert len(storages) == 1
    assert held.more() == bytes_of([model.weight_ih_l0])


@case
def sequences_of_several_lengths():
    model = nn.LSTM(8, 16, batch_first=True).cuda()
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(3, 9, 8, device="cuda"), [9, 5, 2], batch_first=True)
    y, _ = nn.utils.rnn.pad_packed_sequence(model(packed)[0], batch_first=True)
    assert y.shape == (3, 9, 16)


@case
def ctc_loss():
    scores = torch.randn(50, 4, 20, device="cuda", requires_grad=True)
    for dtype in (torch.int32, torch.int64):
        labels = torch.randint(1, 20, (4, 10), dtype=dtype)
        lengths = [torch.full((4,), length, dtype=dtype) for length in (50, 10)]
        F.ctc_loss(scores.log_softmax(2), labels, *lengths).backward()
    assert scores.grad.shape == scores.shape
