"""Planted bugs in rewrites: fusion, folding, reordering, common sub-expressions and buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import torch

from tests.planted.changes import SUBTLE, Catalogue
from tests.planted.program import Node, Program
from tests.planted.wrong_numbers import halved, single

BUGS = Catalogue()


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


UNARY = names(
    "Abs Neg Sign Exp Log Sqrt Sin Cos Tan Asin Acos Atan Sinh Cosh Erf Floor Ceil Round Sigmoid "
    "Tanh Relu Reciprocal Not Softsign Clip Gelu Elu HardSigmoid HardSwish LeakyRelu Softplus"
)
BINARY = names("Add Sub Mul Div Mod Pow Equal Greater Less GreaterOrEqual LessOrEqual And Or Xor")
SWAPPABLE = names("Sub Div Greater Less GreaterOrEqual LessOrEqual Mod")
LINEAR = names("ReduceSum ReduceMean GlobalAveragePool AveragePool CumSum MatMul Gemm Conv")
EXTREMAL = names("ReduceMax ReduceMin MaxPool GlobalMaxPool Max Min")
CLAMPING = names("Relu Clip Abs HardSigmoid LeakyRelu Elu HardSwish Softplus PRelu Sigmoid Gelu")
INTEGRAL = names("Floor Ceil Round Sign Cast")
ALONG = names(
    "Softmax LogSoftmax CumSum ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL2 "
    "ArgMax ArgMin"
)


def chains(
    program: Program, outer: Iterable[str], inner: Iterable[str]
) -> Iterator[tuple[Node, Node]]:
    """Pairs (reader, producer of its first input) of the given operators."""
    producers = program.producers()
    for node in program.nodes:
        source = producers.get(node.inputs[0]) if node.inputs else None
        if source is not None and node.op in outer and source.op in inner:
            yield node, source


def fused(
    program: Program,
    outer: Iterable[str],
    inner: Iterable[str],
    fuse: Callable[[Node, Node], Node | None],
) -> Iterator[Node]:
    """The nodes, with the reader of each such pair replaced by what `fuse` makes of them."""
    new = {node: fuse(node, source) for node, source in chains(program, outer, inner)}
    return (new.get(node) or node for node in program.nodes)


def guarded(node: Node, *extra: str, mutant) -> Node:
    """A node that reads more values; `mutant(y, xs, extra values)` gives its only output or None.

    y: the correct output; xs: the correct inputs. A wrong dtype or shape counts as no change,
    since a compiler would notice it.
    """
    count, kernel = len(node.inputs), node.kernel

    def mutated(a, *xs):
        y = kernel(a, *xs[:count])
        if isinstance(y, (tuple, list)):
            return y
        z = mutant(y, xs[:count], xs[count:])
        return y if z is None or z.shape != y.shape or z.dtype is not y.dtype else z

    return replace(node, inputs=(*node.inputs, *extra), kernel=mutated)


# -- order of operations ----------------------------------------------------------------------


def inside_out(node: Node, source: Node) -> Node:
    """outer(inner(x)) becomes inner(outer(x))."""

    def mutant(y, xs, inner):
        return source.kernel(source.attrs, node(inner[0], *xs[1:])[0], *inner[1:])

    return guarded(node, *source.inputs, mutant=mutant)


@BUGS.rewrite()
def activation_fused_before_reduction(program):
    """f(reduce(x)) is compiled as reduce(f(x))."""
    return fused(program, UNARY, LINEAR, inside_out)


@BUGS.rewrite()
def function_moved_through_maximum(program):
    """f(max(x)) is compiled as max(f(x)) although f falls somewhere."""

    def fuse(node, source):
        def mutant(y, xs, inner):
            rest = inner[1:]
            if source.op in ("Max", "Min"):
                rest = [node(x, *xs[1:])[0] for x in rest]
            return source.kernel(source.attrs, node(inner[0], *xs[1:])[0], *rest)

        return guarded(node, *source.inputs, mutant=mutant)

    return fused(program, UNARY, EXTREMAL, fuse)


@BUGS.rewrite()
def function_moved_below_padding(program):
    """f(pad(x)) is compiled as pad(f(x)) although f(0) is not 0."""
    return fused(program, UNARY, ("Pad", "Trilu"), inside_out)


@BUGS.rewrite()
def axis_not_remapped_by_transpose(program):
    """A Transpose moves behind an operator along an axis, whose axis stays as it was."""

    def fuse(node, source):
        def mutant(y, xs, inner):
            return source.kernel(source.attrs, node(inner[0], *xs[1:])[0])

        return guarded(node, *source.inputs, mutant=mutant)

    return fused(program, ALONG, ("Transpose",), fuse)


@BUGS.rewrite()
def binary_through_transpose(program):
    """Transpose(a) + b is compiled as Transpose(a + b)."""

    def fuse(node, source):
        def mutant(y, xs, inner):
            if inner[0].shape != xs[1].shape:
                return None
            return source(node(inner[0], xs[1])[0])[0]

        return guarded(node, *source.inputs, mutant=mutant)

    return fused(program, BINARY, ("Transpose",), fuse)


@BUGS.rewrite()
def transposes_composed_in_wrong_order(program):
    """Two Transposes become one with the permutations composed backwards."""

    def fuse(node, source):
        p, q = source.attrs["perm"], node.attrs["perm"]
        perm = [q[i] for i in p]
        return replace(node, inputs=source.inputs, attrs={"perm": perm})

    return fused(program, ("Transpose",), ("Transpose",), fuse)


@BUGS.rewrite()
def division_and_multiplication_reordered(program):
    """(a / b) * c is compiled as a / (b * c); (a * b) / c as a * (b / c) for integers."""

    def fuse(node, source):
        def mutant(y, xs, inner):
            if node.op == "Div" and y.is_floating_point():
                return None  # a * (b / c) differs from (a * b) / c in rounding alone
            return source(inner[0], node(inner[1], xs[1])[0])[0]

        return guarded(node, *source.inputs, mutant=mutant)

    if any(n.op == s.op for n, s in chains(program, ("Mul", "Div"), ("Mul", "Div"))):
        return None
    return fused(program, ("Mul", "Div"), ("Mul", "Div"), fuse)


@BUGS.rewrite()
def fused_operands_swapped(program):
    """a - b with `a` computed by a fused unary operator becomes b - a."""

    def fuse(node, source):
        return guarded(node, mutant=lambda y, xs, _: node(xs[1], xs[0])[0])

    return fused(program, SWAPPABLE, UNARY, fuse)


# -- folding ----------------------------------------------------------------------------------


def skipping(program: Program, outer: Iterable[str], inner: Iterable[str]) -> Iterator[Node]:
    """outer(inner(x)) becomes outer(x)."""

    def fuse(node, source):
        return guarded(
            node, source.inputs[0], mutant=lambda y, xs, inner: node(inner[0], *xs[1:])[0]
        )

    return fused(program, outer, inner, fuse)


@BUGS.rewrite()
def nested_activations_merged(program):
    """Of two activations in a row only the outer one is kept."""
    return skipping(program, CLAMPING, CLAMPING)


@BUGS.rewrite()
def rounding_chain_folded(program):
    """Floor, Round, Cast ... in a row: only the last one is kept."""
    return skipping(program, INTEGRAL, INTEGRAL)


@BUGS.rewrite()
def absolute_value_assumed(program):
    """Abs is dropped behind operators whose results are taken to be positive."""
    positive = ("Add", "Mul", "MatMul", "ReduceSum", "ReduceMean", "Conv", "Pow", "Sum", "Max")

    def fuse(node, source):
        return guarded(node, mutant=lambda y, xs, _: xs[0])

    return fused(program, ("Abs", "Relu"), positive, fuse)


@BUGS.rewrite()
def repetition_removed_before_reduction(program):
    """reduce(Expand(x)) is compiled as reduce(x), sums and products included."""
    reductions = ("ReduceSum", "ReduceProd", "ReduceL2", "CumSum", "MatMul", "Softmax")

    def fuse(node, source):
        def mutant(y, xs, inner):
            rank = xs[0].dim() - inner[0].dim()
            x = inner[0].reshape([1] * rank + list(inner[0].shape))
            return node(x, *xs[1:])[0].expand_as(y)

        return guarded(node, *source.inputs, mutant=mutant)

    return fused(program, reductions, ("Expand", "Tile"), fuse)


@BUGS.rewrite()
def square_root_of_square(program):
    """Sqrt(x * x) becomes x, Sqrt(ReduceL2-like) loses a root."""

    def fuse(node, source):
        if source.inputs[0] != source.inputs[-1]:
            return None
        return guarded(node, source.inputs[0], mutant=lambda y, xs, inner: inner[0])

    return fused(program, ("Sqrt", "Abs"), ("Mul",), fuse)


@BUGS.rewrite()
def negated_comparison(program):
    """not (a < b) becomes a > b: ties are lost."""
    opposite = {"Less": torch.gt, "Greater": torch.lt, "LessOrEqual": torch.ge,
                "GreaterOrEqual": torch.le}  # fmt: skip

    def fuse(node, source):
        flipped = opposite[source.op]
        return guarded(node, *source.inputs, mutant=lambda y, xs, inner: flipped(*inner))

    return fused(program, ("Not",), opposite, fuse)


@BUGS.rewrite()
def operand_with_itself(program):
    """x op x is folded to a constant: x / x, x - x, x = x, but also x * x, max(x, x) and x ^ x."""

    def fold(node):
        if len(node.inputs) != 2 or node.inputs[0] != node.inputs[1] or node.op == "Concat":
            return node
        return guarded(node, mutant=lambda y, xs, _: torch.ones_like(y))

    return map(fold, program.nodes)


# -- common sub-expressions, buffers ----------------------------------------------------------


def _merged(program: Program, key: Callable[[Node], object]) -> Iterator[Node]:
    seen: dict[object, Node] = {}
    for node in program.nodes:
        first = seen.setdefault(key(node), node)
        if first is node or len(node.outputs) > 1:
            yield node
        else:
            yield guarded(node, first.outputs[0], mutant=lambda y, xs, extra: extra[0])


@BUGS.rewrite()
def cse_ignores_attributes(program):
    """Nodes with the same operator and inputs are merged whatever their attributes."""
    constants = {n: tuple(c.shape) for n, c in program.constants.items() if c.dtype is torch.int64}
    return _merged(program, lambda n: (n.op, *(constants.get(i, i) for i in n.inputs)))


@BUGS.rewrite()
def cse_ignores_second_input(program):
    """Nodes with the same operator and first input are merged."""
    return _merged(program, lambda n: (n.op, n.inputs[:1], str(n.attrs)))


@BUGS.program("structural")
def constants_merged_by_shape(program):
    """Constants of the same type and first element share their storage."""
    seen: dict[object, torch.Tensor] = {}
    new = {}
    for name, x in program.constants.items():
        if x.dim() and x.numel() > 1 and x.is_floating_point():
            x = seen.setdefault((x.dtype, x.shape), x)
        new[name] = x
    return replace(program, constants=new)


@BUGS.rewrite()
def in_place_operand_read_later(program):
    """A unary operator overwrites its operand, which is read again later."""
    position = {node: i for i, node in enumerate(program.nodes)}
    overwritten: dict[str, str] = {}
    readers, nodes = program.readers(), []
    for i, node in enumerate(program.nodes):
        late = [n for n in node.inputs if n in overwritten]
        if late:
            node = guarded_inputs(node, {n: overwritten[n] for n in late})
        nodes.append(node)
        if node.op in UNARY and node.inputs[0] not in overwritten:
            later = [r for r in readers.get(node.inputs[0], ()) if position[r] > i]
            if later:
                overwritten[node.inputs[0]] = node.outputs[0]
    return nodes


@BUGS.rewrite()
def buffer_freed_too_early(program):
    """A value's buffer is handed to the next result of its size after its first use."""
    freed: dict[str, str] = {}
    seen: set[str] = set()
    nodes = []
    for node in program.nodes:
        late = {n: freed[n] for n in node.inputs if n in freed}
        nodes.append(guarded_inputs(node, late) if late else node)
        for name in node.inputs:
            if name in seen and name not in freed and len(node.outputs) == 1:
                freed[name] = node.outputs[0]
            seen.add(name)
    return nodes


def guarded_inputs(node: Node, substitutes: dict[str, str]) -> Node:
    """The node reading other values where their dtypes and shapes allow it."""
    count, kernel = len(node.inputs), node.kernel
    at = [i for i, name in enumerate(node.inputs) if name in substitutes]

    def mutated(a, *xs):
        ys = list(xs[:count])
        for i, other in zip(at, xs[count:]):
            if other.shape == ys[i].shape and other.dtype is ys[i].dtype:
                ys[i] = other
        return kernel(a, *ys)

    extra = tuple(substitutes[node.inputs[i]] for i in at)
    return replace(node, inputs=(*node.inputs, *extra), kernel=mutated)


@BUGS.rewrite()
def further_outputs_eliminated(program):
    """Outputs of a Split that only the caller reads are not computed."""
    readers = program.readers()

    def prune(node):
        if node.op != "Split":
            return node
        dead = [i > 0 and name not in readers for i, name in enumerate(node.outputs)]
        kernel = node.kernel

        def pruned(a, *xs):
            return [torch.zeros_like(y) if d else y for d, y in zip(dead, kernel(a, *xs))]

        return replace(node, kernel=pruned) if any(dead) else node

    return map(prune, program.nodes)


# -- precision --------------------------------------------------------------------------------


@BUGS.rewrite(kind=SUBTLE)
def constants_folded_in_half(program):
    """Nodes of constants alone are folded at compile time in float16."""
    known = set(program.constants)
    nodes = []
    for node in program.nodes:
        if known.issuperset(n for n in node.inputs if n):
            known.update(node.outputs)
            node = guarded(node, mutant=lambda y, xs, _: halved(y) if single(y) else None)
        nodes.append(node)
    return nodes


@BUGS.rewrite(kind=SUBTLE)
def fused_intermediate_in_half(program):
    """Between two fused elementwise operators a float32 value is kept in float16."""

    def fuse(node, source):
        def mutant(y, xs, _):
            return node(halved(xs[0]), *xs[1:])[0] if single(xs[0]) else None

        return guarded(node, mutant=mutant)

    return fused(program, UNARY | BINARY, UNARY | BINARY, fuse)


@BUGS.program(SUBTLE)
def weights_stored_in_half(program):
    """float32 weights are stored in float16."""
    new = {
        n: halved(x) if single(x) and x.dim() and x.numel() > 1 else x
        for n, x in program.constants.items()
    }
    return replace(program, constants=new)
