"""A bug of one operator as a test of ONNX Runtime's C++ suite (OpTester).

    python -m nnfuzz.bugs.op_test SCRIPT NAME

Prints the test. It is not compiled here: its brackets are counted, and no more.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from nnfuzz.bugs.node_test import Expected, expected_of

if TYPE_CHECKING:
    import numpy as np
    from onnx import AttributeProto

_TYPES = {
    **{f"{kind}{bits}": f"{kind}{bits}_t" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    "float32": "float",
    "float64": "double",
    "float16": "MLFloat16",
    "bfloat16": "BFloat16",
    "bool": "bool",
}
_NAMED = {"": "kOnnxDomain", "com.microsoft": "kMSDomain"}
_PAIRS = {")": "(", "]": "[", "}": "{"}
_NO_CODE = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"')


def op_test(found: Expected, name: str) -> str:
    """The test for a model of one node. Raises: ValueError for a model that has no such test."""
    if len(found.model.graph.node) != 1:
        raise ValueError("its model has more than one node, and OpTester takes one")
    (node,), opsets = (
        found.model.graph.node,
        {entry.domain: entry.version for entry in found.model.opset_import},
    )
    if node.domain not in _NAMED:
        raise ValueError(f"OpTester knows no domain {node.domain!r}")
    version = opsets.get(node.domain, 1)
    lines = [f'OpTester test("{node.op_type}", {version}, {_NAMED[node.domain]});']
    lines += [_attribute(attribute) for attribute in node.attribute]
    lines += _inputs(found, list(node.input))
    for output in node.output:
        if output in found.outputs:
            lines.append(_value("Output", output, found.outputs[output]))
        else:
            lines.append("test.AddOptionalOutputEdge<float>();")
    body = "".join(f"  {line}\n" for line in [*lines, "test.Run();"])
    return f"TEST(NnfuzzTest, {name}) {{\n{body}}}\n"


def _inputs(found: Expected, names: list[str]) -> Iterator[str]:
    from onnx import numpy_helper

    weights = {t.name: numpy_helper.to_array(t) for t in found.model.graph.initializer}
    for place, name in enumerate(names):
        own = f"{name}_{place}" if name in names[:place] else name  # each is one of the model
        if not name:
            yield "test.AddOptionalInputEdge<float>();"
        elif name in weights:
            yield _value("Input", own, weights[name], ", true")
        else:
            yield _value("Input", own, found.inputs[name])


def _value(kind: str, name: str, array: np.ndarray, more: str = "") -> str:
    """Adds an input or an output. Raises: ValueError for a dtype that C++ has no literals for."""
    own = str(array.dtype)
    if own not in _TYPES:
        raise ValueError(f"OpTester takes no {own}")
    shape = ", ".join(map(str, array.shape))
    data = ", ".join(_literal(value, own) for value in array.ravel().tolist())
    return f"test.Add{kind}<{_TYPES[own]}>({json.dumps(name)}, {{{shape}}}, {{{data}}}{more});"


def _literal(value: object, dtype: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        lowest = dtype == "int64" and value == -(2**63)
        return "std::numeric_limits<int64_t>::min()" if lowest else str(value)
    number, suffix = float(str(value)), "" if dtype == "float64" else "f"
    plain = f"{number!r}{suffix}"
    if not math.isfinite(number):
        of = "double" if dtype == "float64" else "float"
        named = "quiet_NaN" if math.isnan(number) else "infinity"
        plain = f"{'-' * (number < 0)}std::numeric_limits<{of}>::{named}()"
    return f"{_TYPES[dtype]}({plain})" if dtype.endswith("float16") else plain


def _attribute(attribute: AttributeProto) -> str:
    """Raises: ValueError for an attribute that is no number, text or list of numbers."""
    from onnx import helper

    value, name = helper.get_attribute_value(attribute), json.dumps(attribute.name)
    match attribute.type:
        case attribute.INT:
            literal = f"static_cast<int64_t>({value})"
        case attribute.FLOAT:
            literal = _literal(value, "float32")
        case attribute.STRING:
            literal = f"std::string({json.dumps(value.decode())})"
        case attribute.INTS:
            literal = f"std::vector<int64_t>{{{', '.join(map(str, value))}}}"
        case attribute.FLOATS:
            literal = f"std::vector<float>{{{', '.join(_literal(v, 'float32') for v in value)}}}"
        case _:
            raise ValueError(f"the attribute {attribute.name} is no number, text or list of these")
    return f"test.AddAttribute({name}, {literal});"


def is_balanced(text: str) -> bool:
    """Whether all brackets of C++ are closed, outside of comments and texts."""
    opened: list[str] = []
    for sign in re.sub(r"[^()\[\]{}]", "", _NO_CODE.sub("", text)):
        if sign not in _PAIRS:
            opened.append(sign)
        elif not opened or opened.pop() != _PAIRS[sign]:
            return False
    return not opened


def main(script: str, name: str) -> str:
    """Prints the test; returns why there is none, or ""."""
    found = expected_of(script)
    if isinstance(found, str):
        return found
    try:
        print(op_test(found, name), end="")
    except ValueError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]) or 0)
