import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class RandomVolumes(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.zeros(4, 64, 96, 96), index % 3


class Prefetcher:
    def __init__(self, loader):
        self.batches = iter(loader)
        self.stream = torch.cuda.Stream()
        self.preload()

    def preload(self):
        self.ready = None
        for volumes, labels in self.batches:
            with torch.cuda.stream(self.stream):
                self.ready = volumes.cuda(non_blocking=True), labels.cuda(non_blocking=True)
            break

    def __iter__(self):
        while self.ready is not None:
            torch.cuda.current_stream().wait_stream(self.stream)
            batch = self.ready
            for tensor in batch:
                tensor.record_stream(torch.cuda.current_stream())
            self.preload()
            yield batch


def train(count):
    net = nn.Sequential(nn.Conv3d(4, 24, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool3d(4), nn.Flatten(),
                        nn.Linear(24 * 64, 3)).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for volumes, labels in Prefetcher(DataLoader(RandomVolumes(count), batch_size=4)):
        loss = nn.functional.cross_entropy(net(volumes), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    train(count=60)
