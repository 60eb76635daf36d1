"""Faults of names and connections, of operator sets and of declarations."""

from __future__ import annotations

from onnx import NodeProto, ValueInfoProto, helper

from nnfuzz.vary.faults.site import NoPlace, Site, kind

NODES = "ONNX IR, Graphs: Nodes"
NAMES = "ONNX IR, Names Within a Graph"
GRAPHS = "ONNX IR, Graphs"
OPERATORS = "ONNX IR, Operators: an operator must be declared by an imported operator set"
NOWHERE = "defined_nowhere"


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
