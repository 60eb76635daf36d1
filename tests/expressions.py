"""Hypothesis strategies for expressions whose variables are small enough to enumerate."""

from __future__ import annotations

import itertools

from hypothesis import strategies as st

from nnfuzz.ir.expr import Var, and_, maximum, minimum, not_, or_

VARS = (Var("a", -4, 5), Var("b", 1, 6), Var("c", 0, 3))

_leaves = st.one_of(st.integers(-6, 6), st.sampled_from(VARS))


def _nonzero(divisor):
    return maximum(divisor, 1)


def _negative(divisor):
    return minimum(divisor, -1)


def _grow(children):
    pair = st.tuples(children, children)
    return st.one_of(
        pair.map(lambda p: p[0] + p[1]),
        pair.map(lambda p: p[0] - p[1]),
        pair.map(lambda p: p[0] * p[1]),
        pair.map(lambda p: p[0] // _nonzero(p[1])),
        pair.map(lambda p: p[0] % _nonzero(p[1])),
        pair.map(lambda p: p[0] // _negative(p[1])),
        pair.map(lambda p: p[0] % _negative(p[1])),
        pair.map(lambda p: minimum(*p)),
        pair.map(lambda p: maximum(*p)),
    )


integers = st.recursive(_leaves, _grow, max_leaves=6)
_atoms = st.tuples(integers, integers, st.sampled_from(["lt", "le", "eq", "ne", "gt", "ge"])).map(
    lambda t: getattr(_Symbolic, t[2])(t[0], t[1])
)


class _Symbolic:
    """Comparisons that also work when both sides are plain ints."""

    lt = staticmethod(lambda a, b: a < b)
    le = staticmethod(lambda a, b: a <= b)
    gt = staticmethod(lambda a, b: a > b)
    ge = staticmethod(lambda a, b: a >= b)
    eq = staticmethod(lambda a, b: a == b)
    ne = staticmethod(lambda a, b: a != b)


conditions = st.recursive(
    _atoms,
    lambda c: st.one_of(
        st.tuples(c, c).map(lambda p: and_(*p)),
        st.tuples(c, c).map(lambda p: or_(*p)),
        c.map(not_),
    ),
    max_leaves=4,
)

ENVS = [
    dict(zip(VARS, values)) for values in itertools.product(*[range(v.lo, v.hi + 1) for v in VARS])
]
"""Every assignment of the variables."""
