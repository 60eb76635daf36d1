"""Test cases of a user's models, and their folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.base.reading import Unreadable
from nnfuzz.base.untrusted import (
    Unusable,
    blaming,
    check_bounds,
    check_sense,
    in_order,
    parsed_model,
    read_model,
)
from nnfuzz.library.plugins import operator_registry
from nnfuzz.testcase.case import ModelError, TestCase

if TYPE_CHECKING:
    import onnx


Inputs = Mapping[str, np.ndarray] | Sequence[Mapping[str, np.ndarray]] | None
"""Arrays by name; or those of several calls; or None, and they are searched."""


def each_call(inputs: Inputs) -> Sequence[Mapping[str, np.ndarray] | None]:
    """The inputs of each call."""
    return inputs or [None] if isinstance(inputs, Sequence) else [inputs]


def case_from_onnx(
    model: str | Path | bytes | onnx.ModelProto,
    inputs: Inputs = None,
    *,
    seed: int = 0,
    plugins: Iterable[str | Path] = (),
) -> TestCase:
    """The test case of a model of your own: a file, its bytes, or a ModelProto.

    inputs: arrays by name; or a list of such, and the compiled program is called with each of them,
    one after the other (`TestCase.call`). Without them, inputs are searched under which no value is
    NaN or infinite; they are a function of the model and `seed`. Operators that nnfuzz has no spec
    for are run; values that depend on them are not compared. plugins: files with further operators.
    Raises: ModelError if the model cannot be imported, or no valid inputs are found; TypeError
    for inputs that are no arrays by name; OSError.
    """
    from nnfuzz.testcase.foreign import case_of_model, in_calls

    calls = [None if own is None else checked_arrays(own, "inputs") for own in each_call(inputs)]
    proto, registry = model_proto(model), operator_registry(plugins)
    try:
        with blaming(proto, "the model", ModelError):
            cases = [case_of_model(proto, registry, own, seed) for own in calls]
            return in_calls(cases, registry) if len(cases) > 1 else cases[0]
    except Unreadable as error:
        raise ModelError(str(error)) from error


def save_case(case: TestCase, folder: str | Path) -> Path:
    """Writes a folder in ONNX's backend-test layout inside of `folder`; returns its path.

    Raises: FileExistsError if it is there already, OSError.
    """
    from nnfuzz.corpus.layout import write_test

    return write_test(Path(folder), case)


def load_case(folder: str | Path) -> TestCase:
    """A test case that `save_case`, `nnfuzz generate` or another tool has written as one of ONNX's
    tests.

    Raises: Unreadable if it is none; ModelError if it is a foreign model that cannot be
    imported; OSError.
    """
    from nnfuzz.corpus.layout import TestFolder

    test = TestFolder(Path(folder), Path(folder).name)
    return test.case() or case_from_onnx(test.model(), [own.inputs for own in test.data_sets()])


def check_case(case: object) -> None:
    """Raises: TypeError, which names the fix, if it is no test case."""
    if not isinstance(case, TestCase):
        argument = repr(case) if isinstance(case, str | Path) else "model"
        raise TypeError(
            f"case must be a TestCase, not {type(case).__name__}: of a model, "
            f"nnfuzz.case_from_onnx({argument}) makes one"
        )


def checked_arrays(arrays: object, what: str) -> dict[str, np.ndarray]:
    """The arrays by name. Raises: TypeError, which says how to write them, if they are not that.

    what: their name for messages, such as "inputs".
    """
    if not isinstance(arrays, Mapping):
        kind = type(arrays).__name__
        raise TypeError(f"{what} must map names to arrays, as in {{'x': array}}, not be a {kind}")
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray | np.generic):
            kind = type(array).__name__
            raise TypeError(f"{what}[{name!r}] is a {kind}, not an array: use numpy.asarray")
    return dict(arrays)


def model_proto(
    model: str | Path | bytes | onnx.ModelProto, note: Callable[[str], object] = lambda text: None
) -> onnx.ModelProto:
    """The model with its nodes in topological order. note: gets a line if they were in another one.

    Raises: ModelError if it is no ONNX model, or makes no sense; TypeError if it is neither a path
    nor bytes nor a ModelProto; OSError.
    """
    import onnx

    name = model if isinstance(model, str | Path) else "the model"
    try:
        if isinstance(model, onnx.ModelProto):
            proto = model
            check_bounds(proto, name)
        elif isinstance(model, bytes):
            proto = parsed_model(model, "the bytes")
        elif isinstance(model, str | Path):
            os.stat(model)  # a missing file is an OSError, as for open
            proto = read_model(model)
        else:
            kind = type(model).__name__
            raise TypeError(f"model must be a path, bytes or a ModelProto, not {kind}")
        check_sense(proto, name)
        sorted_proto = in_order(proto, name)
    except Unusable as error:
        raise ModelError(str(error)) from error
    except Unreadable as error:
        hint = ": give the path of the model" if "in another file" in str(error) else ""
        raise ModelError(f"{error}{hint}") from error
    if not proto.graph.node:
        raise ModelError(f"{name}: no ONNX model, or an empty one")
    if sorted_proto is not proto:
        note("note: nodes are not in topological order, which ONNX asks for: they run sorted")
    return sorted_proto
