"""Small integer and boolean expressions: the language of shapes and attributes.

An expression is an immutable DAG node. Operations on plain ints give plain ints. Every node has an
interval `[lo, hi]`, computed from its variables' domains, so that most comparisons become True or
False when they are built. Division and remainder round towards minus infinity, as in Python, and
raise ZeroDivisionError if the divisor may be zero.

Three interpretations: `evaluate` (here), `nnfuzz.solve.propagation` (intervals) and
`nnfuzz.solve.smt` (Z3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Union

Int = Union[int, "IntExpr"]
Bool = Union[bool, "BoolExpr"]


class Expr:
    """An expression: the operator `op` applied to `args`."""

    __slots__ = ("args", "op")
    __hash__ = object.__hash__

    def __init__(self, op: str, args: tuple[Any, ...]) -> None:
        self.op = op
        self.args = args

    def __bool__(self) -> bool:
        raise TypeError(f"the truth of {self} depends on variables; evaluate it first")

    def __repr__(self) -> str:
        return f"{self.op}({', '.join(map(repr, self.args))})"


class IntExpr(Expr):
    """An integer that depends on variables and lies in `[lo, hi]` for all of their values."""

    __slots__ = ("hi", "lo")
    __hash__ = Expr.__hash__

    def __init__(self, op: str, args: tuple[Any, ...], lo: int, hi: int) -> None:
        self.op = op
        self.args = args
        self.lo = lo
        self.hi = hi

    def __add__(self, other: Int) -> Int:
        return _add(self, other)

    def __radd__(self, other: Int) -> Int:
        return _add(other, self)

    def __sub__(self, other: Int) -> Int:
        return _sub(self, other)

    def __rsub__(self, other: Int) -> Int:
        return _sub(other, self)

    def __neg__(self) -> Int:
        return _sub(0, self)

    def __mul__(self, other: Int) -> Int:
        return _mul(self, other)

    def __rmul__(self, other: Int) -> Int:
        return _mul(other, self)

    def __floordiv__(self, other: Int) -> Int:
        return _floordiv(self, other)

    def __rfloordiv__(self, other: Int) -> Int:
        return _floordiv(other, self)

    def __mod__(self, other: Int) -> Int:
        return _mod(self, other)

    def __rmod__(self, other: Int) -> Int:
        return _mod(other, self)

    def __lt__(self, other: Int) -> Bool:
        return _less("lt", self, other)

    def __le__(self, other: Int) -> Bool:
        return _less("le", self, other)

    def __gt__(self, other: Int) -> Bool:
        return _less("lt", other, self)

    def __ge__(self, other: Int) -> Bool:
        return _less("le", other, self)

    def __eq__(self, other: object) -> Bool:  # type: ignore[override]
        return _equal(self, other)

    def __ne__(self, other: object) -> Bool:  # type: ignore[override]
        return not_(_equal(self, other))


class Var(IntExpr):
    """An integer variable with the inclusive domain `[lo, hi]`; the name is only for people."""

    __slots__ = ("name",)

    def __init__(self, name: str, lo: int, hi: int) -> None:
        if lo > hi:
            raise ValueError(f"variable {name} has the empty domain [{lo}, {hi}]")
        super().__init__("var", (), lo, hi)
        self.name = name

    def __repr__(self) -> str:
        return self.name


class BoolExpr(Expr):
    """A condition that depends on variables. Combine with `and_`, `or_`, `not_`."""

    __slots__ = ()

    def __and__(self, other: Bool) -> Bool:
        return and_(self, other)

    def __or__(self, other: Bool) -> Bool:
        return or_(self, other)

    def __invert__(self) -> Bool:
        return not_(self)

    __rand__ = __and__
    __ror__ = __or__


def bounds(value: Int) -> tuple[int, int]:
    """The least and greatest value, given the variables' domains."""
    if type(value) is Var or type(value) is IntExpr:
        return value.lo, value.hi
    return value, value  # type: ignore[return-value]


def _add(a: Int, b: Int) -> Int:
    if isinstance(a, int):
        if isinstance(b, int):
            return a + b
        a, b = b, a
    if isinstance(b, int):
        if b == 0:
            return a
        if a.op == "add" and isinstance(a.args[1], int):
            return _add(a.args[0], a.args[1] + b)
        return IntExpr("add", (a, b), a.lo + b, a.hi + b)
    if not isinstance(b, IntExpr):
        return NotImplemented
    return IntExpr("add", (a, b), a.lo + b.lo, a.hi + b.hi)


def _sub(a: Int, b: Int) -> Int:
    if a is b:
        return 0
    if isinstance(b, int):
        return _add(a, -b)
    (alo, ahi), (blo, bhi) = bounds(a), bounds(b)
    return IntExpr("sub", (a, b), alo - bhi, ahi - blo)


def _mul(a: Int, b: Int) -> Int:
    if isinstance(a, int):
        a, b = b, a
    if isinstance(b, int) and b in (0, 1):
        return a if b else 0
    (alo, ahi), (blo, bhi) = bounds(a), bounds(b)
    if alo == ahi == 1:
        return b
    if blo == bhi == 1:
        return a
    corners = (alo * blo, alo * bhi, ahi * blo, ahi * bhi)
    return IntExpr("mul", (a, b), min(corners), max(corners))


def _divisor(b: Int) -> tuple[int, int]:
    lo, hi = bounds(b)
    if lo <= 0 <= hi:
        raise ZeroDivisionError(f"divisor {b!r} may be zero: its domain is [{lo}, {hi}]")
    return lo, hi


def _floordiv(a: Int, b: Int) -> Int:
    blo, bhi = _divisor(b)
    if blo == bhi == 1:
        return a
    if isinstance(a, IntExpr) and a.op == "mul":
        if a.args[0] is b:
            return a.args[1]
        if a.args[1] is b:
            return a.args[0]
    alo, ahi = bounds(a)
    corners = (alo // blo, alo // bhi, ahi // blo, ahi // bhi)
    lo, hi = min(corners), max(corners)
    return lo if lo == hi else IntExpr("floordiv", (a, b), lo, hi)


def _mod(a: Int, b: Int) -> Int:
    blo, bhi = _divisor(b)
    alo, ahi = bounds(a)
    if blo == bhi == 1 or a is b:
        return 0
    if isinstance(a, IntExpr) and a.op == "mul" and (a.args[0] is b or a.args[1] is b):
        return 0
    if alo >= 0 and ahi < blo:
        return a
    lo, hi = (0, min(bhi - 1, ahi) if alo >= 0 else bhi - 1) if blo > 0 else (blo + 1, 0)
    return IntExpr("mod", (a, b), lo, hi)


def minimum(a: Int, b: Int) -> Int:
    """The smaller of two integers."""
    (alo, ahi), (blo, bhi) = bounds(a), bounds(b)
    if a is b or ahi <= blo:
        return a
    if bhi <= alo:
        return b
    return IntExpr("min", (a, b), min(alo, blo), min(ahi, bhi))


def maximum(a: Int, b: Int) -> Int:
    """The larger of two integers."""
    (alo, ahi), (blo, bhi) = bounds(a), bounds(b)
    if a is b or alo >= bhi:
        return a
    if blo >= ahi:
        return b
    return IntExpr("max", (a, b), max(alo, blo), max(ahi, bhi))


def product(values: Iterable[Int]) -> Int:
    """The product of integers; 1 when there are none."""
    result: Int = 1
    for value in values:
        result = result * value
    return result


def total(values: Iterable[Int]) -> Int:
    """The sum of integers; 0 when there are none."""
    result: Int = 0
    for value in values:
        result = result + value
    return result


def _less(op: str, a: Int, b: Int) -> Bool:
    (alo, ahi), (blo, bhi) = bounds(a), bounds(b)
    if op == "lt":
        if ahi < blo:
            return True
        if alo >= bhi or a is b:
            return False
    else:
        if ahi <= blo or a is b:
            return True
        if alo > bhi:
            return False
    return BoolExpr(op, (a, b))


def _equal(a: Int, b: object) -> Bool:
    if a is b:
        return True
    if not isinstance(b, (int, IntExpr)):
        return False
    (alo, ahi), (blo, bhi) = bounds(a), bounds(b)
    if ahi < blo or bhi < alo:
        return False
    if alo == ahi == blo == bhi:
        return True
    return BoolExpr("eq", (a, b))


def and_(*conditions: Bool) -> Bool:
    """True where every condition holds."""
    return _junction("and", conditions, absorbing=False)


def or_(*conditions: Bool) -> Bool:
    """True where at least one condition holds."""
    return _junction("or", conditions, absorbing=True)


def _junction(op: str, conditions: tuple[Bool, ...], absorbing: bool) -> Bool:
    open_ = []
    for condition in conditions:
        if isinstance(condition, BoolExpr):
            open_.append(condition)
        elif bool(condition) is absorbing:
            return absorbing
    if not open_:
        return not absorbing
    return open_[0] if len(open_) == 1 else BoolExpr(op, tuple(open_))


def not_(condition: Bool) -> Bool:
    """True where the condition does not hold."""
    if isinstance(condition, bool):
        return not condition
    if condition.op == "not":
        return condition.args[0]
    return BoolExpr("not", (condition,))


_CONCRETE: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "min": min,
    "max": max,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b,
    "and": lambda *args: all(args),
    "or": lambda *args: any(args),
    "not": lambda a: not a,
}


def evaluate(
    value: Int | Bool | Expr, env: Mapping[Var, int], memo: dict[Any, Any] | None = None
) -> int | bool:
    """The concrete value of an expression.

    env: values of the variables. memo: a cache of nodes' values under `env`, which is filled.
    Raises: KeyError if `env` lacks a variable.
    """
    if type(value) is Var:
        return env[value]
    if not isinstance(value, Expr):
        return value
    if memo is None:
        memo = {}
    known = memo.get(value)
    if known is None:
        known = _CONCRETE[value.op](*[evaluate(arg, env, memo) for arg in value.args])
        memo[value] = known
    return known


def concrete(values: Iterable[Int]) -> tuple[int, ...]:
    """The values as a tuple of ints. Raises: TypeError if one is an expression."""
    sizes = tuple(values)
    for size in sizes:
        if type(size) is not int:
            raise TypeError(f"{sizes} are not concrete")
    return sizes  # type: ignore[return-value]


def variables(*values: Int | Bool | Expr) -> list[Var]:
    """The distinct variables of expressions, in order of first appearance."""
    found: dict[Var, None] = {}
    visited: set[Expr] = set()
    stack: list[Expr] = [v for v in reversed(values) if isinstance(v, Expr)]
    while stack:
        node = stack.pop()
        if node in visited:
            continue
        visited.add(node)
        if isinstance(node, Var):
            found[node] = None
        stack.extend(arg for arg in reversed(node.args) if isinstance(arg, Expr))
    return list(found)
