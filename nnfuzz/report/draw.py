"""A concrete graph as a self-contained SVG, readable in light and in dark mode.

No scripts, no ids, no references: any number of drawings can stand in one page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nnfuzz.base.text import one_line
from nnfuzz.ir.view import GraphView
from nnfuzz.operators.attributes import readable
from nnfuzz.report.draw_layout import Layout, layout
from nnfuzz.report.templating import environment

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
    room: the space that the layout keeps free, labels included.
    """

    kind: str
    title: str
    lines: list[str] = field(default_factory=list)
    hint: str = ""
    ins: tuple[str, ...] = ()
    outs: tuple[str, ...] = ()
    room: float = 0.0
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


def draw(graph: GraphView, style: bool = True) -> str:
    """The SVG text of a concrete graph.

    style: False leaves out the CSS, for a page that holds it already.
    """
    types = {value.name: shown_type(value.dtype, value.shape) for value in graph.values}
    boxes = _boxes(graph, types)
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
