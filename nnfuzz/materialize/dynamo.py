"""Export through PyTorch's torch.export-based exporter, `torch.onnx.export(dynamo=True)`.

That function rebuilds its registry of operators for every model (0.4 s); `shortcuts` caches it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nnfuzz.materialize.scoped import Patch, Shortened, private, quiet, unlogged

_INTERNAL = "torch.onnx._internal.exporter"


def stock(
    module: nn.Module,
    args: tuple[Tensor, ...],
    input_names: Sequence[str],
    output_names: Sequence[str],
    opset: int,
) -> bytes:
    """The serialized model that PyTorch's exporter writes for a module and example tensors."""
    with quiet(), unlogged():
        program = torch.onnx.export(
            module,
            args,
            input_names=list(input_names),
            output_names=list(output_names),
            opset_version=opset,
            dynamo=True,
            verbose=False,
        )
    if program is None:
        raise RuntimeError("the exporter returned no program")
    return program.model_proto.SerializeToString()


class DynamoExport(Shortened):
    """`stock`, made faster by `shortcuts`."""

    def __init__(self) -> None:
        super().__init__(stock, shortcuts)


def shortcuts() -> Sequence[Patch]:
    """Patches that cache the exporter's registries and decomposition tables by opset.

    Raises: AttributeError or ImportError if torch has changed.
    """
    registration = private(f"{_INTERNAL}._registration")
    decomp = private(f"{_INTERNAL}._decomp")
    registry = functools.lru_cache(maxsize=8)(registration.ONNXRegistry.from_torchlib)
    implemented = functools.lru_cache(maxsize=8)(decomp.get_onnx_implemented_overloads)
    build = decomp.create_onnx_friendly_decomposition_table

    @functools.lru_cache(maxsize=8)
    def table(operators: frozenset[object]) -> dict[Any, Any]:
        return build(set(operators))

    return [
        Patch(registration.ONNXRegistry, "from_torchlib", staticmethod(registry)),
        Patch(decomp, "get_onnx_implemented_overloads", implemented),
        Patch(
            decomp,
            "create_onnx_friendly_decomposition_table",
            lambda operators: dict(table(frozenset(operators))),
        ),
    ]
