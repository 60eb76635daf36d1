"""Which opsets and which operators of rewrites a compiler takes, asked by running plain models."""

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


def not_taken(runner: BackendRunner, opset: int) -> tuple[str, ...]:
    """The FEATURES with which the least optimised level does not run a model of an operator or
    two that it runs without; none if it does not run that. A compiler that gets bytes takes models
    with external data as any others. Raises: RunnerError.
    """
    # With every rule: slow to import.
    from nnfuzz.vary.rewrite.rewriting import FEATURES, Step, rewritten

    level = runner.backend.default_levels()[0]

    def runs(model: bytes) -> bool:
        inputs: dict[str, np.ndarray] = {"x": np.ones((2, 3), np.float32), "n": np.ones(1, int)}
        (outcome,) = runner.run(model, inputs, [level])
        return outcome.ok

    plain = _plain_for_rewrites(opset)
    if not runs(plain):
        return ()
    models = {name: rewritten(plain, [Step(rule)])[0] for name, rule in FEATURES.items()}
    return tuple(name for name, model in models.items() if not runs(model))


def _plain_for_rewrites(opset: int) -> bytes:
    """A serialised model, y = Relu(x) + 1 and m = n + n."""
    from onnx import TensorProto, helper, numpy_helper

    from nnfuzz.materialize.protos import model

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy")
    n, m = (helper.make_tensor_value_info(name, TensorProto.INT64, [1]) for name in "nm")
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Add", ["r", "w"], ["y"])]
    nodes.append(helper.make_node("Add", ["n", "n"], ["m"]))
    weight = numpy_helper.from_array(np.ones((2, 3), np.float32), "w")
    graph = helper.make_graph(nodes, "plain", [x, n], [y, m], [weight])
    return model(graph, opset).SerializeToString()
