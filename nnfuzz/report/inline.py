"""A small test case as Python source, so that repro.py needs no files beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.base.text import visible
from nnfuzz.ir.dtypes import DType
from nnfuzz.materialize.walk import graphs

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from onnx import ModelProto, TensorProto

    from nnfuzz.testcase.case import TestCase

MAX_ELEMENTS = 64
"""The most elements of all inputs that are written out."""
MAX_CHARACTERS = 4000
"""The longest text of a model that is written out."""
_NAMED = re.compile("inf|nan")
"""Values without a literal in Python."""


def inline_model(model: bytes) -> str:
    """The model in ONNX's textual form if it is short and parses back to the same, else "".

    A model of others may hold names that are no UTF-8, or weights of other sizes than declared: it
    has no such form.
    """
    import onnx.shape_inference
    from onnx import parser, printer

    proto = onnx.load_model_from_string(model)
    try:
        text = printer.to_text(proto)
    except (UnicodeDecodeError, onnx.shape_inference.InferenceError):
        return ""
    if len(text) > MAX_CHARACTERS or '"""' in text or visible(text) != text or "\\" in text:
        return ""
    try:
        same = _canonical(parser.parse_model(text)) == _canonical(proto)
    except parser.ParseError:
        return ""
    return text if same else ""


def inline_arrays(arrays: Mapping[str, np.ndarray]) -> str:
    """A Python expression for arrays by name, exact to the bit; "" if they are too large.

    It needs `np`, and that ml_dtypes has been imported where `foreign` says so.
    """
    if sum(a.size for a in arrays.values()) > MAX_ELEMENTS:
        return ""
    rows = [f"    {name!r}: {_written(a)}{_reshaped(a)},\n" for name, a in arrays.items()]
    return "{\n" + "".join(rows) + "}"


def foreign(case: TestCase) -> bool:
    """Whether inputs or results have dtypes that NumPy knows through ml_dtypes only."""
    return any(is_foreign(a) for a in (*case.inputs.values(), *case.expected.values()))


def is_foreign(a: np.ndarray) -> bool:
    return not DType.of(a.dtype).native


def _written(a: np.ndarray) -> str:
    """The array by its numbers; by its bits where it has a NaN that is not NumPy's own."""
    with np.errstate(invalid="ignore"):
        plain = np.array(a.astype(np.float64) if is_foreign(a) else a)
    if plain.dtype.kind == "f":
        plain[np.isnan(plain)] = np.nan
    listed, dtype = plain.tolist() if a.size else [], str(a.dtype)
    if np.array(listed, a.dtype).tobytes() == a.tobytes():
        numbers = _NAMED.sub(r"np.\g<0>", repr(listed))
        return f"np.array({numbers}, {dtype!r})"
    bits = f"uint{8 * a.itemsize}"
    return f"np.array({a.view(bits).tolist()!r}, {bits!r}).view({dtype!r})"


def _reshaped(a: np.ndarray) -> str:
    return "" if a.size else f".reshape({a.shape})"


def _canonical(model: ModelProto) -> bytes:
    """The model's bytes with all tensors in one form and without redundant parts."""
    from onnx import ModelProto

    copy = ModelProto()
    copy.CopyFrom(model)
    copy.ClearField("doc_string")
    for opset in copy.opset_import:
        _without_empty(opset)
    for graph in graphs(copy.graph):
        for node in graph.node:
            _without_empty(node)
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    _plain(attribute.t)
        for tensor in graph.initializer:
            _plain(tensor)
    return copy.SerializeToString(deterministic=True)


def _plain(tensor: TensorProto) -> None:
    from onnx import numpy_helper

    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    _without_empty(tensor)


def _without_empty(proto: Message) -> None:
    for field, value in proto.ListFields():
        if value == "":
            proto.ClearField(field.name)
