import torch
from torch import nn


def make_generator(width=96):
    return nn.Sequential(
        nn.ConvTranspose2d(128, 4 * width, 4), nn.ReLU(),
        nn.ConvTranspose2d(4 * width, 2 * width, 4, stride=4), nn.ReLU(),
        nn.ConvTranspose2d(2 * width, width, 4, stride=4), nn.ReLU(),
        nn.ConvTranspose2d(width, 3, 4, stride=4), nn.Tanh(),
    )


def make_critic(width=96):
    return nn.Sequential(
        nn.Conv2d(3, width, 4, stride=4), nn.LeakyReLU(0.2), nn.Conv2d(width, 2 * width, 4, stride=4),
        nn.LeakyReLU(0.2), nn.Conv2d(2 * width, 4 * width, 4, stride=4), nn.Flatten(), nn.LazyLinear(1),
    )


generator, critic = make_generator().cuda(), make_critic().cuda()
critic(torch.zeros(1, 3, 256, 256, device="cuda"))
generator_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-4, betas=(0.0, 0.9), fused=True)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=4e-4, betas=(0.0, 0.9), fused=True)
fixed_noise = torch.randn(16, 128, 1, 1).cuda()
ROUNDS = 12

for iteration in range(ROUNDS):
    for _ in range(2):
        real = torch.rand(64, 3, 256, 256).cuda()
        with torch.no_grad():
            fake = generator(torch.randn(64, 128, 1, 1).cuda())
        critic_loss = torch.relu(1 - critic(real)).mean() + torch.relu(1 + critic(fake)).mean()
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_optimizer.step()
    fake = generator(torch.randn(64, 128, 1, 1).cuda())
    generator_loss = -critic(fake).mean()
    generator_optimizer.zero_grad()
    generator_loss.backward()
    generator_optimizer.step()
    if iteration % 6 == 5:
        with torch.no_grad():
            samples = generator(fixed_noise).cpu()
