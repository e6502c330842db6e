import torch
from torch import nn


class ClipEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv3d(3, 32, (4, 16, 16), stride=(4, 16, 16)), nn.GELU())

    def forward(self, clip):
        return self.net(clip.permute(1, 0, 2, 3)[None].float() / 255).mean(dim=(2, 3, 4))


class VideoStream:
    def __init__(self, encoder, clip_length):
        self.encoder = encoder
        self.clip_length = clip_length
        self.frames = None

    def push(self, frame):
        frame = frame.cuda()[None]
        self.frames = frame if self.frames is None else torch.cat([self.frames, frame])
        if len(self.frames) < self.clip_length:
            return None
        clip, self.frames = self.frames, None
        with torch.inference_mode():
            return self.encoder(clip).cpu()


def main(frames):
    stream = VideoStream(ClipEncoder().cuda().eval(), clip_length=32)
    events = 0
    for _ in range(frames):
        result = stream.push(torch.zeros(3, 720, 1280, dtype=torch.uint8))
        events += result is not None
    print(events, "clips", len(stream.frames), "frames waiting")


if __name__ == "__main__":
    main(frames=240)
