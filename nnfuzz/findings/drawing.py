"""A concrete graph as a self-contained SVG, readable in light and in dark mode.

No scripts, no ids, no references: any number of drawings can stand in one page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from statistics import fmean
from typing import Any

from markupsafe import Markup

from nnfuzz.base.text import one_line
from nnfuzz.findings.text import environment
from nnfuzz.ir.view import GraphView
from nnfuzz.operators.attributes import readable
from nnfuzz.triage.pattern import upstream

MAX_NODES = 80
"""Of a graph with more nodes only those before the wrong value are drawn."""
MAX_WIDTH = 900
"""Pixels; a wider drawing is scaled down."""
_CHAR, _SMALL = 8.0, 6.2  # pixels per character of a title and of the other texts
_LINE, _ROWS, _COLUMNS = 14, 4, 32  # of attributes
_GAP, _BETWEEN, _STUB, _MARGIN = 26, 56, 16, 14

_DTYPES = {"float": "f", "uint": "u", "int": "i"}


@dataclass
class _Box:
    """The drawing of an input, a weight, a node or an output. Sizes in pixels.

    ins, outs: the values that enter at the top and leave at the bottom, from left to right.
    room: the space that the layout keeps free, labels included. wrong: whether it is marked.
    """

    kind: str
    title: str
    lines: list[str] = field(default_factory=list)
    hint: str = ""
    ins: tuple[str, ...] = ()
    outs: tuple[str, ...] = ()
    room: float = 0.0
    wrong: bool = False
    x: float = 0.0
    y: float = 0.0

    @property
    def is_node(self) -> bool:
        return self.kind == "node"

    @property
    def width(self) -> float:
        texts = [len(self.title) * _CHAR, *(len(line) * _SMALL for line in self.lines)]
        own = max([*texts, 40, 24 * len(self.ins)]) + 20
        return max(own, self.room) if len(self.outs) > 1 else own

    @property
    def height(self) -> float:
        return 26 + _LINE * len(self.lines)

    def entry(self, place: int) -> tuple[float, float]:
        return self.x + self.width * ((place + 1) / (len(self.ins) + 1) - 0.5), self.y

    def exit(self, place: int) -> tuple[float, float]:
        """A label stands right of its edge, so that several edges keep to the left."""
        count = len(self.outs)
        shift = (place + 0.5) / count - 0.5 if count == 1 else (place + 0.15) / count - 0.5
        return self.x + self.width * shift, self.y + self.height


def drawing(graph: GraphView, wrong: str) -> Markup | None:
    """The graph; of a large one, the nodes before the wrong value."""
    if graph and len(graph.nodes) > MAX_NODES:
        graph = leading_to(graph, wrong, MAX_NODES // 4)
    try:
        return Markup(draw(graph, style=False, wrong=wrong)) if graph else None  # draw escapes
    except (KeyError, TypeError, ValueError):
        return None


def leading_to(graph: GraphView, value: str, count: int) -> GraphView:
    """The last `count` nodes that a value depends on; empty if no node computes it. What they read
    of others are inputs.
    """
    before = upstream(graph, value).nodes
    nodes = before[-count:] if value in graph.makers else ()
    made = {name for node in nodes for name in node.outputs}
    read = dict.fromkeys(
        name for node in nodes for name in node.inputs if name and name not in made
    )
    weights = tuple(name for name in read if name in graph.weights)
    inputs = tuple(name for name in read if name not in weights)
    return replace(graph, nodes=nodes, inputs=inputs, weights=weights, outputs=(value,))


def draw(graph: GraphView, style: bool = True, wrong: str = "") -> str:
    """The SVG text of a concrete graph.

    style: False leaves out the CSS, for a page that holds it already. wrong: the value whose node
    is marked.
    """
    types = {value.name: shown_type(value.dtype, value.shape) for value in graph.values}
    boxes = _boxes(graph, types)
    for box in boxes:
        box.wrong = box.is_node and wrong in box.outs
    edges = list(_edges(boxes))
    ports = [(a, b, (place + 1) / (len(boxes[b].ins) + 1)) for a, b, _, place in edges]
    placed = layout({i: box.room for i, box in enumerate(boxes)}, ports, _GAP)
    heights = _place(boxes, placed)
    bends = [x + _MARGIN for key, x in placed.x.items() if not isinstance(key, int)]
    width = max(
        [120.0, *(b.x + b.room / 2 + _MARGIN for b in boxes), *(x + _MARGIN for x in bends)]
    )
    bottom = heights[-1][1] if heights else 0.0
    template = environment(html=True).get_template("drawing.svg.jinja")
    return template.render(
        boxes=boxes,
        types=types,
        edges=[_edge(boxes, placed, heights, *pair) for pair in zip(edges, placed.routes)],
        line_height=_LINE,
        width=width,
        height=bottom + _MARGIN,
        shown=min(width, MAX_WIDTH),
        style=style,
    )


def shown_type(dtype: str, shape: Sequence[int | str]) -> str:
    """f32[2, 3] for ("float32", [2, 3])."""
    for long, short in _DTYPES.items():
        if str(dtype).startswith(long):
            dtype = short + str(dtype).removeprefix(long)
            break
    return _cut(f"{dtype}[{', '.join(map(str, shape))}]", 60)


def _boxes(graph: GraphView, types: Mapping[str, str]) -> list[_Box]:
    """Inputs and weights, nodes, outputs: in topological order."""
    boxes = []
    for kind, names in (("input", graph.inputs), ("weight", graph.weights)):
        for name in names:
            boxes.append(_Box(kind, _cut(name, 24), [types[name]], name, outs=(name,)))
    for node in graph.nodes:
        attributes = [f"{k} = {readable(v)}" for k, v in node.attributes.items() if v is not None]
        boxes.append(
            _Box(
                "node",
                _cut(node.op, 28),
                _shortened(attributes),
                "\n".join([node.op, *attributes]),
                tuple(node.inputs),
                tuple(node.outputs),
            )
        )
    for name in graph.outputs:
        boxes.append(_Box("output", _cut(name, 24), [types[name]], name, (name,)))
    for box in boxes:
        box.room = max(box.width, _label_room(box, types) if box.is_node else 0.0)
    return boxes


def _label_room(box: _Box, types: Mapping[str, str]) -> float:
    """So much that no label reaches the next box: labels stand right of their edge."""
    widest = max((len(types[name]) for name in box.outs), default=0) * _SMALL + 10
    return widest * len(box.outs) if len(box.outs) > 1 else 2 * widest - _GAP


def _edges(boxes: Sequence[_Box]) -> Iterable[tuple[int, int, int, int]]:
    """Producer and consumer, place among the producer's outs, among the consumer's ins."""
    made: dict[str, tuple[int, int]] = {}
    for number, box in enumerate(boxes):
        for place, name in enumerate(box.ins):
            if name in made:
                yield made[name][0], number, made[name][1], place
        made.update({name: (number, place) for place, name in enumerate(box.outs)})


def _place(boxes: Sequence[_Box], placed: Layout) -> list[tuple[float, float]]:
    """Sets the boxes' places; returns top and bottom of every layer."""
    top, heights = float(_MARGIN), []
    for layer in placed.layers:
        own = [boxes[key] for key in layer if isinstance(key, int)]
        height = max(box.height for box in own) if own else 0.0
        for key in layer:
            if isinstance(key, int):
                boxes[key].x = placed.x[key] + _MARGIN
                sits_low = boxes[key].kind in ("input", "weight")
                boxes[key].y = top + (height - boxes[key].height if sits_low else 0.0)
        heights.append((top, top + height))
        top += height + _BETWEEN
    return heights


def _edge(
    boxes: Sequence[_Box],
    placed: Layout,
    heights: Sequence[tuple[float, float]],
    edge: tuple[int, int, int, int],
    route: Sequence[Any],
) -> tuple[str, str]:
    """The paths of an edge and of its head."""
    source, target, leaves, enters = edge
    x, y = boxes[source].exit(leaves)
    path = f"M{x:.1f} {y:.1f}"
    if boxes[source].is_node:  # straight down, past the label
        y += _STUB
        path += f"V{y:.1f}"
    for bend in route:
        top, bottom = heights[bend[2]]
        to = placed.x[bend] + _MARGIN
        path += _curve(x, y, to, top) + f"V{bottom:.1f}"
        x, y = to, bottom
    to, end = boxes[target].entry(enters)
    path += _curve(x, y, to, end - 6)
    head = f"M{to - 4:.1f} {end - 7:.1f}L{to:.1f} {end:.1f}L{to + 4:.1f} {end - 7:.1f}Z"
    return path, head


def _curve(x: float, y: float, to: float, end: float) -> str:
    middle = (y + end) / 2
    return f"C{x:.1f} {middle:.1f} {to:.1f} {middle:.1f} {to:.1f} {end:.1f}"


def _shortened(attributes: Sequence[str]) -> list[str]:
    """At most three lines; the rest is in the tooltip."""
    lines = [_cut(line, _COLUMNS) for line in attributes]
    more = len(lines) - _ROWS
    return lines if more <= 0 else [*lines[: _ROWS - 1], f"... {more + 1} more"]


def _cut(text: str, limit: int) -> str:
    text = one_line(text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


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
