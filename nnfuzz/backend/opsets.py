"""Which opsets a compiler takes, asked by running the plainest model."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nnfuzz.backend.runner import BackendRunner


def first_taken(runner: BackendRunner, opsets: Iterable[int]) -> int | None:
    """The first of some opsets of which the compiler runs a model, at the IR version that goes
    with it; None if it is none of them. Raises: RunnerError.
    """
    level = runner.backend.default_levels()[0]
    for opset in opsets:
        (outcome,) = runner.run(plain_model(opset), {"x": np.ones(1, np.float32)}, [level])
        if outcome.ok:
            return opset
    return None


def plain_model(opset: int) -> bytes:
    """A serialised model, y = Relu(x)."""
    from onnx import TensorProto, helper

    from nnfuzz.materialize.protos import model

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "plain", [x], [y])
    return model(graph, opset).SerializeToString()
