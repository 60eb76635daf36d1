"""Intervals of variables, and the intervals of expressions that follow (third interpretation).

Revision is the HC4 scheme: bounds flow up from the variables, a constraint's truth flows back down
and narrows them (Benhamou et al., "Revising hull and box consistency", ICLP 1999).
"""

from __future__ import annotations

from collections.abc import Mapping

from nnfuzz.ir.expr import Bool, BoolExpr, Expr, Int, IntExpr, Var


class Contradiction(Exception):
    """A constraint can not hold within the current domains."""


class Domains:
    """Inclusive intervals of variables; variables without an entry keep their declared domain.

    values: values of expressions that the domains decide. Domains only shrink, so values remain
    valid until a trial is undone.
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
        """Return to earlier domains; `decided`: how many expressions were decided then."""
        self.box = box
        self.changed.clear()
        for e in self.decided[decided:]:
            del self.values[e]
        del self.decided[decided:]

    def truth(self, c: Bool) -> bool | None:
        """True or False where the domains decide the condition, else None."""
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
