"""Titles of findings: one line that names the operators, then the cause, then where it shows.

"Resize, coordinate_transformation_mode=tf_crop_and_resize: returns its input (all levels)". Titles
are sentences for people: no signature, no key and no hash depends on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nnfuzz.triage.mismatch import WrongOutput
from nnfuzz.triage.pattern import onnx_type, schema_defaults

if TYPE_CHECKING:
    import onnx

MOST_OPERATORS, MOST_ATTRIBUTES, MOST_VALUE, MOST_PASSES = 4, 4, 40, 2
_WRONG = {
    "value": "wrong values",
    "nonfinite": "non-finite values",
    "missing": "an output is missing",
}
_PLUMBING = ("Constant",)
_DTYPES = ("to", "dtype", "output_dtype", "precision", "softmax_precision", "stash_type")
"""Attributes that hold a dtype as a number."""


def sentence(
    backend: str, cause: str, where: str = "", operators: str = "", passes: Sequence[str] = ()
) -> str:
    """The one form of all titles. operators: of the reduced model, see `operators_text`. passes:
    that are to blame; they come first.
    """
    accused = ", ".join([*passes[:MOST_PASSES], *(["..."] if passes[MOST_PASSES:] else [])])
    text = ": ".join(part for part in (backend, accused, operators, cause) if part)
    return f"{text} ({where})" if where else text


def wrong_in_words(kind: str, wrong: WrongOutput | None = None) -> str:
    """What is wrong with an output."""
    if wrong is not None and kind in ("shape", "dtype"):
        return f"wrong {kind}, {wrong.actual} for {wrong.expected}"
    return _WRONG.get(kind, f"wrong {kind}")


def operators_text(model: bytes, written_from: Sequence[str] = ()) -> str:
    """The operators of a serialized ONNX model by their ONNX names, in order, each with the
    attributes that are not at their defaults: reduction could not switch these off. A dtype stands
    in front where it is not float32, which reduction would have taken; those of bodies follow their
    operator in parentheses.

    written_from: operators that the model was made from; they stand for a model of more than
    MOST_OPERATORS nodes. "" if the model cannot be read.
    """
    import onnx
    from google.protobuf.message import DecodeError

    try:
        proto = onnx.load_model_from_string(model)
    except DecodeError:
        return ""
    opsets = {entry.domain: entry.version for entry in proto.opset_import}
    nodes = [node for node in proto.graph.node if node.op_type not in _PLUMBING]
    dtype = _needed_dtype(proto.graph)
    if len(nodes) > MOST_OPERATORS >= len(written_from) > 0:
        types = {node.op_type for node in nodes}
        return dtype + " + ".join(onnx_type(name, types) or name for name in written_from)
    texts = [_node(node, opsets.get(node.domain, 1)) for node in nodes[:MOST_OPERATORS]]
    more = len(nodes) - len(texts)
    return dtype + " + ".join(texts) + (f" and {more} more" if more else "")


def _needed_dtype(graph: onnx.GraphProto) -> str:
    """The first dtype of a reduced graph's inputs and outputs with a blank, bool only if there is
    no other; "" if one of them is float32.
    """
    from onnx import TensorProto, helper

    types = [value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)]
    types += [tensor.data_type for tensor in graph.initializer]
    known = [t for t in types if t not in (TensorProto.UNDEFINED, TensorProto.STRING)]
    if not known or TensorProto.FLOAT in known:
        return ""
    first = min(known, key=lambda t: t == TensorProto.BOOL)
    return f"{helper.tensor_dtype_to_np_dtype(first).name} "


def _node(node: onnx.NodeProto, opset: int) -> str:
    attributes = attributes_that_matter(node, opset)
    dots = ["..."] if attributes[MOST_ATTRIBUTES:] else []
    bodies = (attribute.g.node for attribute in node.attribute if attribute.HasField("g"))
    inside = [inner.op_type for body in bodies for inner in body]
    inside = [type_ for type_ in dict.fromkeys(inside) if type_ not in (*_PLUMBING, "Identity")]
    more = [f"and {len(inside) - MOST_OPERATORS} more"] if inside[MOST_OPERATORS:] else []
    body = f"({' + '.join([*inside[:MOST_OPERATORS], *more])})" if inside else ""
    return ", ".join([f"{node.op_type}{body}", *attributes[:MOST_ATTRIBUTES], *dots])


def needed_attributes(model: bytes) -> list[str]:
    """The names of attributes_that_matter of the only operator in a serialized ONNX model; none of
    several.
    """
    node, opset = _only_node(model)
    matter = attributes_that_matter(node, opset) if node else []
    return [text.partition("=")[0] for text in matter]


def unwritten(model: bytes) -> list[str]:
    """The names of the attributes that the only operator in a serialized ONNX model may have, and
    does not: no compiler ignores these. None of several operators.
    """
    node, _ = _only_node(model) if model else (None, 0)
    there = {attribute.name for attribute in node.attribute} if node else ()
    return [name for name in schema_defaults(node.op_type) if name not in there] if node else []


def _only_node(model: bytes) -> tuple[onnx.NodeProto | None, int]:
    """The only operator in a serialized ONNX model and its opset; None and 0 of several."""
    import onnx

    proto = onnx.load_model_from_string(model)
    opsets = {entry.domain: entry.version for entry in proto.opset_import}
    nodes = [node for node in proto.graph.node if node.op_type not in _PLUMBING]
    return (nodes[0], opsets.get(nodes[0].domain, 1)) if len(nodes) == 1 else (None, 0)


def attributes_that_matter(node: onnx.NodeProto, opset: int) -> list[str]:
    """ "name=value" for each attribute of a node that is not at its default.

    An optional attribute for which the schema has no value is at its default when all its elements
    are 0, or all are 1: no padding, a stride of 1.
    """
    import onnx
    from onnx import defs, helper

    try:
        declared = dict(defs.get_schema(node.op_type, opset, node.domain).attributes)
    except defs.SchemaError:
        declared = {}
    pairs = []
    for attribute in node.attribute:
        value, schema = helper.get_attribute_value(attribute), declared.get(attribute.name)
        if isinstance(value, bytes | str | int | float | list) and not _usual(value, schema):
            dtype = attribute.name in _DTYPES and value in onnx.TensorProto.DataType.values()
            text = onnx.TensorProto.DataType.Name(value).lower() if dtype else _printed(value)
            pairs.append(f"{attribute.name}={text}")
    return pairs


def _usual(value: Any, schema: Any) -> bool:
    from onnx import helper

    if schema is None or schema.required:
        return False
    if schema.default_value.type:
        return bool(helper.get_attribute_value(schema.default_value) == value)
    if isinstance(value, float):
        return False  # a threshold that is 0 is one
    elements = value if isinstance(value, list) else [value]
    return any(all(element == plain for element in elements) for plain in (0, 1))


def _printed(value: Any) -> str:
    if isinstance(value, bytes):
        text = value.decode(errors="replace")
    elif isinstance(value, float):
        text = f"{value:.6g}"
    elif isinstance(value, list):
        text = f"[{', '.join(map(_printed, value))}]"
    else:
        text = str(value)
    if len(text) <= MOST_VALUE:
        return text
    return f"{len(value)} values" if isinstance(value, list) else f"{text[:MOST_VALUE]}..."
