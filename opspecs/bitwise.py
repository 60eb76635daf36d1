"""Operators on the bits of integers."""

from __future__ import annotations

import math

import torch

from nnfuzz.ir.dtypes import INTS, UNSIGNED
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.elementwise import Binary, Unary
from nnfuzz.operators.operator import ANY_RANGE, In, operator
from nnfuzz.operators.unexportable import Unexportable

FAR = 2**63 - 1
BOOLEANS_ONLY = Unexportable("torchscript", "exports bitwise operators of booleans only")


class Bitwise(Binary):
    edges = True
    since = 18
    modular = True
    unexportable = (BOOLEANS_ONLY,)
    inputs = (In("T", INTS), In("T"))


@operator
class BitwiseAnd(Bitwise):
    unexportable = (Unexportable("torchscript", "came with opset 18", below=18),)
    proxy = staticmethod(torch.minimum)

    def value_range(self, x, y):
        return x if x is y else (0, min(x[1], y[1])) if min(x[0], y[0]) >= 0 else ANY_RANGE

    torch = staticmethod(torch.bitwise_and)


@operator
class BitwiseOr(Bitwise):
    proxy = staticmethod(torch.maximum)

    def value_range(self, x, y):
        return x if x is y else (max(x[0], y[0]), math.inf) if min(x[0], y[0]) >= 0 else ANY_RANGE

    torch = staticmethod(torch.bitwise_or)


@operator
class BitwiseXor(Bitwise):
    torch = staticmethod(torch.bitwise_xor)

    def value_range(self, x, y):
        return (0, 0) if x is y else ANY_RANGE

    def proxy(self, x, y):
        return (x - y).abs()


@operator
class BitwiseNot(Unary):
    edges = True
    since = 18
    modular = True
    unexportable = (BOOLEANS_ONLY,)
    inputs = (In("T", INTS),)
    proxy = staticmethod(torch.neg)
    torch = staticmethod(torch.bitwise_not)

    def value_range(self, x):
        """The bounds before unsigned results wrap around: ~x is -1 - x."""
        return -1 - x[1], -1 - x[0]


@operator
class BitShift(Binary):
    """Zeros move in. Shifts by the width or more are undefined. Source: ONNX BitShift-11."""

    weight = 2.0
    unexportable = (Unexportable("dynamo", "yields int8 for uint8 (torch 2.13)"),)
    inputs = (In("T", UNSIGNED), In("T", index=True))
    modular = True
    direction = Choice(("LEFT", "RIGHT"))

    def certain(self, x, y):
        """0 occurs: the input search does not prevent that an element loses all its bits."""
        return ((0, 0),)

    def torch(self, x, y):
        if self.direction == "LEFT":
            return torch.bitwise_left_shift(x, y)
        moved = torch.bitwise_right_shift(x, y)
        if x.dtype is not torch.int64:
            return moved
        # The carrier of uint64 is signed: drop the copies of its sign.
        kept = torch.bitwise_right_shift(torch.full_like(y, FAR), (y - 1).clamp(min=0))
        return torch.where(y > 0, moved & kept, moved)

    def proxy(self, x, y):
        return x * torch.exp2(y if self.direction == "LEFT" else -y)

    def integer_range(self, x, y):
        return None, (0, 8 * y.dtype.itemsize - 1)
