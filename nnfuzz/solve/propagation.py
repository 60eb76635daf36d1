"""Intervals of variables and expressions (third interpretation), propagation, and a search.

Each constraint is revised by the HC4 scheme: bounds of variables give bounds of expressions, and
the truth of the constraint narrows them again (Benhamou et al., "Revising hull and box
consistency", ICLP 1999). This is incomplete by design: it solves the small systems that one
insertion adds, and leaves the rest to Z3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nnfuzz.ir.expr import Bool, BoolExpr, Expr, Int, IntExpr, Var, evaluate
from nnfuzz.operators.draw import Draw


class Contradiction(Exception):
    """A constraint can not hold within the current domains."""


class Domains:
    """Inclusive intervals of variables; variables without an entry have their declared domain.

    values: of expressions that the intervals decide. Intervals only shrink, so values remain valid
    until a trial is undone.
    """

    def __init__(
        self, fixed: Mapping[Var, int] | None = None, values: dict[Expr, int] | None = None
    ) -> None:
        self.fixed = fixed or {}
        self.box: dict[Var, tuple[int, int]] = {}
        self.changed: list[Var] = []
        self.values: dict[Expr, int] = {} if values is None else values
        self.decided: list[Expr] = []

    def of(self, var: Var) -> tuple[int, int]:
        if var in self.fixed:
            value = self.fixed[var]
            return value, value
        if var in self.box:
            return self.box[var]
        return var.lo, var.hi

    def bounds(self, e: Int) -> tuple[int, int]:
        """The interval of an integer expression under the current domains."""
        if type(e) is Var:
            return self.of(e)
        if type(e) is not IntExpr:
            return e, e  # type: ignore[return-value]
        if e in self.values:
            value = self.values[e]
            return value, value
        lo, hi = self._combined(e, e.op)
        if lo == hi:
            self._decide(e, lo)
        return lo, hi

    def _combined(self, e: Expr, op: str) -> tuple[int, int]:
        a, b = e.args
        alo, ahi = (a, a) if a.__class__ is int else self.bounds(a)
        blo, bhi = (b, b) if b.__class__ is int else self.bounds(b)
        if op == "add":
            return alo + blo, ahi + bhi
        if op == "sub":
            return alo - bhi, ahi - blo
        if op == "mul":
            if alo >= 0 and blo >= 0:
                return alo * blo, ahi * bhi
            corners = (alo * blo, alo * bhi, ahi * blo, ahi * bhi)
            return min(corners), max(corners)
        if op == "floordiv":
            corners = (alo // blo, alo // bhi, ahi // blo, ahi // bhi)
            return min(corners), max(corners)
        if op == "min":
            return min(alo, blo), min(ahi, bhi)
        if op == "max":
            return max(alo, blo), max(ahi, bhi)
        if alo == ahi and blo == bhi:  # mod
            return alo % blo, alo % blo
        lo, hi = e.lo, e.hi  # type: ignore[attr-defined]
        return max(lo, 0 if blo > 0 else blo + 1), min(hi, bhi - 1 if bhi > 0 else 0)

    def _decide(self, e: Expr, value: int) -> None:
        self.values[e] = value
        self.decided.append(e)

    def take_back(self, box: dict[Var, tuple[int, int]], decided: int) -> None:
        """Restore an earlier state: its intervals (`box`) and number of decided expressions."""
        self.box = box
        self.changed.clear()
        for e in self.decided[decided:]:
            del self.values[e]
        del self.decided[decided:]

    def truth(self, c: Bool) -> bool | None:
        """True or False if the intervals decide the condition; otherwise None."""
        if c.__class__ is bool:
            return c
        known = self.values.get(c)  # type: ignore[arg-type]
        if known is None:
            known = self._truth(c)  # type: ignore[arg-type]
            if known is not None:
                self._decide(c, known)  # type: ignore[arg-type]
        return known  # type: ignore[return-value]

    def _truth(self, c: BoolExpr) -> bool | None:
        op = c.op
        if op == "not":
            inner = self.truth(c.args[0])
            return None if inner is None else not inner
        if op in ("and", "or"):
            absorbing = op == "or"
            open_ = False
            for arg in c.args:
                truth = self.truth(arg)
                if truth is absorbing:
                    return absorbing
                open_ |= truth is None
            return None if open_ else not absorbing
        (alo, ahi), (blo, bhi) = self.bounds(c.args[0]), self.bounds(c.args[1])
        if op == "lt":
            return True if ahi < blo else False if alo >= bhi else None
        if op == "le":
            return True if ahi <= blo else False if alo > bhi else None
        if ahi < blo or bhi < alo:
            return False
        return True if alo == ahi == blo == bhi else None

    def narrow(self, e: Int, lo: int, hi: int) -> None:
        """Shrink domains so that the expression lies in `[lo, hi]`. Raises: Contradiction."""
        elo, ehi = self.bounds(e)
        if elo >= lo and ehi <= hi:
            return
        if lo > hi or elo > hi or ehi < lo:
            raise Contradiction
        op = e.op  # type: ignore[union-attr]
        if op == "var":
            self.box[e] = (max(elo, lo), min(ehi, hi))  # type: ignore[index]
            self.changed.append(e)  # type: ignore[arg-type]
            return
        a, b = e.args  # type: ignore[union-attr]
        (alo, ahi), (blo, bhi) = self.bounds(a), self.bounds(b)
        if op == "add":
            self.narrow(a, lo - bhi, hi - blo)
            self.narrow(b, lo - ahi, hi - alo)
        elif op == "sub":
            self.narrow(a, lo + blo, hi + bhi)
            self.narrow(b, alo - hi, ahi - lo)
        elif op == "mul":
            self._narrow_factor(a, alo, blo, bhi, lo, hi)
            self._narrow_factor(b, blo, alo, ahi, lo, hi)
        elif op == "floordiv":
            if blo > 0 and lo >= 0:
                self.narrow(a, lo * blo, hi * bhi + bhi - 1)
            elif blo == bhi > 0:
                self.narrow(a, lo * blo, hi * blo + blo - 1)
        elif op == "min":
            self.narrow(a, lo, ahi if blo <= hi else hi)
            self.narrow(b, lo, bhi if alo <= hi else hi)
        elif op == "max":
            self.narrow(a, alo if bhi >= lo else lo, hi)
            self.narrow(b, blo if ahi >= lo else lo, hi)

    def _narrow_factor(self, a: Int, alo: int, blo: int, bhi: int, lo: int, hi: int) -> None:
        if blo > 0 and alo >= 0 and hi >= 0:
            self.narrow(a, max(0, -(-lo // bhi)), hi // blo)
        elif blo == bhi and blo > 0:
            self.narrow(a, -(-lo // blo), hi // blo)

    def impose(self, c: Bool, truth: bool = True) -> None:
        """Shrink domains so that the condition has that truth. Raises: Contradiction."""
        known = self.truth(c)
        if known is not None:
            if known is not truth:
                raise Contradiction
            return
        op, args = c.op, c.args  # type: ignore[union-attr]
        if op == "not":
            self.impose(args[0], not truth)
        elif op in ("and", "or"):
            if (op == "and") is truth:
                for arg in args:
                    self.impose(arg, truth)
            else:
                undecided = [arg for arg in args if self.truth(arg) is None]
                if len(undecided) == 1:
                    self.impose(undecided[0], truth)
        elif op == "eq":
            self._impose_equal(args[0], args[1], truth)
        elif truth:
            self._impose_less(args[0], args[1], 1 if op == "lt" else 0)
        else:
            self._impose_less(args[1], args[0], 0 if op == "lt" else 1)

    def _impose_less(self, a: Int, b: Int, gap: int) -> None:
        (alo, ahi), (blo, bhi) = self.bounds(a), self.bounds(b)
        self.narrow(a, alo, min(ahi, bhi - gap))
        self.narrow(b, max(blo, alo + gap), bhi)

    def _impose_equal(self, a: Int, b: Int, truth: bool) -> None:
        (alo, ahi), (blo, bhi) = self.bounds(a), self.bounds(b)
        if truth:
            lo, hi = max(alo, blo), min(ahi, bhi)
            self.narrow(a, lo, hi)
            self.narrow(b, lo, hi)
            return
        for x, (xlo, xhi), (ylo, yhi) in ((a, (alo, ahi), (blo, bhi)), (b, (blo, bhi), (alo, ahi))):
            if ylo == yhi:
                self.narrow(x, xlo + (xlo == ylo), xhi - (xhi == ylo))


class Propagator:
    """Constraints, and the intervals that they leave to their variables."""

    def __init__(
        self,
        constraints: Sequence[Bool],
        fixed: Mapping[Var, int] | None = None,
        values: dict[Expr, int] | None = None,
    ) -> None:
        """fixed: values of variables. values: of expressions under them; a cache that is filled.

        Raises: Contradiction if a constraint is already False.
        """
        self.domains = Domains(fixed, values)
        self.constraints = [c for c in constraints if isinstance(c, BoolExpr)]
        if len(self.constraints) < len(constraints) and not all(
            c for c in constraints if not isinstance(c, BoolExpr)
        ):
            raise Contradiction
        self.readers: dict[Var, list[BoolExpr]] = {}
        for constraint in self.constraints:
            found: dict[Var, None] = {}
            self._settled(constraint, found, set())
            for var in found:
                self.readers.setdefault(var, []).append(constraint)

    def _settled(self, e: Int | Bool, open_: dict[Var, None], visited: set[Expr]) -> bool:
        """Whether fixed variables decide an expression; if not, `open_` gets its other ones."""
        if not isinstance(e, Expr):
            return True
        if e.op == "var":
            if e in self.domains.fixed:
                return True
            open_[e] = None  # type: ignore[index]
            return False
        if e in self.domains.values:
            return True
        if e in visited:
            return False
        if sum([self._settled(arg, open_, visited) for arg in e.args]) < len(e.args):
            visited.add(e)
            return False
        evaluate(e, self.domains.fixed, self.domains.values)
        return True

    @property
    def vars(self) -> list[Var]:
        """The variables that are not fixed, in order of first appearance."""
        return list(self.readers)

    def propagate(self, constraints: Iterable[BoolExpr] | None = None, steps: int = 200) -> None:
        """Narrow intervals by at most `steps` revisions. Raises: Contradiction."""
        queue = list(self.constraints if constraints is None else constraints)
        domains = self.domains
        while queue and steps:
            steps -= 1
            domains.impose(queue.pop(0))
            if domains.changed:
                for var in dict.fromkeys(domains.changed):
                    for reader in self.readers.get(var, ()):
                        if reader not in queue:
                            queue.append(reader)
                domains.changed.clear()

    def assign(self, var: Var, lo: int, hi: int) -> bool:
        """Restrict a variable and propagate; on contradiction, undo everything and return False."""
        box, decided = dict(self.domains.box), len(self.domains.decided)
        try:
            self.domains.narrow(var, lo, hi)
            self.domains.changed.clear()
            self.propagate(self.readers.get(var, ()))
        except Contradiction:
            self.domains.take_back(box, decided)
            return False
        return True


def solve(
    constraints: Sequence[Bool],
    draw: Draw,
    fixed: Mapping[Var, int] | None = None,
    free: Iterable[Var] = (),
    tries: int = 8,
    prefer: Mapping[Var, tuple[int, int]] | None = None,
    values: dict[Expr, int] | None = None,
) -> dict[Var, int] | None:
    """Random values for the variables of the constraints and of `free`; None if the search fails.

    The search may fail although a solution exists. Values are drawn from random exponential bins of
    the ranges that propagation leaves, so they are diverse. fixed: variables that keep their
    values. free: decided first, in this order. prefer: intervals that values are taken from if
    possible. values: cache of expressions under the fixed variables; on success it also holds
    values under the result.
    """
    try:
        system = Propagator(constraints, fixed, values)
        system.propagate()
    except Contradiction:
        return None
    result: dict[Var, int] = {}
    preferences = prefer or {}
    for var in dict.fromkeys([*(v for v in free if v not in system.domains.fixed), *system.vars]):
        value = _preferred(system, var, draw, preferences.get(var))
        if value is None:
            value = _settle(system, var, draw, tries)
        if value is None:
            return None
        result[var] = value
    env = {**system.domains.fixed, **result}
    decided = system.domains.values
    return result if all(evaluate(c, env, decided) for c in system.constraints) else None


def _preferred(
    system: Propagator, var: Var, draw: Draw, preference: tuple[int, int] | None
) -> int | None:
    if preference is None:
        return None
    lo, hi = system.domains.of(var)
    lo, hi = max(lo, preference[0]), min(hi, preference[1])
    if lo > hi:
        return None
    value = draw.integer(lo, hi)
    return value if system.assign(var, value, value) else None


def _settle(system: Propagator, var: Var, draw: Draw, tries: int) -> int | None:
    kind = draw.kinds.get(var, "size")
    for _ in range(tries):
        lo, hi = system.domains.of(var)
        if lo == hi:
            return lo
        value = draw.value(lo, hi, kind)
        if system.assign(var, value, value):
            return value
    lo, hi = system.domains.of(var)
    for value in draw.shuffled(range(lo, min(hi, lo + 63) + 1)):
        if system.assign(var, value, value):
            return value
    return None
