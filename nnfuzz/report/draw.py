"""A concrete graph as a self-contained SVG, readable in light and in dark mode.

No scripts, no ids, no references: any number of drawings can stand in one page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from nnfuzz.report.draw_layout import Layout, layout
from nnfuzz.spec.attributes import shown
from nnfuzz.text import visible

MAX_WIDTH = 900
"""Pixels; a wider drawing is scaled down."""
_CHAR, _SMALL = 8.0, 6.2  # pixels per character of a title and of the other texts
_LINE, _ROWS, _COLUMNS = 14, 4, 32  # of attributes
_GAP, _BETWEEN, _STUB, _MARGIN = 26, 56, 16, 14

_FAMILIES = {
    "linear": "Conv ConvTranspose Einsum GRU Gemm LSTM MatMul RNN",
    "elementwise": "Abs Acos Acosh Add Asin Asinh Atan Atanh Ceil Celu Clip Cos Cosh Div Elu Erf "
    "Exp Floor Gelu HardSigmoid HardSwish LeakyRelu Log Max Mean Min Mish Mod Mul Neg PRelu Pow "
    "Reciprocal Relu Round Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Tan Tanh "
    "ThresholdedRelu",
    "logic and casts": "And BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast Equal Greater "
    "GreaterOrEqual IsInf IsNaN Less LessOrEqual Not Or Where Xor",
    "reduction": "ArgMax ArgMin AveragePool BatchNormalization CumSum GlobalAveragePool "
    "GlobalMaxPool GroupNormalization InstanceNormalization LRN LayerNormalization LogSoftmax "
    "LpNormalization LpPool MaxPool ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax "
    "ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Softmax TopK",
    "data movement": "Concat DepthToSpace Expand Flatten Gather GatherElements GatherND Identity "
    "OneHot Pad Reshape Resize ResizeLinear ResizeNearest ScatterElements ScatterND Slice "
    "SpaceToDepth Split Squeeze Tile Transpose Trilu Unsqueeze",
}
_FAMILY = {op: family for family, ops in _FAMILIES.items() for op in ops.split()}
_OTHER = "other"
_COLOURS = {  # of the box and its border: light mode, dark mode
    "linear": ("#d6e6ff", "#3b74c9", "#1d3557", "#6ea4f2"),
    "elementwise": ("#d9f2dd", "#3f9150", "#1e3b28", "#62b877"),
    "logic and casts": ("#eadcff", "#8253c4", "#372852", "#ab86e3"),
    "reduction": ("#ffe6cc", "#c5762a", "#4a3119", "#e09a55"),
    "data movement": ("#cff1f3", "#278b93", "#17393d", "#54b7bf"),
    _OTHER: ("#e9ecef", "#6c757d", "#343a40", "#a3abb2"),
}
_DTYPES = {"float": "f", "uint": "u", "int": "i"}


def family(op: str) -> str:
    """The group of an ONNX operator that decides its colour; "other" for an unknown one."""
    return _FAMILY.get(op, _OTHER)


@dataclass
class _Box:
    """What is drawn for an input, a weight, a node or an output. Sizes in pixels.

    ins, outs: the values that enter at the top and leave at the bottom, from left to right.
    room: what the layout keeps free, labels included.
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


def draw(graph: Mapping[str, Any], style: bool = True) -> str:
    """The SVG text of a concrete graph in its JSON form (Graph.to_json).

    style: False leaves out what `stylesheet` returns, for a page that holds it already.
    """
    types = {name: shown_type(dtype, shape) for name, dtype, shape in graph["values"]}
    boxes = _boxes(graph, types)
    edges = list(_edges(boxes))
    ports = [(a, b, (place + 1) / (len(boxes[b].ins) + 1)) for a, b, _, place in edges]
    placed = layout({i: box.room for i, box in enumerate(boxes)}, ports, _GAP)
    heights = _place(boxes, placed)
    families = {box.kind for box in boxes if box.kind in _COLOURS}
    bends = [x + _MARGIN for key, x in placed.x.items() if not isinstance(key, int)]
    width = max([b.x + b.room / 2 for b in boxes] + bends, default=0.0) + _MARGIN
    legend, size = _legend(sorted(families), heights[-1][1] + _MARGIN if heights else 0.0)
    width = max(width, size, 120.0)
    parts = [
        *(_edge(boxes, placed, heights, edge, route) for edge, route in zip(edges, placed.routes)),
        *(_drawn(box) for box in boxes),
        *(_labels(box, types) for box in boxes if box.kind in _COLOURS),
        legend,
    ]
    return _svg(parts, width, (heights[-1][1] if heights else 0.0) + 3 * _MARGIN, style)


def shown_type(dtype: str, shape: Sequence[int]) -> str:
    """f32[2, 3] for ("float32", [2, 3])."""
    for long, short in _DTYPES.items():
        if str(dtype).startswith(long):
            dtype = short + str(dtype).removeprefix(long)
            break
    return _cut(f"{dtype}[{', '.join(map(str, shape))}]", 60)


def stylesheet() -> str:
    """The CSS of all drawings; its class names begin with `g-`."""
    light = "".join(_rule(name, c[0], c[1]) for name, c in _COLOURS.items())
    dark = "".join(_rule(name, c[2], c[3]) for name, c in _COLOURS.items())
    return f"{_CSS}{light}@media (prefers-color-scheme:dark){{{_DARK}{dark}}}"


_CSS = (
    ".g-svg{font:12px ui-sans-serif,system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif}"
    ".g-back{fill:#fff}.g-text{fill:#1f2328}.g-title{font-weight:600;font-size:13px}"
    ".g-small{font-size:11px;fill:#57606a}.g-label{font-size:11px;fill:#57606a;stroke:#fff;"
    "stroke-width:4px;stroke-linejoin:round;paint-order:stroke}"
    ".g-edge{fill:none;stroke:#8c959f;stroke-width:1.4}.g-head{fill:#8c959f}"
    ".g-input{fill:#fff;stroke:#1f2328;stroke-width:1.4}"
    ".g-weight{fill:#f6f8fa;stroke:#8c959f;stroke-dasharray:4 3}"
    ".g-output{fill:#1f2328;stroke:#1f2328}.g-svg .g-light{fill:#fff}"
)
_DARK = (
    ".g-back{fill:#0d1117}.g-text{fill:#e6edf3}.g-small{fill:#9da7b1}"
    ".g-label{fill:#9da7b1;stroke:#0d1117}.g-edge{stroke:#6e7681}.g-head{fill:#6e7681}"
    ".g-input{fill:#0d1117;stroke:#e6edf3}.g-weight{fill:#161b22;stroke:#6e7681}"
    ".g-output{fill:#e6edf3;stroke:#e6edf3}.g-svg .g-light{fill:#0d1117}"
)


def _rule(name: str, fill: str, stroke: str) -> str:
    return f".g-{name.split()[0]}{{fill:{fill};stroke:{stroke}}}"


def _boxes(graph: Mapping[str, Any], types: Mapping[str, str]) -> list[_Box]:
    """Inputs and weights, nodes, outputs: in topological order."""
    boxes = []
    for kind in ("input", "weight"):
        for name in graph[f"{kind}s"]:
            boxes.append(_Box(kind, _cut(name, 24), [types[name]], name, outs=(name,)))
    for node in graph["nodes"]:
        attributes = [f"{k} = {shown(v)}" for k, v in node["attributes"].items() if v is not None]
        boxes.append(
            _Box(
                family(node["op"]),
                _cut(node["op"], 28),
                _shortened(attributes),
                "\n".join([node["op"], *attributes]),
                tuple(node["inputs"]),
                tuple(node["outputs"]),
            )
        )
    for name in graph["outputs"]:
        boxes.append(_Box("output", _cut(name, 24), [types[name]], name, (name,)))
    for box in boxes:
        box.room = max(box.width, _label_room(box, types) if box.kind in _COLOURS else 0.0)
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
) -> str:
    source, target, leaves, enters = edge
    x, y = boxes[source].exit(leaves)
    path = f"M{x:.1f} {y:.1f}"
    if boxes[source].kind in _COLOURS:  # straight down, past the label
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
    return f'<path class="g-edge" d="{path}"/><path class="g-head" d="{head}"/>'


def _curve(x: float, y: float, to: float, end: float) -> str:
    middle = (y + end) / 2
    return f"C{x:.1f} {middle:.1f} {to:.1f} {middle:.1f} {to:.1f} {end:.1f}"


def _drawn(box: _Box) -> str:
    left, centre = box.x - box.width / 2, f"{box.x:.1f}"
    round_ = 13 if box.kind in ("input", "output") else 5
    light = " g-light" if box.kind == "output" else ""
    lines = "".join(
        f'<text class="g-text g-small{light}" x="{centre}" y="{box.y + 17 + _LINE * (i + 1):.1f}" '
        f'text-anchor="middle">{_escaped(line)}</text>'
        for i, line in enumerate(box.lines)
    )
    return (
        f"<g><title>{_escaped(box.hint)}</title>"
        f'<rect class="g-{box.kind.split()[0]}" x="{left:.1f}" y="{box.y:.1f}" '
        f'width="{box.width:.1f}" height="{box.height:.1f}" rx="{round_}"/>'
        f'<text class="g-text g-title{light}" x="{centre}" y="{box.y + 17:.1f}" '
        f'text-anchor="middle">{_escaped(box.title)}</text>{lines}</g>'
    )


def _labels(box: _Box, types: Mapping[str, str]) -> str:
    """The type of every value that a node computes, beside the edges that leave it."""
    parts = []
    for place, name in enumerate(box.outs):
        x, y = box.exit(place)
        parts.append(
            f'<text class="g-label" x="{x + 6:.1f}" y="{y + 14:.1f}">'
            f"<title>{_escaped(name)}</title>{_escaped(types[name])}</text>"
        )
    return "".join(parts)


def _legend(families: Sequence[str], y: float) -> tuple[str, float]:
    """Its SVG and its width."""
    x, parts = float(_MARGIN), []
    for name in families:
        parts.append(
            f'<rect class="g-{name.split()[0]}" x="{x:.1f}" y="{y:.1f}" width="11" height="11" '
            f'rx="3"/><text class="g-small" x="{x + 16:.1f}" y="{y + 10:.1f}">{name}</text>'
        )
        x += 34 + len(name) * _SMALL
    return "".join(parts), x


def _svg(parts: Sequence[str], width: float, height: float, style: bool) -> str:
    shown = min(width, MAX_WIDTH)
    css = f"<style>{stylesheet()}</style>" if style else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="g-svg" role="img" '
        f'width="{shown:.0f}" height="{height * shown / width:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">{css}'
        f'<rect class="g-back" width="{width:.0f}" height="{height:.0f}" rx="8"/>'
        f"{''.join(parts)}</svg>\n"
    )


def _shortened(attributes: Sequence[str]) -> list[str]:
    """At most three lines; the rest is in the tooltip."""
    lines = [_cut(line, _COLUMNS) for line in attributes]
    more = len(lines) - _ROWS
    return lines if more <= 0 else [*lines[: _ROWS - 1], f"... {more + 1} more"]


def _cut(text: str, limit: int) -> str:
    text = " ".join(visible(str(text)).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _escaped(text: str) -> str:
    return escape(visible(text))
