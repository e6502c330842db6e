import torch
from torch import nn

DIM, HIDDEN, MAX_ROWS = 1024, 8192, 131072


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(DIM, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, DIM, bias=False)

    def forward(self, x):
        return self.down(torch.relu_(self.up(x)))


class SessionServer:
    def __init__(self):
        self.model = FeedForward().half().cuda().eval()
        self.sessions = {}
        self.prefill(MAX_ROWS)

    @torch.inference_mode()
    def prefill(self, rows):
        return self.model(torch.zeros(rows, DIM, dtype=torch.half, device="cuda")).mean().cpu()

    def open(self, name, tokens=16384):
        self.sessions[name] = torch.zeros(4, 2, tokens, 512, dtype=torch.half, device="cuda")
        self.prefill(256)

    def close(self, name):
        del self.sessions[name]


def main(users):
    server = SessionServer()
    for user in range(users):
        server.open(f"user-{user}")
    for user in range(users):
        if user % 3:
            server.close(f"user-{user}")
    print(len(server.sessions), "sessions,", torch.cuda.memory_allocated() >> 20, "MiB allocated")
    server.prefill(MAX_ROWS)
    print("long prompt done")


if __name__ == "__main__":
    main(users=18)
