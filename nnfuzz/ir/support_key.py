"""Keys of features that a compiler or exporter may not support: operators with dtypes, edges (two
operators, one reading the other's result), and properties of a node, such as "Pad[mode=wrap]", or
rules by which a model was rewritten, such as "function[rule]"."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property, lru_cache

from nnfuzz.ir.view import GraphView


def edge_key(producer: str, consumer: str, dtype: str) -> str:
    """The key of an edge without exporter, such as "Relu->Conv(float32)"."""
    return f"{producer}->{consumer}({dtype})"


def edge_keys(graph: GraphView) -> tuple[str, ...]:
    """The keys of a concrete graph's edges, each once, in topological order."""
    dtypes = graph.dtypes
    makers = {name: node.op for node in graph.nodes for name in node.outputs}
    keys = (
        edge_key(makers[name], node.op, dtypes[name])
        for node in graph.nodes
        for name in node.inputs
        if name in makers
    )
    return tuple(dict.fromkeys(keys))


def property_keys(operator: str, attributes: Mapping[str, object], rank: int) -> list[str]:
    """The keys of a node's modes and flags, and of the rank of its first input. The rank has two
    keys: one of the operator, and one of any operator.
    """
    modes = (f"{k}={v}" for k, v in attributes.items() if isinstance(v, bool) or _is_word(v))
    return [f"{op}[rank={rank}]" for op in ("any", operator)] + [f"{operator}[{m}]" for m in modes]


def _is_word(value: object) -> bool:
    return isinstance(value, str) and value.isidentifier()


def properties(graph: GraphView) -> tuple[str, ...]:
    """The keys of the properties of a graph's nodes, each once, in topological order."""
    ranks = {value.name: len(value.shape) for value in graph.values}
    read = ((node, ranks[name]) for node in graph.nodes for name in node.inputs[:1])
    every = (property_keys(node.op, node.attributes, rank) for node, rank in read)
    return tuple(dict.fromkeys(key for keys in every for key in keys))


def is_avoided(graph: GraphView, avoid: Collection[str]) -> bool:
    """Whether a concrete graph has an edge or a property of these keys."""
    return bool(avoid) and any(key in avoid for key in (*edge_keys(graph), *properties(graph)))


class SupportKey(str):
    """An operator with dtypes, an edge or a property, for one exporter or all.

    A key is a plain string such as "direct:Add(float16)->float16", since a campaign looks up
    thousands of keys per test. exporter: "" for all exporters. operator: its name; "Relu->Conv" for
    an edge. dtypes: "(float16)->float16", for an edge "(float32)"; "" for all dtypes.
    """

    exporter: str
    operator: str
    dtypes: str

    def __new__(cls, exporter: str, operator: str, dtypes: str) -> SupportKey:
        key = super().__new__(
            cls, f"{exporter}:{operator}{dtypes}" if exporter else operator + dtypes
        )
        key.exporter, key.operator, key.dtypes = exporter, operator, dtypes
        return key

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        return SupportKey, (self.exporter, self.operator, self.dtypes)

    @classmethod
    @lru_cache(maxsize=1 << 16)
    def parse(cls, text: str) -> SupportKey:
        """The key for a text; inverse of `str`."""
        exporter, _, rest = text.rpartition(":")
        operator, parenthesis, dtypes = rest.partition("(")
        return cls(exporter, operator, parenthesis + dtypes)

    @classmethod
    def of_signature(cls, operator: str, inputs: Iterable[str], output: str) -> SupportKey:
        """The key of an operator by the dtypes of its type variables and of its output."""
        return cls("", operator, f"({','.join(inputs)})->{output}")

    @cached_property
    def signature(self) -> SupportKey:
        """The same key for all exporters."""
        return self.with_exporter("")

    @cached_property
    def any_dtypes(self) -> SupportKey:
        """The same key for all dtypes."""
        return SupportKey(self.exporter, self.operator, "") if self.dtypes else self

    @property
    def is_edge(self) -> bool:
        """Whether the key names an edge, not a single operator."""
        return "->" in self.operator

    @property
    def is_property(self) -> bool:
        """Whether the key names a property of an operator's nodes."""
        return self.operator.endswith("]")

    @property
    def is_signature(self) -> bool:
        return not (self.is_edge or self.is_property)

    def with_exporter(self, exporter: str) -> SupportKey:
        """The same key for one exporter; "" means all."""
        same = exporter == self.exporter
        return self if same else SupportKey(exporter, self.operator, self.dtypes)


def operators_in(texts: Iterable[str]) -> set[str]:
    """The operators that keys, given as text, name."""
    return {SupportKey.parse(text).operator for text in texts}
