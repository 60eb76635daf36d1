"""Operators that leave a tensor as it is."""

from __future__ import annotations

import torch

from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.operators.attributes import Choice, Real
from nnfuzz.operators.families.shape import DataMovement
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import In, operator


@operator
class Identity(DataMovement):
    takes_empty = True
    torch = staticmethod(torch.clone)


@operator
class Dropout(DataMovement):
    """Dropout at inference: nothing is dropped for any ratio; the mask, if requested, is all true.

    `form`: whether the lowering relies on the default or writes an explicit `training_mode`.
    Source: ONNX Dropout-13.
    """

    takes_empty = True
    inputs = (In("T", FLOATS),)
    ratio = Real(0.0, 0.9)
    form = Choice(("plain", "ratio", "training_mode"))
    mask = Choice((False, False, True))
    seed = Choice((None, None, 7), default=None)
    """The seed of training, which has no effect at inference."""

    def type_transfer(self, x):
        return [x, x.with_dtype(DType.BOOL)] if self.mask else [x]

    def torch(self, x):
        return (x.clone(), torch.ones_like(x, dtype=torch.bool)) if self.mask else x.clone()

    def proxy(self, x):
        return (x, torch.ones_like(x)) if self.mask else x

    def interval(self, x):
        kept = torch.ones_like(x.lo, dtype=torch.bool)
        return [x, Interval(kept, kept)] if self.mask else [x]

    def further(self, x):
        return (((1, 1),),) if self.mask else ()

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        ratio, training = fields.get("ratio"), fields.get("training_mode")
        form = "plain" if ratio is None else "ratio" if training is None else "training_mode"
        mine = {"ratio": ratio or 0.0, "form": form, "mask": len(gives) > 1}
        return super().from_onnx({"seed": None, **fields, **mine}, takes, gives)

    def onnx(self, emit, x):
        """Below opset 12 the ratio is an attribute, and the mask at inference is not defined, so
        that it is computed."""
        if emit.opset < 12:
            kept = emit("Dropout", x, ratio=None if self.form == "plain" else self.ratio)
            if not self.mask:
                return kept
            given = emit("Cast", x, to=DType.BOOL)
            return kept, emit("Or", given, emit("Not", given))
        inputs = [x] if self.form == "plain" else [x, emit.const(self.ratio, DType.FLOAT32)]
        if self.form == "training_mode":
            inputs.append(emit.const(False, DType.BOOL))
        return emit("Dropout", *inputs, outputs=2 if self.mask else 1, seed=self.seed)
