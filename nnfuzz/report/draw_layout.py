"""Layered layout of a directed acyclic graph: layers, order within them, coordinates.

Source: Sugiyama, Tagawa, Toda 1981 (layers, barycentres); coordinates are the isotonic regression
of the neighbours' mean positions, so that neighbours in a layer keep their distance.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from statistics import fmean

_SWEEPS = 12
_ROUNDS = 100
_LIGHT = 0.05
"""Pull of a key without predecessors and with one successor: it leaves the way to the others."""

_PORTS = 0.9
"""Share of the distance between two places that the ports of one key take."""

Key = Hashable
Links = dict[tuple[Key, Key], float]
Neighbours = Mapping[Key, list[Key]]
"""Neighbours in adjacent layers, and where the link enters the lower one, from 0 to 1."""


@dataclass
class Layout:
    """layers: keys from top to bottom and from left to right. x: centres, from 0, in pixels.

    routes: for every edge (by place) the keys of the bends between its ends. Bends have no width.
    """

    layers: list[list[Key]]
    x: dict[Key, float] = field(default_factory=dict)
    routes: list[list[Key]] = field(default_factory=list)


def layout(
    widths: Mapping[Key, float], edges: Sequence[tuple[Key, Key, float]], gap: float = 24.0
) -> Layout:
    """Places the keys of `widths` (pixels) so that every edge runs downwards.

    edges: source, target, and where it enters the target, from 0 (left) to 1. They form no cycle;
    the keys come in topological order.
    """
    depth = _depths(list(widths), [edge[:2] for edge in edges])
    layers: list[list[Key]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for key in widths:
        layers[depth[key]].append(key)
    routes, links = _bends(layers, depth, edges)
    above, below = _neighbours(links)
    _order(layers, above, below, links)
    x = _coordinates(layers, above, below, widths, gap)
    return Layout(layers, x, routes)


def _depths(keys: list[Key], edges: Sequence[tuple[Key, Key]]) -> dict[Key, int]:
    """The longest path from the top; a node without predecessors moves down to its first reader."""
    depth = dict.fromkeys(keys, 0)
    before, after = _neighbours(edges)
    for key in keys:
        depth[key] = max((depth[k] + 1 for k in before[key]), default=0)
    for key in keys:
        if not before[key] and after[key]:
            depth[key] = min(depth[k] for k in after[key]) - 1
    return depth


def _bends(
    layers: list[list[Key]], depth: Mapping[Key, int], edges: Sequence[tuple[Key, Key, float]]
) -> tuple[list[list[Key]], Links]:
    """Adds a bend to every layer that an edge crosses; bends of one source are shared."""
    routes: list[list[Key]] = []
    links: Links = {}
    made = set()
    for source, target, port in edges:
        route: list[Key] = []
        for level in range(depth[source] + 1, depth[target]):
            bend = ("bend", source, level)
            route.append(bend)
            if bend not in made:
                made.add(bend)
                layers[level].append(bend)
        chain = [source, *route, target]
        for pair in pairwise(chain):
            links.setdefault(pair, port if pair[1] == target else 0.5)
        routes.append(route)
    return routes, links


def _neighbours(
    links: Iterable[tuple[Key, Key]],
) -> tuple[dict[Key, list[Key]], dict[Key, list[Key]]]:
    above, below = defaultdict(list), defaultdict(list)
    for source, target in links:
        above[target].append(source)
        below[source].append(target)
    return above, below


def _order(
    layers: list[list[Key]],
    above: Neighbours,
    below: Neighbours,
    links: Links,
) -> None:
    """Barycentre sweeps, down and up in turns; keeps the order with the fewest crossings."""
    best, fewest = [list(layer) for layer in layers], _crossings(layers, below, links)
    for sweep in range(_SWEEPS):
        if sweep % 2 == 0:
            for upper, layer in pairwise(layers):
                _sort(layer, upper, above, {})
        else:
            for lower, layer in pairwise(layers[::-1]):
                _sort(layer, lower, below, links)
        crossings = _crossings(layers, below, links)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    layers[:] = best


def _sort(layer: list[Key], fixed: list[Key], beside: Neighbours, links: Links) -> None:
    """Orders a layer by the mean place of each key's neighbours; keys without any stay."""
    place = {key: float(i) for i, key in enumerate(fixed)}
    means = {}
    for i, key in enumerate(layer):
        places = [place[n] + _PORTS * links.get((key, n), 0.0) for n in beside[key]]
        means[key] = fmean(places or [i * len(fixed) / len(layer)])
    layer.sort(key=means.__getitem__)


def _crossings(layers: list[list[Key]], below: Neighbours, links: Links) -> int:
    total = 0
    for upper, lower in pairwise(layers):
        place = {key: i for i, key in enumerate(lower)}
        ends = [
            (i, place[n] + _PORTS * links[key, n])
            for i, key in enumerate(upper)
            for n in below[key]
        ]
        total += sum(a < c and b > d for a, b in ends for c, d in ends)
    return total


def _coordinates(
    layers: list[list[Key]],
    above: Neighbours,
    below: Neighbours,
    widths: Mapping[Key, float],
    gap: float,
) -> dict[Key, float]:
    """Centres: every key moves towards its neighbours as far as its layer allows."""
    x = {key: 0.0 for layer in layers for key in layer}
    weight = {key: 1.0 if above[key] or len(below[key]) > 1 else _LIGHT for key in x}
    for turn in range(_ROUNDS):
        for layer in layers if turn % 2 == 0 else layers[::-1]:
            wished = []
            for key in layer:
                beside = [*above[key], *below[key]] or [key]
                wished.append(fmean([x[n] for n in beside], [weight[n] for n in beside]))
            distances = _distances(layer, widths, gap)
            x.update(zip(layer, _apart(wished, distances, [weight[key] for key in layer])))
    left = min((x[k] - widths.get(k, 0) / 2 for k in x), default=0.0)
    return {key: value - left for key, value in x.items()}


def _distances(layer: list[Key], widths: Mapping[Key, float], gap: float) -> list[float]:
    sizes = [widths.get(key, 0.0) for key in layer]
    return [(a + b) / 2 + gap for a, b in pairwise(sizes)]


def _apart(wished: list[float], distances: list[float], weights: list[float]) -> list[float]:
    """The positions closest to the wished ones (least squares) that keep the distances."""
    offsets = [0.0, *accumulate(distances)]
    blocks: list[tuple[float, float, int]] = []  # mean, weight, length: pool adjacent violators
    for wish, offset, weight in zip(wished, offsets, weights):
        mean, length = wish - offset, 1
        while blocks and blocks[-1][0] > mean:
            other, heavy, count = blocks.pop()
            mean = (mean * weight + other * heavy) / (weight + heavy)
            weight, length = weight + heavy, length + count
        blocks.append((mean, weight, length))
    flat = [mean for mean, _, length in blocks for _ in range(length)]
    return [mean + offset for mean, offset in zip(flat, offsets)]
