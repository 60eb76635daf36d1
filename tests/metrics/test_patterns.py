"""The patterns that passes have changed."""

from __future__ import annotations

from nnfuzz.metrics.patterns import pass_patterns
from tests.metrics.hand_made import graph


def test_what_passes_take_away_has_the_dtypes_of_the_graph():
    told = {"toy": ["fuse(Concat+Relu)", "fold(Strange)", "sweep"], "other": []}
    assert {key: [n.op for n in nodes] for key, nodes in pass_patterns(told, graph(4)).items()} == {
        ("toy", "fuse", "Concat+Relu", "float32"): ["Concat", "Relu", "Relu"],
        ("toy", "fold", "Strange", ""): [],
        ("toy", "sweep", "", ""): [],
    }


def test_words_of_compilers_are_close_to_those_of_onnx():
    tell = lambda word: {k[3] for k in pass_patterns({"toy": [f"p({word})"]}, graph(4))}  # noqa: E731
    assert tell("relu") == tell("adding") == {"float32"} and tell("gelu") == {""}
