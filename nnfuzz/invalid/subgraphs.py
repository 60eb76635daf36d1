"""Faults in sub-graphs and in functions of the model."""

from __future__ import annotations

from onnx import GraphProto, NodeProto, TensorProto, helper
from onnx.defs import OpSchema

from nnfuzz.invalid.kinds import kind
from nnfuzz.invalid.names import NAMES, NODES, NOWHERE
from nnfuzz.invalid.site import NoPlace, Site

FUNCTIONS = "onnx.proto, ModelProto.functions"
LOCAL = "local.functions"


def has_body(schema: OpSchema) -> bool:
    return schema.name in ("If", "Loop", "Scan")


def _bodies(site: Site) -> list[tuple[NodeProto, str, GraphProto]]:
    """Nodes that have sub-graphs, with these, in random order."""
    bodies = [
        (node, attribute.name, attribute.g)
        for node in site.nodes
        for attribute in node.attribute
        if attribute.HasField("g")
    ]
    return site.shuffled(bodies)


def _body(site: Site) -> tuple[NodeProto, str, GraphProto]:
    return site.choice([b for b in _bodies(site) if b[2].node and b[2].output])


@kind("If, Loop and Scan: a body has as many outputs as the operator says", has_body)
def body_with_other_outputs(site: Site) -> str:
    """A sub-graph with one output too few or too many."""
    node, name, body = _body(site)
    if site.rng.random() < 0.5:
        del body.output[-1]
    else:
        body.output.add().CopyFrom(body.output[-1])
    return f"{name} of {site.at(node)} has {len(body.output)} outputs"


@kind(
    "Loop and Scan: a body has an input for each value that is handed in",
    lambda schema: schema.name in ("Loop", "Scan"),
)
def body_with_other_inputs(site: Site) -> str:
    """A sub-graph with one input too few or too many."""
    node, name, body = site.choice([b for b in _bodies(site) if b[2].input])
    if site.rng.random() < 0.5:
        body.input.add().CopyFrom(body.input[-1])
        body.input[-1].name = "one_too_many"
    else:
        del body.input[-1]
    return f"{name} of {site.at(node)} has {len(body.input)} inputs"


@kind(f"{NAMES}: a value name used in a graph must have a definition", has_body)
def undefined_name_in_body(site: Site) -> str:
    """A sub-graph that reads or returns a value which no graph around it defines."""
    node, name, body = _body(site)
    readers = [inner for inner in body.node if inner.input]
    if readers and site.rng.random() < 0.5:
        site.choice(readers).input[0] = NOWHERE
        return f"a node in {name} of {site.at(node)} reads {NOWHERE!r}"
    body.output[0].name = NOWHERE
    return f"{name} of {site.at(node)} returns {NOWHERE!r}"


@kind(f"{NODES}: variable shadowing is not allowed", has_body)
def shadowed_name(site: Site) -> str:
    """A sub-graph that defines a name which is visible from outside."""
    outer = [v.name for v in site.graph.input] + [t.name for t in site.graph.initializer]
    node, name, body = _body(site)
    taken = site.choice(outer)
    body.node.insert(0, helper.make_node("Identity", [taken], [taken]))
    return f"{name} of {site.at(node)} defines {taken!r}, which the main graph has as well"


@kind(f"{NODES}: dependencies must not create cycles", has_body)
def cycle_through_body(site: Site) -> str:
    """A sub-graph that reads the result of its own node."""
    node, name, body = _body(site)
    readers = [inner for inner in body.node if inner.input]
    site.choice(readers).input[0] = node.output[0]
    return f"{name} of {site.at(node)} reads {node.output[0]!r}, which that node computes"


@kind(
    "If: outputs of both branches have the same element type",
    lambda schema: schema.name == "If",
)
def branches_of_two_dtypes(site: Site) -> str:
    """Two branches of an If that return different dtypes."""
    for node, name, body in _bodies(site):
        if node.op_type == "If" and body.output:
            output = body.output[0]
            old = output.type.tensor_type.elem_type
            new = TensorProto.INT32 if old != TensorProto.INT32 else TensorProto.FLOAT
            cast = f"{output.name}_cast"
            body.node.append(helper.make_node("Cast", [output.name], [cast], to=new))
            output.name = cast
            output.type.tensor_type.elem_type = new
            dtype = TensorProto.DataType.Name(new)
            return f"{name} of {site.at(node)} returns {dtype}, the other branch does not"
    raise NoPlace


@kind("If, Loop and Scan: a body is an attribute of the type GRAPH", has_body)
def empty_body(site: Site) -> str:
    """A sub-graph without anything in it."""
    node, name, body = _body(site)
    body.Clear()
    return f"{name} of {site.at(node)} is an empty graph"


# -- functions -------------------------------------------------------------------------------------


def _as_function(site: Site) -> tuple[NodeProto, int]:
    """Moves a node into a model-local function.

    Returns the call and the number of inputs of the function.
    """
    plain = [
        n for n in site.nodes if not n.domain and not any(a.HasField("g") for a in n.attribute)
    ]
    plain = [n for n in plain if n.input and all(n.input) and all(n.output)]
    node, inner = site.choice(plain), NodeProto()
    inner.CopyFrom(node)
    inputs = [f"in{i}" for i in range(len(node.input))]
    outputs = [f"out{i}" for i in range(len(node.output))]
    inner.input[:], inner.output[:] = inputs, outputs
    opset = helper.make_opsetid("", site.opset)
    site.model.functions.append(
        helper.make_function(LOCAL, "Wrapped", inputs, outputs, [inner], [opset])
    )
    site.model.opset_import.append(helper.make_opsetid(LOCAL, 1))
    site.at(node)
    node.op_type, node.domain = "Wrapped", LOCAL
    del node.attribute[:]
    site.so_far()
    return node, len(inputs)


@kind(f"{FUNCTIONS}: recursive reference is not allowed")
def recursive_function(site: Site) -> str:
    """A function of the model that calls itself, at once or through another one."""
    _as_function(site)
    first = site.model.functions[0]
    first.opset_import.append(helper.make_opsetid(LOCAL, 1))
    call = "Wrapped"
    if site.rng.random() < 0.5:
        call = "Other"
        other = site.model.functions.add()
        other.CopyFrom(first)
        other.name = call
        (inner,) = other.node
        del inner.attribute[:]
        inner.op_type, inner.domain = "Wrapped", LOCAL
    (inner,) = first.node
    del inner.attribute[:]
    inner.op_type, inner.domain = call, LOCAL
    return (
        f"the function Wrapped calls {'itself' if call == 'Wrapped' else 'Other, which calls it'}"
    )


@kind("onnx.proto, FunctionProto.opset_import: the operator sets that the body relies on")
def function_without_opset(site: Site) -> str:
    """A function that imports no operator set for its nodes."""
    _as_function(site)
    del site.model.functions[0].opset_import[:]
    return "the function Wrapped imports no operator set"


@kind(f"{FUNCTIONS}: (domain, name, overload) must be unique")
def duplicate_function(site: Site) -> str:
    """Two functions of one name."""
    _as_function(site)
    copy = site.model.functions.add()
    copy.CopyFrom(site.model.functions[0])
    return "the model has two functions Wrapped of one domain"


@kind(f"{NAMES}: a value name used in a graph must have a definition")
def undefined_name_in_function(site: Site) -> str:
    """A function that reads or returns a value that it does not define."""
    _as_function(site)
    function = site.model.functions[0]
    if site.rng.random() < 0.5:
        function.node[0].input[0] = NOWHERE
        return f"the body of the function Wrapped reads {NOWHERE!r}"
    function.node[0].output[0] = "elsewhere"
    return f"nothing in the function Wrapped computes its output {function.output[0]!r}"


@kind("ONNX IR, Functions: input and output are the signature of the operator")
def function_call_with_more(site: Site) -> str:
    """A call of a function with more inputs or outputs than it has."""
    node, count = _as_function(site)
    if site.rng.random() < 0.5:
        node.input.append(node.input[0])
        return f"the function Wrapped has {count} inputs and is called with {count + 1}"
    node.output.append("one_too_many")
    count = len(node.output)
    return f"the function Wrapped has {count - 1} outputs and is called for {count}"
