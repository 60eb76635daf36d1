"""Operators on the bits of integers."""

from __future__ import annotations

import torch

from nnfuzz.ir.dtypes import INTS, DType
from nnfuzz.spec.attributes import Choice
from nnfuzz.spec.families.elementwise import Binary, Unary, flags
from nnfuzz.spec.operator import In, operator
from nnfuzz.spec.unexportable import Unexportable

BOOLEANS_ONLY = Unexportable("torchscript", "exports bitwise operators of booleans only")


class Bitwise(Binary):
    since = 18
    unexportable = (BOOLEANS_ONLY,)
    inputs = (In("T", INTS), In("T"))


@operator
class BitwiseAnd(Bitwise):
    unexportable = (Unexportable("torchscript", "came with opset 18", below=18),)
    proxy = staticmethod(torch.minimum)
    torch = staticmethod(torch.bitwise_and)


@operator
class BitwiseOr(Bitwise):
    proxy = staticmethod(torch.maximum)
    torch = staticmethod(torch.bitwise_or)


@operator
class BitwiseXor(Bitwise):
    torch = staticmethod(torch.bitwise_xor)

    def proxy(self, x, y):
        return (x - y).abs()


@operator
class BitwiseNot(Unary):
    since = 18
    unexportable = (BOOLEANS_ONLY,)
    inputs = (In("T", INTS),)
    proxy = staticmethod(torch.neg)
    torch = staticmethod(torch.bitwise_not)


@operator
class BitShift(Binary):
    """Zeros move in. Shifts by the width or more are undefined. Source: ONNX BitShift-11."""

    inputs = (In("T", (DType.UINT8,)), In("T", index=True))
    direction = Choice(("LEFT", "RIGHT"))

    def torch(self, x, y):
        if self.direction == "LEFT":
            return torch.bitwise_left_shift(x, y)
        return torch.bitwise_right_shift(x, y)

    def proxy(self, x, y):
        return x * torch.exp2(y if self.direction == "LEFT" else -y)

    def integer_range(self, x, y):
        return None, (0, 8 * y.dtype.itemsize - 1)

    def domain(self, x, y):
        return [flags((y < 0) | (y >= 8 * y.element_size()))]

    def undefined(self, x, y):
        return (y.hi >= 8 * y.hi.element_size()).broadcast_to(
            torch.broadcast_shapes(x.lo.shape, y.lo.shape)
        )
