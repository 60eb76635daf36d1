"""Modules as users write them, in the small sizes of skeletons (scripts/make/skeletons.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scripts.check.modules import Module


class SelfAttention(nn.Module):
    """PyTorch's own attention, over one sequence."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.attention(x, x, x, need_weights=False)
        return self.norm(x + y)


class GatedFeedForward(nn.Module):
    """The feed-forward part of T5 1.1 and Llama."""

    def __init__(self, width: int, gate: nn.Module, bias: bool = False) -> None:
        super().__init__()
        self.up, self.gate = (nn.Linear(width, 2 * width, bias=bias) for _ in range(2))
        self.down, self.act = nn.Linear(2 * width, width, bias=bias), gate

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.act(self.gate(x)) * self.up(x))


class Dense(nn.Module):
    """BERT's feed-forward part and norm, with the bias and GELU that runtimes fuse."""

    def __init__(self, width: int, approximate: str) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.norm, self.approximate = nn.LayerNorm(width, eps=1e-12), approximate

    def forward(self, x: Tensor) -> Tensor:
        y = F.gelu(self.first(x), approximate=self.approximate)
        return self.norm(self.second(y) + x)


class CachedAttention(nn.Module):
    """One step of a decoder that writes keys and values into buffers of a fixed length."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        b, s, c = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        keys = torch.cat([keys, k], 2)
        values = torch.cat([values, v], 2)
        scores = q @ keys.transpose(-1, -2) / (c // self.heads) ** 0.5
        y = (scores.softmax(-1) @ values).transpose(1, 2).reshape(b, s, c)
        return self.out(y), keys, values


class SlotCache(nn.Module):
    """Keys that are written into slots of a buffer by their positions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.key = nn.Linear(width, width)

    def forward(self, x: Tensor, cache: Tensor, places: Tensor) -> Tensor:
        cache = cache.index_copy(1, places, self.key(x))
        return (x @ cache.transpose(1, 2)).softmax(-1) @ cache


class RelativeAttention(nn.Module):
    """Attention of T5, whose bias is looked up by distance."""

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads, self.bias = heads, nn.Embedding(2 * length, heads)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        steps = torch.arange(length)
        self.register_buffer("distance", steps[None, :] - steps[:, None] + length)

    def forward(self, x: Tensor) -> Tensor:
        b, s, c = x.shape
        q, k, v = (
            p(x).view(b, s, self.heads, -1).transpose(1, 2) for p in (self.q, self.k, self.v)
        )
        scores = q @ k.transpose(2, 3) + self.bias(self.distance).permute(2, 0, 1)[None]
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, c))


class Windows(nn.Module):
    """Windows of Swin: shifted, cut out, normalised, and put back."""

    def __init__(self, channels: int, size: int) -> None:
        super().__init__()
        self.size, self.norm = size, nn.LayerNorm(channels)
        self.mix = nn.Linear(size * size, size * size)

    def forward(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        n = self.size
        y = torch.roll(x, (-1, -1), (1, 2))
        y = y.view(b, h // n, n, w // n, n, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, n * n, c)
        y = self.mix(self.norm(y).transpose(1, 2)).transpose(1, 2)
        y = y.reshape(b, h // n, w // n, n, n, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return x + torch.roll(y, (1, 1), (1, 2))


class ConvNeXt(nn.Module):
    """A block of ConvNeXt with its layer scale."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depth = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.up, self.down = nn.Linear(channels, 2 * channels), nn.Linear(2 * channels, channels)
        self.scale = nn.Parameter(torch.rand(channels))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depth(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)


class Excitation(nn.Module):
    """Squeeze and excitation with SiLU, as EfficientNet has it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.down, self.up = nn.Conv2d(channels, 2, 1), nn.Conv2d(2, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.silu(self.norm(self.body(x)))
        return x + y * self.up(F.silu(self.down(y.mean((2, 3), keepdim=True)))).sigmoid()


class Timed(nn.Module):
    """A block of a diffusion model's U-Net."""

    def __init__(self, channels: int, times: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(2, channels) for _ in range(2))
        self.convs = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.time = nn.Linear(times, 2 * channels)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        scale, shift = self.time(F.silu(time))[:, :, None, None].chunk(2, 1)
        y = self.convs[0](F.silu(self.norms[0](x)))
        y = self.norms[1](y) * (1 + scale) + shift
        return x + self.convs[1](F.silu(y))


class Shuffle(nn.Module):
    """A block of ShuffleNet."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.point, self.last = nn.Conv2d(half, half, 1), nn.Conv2d(half, half, 1)
        self.depth = nn.Conv2d(half, half, 3, padding=1, groups=half)

    def forward(self, x: Tensor) -> Tensor:
        left, right = x.chunk(2, 1)
        y = torch.cat([left, self.last(self.depth(F.relu(self.point(right))))], 1)
        b, c, h, w = y.shape
        return y.view(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w)


class Pyramid(nn.Module):
    """Two levels of features that are brought together."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down = nn.Conv2d(channels, channels, 3, 2, 1)
        self.sides = nn.ModuleList(nn.Conv2d(channels, 4, 1) for _ in range(2))
        self.out = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        low = self.sides[1](F.relu(self.down(x)))
        up = F.interpolate(low, scale_factor=2.0, mode="nearest")
        return self.out(self.sides[0](x) + up), low


class Sampling(nn.Module):
    """The probabilities of the next token, of the best few that make up most of the sum."""

    def __init__(self, width: int, words: int) -> None:
        super().__init__()
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        scores, _ = (self.head(self.norm(x[:, -1])) / 0.8).topk(6, -1)
        shares = scores.softmax(-1)
        kept = torch.where(shares.cumsum(-1) - shares < 0.9, shares, torch.zeros_like(shares))
        return kept / kept.sum(-1, keepdim=True)


class Gated(nn.Module):
    """A block of WaveNet."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.both = nn.Conv1d(channels, 2 * channels, 2, dilation=2)
        self.out = nn.Conv1d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.both(F.pad(x, (2, 0))).chunk(2, 1)
        return x + self.out(a.tanh() * b.sigmoid())


class Sentence(nn.Module):
    """The mean of a sequence without its padding, of length 1."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        weight = mask.unsqueeze(-1).to(x.dtype).clamp(0.0, 1.0)
        mean = (x * weight).sum(1) / weight.sum(1).clamp(min=1e-3)
        return F.normalize(self.dense(mean).tanh(), dim=-1)


class Adapted(nn.Module):
    """A projection with a low-rank adapter."""

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        self.base = nn.Linear(width, width)
        self.down, self.up = nn.Linear(width, rank, bias=False), nn.Linear(rank, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + 0.5 * self.up(self.down(x))


class Experts(nn.Module):
    """The best two of four experts by a router, all of which are computed."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, 4, bias=False)
        self.first, self.second = (nn.Parameter(torch.randn(4, width, width)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        shares, places = self.gate(x).softmax(-1).topk(2, -1)
        shares = shares / shares.sum(-1, keepdim=True)
        weight = torch.zeros(x.shape[0], 4).scatter(1, places, shares)
        y = F.silu(x.unsqueeze(0) @ self.first) @ self.second
        return (y * weight.t().unsqueeze(-1)).sum(0)


class Patches(nn.Module):
    """The front of a ViT: patches, a class token, positions."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, 2, 2)
        self.first = nn.Parameter(torch.randn(1, 1, width))
        self.places, self.norm = nn.Parameter(torch.randn(1, count, width)), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.patch(x).flatten(2).transpose(1, 2)
        return self.norm(torch.cat([self.first.expand(len(x), -1, -1), y], 1) + self.places)


class Boxes(nn.Module):
    """The boxes and classes of DETR."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.classes, self.hidden = nn.Linear(width, 5), nn.Linear(width, width)
        self.box = nn.Linear(width, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        scores, labels = self.classes(x).softmax(-1)[..., :-1].max(-1)
        cx, cy, w, h = self.box(F.relu(self.hidden(x))).sigmoid().unbind(-1)
        corners = [cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2]
        return scores, labels, torch.stack(corners, -1)


class Tagger(nn.Module):
    """An LSTM in both directions and the probabilities of tags."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, 4, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.log_softmax(self.tags(self.lstm(x)[0]), -1)


class Mamba(nn.Module):
    """The front of a layer of Mamba: a gate and a depthwise causal convolution."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.both = nn.Linear(width, 2 * width, bias=False)
        self.conv = nn.Conv1d(width, width, 4, padding=3, groups=width)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y, gate = self.both(x).chunk(2, -1)
        y = self.conv(y.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)
        decay = F.softplus(y).cumsum(1)
        return self.out(F.silu(y) * torch.exp(-0.1 * decay) * F.silu(gate))


def transformer(kind: Callable[..., nn.Module], norm_first: bool) -> nn.Module:
    """A layer of PyTorch's own transformer."""
    return kind(8, 2, 16, 0.0, F.gelu, batch_first=True, norm_first=norm_first)


def _sequence(width: int = 8, length: int = 5, batch: int = 2) -> Tensor:
    return torch.randn(batch, length, width)


MODULES: Mapping[str, Callable[[], Module]] = {
    "self_attention": lambda: Module(SelfAttention(8, 2), (_sequence(),)),
    "encoder": lambda: Module(transformer(nn.TransformerEncoderLayer, False), (_sequence(),)),
    "encoder_norm_first": lambda: Module(
        transformer(nn.TransformerEncoderLayer, True), (_sequence(),)
    ),
    "decoder": lambda: Module(
        transformer(nn.TransformerDecoderLayer, False), (_sequence(), _sequence(length=3))
    ),
    "swiglu": lambda: Module(GatedFeedForward(8, nn.SiLU()), (_sequence(),)),
    "geglu": lambda: Module(GatedFeedForward(8, nn.GELU(), True), (_sequence(),)),
    "dense": lambda: Module(Dense(8, "none"), (_sequence(),)),
    "dense_tanh": lambda: Module(Dense(8, "tanh"), (_sequence(),)),
    "cached_attention": lambda: Module(
        CachedAttention(8, 2),
        (_sequence(length=1), torch.randn(2, 2, 3, 4), torch.randn(2, 2, 3, 4)),
    ),
    "slot_cache": lambda: Module(
        SlotCache(8), (_sequence(length=2), _sequence(length=6), torch.tensor([3, 1]))
    ),
    "relative_attention": lambda: Module(RelativeAttention(8, 2, 5), (_sequence(),)),
    "windows": lambda: Module(Windows(6, 2), (torch.randn(2, 4, 6, 6),)),
    "convnext": lambda: Module(ConvNeXt(6), (torch.randn(2, 6, 8, 8),)),
    "excitation": lambda: Module(Excitation(6), (torch.randn(2, 6, 8, 8),)),
    "timed": lambda: Module(Timed(4, 6), (torch.randn(2, 4, 4, 4), torch.randn(2, 6))),
    "shuffle": lambda: Module(Shuffle(6), (torch.randn(2, 6, 5, 5),)),
    "pyramid": lambda: Module(Pyramid(6), (torch.randn(2, 6, 8, 8),)),
    "sampling": lambda: Module(Sampling(8, 16), (_sequence(),)),
    "gated": lambda: Module(Gated(6), (torch.randn(2, 6, 9),)),
    "sentence": lambda: Module(Sentence(8), (_sequence(), torch.ones(2, 5))),
    "adapted": lambda: Module(Adapted(8, 2), (_sequence(),)),
    "experts": lambda: Module(Experts(6), (torch.randn(3, 6),)),
    "patches": lambda: Module(Patches(8, 17), (torch.randn(2, 3, 8, 8),)),
    "boxes": lambda: Module(Boxes(8), (_sequence(),)),
    "tagger": lambda: Module(Tagger(6), (_sequence(6),)),
    "mamba": lambda: Module(Mamba(6), (_sequence(6),)),
}
