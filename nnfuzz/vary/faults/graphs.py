"""Faults of the file, of names and connections, of declarations, and of bodies and functions."""

from __future__ import annotations

from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper
from onnx.defs import OpSchema

from nnfuzz.vary.faults.site import NoPlace, Site, kind

NODES = "ONNX IR, Graphs: Nodes"
NAMES = "ONNX IR, Names Within a Graph"
GRAPHS = "ONNX IR, Graphs"
OPERATORS = "ONNX IR, Operators: an operator must be declared by an imported operator set"
NOWHERE = "defined_nowhere"
LOCAL = "local.functions"
TRIES = 50


@kind("Protocol Buffers, Encoding: the bytes are a sequence of well-formed fields")
def broken_file(site: Site) -> str:
    """The file ends in the middle of a field, or some of its bits are flipped."""
    whole, count = site.model.SerializeToString(deterministic=True), site.choice((0, 1, 2, 8, 64))
    for _ in range(TRIES):
        data = bytearray(whole if count else whole[: site.rng.randrange(1, len(whole))])
        for _ in range(count):
            data[site.rng.randrange(len(data))] ^= 1 << site.rng.randrange(8)
        try:
            ModelProto.FromString(bytes(data))
        except DecodeError:
            site.data = bytes(data)
            cut = f"the file ends after {len(data)} of {len(whole)} bytes"
            return f"{count} of the file's bits are flipped" if count else cut
    raise NoPlace


# -- names and connections -------------------------------------------------------------------------


@kind(f"{NODES}: dependencies must not create cycles")
def cycle(site: Site) -> str:
    """A node depends on its own result, at once or through another node."""
    for node, schema in site.known():
        for place, name in enumerate(node.input):
            formal = schema.inputs[min(place, len(schema.inputs) - 1)]
            if not name or formal.type_str != schema.outputs[0].type_str:
                continue
            back = node.output[0]
            if site.rng.random() < 0.5:
                back = f"{back}_back"
                site.graph.node.append(helper.make_node("Identity", [node.output[0]], [back]))
            node.input[place] = back
            return f"{site.at(node)} reads {back!r}, which is computed from its own result"
    raise NoPlace


@kind(f"{NODES}: the list of nodes must be ordered topologically")
def unordered_nodes(site: Site) -> str:
    """A node comes before the node whose result it reads."""
    output = site.choice(site.graph.output)
    place = site.choice([i for i, node in enumerate(site.nodes) if output.name in node.output])
    maker = site.at(site.nodes[place])
    early = helper.make_node("Identity", [output.name], [f"{output.name}_early"])
    site.graph.node.insert(place, early)
    site.graph.output.add().CopyFrom(output)
    site.graph.output[-1].name = early.output[0]
    return f"Identity reads the result of {maker}, which comes behind it in the list"


@kind(f"{NAMES}: a value name used in a graph must have a definition")
def undefined_name(site: Site) -> str:
    """A node reads, or the graph returns, a value that nothing defines."""
    if site.rng.random() < 0.3:
        site.choice(site.graph.output).name = NOWHERE
        return f"graph output {NOWHERE!r} is a name that nothing defines"
    node = site.choice([node for node in site.nodes if any(node.input)])
    place = site.choice([i for i, name in enumerate(node.input) if name])
    node.input[place] = NOWHERE
    return f"input {place} of {site.at(node)} is {NOWHERE!r}, a name that nothing defines"


@kind(f"{NAMES}: a value name must have a unique definition; {NODES}: single static assignment")
def duplicate_name(site: Site) -> str:
    """A value is defined twice: by nodes, graph inputs or initializers."""
    graph, node = site.graph, site.choice(site.nodes)
    group = site.choice([g for g in (graph.node, graph.input, graph.initializer) if len(g)])
    if group is graph.node and site.rng.random() < 0.5:
        name = site.choice([*(v.name for v in graph.input), *(t.name for t in graph.initializer)])
        graph.node.append(helper.make_node("Identity", [node.output[0]], [name]))
        return f"Identity writes {name!r}, which is given"
    twice = site.choice(group)
    group.add().CopyFrom(twice)
    return f"{twice.output[0] if isinstance(twice, NodeProto) else twice.name!r} is defined twice"


@kind("ONNX IR, Graphs: each node has one or more outputs")
def node_without_output(site: Site) -> str:
    """A node has no outputs."""
    name = site.choice([n for node in site.nodes for n in node.input if n])
    site.graph.node.append(helper.make_node("Identity", [name], []))
    site.operator = "Identity"
    return "an Identity has no output"


@kind(f"{NODES}: the number of inputs must satisfy the signature of the operator")
def too_few_inputs(site: Site) -> str:
    """A node lacks an input that its operator requires, or has an empty name in its place."""
    for node, schema in site.known():
        if schema.min_input and len(node.input) >= schema.min_input:
            left = site.rng.randrange(schema.min_input)
            if site.rng.random() < 0.5:
                del node.input[left:]
                return f"{site.at(node)} has {left} inputs and needs {schema.min_input}"
            node.input[left] = ""
            return f"the required input {left} of {site.at(node)} is left out"
    raise NoPlace


# -- operator sets and declarations ----------------------------------------------------------------


@kind(OPERATORS)
def unknown_operator(site: Site) -> str:
    """A node has an operator that is in no imported operator set."""
    node = site.choice(site.nodes)
    site.operator = old = node.op_type
    if site.rng.random() < 0.2:
        node.domain = "org.example.unknown"
        return f"{old} is of the domain {node.domain!r}, which is not imported"
    node.op_type = site.choice(("Frobnicate", "", old.swapcase(), f"{old}_", f" {old}"))
    return f"a node's operator is {node.op_type!r}"


@kind("ONNX IR, Models: an implementation must support the imported operator sets or reject it")
def unknown_opset(site: Site) -> str:
    """The model imports a nonexistent version of the default operator set, or no operator set."""
    version = site.choice((0, -1, 9999, 2**31, 2**63 - 1, -(2**63), None))
    del site.model.opset_import[:]
    if version is not None:
        site.model.opset_import.append(helper.make_opsetid("", version))
    return f"the model imports the version {version} of the default operator set"


@kind("ONNX IR, Models: a model has a graph; Graphs: each graph must specify a name")
def no_graph(site: Site) -> str:
    """The model has no graph, or an empty one."""
    site.model.ClearField("graph")
    if site.rng.random() < 0.5:
        return "the model has no graph"
    site.model.graph.SetInParent()
    return "the model's graph is empty: no name, node, input or output"


@kind(f"{GRAPHS}: inputs and outputs of the main graph must have a type and a shape")
def untyped_value(site: Site) -> str:
    """A graph input or output has no type or no shape."""
    value, what = site.choice(_ends(site)), site.choice(("type", "kind of type", "shape"))
    if what == "shape":
        value.type.tensor_type.ClearField("shape")
    else:
        value.ClearField("type")
        if what == "kind of type":
            value.type.SetInParent()
    return f"{value.name!r}, an input or output of the graph, has no {what}"


@kind("ONNX IR, Tensor Definition: an element type is a DataType, a dimension no negative number")
def impossible_type(site: Site) -> str:
    """A graph input or output has a nonexistent element type or a negative dimension."""
    value = site.choice(_ends(site))
    dims = value.type.tensor_type.shape.dim
    if dims and site.rng.random() < 0.5:
        site.choice(dims).dim_value = number = site.choice((-1, -2, -3, -(2**31), -(2**63)))
        return f"a dimension of {value.name!r} is {number}"
    value.type.tensor_type.elem_type = number = site.choice((0, 9999, -1, 2**31 - 1))
    return f"{value.name!r} has the element type {number}"


def _ends(site: Site) -> list[ValueInfoProto]:
    """The declarations of the graph's inputs and outputs."""
    return [*site.graph.input, *site.graph.output]


# -- bodies and functions --------------------------------------------------------------------------


def has_body(schema: OpSchema) -> bool:
    return schema.name in ("If", "Loop", "Scan")


def _body(site: Site) -> tuple[NodeProto, str, GraphProto]:
    """A node with a non-empty sub-graph, the name of its attribute, and the sub-graph."""
    owned = [(node, a.name, a.g) for node in site.nodes for a in node.attribute if a.HasField("g")]
    return site.choice([one for one in owned if one[2].node and one[2].output])


@kind("If, Loop and Scan: a body has as many outputs as the operator says", has_body)
def body_with_other_outputs(site: Site) -> str:
    """A sub-graph has one output too few or too many."""
    node, name, body = _body(site)
    if site.rng.random() < 0.5:
        del body.output[-1]
    else:
        body.output.add().CopyFrom(body.output[-1])
    return f"{name} of {site.at(node)} has {len(body.output)} outputs"


@kind(f"{NAMES}: a body sees the names that are defined before its node", has_body)
def wrong_name_in_body(site: Site) -> str:
    """A sub-graph reads or returns an undefined value, or reads the result of its own node."""
    node, name, body = _body(site)
    wrong = site.choice((NOWHERE, node.output[0]))
    if wrong == NOWHERE and site.rng.random() < 0.5:
        body.output[0].name = wrong
        return f"{name} of {site.at(node)} returns {wrong!r}, which nothing defines"
    site.choice([inner for inner in body.node if inner.input]).input[0] = wrong
    return f"{name} of {site.at(node)} reads {wrong!r}, which is not defined there"


@kind("onnx.proto, ModelProto.functions: recursive reference is not allowed")
def recursive_function(site: Site) -> str:
    """A function of the model calls itself, directly or through another function."""
    plain = [n for n in site.nodes if not n.domain and all((*n.input, *n.output)) and n.input]
    node = site.choice([n for n in plain if not any(a.HasField("g") for a in n.attribute)])
    ends = [f"in{i}" for i in range(len(node.input))], [f"out{i}" for i in range(len(node.output))]
    inner = helper.make_node(node.op_type, *ends)
    inner.attribute.extend(node.attribute)
    _define(site, "Wrapped", ends, inner)
    site.model.opset_import.append(helper.make_opsetid(LOCAL, 1))
    site.at(node)
    node.op_type, node.domain = "Wrapped", LOCAL
    del node.attribute[:]
    site.keep_valid()
    called = site.choice(("Wrapped", "Other"))
    del site.model.functions[:]
    _define(site, "Wrapped", ends, helper.make_node(called, *ends, domain=LOCAL))
    if called == "Other":
        _define(site, called, ends, helper.make_node("Wrapped", *ends, domain=LOCAL))
    return f"the function 'Wrapped' calls {called!r}, and so itself in the end"


def _define(site: Site, name: str, ends: tuple[list[str], list[str]], node: NodeProto) -> None:
    """Add a function of one node to the model. ends: names of its inputs and of its outputs."""
    opsets = [helper.make_opsetid("", site.opset), helper.make_opsetid(LOCAL, 1)]
    site.model.functions.append(helper.make_function(LOCAL, name, *ends, [node], opsets))
