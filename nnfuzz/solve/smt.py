"""Z3 (second interpretation of expressions): the only module that imports z3.

Terms are built through z3's C API, since its Python classes cost ten times as much as everything
else here. Terms are not reference-counted and live as long as their solver, which serves one test
case. Checks are limited by z3's resource counter, which does not depend on the machine.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

from z3 import z3core as z
from z3.z3consts import Z3_L_TRUE

from nnfuzz.ir.expr import Bool, Expr, Int, Var, bounds


class SmtSolver:
    """An incremental Z3 solver over nnfuzz expressions; use as a context manager or call `close`.

    seed: of z3's random choices. resources: z3 resource units per check, about a million per
    second. seconds: time limit of a check, 75 times what the resources take on an idle machine;
    results are reproducible as long as it is not reached.
    """

    def __init__(self, seed: int = 0, resources: int = 400_000, seconds: float = 30.0) -> None:
        config = z.Z3_mk_config()
        self._ctx = z.Z3_mk_context(config)
        z.Z3_del_config(config)
        self._int = z.Z3_mk_int_sort(self._ctx)
        self._solver = z.Z3_mk_simple_solver(self._ctx)
        z.Z3_solver_inc_ref(self._ctx, self._solver)
        self._set_params(
            random_seed=seed & 0x7FFFFFFF, rlimit=resources, timeout=int(seconds * 1000)
        )
        self._terms: dict[Expr, object] = {}
        self._vars: list[list[Var]] = [[]]

    def _set_params(self, **params: int) -> None:
        handle = z.Z3_mk_params(self._ctx)
        z.Z3_params_inc_ref(self._ctx, handle)
        for name, value in params.items():
            z.Z3_params_set_uint(self._ctx, handle, self._symbol(name), value)
        z.Z3_solver_set_params(self._ctx, self._solver, handle)
        z.Z3_params_dec_ref(self._ctx, handle)

    def _symbol(self, name: str) -> Any:
        return z.Z3_mk_string_symbol(self._ctx, name)

    def close(self) -> None:
        """Free everything. May be called repeatedly."""
        if self._ctx is not None:
            z.Z3_solver_dec_ref(self._ctx, self._solver)
            z.Z3_del_context(self._ctx)
            self._ctx = None

    def __enter__(self) -> SmtSolver:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def add(self, constraints: Iterable[Bool]) -> None:
        """Assert constraints in the current scope, with the domains of their variables."""
        for constraint in constraints:
            term = self._lower(constraint)
            z.Z3_solver_assert(self._ctx, self._solver, term)

    def push(self) -> None:
        """Open a scope; the matching `pop` closes it."""
        z.Z3_solver_push(self._ctx, self._solver)
        self._vars.append([])

    def pop(self) -> None:
        """Forget the constraints and variables added since the matching `push`."""
        z.Z3_solver_pop(self._ctx, self._solver, 1)
        for var in self._vars.pop():
            del self._terms[var]
        self._terms = {e: t for e, t in self._terms.items() if isinstance(e, Var)}

    def check(self) -> dict[Var, int] | None:
        """Values for all variables; None if there are none, or if the resources run out."""
        if z.Z3_solver_check(self._ctx, self._solver) != Z3_L_TRUE:
            return None
        model = z.Z3_solver_get_model(self._ctx, self._solver)
        z.Z3_model_inc_ref(self._ctx, model)
        values = {var: self._read(model, var) for scope in self._vars for var in scope}
        z.Z3_model_dec_ref(self._ctx, model)
        return values

    def _read(self, model: Any, var: Var) -> int:
        out = (z.Ast * 1)()
        z.Z3_model_eval(self._ctx, model, self._terms[var], True, out)
        number = ctypes.c_int64()
        z.Z3_get_numeral_int64(self._ctx, out[0], ctypes.byref(number))
        return number.value

    # -- lowering -----------------------------------------------------------------------------

    def _lower(self, e: Int | Bool) -> Any:
        if isinstance(e, bool):
            return z.Z3_mk_true(self._ctx) if e else z.Z3_mk_false(self._ctx)
        if isinstance(e, int):
            return z.Z3_mk_int64(self._ctx, e, self._int)
        term = self._terms.get(e)
        if term is None:
            term = self._declare(e) if isinstance(e, Var) else self._apply(e)
            self._terms[e] = term
        return term

    def _declare(self, var: Var) -> Any:
        number = sum(map(len, self._vars))
        term = z.Z3_mk_const(self._ctx, self._symbol(f"v{number}"), self._int)
        self._vars[-1].append(var)
        for assertion in (
            z.Z3_mk_le(self._ctx, self._lower(var.lo), term),
            z.Z3_mk_le(self._ctx, term, self._lower(var.hi)),
        ):
            z.Z3_solver_assert(self._ctx, self._solver, assertion)
        return term

    def _apply(self, e: Expr) -> Any:
        ctx, op = self._ctx, e.op
        args = [self._lower(a) for a in e.args]
        if op in _NARY:
            return _NARY[op](ctx, len(args), (z.Ast * len(args))(*args))
        if op in _PLAIN:
            return _PLAIN[op](ctx, *args)
        if op in ("min", "max"):
            a, b = args if op == "min" else reversed(args)
            return z.Z3_mk_ite(ctx, z.Z3_mk_le(ctx, a, b), args[0], args[1])
        return self._divide(op, e, args)

    def _divide(self, op: str, e: Expr, args: list[Any]) -> Any:
        """Quotient and remainder rounded down, as Z3's are for positive divisors only."""
        ctx = self._ctx
        make = z.Z3_mk_div if op == "floordiv" else z.Z3_mk_mod
        if bounds(e.args[1])[0] > 0:
            return make(ctx, *args)
        a, b = (z.Z3_mk_unary_minus(ctx, arg) for arg in args)
        flipped = make(ctx, a, b)
        return flipped if op == "floordiv" else z.Z3_mk_unary_minus(ctx, flipped)


_NARY = {
    "add": z.Z3_mk_add,
    "sub": z.Z3_mk_sub,
    "mul": z.Z3_mk_mul,
    "and": z.Z3_mk_and,
    "or": z.Z3_mk_or,
}
_PLAIN = {
    "lt": z.Z3_mk_lt,
    "le": z.Z3_mk_le,
    "eq": z.Z3_mk_eq,
    "not": z.Z3_mk_not,
}
