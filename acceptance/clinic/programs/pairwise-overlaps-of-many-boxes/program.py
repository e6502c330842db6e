import torch
from torch import nn

BOXES_PER_IMAGE = [12, 35, 8, 60, 22, 15, 41, 9, 1800, 30, 18, 27]


def pairwise_iou(a, b):
    left_top = torch.maximum(a[:, None, :2], b[None, :, :2])
    right_bottom = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    size = (right_bottom - left_top).clamp(min=0)
    inter = size[..., 0] * size[..., 1]
    area_a = (a[:, 2:] - a[:, :2]).prod(-1)
    area_b = (b[:, 2:] - b[:, :2]).prod(-1)
    return inter / (area_a[:, None] + area_b[None, :] - inter)


class Detector(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, width, 8, 4, 2), nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1), nn.ReLU())
        self.head = nn.Conv2d(width, 4 * 3, 1)

    def forward(self, image):
        return self.head(self.backbone(image)).permute(0, 2, 3, 1).reshape(-1, 4)


def main():
    model = Detector().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    anchors = torch.rand(128 * 128 * 3, 4, device="cuda")
    for count in BOXES_PER_IMAGE:
        image = torch.rand(1, 3, 512, 512, device="cuda")
        truth = torch.rand(count, 4, device="cuda")
        overlaps, assigned = pairwise_iou(anchors, truth).max(dim=1)
        offsets = model(image)
        weight = (overlaps > 0.5).float()[:, None]
        loss = ((anchors + offsets - truth[assigned]).abs() * weight).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("images", len(BOXES_PER_IMAGE))


if __name__ == "__main__":
    main()
