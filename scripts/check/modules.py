"""Small modules of the kinds that are deployed, for scripts/check/imports.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Module:
    """A module with example inputs. dynamic: whether the first axis of all inputs is symbolic."""

    module: nn.Module
    inputs: tuple[Tensor, ...]
    dynamic: bool = False


MODULES: dict[str, Callable[[], Module]] = {}


def module(make: Callable[[], Module]) -> Callable[[], Module]:
    MODULES[make.__name__] = make
    return make


class Of(nn.Module):
    """A function with sub-modules."""

    def __init__(self, function: Callable[..., Tensor], **parts: nn.Module | Tensor) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            if isinstance(part, Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, *xs: Tensor) -> Tensor:
        return self.function(self, *xs)


def image(c: int = 3, size: int = 16, n: int = 2) -> Tensor:
    return torch.randn(n, c, size, size)


def cbr(i: int, o: int, k: int = 3, s: int = 1, g: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(i, o, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(o), nn.ReLU6()
    )


@module
def mlp() -> Module:
    net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(), nn.Linear(16, 4))
    return Module(net, (torch.randn(3, 8),), True)


@module
def cnn() -> Module:
    net = nn.Sequential(cbr(3, 8), nn.MaxPool2d(2), cbr(8, 8), nn.AdaptiveAvgPool2d(1))
    return Module(nn.Sequential(net, nn.Flatten(), nn.Linear(8, 5)), (image(),), True)


@module
def resnet() -> Module:
    net = nn.Sequential(cbr(8, 4, 1), cbr(4, 4), nn.Conv2d(4, 8, 1), nn.BatchNorm2d(8))
    return Module(Of(lambda m, x: F.relu(x + m.net(x)), net=net), (image(8),), True)


@module
def inverted_residual() -> Module:
    net = nn.Sequential(cbr(8, 24, 1), cbr(24, 24, g=24), nn.Hardswish(), nn.Conv2d(24, 8, 1))
    se = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 8, 1), nn.Hardsigmoid())

    def run(m, x):
        y = m.net(x)
        return x + y * m.se(y)

    return Module(Of(run, net=net, se=se), (image(8),), True)


@module
def unet() -> Module:
    def run(m, x):
        deep = m.up(m.down(x))
        return m.out(torch.cat([x, deep], 1))

    parts = {"down": cbr(4, 8, s=2), "up": nn.ConvTranspose2d(8, 4, 2, 2), "out": cbr(8, 4)}
    return Module(Of(run, **parts), (image(4),), True)


class Heads(nn.Module):
    """Self-attention written out, as most models have it."""

    def __init__(self, d: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        b, s, d = x.shape
        q, k, v = self.qkv(x).reshape(b, s, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)
        if mask is not None:
            scores = scores + mask
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, d))


class Block(nn.Module):
    def __init__(self, d: int = 16) -> None:
        super().__init__()
        self.attend, self.a, self.b = Heads(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = x + self.attend(self.a(x), mask)
        return x + self.mlp(self.b(x))


@module
def vit() -> Module:
    def run(m, x):
        x = m.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([m.cls.expand(x.shape[0], -1, -1), x], 1) + m.position
        return m.head(m.block(x)[:, 0])

    parts = {
        "patch": nn.Conv2d(3, 16, 4, 4),
        "cls": nn.Parameter(torch.randn(1, 1, 16)),
        "position": nn.Parameter(torch.randn(1, 17, 16)),
        "block": Block(),
        "head": nn.Linear(16, 5),
    }
    return Module(Of(run, **parts), (image(),), True)


@module
def bert() -> Module:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")
    words = nn.Embedding(20, 16)
    net = Of(lambda m, ids: m.layer(m.words(ids)), layer=layer, words=words)
    return Module(net, (torch.randint(0, 20, (2, 6)),))


@module
def gpt() -> Module:
    mask = torch.full((6, 6), -math.inf).triu(1)
    words = nn.Embedding(20, 16)

    def run(m, ids):
        x = m.words(ids) + m.position[: ids.shape[1]]
        return m.norm(m.block(x, m.mask)) @ m.words.weight.t()

    parts = {"mask": mask, "words": words, "block": Block(), "norm": nn.LayerNorm(16)}
    return Module(Of(run, position=torch.randn(6, 16), **parts), (torch.randint(0, 20, (2, 6)),))


@module
def gpt_masked_fill() -> Module:
    def run(m, x):
        scores = x @ x.transpose(-1, -2) / 4
        scores = scores.masked_fill(~m.allowed, -math.inf)
        return scores.softmax(-1) @ x

    return Module(Of(run, allowed=torch.ones(6, 6).tril().bool()), (torch.randn(2, 6, 16),), True)


@module
def sdpa_causal() -> Module:
    def run(m, q):
        return F.scaled_dot_product_attention(q, q, q, is_causal=True)

    return Module(Of(run), (torch.randn(2, 2, 5, 8),))


@module
def padding_mask() -> Module:
    def run(m, x, keep):
        mask = torch.where(keep[:, None, None, :] > 0, 0.0, -math.inf)
        return m.block(x, mask)

    keep = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]])
    return Module(Of(run, block=Block()), (torch.randn(2, 5, 16), keep))


class RMSNorm(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


@module
def llama() -> Module:
    def rotate(x, cos, sin):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    def run(m, x, past_k, past_v):
        b, s, d = x.shape
        h = m.norm(x)
        q, k, v = (f(h).view(b, s, 2, 8).transpose(1, 2) for f in (m.q, m.k, m.v))
        q, k = rotate(q, m.cos, m.sin), rotate(k, m.cos, m.sin)
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        scores = q @ k.transpose(2, 3) / math.sqrt(8) + m.mask
        y = (scores.softmax(-1, dtype=torch.float32) @ v).transpose(1, 2).reshape(b, s, d)
        x = x + m.o(y)
        h = m.norm2(x)
        return x + m.down(F.silu(m.gate(h)) * m.up(h)), k, v

    line = {n: nn.Linear(16, 16, bias=False) for n in ("q", "k", "v", "o")}
    line |= {"gate": nn.Linear(16, 32), "up": nn.Linear(16, 32), "down": nn.Linear(32, 16)}
    angle = torch.outer(torch.arange(3.0, 6), 1e4 ** (-torch.arange(0, 8, 2) / 8)).repeat(1, 2)
    rope = {"cos": angle.cos(), "sin": angle.sin(), "norm": RMSNorm(16), "norm2": RMSNorm(16)}
    mask = torch.full((3, 6), -math.inf).triu(4)
    past = torch.randn(2, 2, 3, 8), torch.randn(2, 2, 3, 8)
    return Module(Of(run, mask=mask, **line, **rope), (torch.randn(2, 3, 16), *past))


@module
def moe() -> Module:
    def run(m, x):
        weights, picked = m.router(x).softmax(-1).topk(2, -1)
        every = torch.stack([expert(x) for expert in m.experts], 1)
        chosen = every.gather(1, picked.unsqueeze(-1).expand(-1, -1, 8))
        return (chosen * weights.unsqueeze(-1)).sum(1)

    experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
    return Module(Of(run, router=nn.Linear(8, 4), experts=experts), (torch.randn(3, 8),), True)


@module
def lstm() -> Module:
    return Module(Of(lambda m, x: m.net(x)[0], net=nn.LSTM(4, 6)), (torch.randn(5, 2, 4),))


@module
def gru() -> Module:
    net = nn.GRU(4, 6, num_layers=2, batch_first=True)
    return Module(Of(lambda m, x: m.net(x)[0], net=net), (torch.randn(2, 5, 4),))


@module
def bidirectional_lstm() -> Module:
    net = nn.LSTM(4, 6, bidirectional=True)
    return Module(Of(lambda m, x: m.net(x)[0], net=net), (torch.randn(5, 2, 4),))


@module
def group_norm() -> Module:
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.InstanceNorm2d(8))
    return Module(net, (image(),))


@module
def embedding_bag() -> Module:
    def run(m, ids):
        return m.words(ids).mean(1)

    return Module(Of(run, words=nn.Embedding(20, 6)), (torch.randint(0, 20, (3, 5)),), True)


@module
def detection() -> Module:
    def run(m, x):
        raw = m.head(x).flatten(2).transpose(1, 2)
        centre, size, score = raw.split([2, 2, 3], -1)
        centre = centre.sigmoid() + m.grid
        size = size.clamp(-4, 4).exp() * 0.5
        return torch.cat([centre - size, centre + size], -1), score.sigmoid().amax(-1)

    y, x = torch.meshgrid(torch.arange(4.0), torch.arange(4.0), indexing="ij")
    grid = torch.stack([x, y], -1).reshape(-1, 2)
    return Module(Of(run, head=nn.Conv2d(8, 7, 1), grid=grid), (image(8, 4),))


@module
def super_resolution() -> Module:
    net = nn.Sequential(nn.Conv2d(3, 12, 3, 1, 1), nn.PReLU(), nn.PixelShuffle(2))
    return Module(net, (image(),), True)


@module
def upsample() -> Module:
    def run(m, x):
        return (
            F.interpolate(x, scale_factor=2, mode="nearest"),
            F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False),
            F.interpolate(x, size=(7, 7), mode="bilinear", align_corners=True),
            F.interpolate(x, scale_factor=2, mode="bicubic"),
        )

    return Module(Of(run), (image(2, 4),))


@module
def conv1d() -> Module:
    net = nn.Sequential(nn.Conv1d(4, 8, 3, padding=2, dilation=2), nn.ELU(), nn.AvgPool1d(2))
    return Module(net, (torch.randn(2, 4, 16),), True)


@module
def conv3d() -> Module:
    net = nn.Sequential(nn.Conv3d(2, 4, 3), nn.BatchNorm3d(4), nn.LeakyReLU(), nn.MaxPool3d(2))
    return Module(net, (torch.randn(1, 2, 6, 6, 6),))


@module
def gan() -> Module:
    net = nn.Sequential(
        nn.ConvTranspose2d(8, 8, 4, 1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh(),
    )  # fmt: skip
    return Module(net, (image(8, 1),), True)


@module
def state_space() -> Module:
    def run(m, x):
        decay, found = torch.exp(-F.softplus(m.rate)), []
        state = torch.zeros_like(x[:, 0])
        for i in range(4):
            state = decay * state + m.write(x[:, i])
            found.append(state)
        return torch.stack(found, 1) * F.silu(x)

    parts = {"rate": nn.Parameter(torch.randn(6)), "write": nn.Linear(6, 6)}
    return Module(Of(run, **parts), (torch.randn(2, 4, 6),))


@module
def quantised() -> Module:
    def run(m, x):
        x = torch.fake_quantize_per_tensor_affine(x, 0.05, 3, -128, 127)
        w = torch.fake_quantize_per_tensor_affine(m.weight, 0.02, 0, -128, 127)
        return torch.fake_quantize_per_tensor_affine(F.linear(x, w), 0.1, 0, -128, 127)

    return Module(Of(run, weight=nn.Parameter(torch.randn(4, 6))), (torch.randn(3, 6),))


@module
def einsum() -> Module:
    def run(m, x, y):
        return torch.einsum("bhid,bhjd->bhij", x, y).argmax(-1), torch.einsum("bhid->bhd", x)

    return Module(Of(run), (torch.randn(2, 2, 3, 4), torch.randn(2, 2, 5, 4)))


@module
def geometry() -> Module:
    def run(m, x):
        x = F.pad(x, (1, 2, 0, 1), mode="reflect")
        x = torch.roll(x, 1, -1).flip(-2)[..., ::2]
        return torch.where(x > 0, x, x.cumsum(-1)), x.std(-1), x.norm(dim=-1)

    return Module(Of(run), (torch.randn(2, 3, 5, 6),))
