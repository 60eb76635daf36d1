"""Operators for the bodies of control flow: those that keep the type of their inputs.

All of them exist in opset 13.
"""

from __future__ import annotations

from . import activation as act
from . import arithmetic as ari
from . import logic, rectifiers
from . import math as maths
from .gates import Mish
from .index import Identity
from .norm import LogSoftmax, Softmax
from .reduce import Max, Mean, Min, Sum

TAME = (
    ari.Abs, ari.Neg, ari.Sign, ari.Add, ari.Sub, ari.Mul, Min, Max, Sum, Mean,
    act.Relu, act.LeakyRelu, act.Elu, act.Sigmoid, act.HardSigmoid, act.Tanh, act.Softsign,
    act.Gelu, act.Clip, act.PRelu, Mish, rectifiers.Celu, rectifiers.Selu, rectifiers.Shrink,
    maths.Sin, maths.Cos, maths.Atan, maths.Erf, maths.Floor, maths.Ceil, maths.Round,
    logic.And, logic.Or, logic.Xor, logic.Not, Softmax, Identity,
)  # fmt: skip
"""Operators that stay within their domains when they are applied repeatedly."""
ONCE = (*TAME, act.Softplus, act.HardSwish, maths.Exp, maths.Asinh, LogSoftmax)
"""Operators for bodies that run once; each is defined everywhere except for overflow."""
WILD = (
    *ONCE, ari.Div, ari.Mod, ari.Reciprocal, maths.Log, maths.Sqrt, maths.Asin, maths.Tan,
    maths.Sinh,
)  # fmt: skip
"""Every operator that a body may contain."""
