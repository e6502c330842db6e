import torch
from torch import nn


class Recommender(nn.Module):
    def __init__(self, users=400_000, items=300_000, dim=256):
        super().__init__()
        self.users = nn.Embedding(users, dim, sparse=True)
        self.items = nn.Embedding(items, dim, sparse=True)

    def forward(self, user, item):
        return (self.users(user) * self.items(item)).sum(dim=-1)


model = Recommender().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loss_history = []
STEPS = 60

for step in range(STEPS):
    user = torch.randint(0, 400_000, (65536,)).cuda()
    item = torch.randint(0, 300_000, (65536,)).cuda()
    clicked = torch.randint(0, 2, (65536,)).float().cuda()
    loss = nn.functional.binary_cross_entropy_with_logits(model(user, item), clicked)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    loss_history.append(loss.detach())

curve = torch.stack(loss_history).cpu()
print(len(curve), "steps")
