"""cuSOLVER, cuSPARSE, cuFFT, cuRAND."""

import torch

from cases import case


@case
def factorizations():
    a = torch.randn(8, 8, device="cuda")
    identity = torch.eye(8, device="cuda")
    assert torch.linalg.cholesky(a @ a.T + identity).shape == (8, 8)
    assert torch.linalg.solve(identity, a).shape == (8, 8)
    assert [part.shape for part in torch.linalg.svd(a)] == [(8, 8), (8,), (8, 8)]
    assert torch.linalg.eigh(a)[0].shape == (8,)
    assert torch.linalg.qr(torch.randn(8, 5, device="cuda"))[1].shape == (5, 5)
    assert torch.linalg.lu_factor(a)[1].dtype == torch.int32
    assert torch.linalg.inv(identity).shape == (8, 8)
    assert torch.linalg.det(a).shape == ()
    assert torch.linalg.lstsq(a, a)[0].shape == (8, 8)


@case
def batches_of_them():
    a = torch.randn(16, 8, 8, device="cuda", dtype=torch.double)
    assert torch.linalg.solve(a, a).shape == a.shape
    assert torch.linalg.svdvals(a).shape == (16, 8)
    assert torch.linalg.cholesky_ex(a)[0].shape == a.shape


@case
def fourier_transforms():
    for dtype, result in [(torch.float, torch.complex64), (torch.double, torch.complex128), (torch.half, torch.complex32)]:
        assert torch.fft.rfft(torch.randn(64, device="cuda").to(dtype)).dtype == result
    x = torch.randn(4, 64, 64, device="cuda", dtype=torch.complex64)
    assert torch.fft.ifft2(torch.fft.fft2(x)).shape == x.shape
    assert torch.fft.irfftn(torch.fft.rfftn(x.real)).shape == x.shape
    assert torch.stft(torch.randn(1000, device="cuda"), 100, return_complex=True).shape[0] == 51


@case
def sparse_matrices():
    dense = torch.randn(8, 8, device="cuda")
    matrix = torch.eye(8).to_sparse_csr().cuda()
    assert torch.sparse.mm(matrix, dense).shape == (8, 8)
    coordinates = torch.eye(8).to_sparse().cuda()
    assert torch.sparse.mm(coordinates, dense).shape == (8, 8)
    assert (coordinates + coordinates).is_sparse
    embedding = torch.nn.Embedding(100, 8, sparse=True).cuda()
    embedding(torch.zeros(4, dtype=torch.long, device="cuda")).sum().backward()
    assert embedding.weight.grad.is_sparse


@case
def random_numbers():
    torch.cuda.manual_seed_all(1)
    state = torch.cuda.get_rng_state()
    torch.randn(10, device="cuda")
    torch.cuda.set_rng_state(state)
    for draw in (torch.rand, torch.randn):
        assert draw(3, device="cuda", generator=torch.Generator("cuda").manual_seed(2)).shape == (3,)
    assert torch.randperm(100, device="cuda").shape == (100,)
    assert torch.bernoulli(torch.full((9,), 0.5, device="cuda")).shape == (9,)
    assert torch.distributions.Gamma(torch.ones(3, device="cuda"), 1).sample().shape == (3,)
