from xml.etree import ElementTree

from nnfuzz.ir.view import NO_GRAPH, GraphView, ValueView
from nnfuzz.report.draw import MAX_WIDTH, draw, shown_type
from tests.report.graphs import branching, hostile

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg):
    return [e.text for e in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_a_drawing_shows_operators_attributes_types_and_ends():
    svg = draw(branching())
    root = ElementTree.fromstring(svg)
    assert float(root.get("width")) <= MAX_WIDTH
    shown = texts(svg)
    for text in ("Split", "axis = 1", "Conv", "kernel_shape = [1]", "f32[1, 2, 8]", "x", "w"):
        assert text in shown
    assert shown.count("e") == 1 and "... 2 more" in shown
    hints = [e.text for e in root.iter(f"{SVG}title")]
    assert any("b = 2.5" in hint for hint in hints)
    classes = {e.get("class") for e in root.iter(f"{SVG}rect")}
    assert {"g-input", "g-weight", "g-output", "g-node"} <= classes
    heads = [e for e in root.iter(f"{SVG}path") if e.get("class") == "g-head"]
    assert len(heads) == 9  # one per edge: x; a, w; c, b; d, d; e, b
    assert "prefers-color-scheme:dark" in svg and "<style>" not in draw(branching(), style=False)


def test_hostile_names_stay_text():
    svg = draw(hostile())
    names = {element.tag.removeprefix(SVG) for element in ElementTree.fromstring(svg).iter()}
    assert names == {"svg", "style", "rect", "g", "title", "text", "path"}
    assert "<img" not in svg and "\x1b" not in svg and "\u202e" not in svg


def test_the_smallest_graphs():
    ElementTree.fromstring(draw(NO_GRAPH))
    passed = GraphView((ValueView("x", "bool"),), inputs=("x",), outputs=("x",))
    assert texts(draw(passed)).count("bool[]") == 2


def test_names():
    assert shown_type("uint8", [2]) == "u8[2]" and shown_type("bool", []) == "bool[]"
