"""Layered layout of a directed acyclic graph: layers, order within them, coordinates.

Source: Sugiyama, Tagawa, Toda 1981 (layers, barycentres); every layer is centred.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from statistics import fmean

_SWEEPS = 4
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
    for _ in range(_SWEEPS):
        for upper, layer in pairwise(layers):
            _sort(layer, upper, above, {})
        for lower, layer in pairwise(layers[::-1]):
            _sort(layer, lower, below, links)
    x = {key: at for layer in layers for key, at in _centred(layer, widths, gap).items()}
    edge = min((x[key] - widths.get(key, 0.0) / 2 for key in x), default=0.0)
    return Layout(layers, {key: at - edge for key, at in x.items()}, routes)


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


def _sort(layer: list[Key], fixed: list[Key], beside: Neighbours, links: Links) -> None:
    """Orders a layer by the mean place of each key's neighbours; keys without any stay."""
    place = {key: float(i) for i, key in enumerate(fixed)}
    means = {}
    for i, key in enumerate(layer):
        places = [place[n] + _PORTS * links.get((key, n), 0.0) for n in beside[key]]
        means[key] = fmean(places or [i * len(fixed) / len(layer)])
    layer.sort(key=means.__getitem__)


def _centred(layer: Sequence[Key], widths: Mapping[Key, float], gap: float) -> dict[Key, float]:
    """The centres of a layer's keys around 0, each a gap from the next."""
    sizes = [widths.get(key, 0.0) for key in layer]
    steps = [(a + b) / 2 + gap for a, b in pairwise(sizes)]
    left = (sum(sizes) + gap * (len(layer) - 1)) / 2
    return dict(zip(layer, accumulate(steps, initial=sizes[0] / 2 - left)))
