import torch
from torch import nn


class Segmenter(nn.Module):
    def __init__(self, classes=21):
        super().__init__()
        self.encode = nn.Conv2d(3, 64, 8, stride=8)
        self.head = nn.Conv2d(64, classes, 1)

    def forward(self, x):
        x = self.head(torch.relu(self.encode(x)))
        return nn.functional.interpolate(x, scale_factor=8, mode="bilinear")


class Evaluator:
    def __init__(self):
        self.predictions = []
        self.targets = []

    def update(self, logits, target):
        self.predictions.append(logits.softmax(dim=1))
        self.targets.append(target)

    def compute(self):
        correct = [(p.argmax(dim=1) == t).float().mean() for p, t in zip(self.predictions, self.targets)]
        return torch.stack(correct).mean()

    def reset(self):
        self.predictions.clear()
        self.targets.clear()


model = Segmenter().cuda().eval()
evaluator = Evaluator()
EPOCHS, BATCHES = 3, 18

for epoch in range(EPOCHS):
    for _ in range(BATCHES):
        images = torch.rand(4, 3, 512, 512).cuda()
        masks = torch.randint(0, 21, (4, 512, 512), dtype=torch.uint8).cuda()
        with torch.no_grad():
            evaluator.update(model(images), masks)
    accuracy = evaluator.compute()
    evaluator.reset()
