"""The program that runs entries: outcomes and differences, with systems that are made up."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from scripts.recall import program

ENTRY = """
system = "fake"
model = '''
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) { y = Relu(x) }
'''
[inputs]
x = [-1.0, 2.0]
"""


def right(model, inputs, entry):
    return {"y": np.maximum(inputs["x"], 0)}


def wrong(model, inputs, entry):
    return {"y": inputs["x"]}


def raising(model, inputs, entry):
    raise RuntimeError("no Relu")


def dying(model, inputs, entry):
    os.abort()


@pytest.mark.parametrize(
    ("system", "outcome"), [(right, "ok"), (wrong, "wrong"), (raising, "error"), (dying, "crash")]
)
def test_the_outcome_of_an_entry(tmp_path, monkeypatch, capfd, system, outcome) -> None:
    path = tmp_path / "relu.toml"
    path.write_text(ENTRY)
    monkeypatch.setitem(program.SYSTEMS, "fake", system)
    monkeypatch.setitem(program.PRELOADED, "fake", "json")
    program.main([path])
    (line,) = [line for line in capfd.readouterr().out.splitlines() if line.startswith("{")]
    assert json.loads(line)["entry"] == "fake/relu"
    assert json.loads(line)["outcome"] == outcome


def test_a_result_of_another_dtype_or_shape_differs() -> None:
    zeros = np.zeros(2, np.float32)
    assert program.difference("y", zeros.astype(int), zeros, 0) == "y is int64 and not float32"
    assert program.difference("y", zeros[:1], zeros, 0) == "y has shape (1,) and not (2,)"
    assert not program.difference("y", zeros * np.nan, zeros * np.nan, 0)
