"""What counts of a reduced message and model: dtypes, names and shapes are parameters."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.sizes import at_one_size, name_and_copy
from nnfuzz.ir.support_key import edge_keys
from nnfuzz.ir.view import NO_GRAPH, GraphView, NodeView

_SPELLINGS = {
    "bool": ("bool", "boolean"),
    "int8": ("int8", "i8", "int8_t", "char"),
    "int16": ("int16", "i16", "int16_t"),
    "int32": ("int32", "i32", "int32_t"),
    "int64": ("int64", "i64", "int64_t"),
    "uint8": ("uint8", "u8", "uint8_t"),
    "uint16": ("uint16", "u16", "uint16_t"),
    "uint32": ("uint32", "u32", "uint32_t"),
    "uint64": ("uint64", "u64", "uint64_t"),
    "float16": ("float16", "f16", "half"),
    "bfloat16": ("bfloat16", "bf16"),
    "float32": ("float32", "f32", "float"),
    "float64": ("float64", "f64", "double"),
}
DTYPE, OPERATOR = "<dtype>", "<operator>"
RESULT = "result"
"""The part that says what is wrong with the results of an operator: "dtype", "shape", "type" (one
of the two) or "use" (what comes behind cannot be translated)."""
_WORD = re.compile(r"(?<!<)\b[A-Za-z]\w*")
_DOTTED = re.compile(r"(?<=')[a-z]\w*(?:\.\w+)+(?=')")
_CALLED = re.compile(r"\b[A-Za-z_]\w*(?:\.\w+)+\(\.\.\.\)")
_LOCATION = re.compile(r"\b[\w-]+\.(?:cc|cpp|cu|h|hpp) (?=[\w:<>&*~ ]+\()")
_BOUND = re.compile(r"\s*\[with [^\]]*\]")
_MOVERS = frozenset("Reshape Flatten Squeeze Unsqueeze Transpose Identity Expand Slice".split())
"""Operators that hand on what they read, so that its type is not their doing."""
_RETYPERS = frozenset(
    "Cast CastLike Equal Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual".split()
)
"""Operators that return what has the shape of what they read, in another type: a reduced graph has
one of them for that, and the shape is not its doing."""
_STATIC = ("Shape", "Size")  # known before the model runs, since all shapes are
_POSITIONS = frozenset(
    ("axis", "batch_axis", "time_axis", "k", "start", "sampling_ratio", "block_size")
)
"""Attributes whose default is 0, and which are no flags."""
_LOCATED = 240
"""Characters that are telling, from a source file on."""
_MOST_SHOWN = 6
SIZED, CALLED = "a symbolic dimension()->", "several calls()->"
"""Among the nodes of a pattern that needs one."""
_SHORTEST = 4
"""Characters that a word and the name of an operator must share from their beginning."""


def general_message(message: str, dtypes: Collection[str], operators: Collection[str]) -> str:
    """A normalised message with <dtype> and <operator> for those of the reduced graph, whatever
    their domains.
    """
    spelled = {word for dtype in dtypes for word in _spellings(dtype)}
    plain = {_plain(operator.rpartition(".")[2]) for operator in operators}

    def replaced(match: re.Match[str]) -> str:
        word = match.group()
        if word.lower() in spelled:
            return DTYPE
        return OPERATOR if any(_same(_plain(word), op) for op in plain) else word

    return _WORD.sub(replaced, message)


def _spellings(dtype: str) -> Collection[str]:
    """What compilers call a dtype, in lower case: float8_e5m2 is float8e5m2 for ONNX."""
    return _SPELLINGS.get(dtype, (dtype, dtype.replace("_", "")))


def without_intrinsics(message: str) -> str:
    """<operator> for quoted names with dots ('intrinsics.acos'): what operators are lowered to."""
    return _DOTTED.sub(OPERATOR, message)


def without_calls(message: str) -> str:
    """<call> for calls of functions with dots (R.subtract(...)): what operators are lowered to."""
    return _CALLED.sub("<call>", message)


def from_last_location(message: str) -> str:
    """The part of a normalised message from its last source file and function on; "" if none.

    Template arguments go: "pool.h Pool::Pool(const Info&) [with Info = X] bad" is bad in whatever
    instance. So does the end of a text that may have been cut at any place.
    """
    starts = [match.start() for match in _LOCATION.finditer(message)]
    return _BOUND.sub("", message[starts[-1] :])[:_LOCATED] if starts else ""


def coarse_graph(graph: GraphView) -> GraphView:
    """The graph with "float", "integer" or "bool" for dtypes."""
    values = (replace(value, dtype=dtype_class(value.dtype)) for value in graph.values)
    return replace(graph, values=tuple(values))


def data_operators(model: bytes) -> list[tuple[str, str]]:
    """The operators that a serialized ONNX model applies to its inputs, in order, with the output
    of each computes.

    Operators on constants and shapes do not count.
    """
    import onnx

    graph = onnx.load_model_from_string(model).graph
    data = {value.name for value in graph.input} - {tensor.name for tensor in graph.initializer}
    operators = []
    for node in graph.node:
        if not data.isdisjoint(node.input) and node.op_type not in _STATIC:
            data.update(node.output)
            operators.append((node.op_type, node.output[0]))
    return operators


def operator_types(model: bytes) -> set[str]:
    """The operators of a serialized ONNX model; constants do not count."""
    import onnx

    return {node.op_type for node in onnx.load_model_from_string(model).graph.node} - {"Constant"}


def names_of(model: bytes) -> list[str]:
    """The numbered names of nodes and constants in a serialized ONNX model."""
    import onnx

    graph = onnx.load_model_from_string(model).graph
    return [own.name for own in (*graph.node, *graph.initializer) if re.search(r"\d", own.name)]


def written_types(model: bytes, graph: GraphView) -> dict[str, str]:
    """The operator of ONNX that computes each value of a graph in its serialized model, by name;
    only values that the model calls the same, and none that is but moved at the end.
    """
    import onnx

    nodes = onnx.load_model_from_string(model).graph.node
    makers = {name: node.op_type for node in nodes for name in node.output}
    own = {name for node in graph.nodes for name in node.outputs}
    return {n: type_ for n, type_ in makers.items() if n in own and type_ not in _MOVERS}


def as_written(graph: GraphView, types: Mapping[str, str]) -> GraphView:
    """The graph with operators called as those of ONNX that compute their first outputs: two of
    ours whose last step is the same make the same result for a compiler.
    """
    nodes = (replace(n, op=types.get(n.outputs[0], n.op)) if n.outputs else n for n in graph.nodes)
    return replace(graph, nodes=tuple(nodes))


def sole_operator(model: bytes, graph: GraphView = NO_GRAPH) -> str:
    """The only operator that a serialized ONNX model applies to its inputs, or "".

    graph: that it was made from; if that is a single operator of ONNX, or one mode of it, it is
    the one, whatever it takes to lower it. One of another domain has that in front of a name that
    ONNX has as well, since it is another operator.
    """
    from onnx import defs

    own = {*graph.operators} if graph else set()
    if len(own) == 1 and (called := onnx_type(min(own), operator_types(model))):
        domain = min(own).rpartition(".")[0]
        return f"{domain}.{called}" if domain and defs.has(called) else called
    operators = data_operators(model)
    return operators[0][0] if len(operators) == 1 else ""


def branches_added(model: bytes, graph: GraphView) -> bool:
    """Whether a serialized ONNX model has an If that the graph it was made from has not: exporters
    of PyTorch write some operators so, and reduction would have had them emitted directly if the
    failure did not need it.
    """
    wanted = {*graph.operators} if graph else {"If"}
    return "If" not in wanted and "If" in operator_types(model)


def onnx_type(operator: str, types: Collection[str]) -> str:
    """The type of ONNX that an operator is, or a mode of (RoiAlignMax of RoiAlign,
    BlockDequantizeLinear of DequantizeLinear), among those of a model; "" if none.
    """
    fitting = (t for t in types if operator.startswith(t) or operator.endswith(t))
    return max(fitting, key=len, default="")


def sources(graph: GraphView) -> list[str]:
    """The operators that no other feeds, sorted, if there are others; else none.

    In a reduced graph all the rest needs something that they make, and inputs of the same types
    would not do.
    """
    made = {name for node in graph.nodes for name in node.outputs}
    first = [node for node in graph.nodes if made.isdisjoint(node.inputs)]
    return sorted({node.op for node in first}) if len(first) < len(graph.nodes) else []


def before_last(graph: GraphView, what: str = "dtype") -> list[str]:
    """The operators that the last one reads, sorted; through those that hand on what is in
    question, "dtype" or "shape".
    """
    makers = graph.makers
    through = _MOVERS | _RETYPERS if what == "shape" else _MOVERS
    return sorted({node.op for node in _computing(graph.nodes[-1], makers, through)})


def _computing(
    node: NodeView, makers: Mapping[str, NodeView], through: Collection[str]
) -> Iterator[NodeView]:
    for name in node.inputs:
        if name in makers:
            behind = list(_computing(makers[name], makers, through))
            yield from behind if behind and makers[name].op in through else [makers[name]]


def between(graph: GraphView, operator: str) -> list[str]:
    """The operators that feed the last one of a name and are themselves fed; else that one.

    For inference that fails at an operator: what reads inputs of the graph has inferred from types
    that are known, so that it is to blame only if nothing else can be.
    """
    makers = graph.makers
    failing = [node for node in graph.nodes if node.op == operator][-1]
    feeding = [makers[name] for name in failing.inputs if name in makers]
    middle = {n.op for n in feeding if not makers.keys().isdisjoint(n.inputs)}
    return sorted(middle) or [operator]


def switches(graph: GraphView, operator: str) -> list[str]:
    """The switches that are on at the nodes of a graph of a single operator of ONNX: modes by name
    that are no default of the operator, and numbers whose default is 0. Sorted; none if ONNX has no
    such operator.

    Reduction switches off modes that a failure does not need.
    """
    usual = schema_defaults(operator)
    flags = {name for name, value in usual.items() if value == 0} - _POSITIONS
    found = set()
    for node in graph.nodes:
        for name, value in node.attributes.items():
            named = bool(usual) and isinstance(value, str) and value.isidentifier()
            if named and value not in usual.values():
                found.add(f"{name}={value}")
            elif name in flags and value and isinstance(value, int | float):
                found.add(name)
    return sorted(found)


def operands(graph: GraphView, operator: str) -> int:
    """How many operands a node of an ONNX operator of any number of them has at most; 0 for other
    operators.
    """
    from onnx import defs

    try:
        last = defs.get_schema(operator).inputs[-1]
    except (defs.SchemaError, IndexError):
        return 0
    variadic = last.option == defs.OpSchema.FormalParameterOption.Variadic
    return max((len(node.inputs) for node in graph.nodes), default=0) if variadic else 0


def schema_defaults(operator: str) -> dict[str, object]:
    """The attributes of an ONNX operator, by name, with their defaults; None where there is none.

    Empty if ONNX has no such operator.
    """
    from onnx import defs

    try:
        declared = defs.get_schema(operator).attributes
    except defs.SchemaError:
        return {}
    return {name: _default(attribute) for name, attribute in declared.items()}


def _default(attribute: Any) -> object:
    from onnx import helper

    value = attribute.default_value
    default = helper.get_attribute_value(value) if value.type else None
    return default.decode() if isinstance(default, bytes) else default


def signatures(graph: GraphView) -> list[str]:
    """ "Op(dtype, ...)->dtype" per operator, each dtype and each such text once, sorted.

    How many inputs an operator with optional ones has does not matter.
    """
    dtypes = graph.dtypes

    def side(names: Iterable[str]) -> str:
        return ",".join(sorted({dtypes[name] for name in names}))

    return sorted({f"{n.op}({side(n.inputs)})->{side(n.outputs)}" for n in graph.nodes})


def dtype_class(dtype: str) -> str:
    """float, integer or bool; an unknown dtype stays."""
    try:
        known = DType(dtype)
    except ValueError:
        return dtype
    return "float" if known.is_float else "integer" if known.is_int else "bool"


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _same(word: str, operator: str) -> bool:
    """Whether a word is how compilers call the operator, or short for it: acos, batch_norm."""
    return word == operator or (len(word) >= _SHORTEST and operator.startswith(word))


@dataclass(frozen=True)
class Pattern:
    """What a graph consists of, whatever its names, shapes and attributes.

    nodes: "Op(dtype, ...)->dtype", in topological order; edges: see nnfuzz.ir.support_key, sorted.
    """

    nodes: tuple[str, ...]
    edges: tuple[str, ...]

    def __str__(self) -> str:
        """Operators and dtypes for people: "Relu, Conv (float32)"."""
        operators = [node.partition("(")[0] for node in self.nodes]
        text = ", ".join(operators[:_MOST_SHOWN])
        text += f" and {len(operators) - _MOST_SHOWN} more" if operators[_MOST_SHOWN:] else ""
        return f"{text} ({', '.join(self._dtypes())})" if operators else ""

    def within(self, other: Pattern) -> bool:
        """Whether the other pattern has all operators and edges of this one, of whatever dtypes:
        reduction changes these where it can.
        """
        return all(mine <= theirs for mine, theirs in zip(self._bare, other._bare, strict=True))

    def like(self, other: Pattern) -> bool:
        """Whether the operators and edges are the same, of whatever dtypes."""
        return self.within(other) and other.within(self)

    @cached_property
    def _bare(self) -> tuple[set[str], set[str]]:
        """Operators and edges without dtypes."""
        nodes, edges = (
            {text.partition("(")[0] for text in part} for part in (self.nodes, self.edges)
        )
        return nodes, edges

    def _dtypes(self) -> list[str]:
        dtypes: dict[str, None] = {}
        for node in self.nodes:
            inputs, _, output = node.partition("(")[2].partition(")->")
            dtypes.update(dict.fromkeys([*inputs.split(","), *output.split(",")]))
        return [dtype for dtype in dtypes if dtype]


def first_copy(graph: GraphView) -> list[NodeView]:
    """The nodes of a graph; of one in several calls (nnfuzz.ir.sizes), those of the first copy."""
    copies = [(name_and_copy(node.outputs[0])[1], node) for node in graph.nodes]
    first = min((copy for copy, _ in copies), default=0)
    return [node for copy, node in copies if copy == first]


def upstream(graph: GraphView, output: str) -> GraphView:
    """The part of a graph that a value depends on."""
    needed, nodes = {output}, []
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(node.outputs):
            needed.update(node.inputs)
            nodes.append(node)
    return replace(graph, nodes=tuple(nodes[::-1]))


def pattern_of(graph: GraphView) -> Pattern:
    """The pattern of a concrete graph; empty without a graph.

    Of a graph in several calls (nnfuzz.ir.sizes) one copy counts, and that there are several.
    """
    if not graph:
        return Pattern((), ())
    nodes = first_copy(graph)
    several = []
    if len(nodes) < len(graph.nodes):
        several = [CALLED if at_one_size(graph) else SIZED]
    graph = replace(graph, nodes=tuple(nodes))
    dtypes = graph.dtypes
    depth: dict[str, int] = {}
    levelled = []
    for node in graph.nodes:
        inputs, outputs = (
            [dtypes[n] for n in getattr(node, side)] for side in ("inputs", "outputs")
        )
        level = 1 + max((depth.get(name, 0) for name in node.inputs), default=0)
        depth.update(dict.fromkeys(node.outputs, level))
        levelled.append((level, f"{node.op}({','.join(inputs)})->{','.join(outputs)}"))
    texts = [text for _, text in sorted(levelled)] + several
    return Pattern(tuple(texts), tuple(sorted(edge_keys(graph))))
