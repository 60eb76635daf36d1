from typing import Any

import torch

from nnfuzz.operators.families.elementwise import Increasing
from nnfuzz.operators.operator import operator


@operator
class Gudermann(Increasing):  # which ONNX writes as two operators
    torch = staticmethod(lambda x: torch.atan(torch.sinh(x)))
    rounding = (16, 0)

    def onnx(self, emit: Any, *values: str) -> Any:
        return emit("Atan", emit("Sinh", *values))
