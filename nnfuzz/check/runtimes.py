"""Reference implementations of ONNX, which compute the values of a model to compare with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.check.reference_implementations import Arrays

if TYPE_CHECKING:
    import onnx
    from onnx.reference.op_run import OpRun

Runtime = Callable[["onnx.ModelProto", Sequence[np.ndarray]], Arrays]
"""Runs a model with inputs x0, x1 ... Raises: Unavailable, or any other error."""
EVALUATOR = "onnx.reference"
BODY = "function body"
STRICT = (EVALUATOR, BODY)
"""The authorities: a difference from them without a `Waiver` is a problem."""


class Unavailable(Exception):
    """A runtime is not installed, or says that it does not implement the operator."""


def run_reference(
    model: onnx.ModelProto, arrays: Sequence[np.ndarray], own: Sequence[type[OpRun]] = ()
) -> Arrays:
    """The outputs of onnx.reference. Raises: Unavailable for any error of it.

    It is written operator by operator in Python, so an exception of its own says nothing of a
    model that the checker has passed. own: implementations that take precedence over its own.
    """
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"):
            outputs = ReferenceEvaluator(model, new_ops=list(own)).run(None, named(arrays))
    except Exception as error:
        raise Unavailable(f"{type(error).__name__}: {error}") from None
    return [np.asarray(a) for a in outputs]


def run_body(model: onnx.ModelProto, arrays: Sequence[np.ndarray]) -> Arrays:
    """The operators that ONNX defines by a function are replaced by its body for onnx.reference.

    Raises: Unavailable if there is none, or it needs a type that is not known beforehand.
    """
    import onnx.inliner

    given = {(node.domain, node.op_type) for node in model.graph.node}
    try:
        opened = onnx.inliner.inline_selected_functions(
            model, sorted(given), inline_schema_functions=True
        )
    except RuntimeError as error:  # The inliner (onnx 1.23) does not know types of constants.
        raise Unavailable(str(error)) from None
    if [n.op_type for n in opened.graph.node] == [n.op_type for n in model.graph.node]:
        raise Unavailable("no operator of the model is defined by a function")
    return run_reference(opened, arrays)


def named(arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Inputs by the names that `one_node` gives them."""
    return {f"x{i}": array for i, array in enumerate(arrays)}


REFERENCE: Mapping[str, Runtime] = {EVALUATOR: run_reference}
"""The runtime that comes with onnx; it is asked first, backends arbitrate."""
BUNDLED: Mapping[str, Runtime] = {**REFERENCE, BODY: run_body}
"""onnx's own implementations of its operators."""
