"""Faults in the model around its nodes: versions, operator sets, declarations."""

from __future__ import annotations

import onnx
from onnx import helper

from nnfuzz.invalid.kinds import kind
from nnfuzz.invalid.site import Site

MODEL, VALUE = "onnx.proto, ModelProto", "onnx.proto, ValueInfoProto"
OPERATORS = "ONNX IR, Operators: an operator must be declared by an imported operator set"
GRAPHS = "ONNX IR, Graphs"
FAR = 2**31
DTYPES = (1, 11, 10, 6, 7, 2, 9)  # float, double, float16, int32, int64, uint8, bool


@kind(OPERATORS)
def unknown_operator(site: Site) -> str:
    """An operator that no operator set has."""
    node = site.choice(site.nodes)
    old = node.op_type
    node.op_type = site.choice(("Frobnicate", "", old.swapcase(), f"{old}_", f" {old}"))
    site.operator = old
    return f"a node's operator is {node.op_type!r}"


@kind(OPERATORS)
def unknown_domain(site: Site) -> str:
    """An operator of a domain that is not imported, or that nobody knows."""
    node = site.choice(site.nodes)
    node.domain = "org.example.unknown"
    imported = site.rng.random() < 0.5
    if imported:
        site.model.opset_import.append(helper.make_opsetid(node.domain, 1))
    state = "imported but has no such operator" if imported else "not imported"
    return f"{site.at(node)} is of the domain {node.domain!r}, which is {state}"


@kind(f"{MODEL}.opset_import: there must be at least one entry")
def no_opset(site: Site) -> str:
    """A model that imports no operator set."""
    del site.model.opset_import[:]
    return "the model imports no operator set"


@kind("ONNX IR, Models: an implementation must support the imported operator sets or reject it")
def unknown_opset(site: Site) -> str:
    """A version of the default operator set that there is not."""
    version = site.choice((0, -1, 9999, FAR, 2**63 - 1, -(2**63)))
    for entry in site.model.opset_import:
        if not entry.domain:
            entry.version = version
    return f"the model imports version {version} of the default operator set"


@kind(OPERATORS, lambda schema: first_version(schema.name) > 1)
def opset_before_operator(site: Site) -> str:
    """An operator set that is older than the operator."""
    versions = {node.op_type: first_version(node.op_type) for node, _ in site.known()}
    late = [name for name, version in versions.items() if version > 1]
    site.operator = site.choice(sorted(late))
    version = versions[site.operator] - 1
    for entry in site.model.opset_import:
        if not entry.domain:
            entry.version = version
    return f"the operator set {version} has no {site.operator}, which came with {version + 1}"


def first_version(operator: str) -> int:
    """The operator set with which an operator of the default domain came; 0 for an unknown one."""
    version = onnx.defs.onnx_opset_version()
    if not onnx.defs.has(operator, version, ""):
        return 0
    first: int = onnx.defs.get_schema(operator, version, "").since_version
    while first > 1 and onnx.defs.has(operator, first - 1, ""):
        first = onnx.defs.get_schema(operator, first - 1, "").since_version
    return first


@kind(f"{MODEL}.ir_version: this field must be present, a value of the enum Version")
def no_ir_version(site: Site) -> str:
    """A model without a version of the format, or with one that there is not."""
    version = site.choice((None, None, 0, -1, 9999, 2**63 - 1))
    if version is None:
        site.model.ClearField("ir_version")
        return "the model has no ir_version"
    site.model.ir_version = version
    return f"the model's ir_version is {version}"


@kind("ONNX IR, Models: a model has a graph; Graphs: each graph must specify a name")
def no_graph(site: Site) -> str:
    """A model without a graph, or with one that is empty."""
    site.model.ClearField("graph")
    if site.rng.random() < 0.5:
        return "the model has no graph"
    site.model.graph.SetInParent()
    return "the model's graph is empty: no name, node, input or output"


@kind(f"{GRAPHS}: each graph must specify a name")
def unnamed_graph(site: Site) -> str:
    """A graph without a name."""
    site.graph.ClearField("name")
    return "the graph has no name"


@kind(f"{VALUE}.type: must be present for inputs and outputs of the top-level graph")
def untyped_value(site: Site) -> str:
    """A graph input or output without a type."""
    value = site.choice((*site.graph.input, *site.graph.output))
    value.ClearField("type")
    if site.rng.random() < 0.5:
        value.type.SetInParent()
    return f"{value.name!r}, an input or output of the graph, has no type"


@kind(f"{GRAPHS}: inputs and outputs of the main graph must have a shape")
def unshaped_value(site: Site) -> str:
    """A graph input or output without a shape."""
    value = site.choice((*site.graph.input, *site.graph.output))
    value.type.tensor_type.ClearField("shape")
    return f"{value.name!r}, an input or output of the graph, has no shape"


@kind("onnx.proto, TypeProto.Tensor.elem_type: must be a valid DataType and not UNDEFINED")
def unknown_elem_type(site: Site) -> str:
    """A graph input or output of an element type that there is not."""
    value = site.choice((*site.graph.input, *site.graph.output))
    number = site.choice((0, 9999, -1, 2**31 - 1))
    value.type.tensor_type.elem_type = number
    return f"{value.name!r} has the element type {number}"


@kind("ONNX IR, Tensor Definition: a shape is a list of non-negative integers")
def negative_dimension(site: Site) -> str:
    """A declared dimension below zero."""
    values = [v for v in (*site.graph.input, *site.graph.output) if v.type.tensor_type.shape.dim]
    value = site.choice(values)
    dim = site.choice(value.type.tensor_type.shape.dim)
    dim.dim_value = site.choice((-1, -2, -3, -FAR, -(2**63)))
    return f"a dimension of {value.name!r} is {dim.dim_value}"


@kind(f"{GRAPHS}: the graph must define the types of its outputs")
def wrong_output_dtype(site: Site) -> str:
    """A graph output that is declared with another dtype than its node returns."""
    value = site.choice(site.graph.output)
    old = value.type.tensor_type.elem_type
    new = site.choice([number for number in DTYPES if number != old])
    value.type.tensor_type.elem_type = new
    return f"output {value.name!r} is {_name(old)} and declared as {_name(new)}"


@kind(f"{GRAPHS}: the graph must define the shapes of its outputs")
def wrong_output_rank(site: Site) -> str:
    """A graph output that is declared with another rank than its node returns."""
    value = site.choice(site.graph.output)
    dims = value.type.tensor_type.shape.dim
    if len(dims) and site.rng.random() < 0.5:
        del dims[-1]
    else:
        dims.add().dim_value = 1
    return f"output {value.name!r} is declared with rank {len(dims)}"


@kind(f"{GRAPHS}: the graph must define the shapes of its outputs")
def wrong_output_shape(site: Site) -> str:
    """A graph output that is declared with another size than its node returns."""
    values = [v for v in site.graph.output if v.type.tensor_type.shape.dim]
    value = site.choice(values)
    dim = site.choice(value.type.tensor_type.shape.dim)
    dim.dim_value += site.choice((1, 2, 1000))
    return f"a dimension of output {value.name!r} is declared as {dim.dim_value}, which it is not"


@kind(f"{GRAPHS}: value_info stores the type of a value")
def wrong_value_info(site: Site) -> str:
    """A value inside of the graph that is declared with another dtype or rank than it has."""
    last = site.tail()
    output = next(o for o in site.graph.output if o.name == last.output[0])
    value = site.graph.value_info.add()
    value.CopyFrom(output)
    value.name = last.input[0]
    maker = site.maker(value.name)
    assert maker is not None
    site.at(maker)
    tensor = value.type.tensor_type
    if site.rng.random() < 0.5:
        old = tensor.elem_type
        tensor.elem_type = site.choice([number for number in DTYPES if number != old])
        declared = f"{_name(old)} and declared as {_name(tensor.elem_type)}"
    else:
        tensor.shape.dim.add().dim_value = 2
        declared = f"declared with rank {len(tensor.shape.dim)}, one too many"
    return f"{value.name!r}, a result of {site.operator}, is {declared}"


def _name(number: int) -> str:
    return onnx.TensorProto.DataType.Name(number) if number in range(24) else str(number)
