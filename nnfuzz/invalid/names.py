"""Faults in the connections between values and nodes."""

from __future__ import annotations

from contextlib import suppress

from onnx import NodeProto, helper

from nnfuzz.invalid.kinds import kind
from nnfuzz.invalid.site import NoPlace, Site

NODES = "ONNX IR, Graphs: Nodes"
NAMES = "ONNX IR, Names Within a Graph"
NOWHERE = "defined_nowhere"


@kind(f"{NODES}: dependencies must not create cycles", nodes=True)
def cycle(site: Site) -> str:
    """A node depends on its own result, at once or through others."""
    for node, schema in site.known():
        for place, name in enumerate(node.input):
            formal = schema.inputs[min(place, len(schema.inputs) - 1)]
            if not name or formal.type_str != schema.outputs[0].type_str:
                continue
            if site.rng.random() < 0.5:
                node.input[place] = node.output[0]
                return f"{site.at(node)} reads its own result {node.output[0]!r}"
            # Two nodes around it, which keep the dtypes.
            back = f"{node.output[0]}_back"
            site.graph.node.append(helper.make_node("Identity", [node.output[0]], [back]))
            node.input[place] = back
            return f"{site.at(node)} reads {back!r}, which an Identity computes from its result"
    raise NoPlace


@kind(f"{NODES}: the list of nodes must be ordered topologically", nodes=True)
def unordered_nodes(site: Site) -> str:
    """A node stands before the one whose result it reads."""
    last = site.tail()
    first = site.maker(last.input[0])
    assert first is not None
    copy = NodeProto()
    copy.CopyFrom(last)
    del site.graph.node[-1]
    site.graph.node.insert(list(site.nodes).index(first), copy)
    return f"Identity reads the result of {site.at(first)}, which comes behind it in the list"


@kind(f"{NAMES}: a value name used in a graph must have a definition")
def undefined_name(site: Site) -> str:
    """A node reads a value that nothing defines."""
    node = site.choice([node for node in site.nodes if any(node.input)])
    place = site.choice([i for i, name in enumerate(node.input) if name])
    node.input[place] = NOWHERE
    return f"input {place} of {site.at(node)} is {NOWHERE!r}, a name that nothing defines"


@kind(f"{NAMES}: a value name used in a graph must have a definition")
def undefined_output(site: Site) -> str:
    """The graph returns a value that nothing computes."""
    output = site.choice(site.graph.output)
    output.name = NOWHERE
    return f"graph output {NOWHERE!r} is a name that nothing defines"


@kind(f"{NAMES}: a value name must have a unique definition; {NODES}: single static assignment")
def duplicate_name(site: Site) -> str:
    """Two definitions of one value: by nodes, graph inputs or initializers."""
    for way in site.shuffled((_two_nodes, _node_and_given, _two_inputs, _two_weights)):
        with suppress(NoPlace):
            return way(site)
    raise NoPlace


def _two_nodes(site: Site) -> str:
    node = site.choice([node for node in site.nodes if node.output])
    copy = site.graph.node.add()
    copy.CopyFrom(node)
    copy.name = ""
    return f"two {site.at(node)} nodes write {node.output[0]!r}"


def _node_and_given(site: Site) -> str:
    given = [v.name for v in site.graph.input] + [t.name for t in site.graph.initializer]
    makers = [node for node in site.nodes if node.output]
    node, name = site.choice(makers), site.choice(given)
    site.graph.node.append(helper.make_node("Identity", [node.output[0]], [name]))
    sort = "a graph input" if site.declared(name) is not None else "an initializer"
    return f"Identity writes {name!r}, which is {sort}"


def _two_inputs(site: Site) -> str:
    value = site.choice(site.graph.input)
    site.graph.input.add().CopyFrom(value)
    return f"the graph has two inputs {value.name!r}"


def _two_weights(site: Site) -> str:
    tensor = site.some_weight()
    name = tensor.name
    site.graph.initializer.add().CopyFrom(tensor)
    return f"the graph has two initializers {name!r}"


@kind("ONNX IR, Graphs: each node has one or more outputs")
def node_without_output(site: Site) -> str:
    """A node that computes nothing."""
    name = next((n for node in site.nodes for n in node.input if n), "")
    if not name:
        raise NoPlace
    site.graph.node.append(helper.make_node("Identity", [name], []))
    site.operator = "Identity"
    return "an Identity has no output"


@kind(f"{NODES}: the number of inputs must satisfy the signature of the operator")
def too_few_inputs(site: Site) -> str:
    """A node without an input that its operator requires."""
    for node, schema in site.known():
        if schema.min_input and len(node.input) >= schema.min_input:
            left = site.rng.randrange(schema.min_input)
            del node.input[left:]
            return f"{site.at(node)} has {left} inputs and needs {schema.min_input}"
    raise NoPlace


@kind(f"{NODES}: the number of inputs must satisfy the signature of the operator")
def too_many_inputs(site: Site) -> str:
    """A node with more inputs than its operator has."""
    for node, schema in site.known():
        given = [name for name in node.input if name]
        if given and schema.max_input < 64:
            more = schema.max_input + site.choice((1, 1, 5))
            while len(node.input) < schema.max_input:
                node.input.append("")
            while len(node.input) < more:
                node.input.append(given[0])
            return f"{site.at(node)} has {more} inputs and takes {schema.max_input}"
    raise NoPlace


@kind("ONNX IR, Optional Inputs and Outputs: only optional inputs may be left out by an empty name")
def required_input_left_out(site: Site) -> str:
    """An empty name in the place of an input that is not optional."""
    for node, schema in site.known():
        formal = [min(i, len(schema.inputs) - 1) for i in range(len(node.input))]
        single = schema.FormalParameterOption.Single
        places = [i for i, f in enumerate(formal) if schema.inputs[f].option is single]
        if places:
            place = site.choice(places)
            node.input[place] = ""
            return f"the required input {place} of {site.at(node)} is left out"
    raise NoPlace


@kind(f"{NODES}: the number of outputs must satisfy the signature of the operator")
def too_many_outputs(site: Site) -> str:
    """A node with more outputs than its operator has."""
    for node, schema in site.known():
        if schema.max_output < 64:
            more = schema.max_output + site.choice((1, 1, 5))
            while len(node.output) < more:
                node.output.append(f"{node.output[0]}_more{len(node.output)}")
            return f"{site.at(node)} has {more} outputs and its operator {schema.max_output}"
    raise NoPlace
