import torch
from torch import nn


class HostRing:
    def __init__(self, shape, slots=3):
        self.slots = [torch.empty(shape, dtype=torch.half, pin_memory=True) for _ in range(slots)]
        self.events = [torch.cuda.Event() for _ in range(slots)]
        self.next = 0

    def upload(self, chunk):
        slot = self.next % len(self.slots)
        self.events[slot].synchronize()
        self.slots[slot].copy_(chunk)
        on_gpu = self.slots[slot].to("cuda", non_blocking=True)
        self.events[slot].record()
        self.next += 1
        return on_gpu


def transcribe(chunks):
    shape = (64, 80, 3000)
    encoder = nn.Sequential(
        nn.Conv1d(80, 512, 3, padding=1), nn.GELU(), nn.Conv1d(512, 512, 3, stride=2, padding=1), nn.GELU()
    ).half().cuda().eval()
    ring = HostRing(shape)
    host_results = torch.empty(chunks, 64, 512, dtype=torch.half, pin_memory=True)
    with torch.inference_mode():
        for index in range(chunks):
            audio = ring.upload(torch.zeros(shape, dtype=torch.half))
            encoded = encoder(audio).mean(dim=-1)
            host_results[index].copy_(encoded, non_blocking=True)
    torch.cuda.synchronize()
    return host_results


if __name__ == "__main__":
    print(tuple(transcribe(chunks=40).shape))
