import torch
import torch.multiprocessing as mp
from torch import nn


def make_model(width, depth):
    return nn.Sequential(*[m for _ in range(depth) for m in (nn.Linear(width, width), nn.ReLU())])


def evaluate_forever(requests, answers):
    teacher = make_model(8192, 8).cuda().eval()
    while (batch := requests.get()) is not None:
        with torch.no_grad():
            answers.put(teacher(batch.cuda()).cpu())


def train(requests, answers, steps):
    student = make_model(8192, 4).cuda()
    optimizer = torch.optim.Adam(student.parameters(), lr=1e-4, fused=True)
    for _ in range(steps):
        batch = torch.zeros(512, 8192)
        requests.put(batch)
        loss = (student(batch.cuda()) - answers.get().cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    context = mp.get_context("spawn")
    requests, answers = context.Queue(), context.Queue()
    worker = context.Process(target=evaluate_forever, args=(requests, answers))
    worker.start()
    try:
        train(requests, answers, steps=4)
    finally:
        requests.put(None)
        worker.join()


if __name__ == "__main__":
    main()
