"""A compiler in which one fault shows at many operators, and one operator has two faults.

    nnfuzz fuzz --plugin tests/planted/shared.py -b shared --tests 300
    python -m scripts.check.triage CAMPAIGN --truth tests/planted/shared.py

One folds constants wrongly, three ignore an attribute wherever it occurs, one is a step that a
family of operators shares, and Attention ignores one attribute or the other. All else is right.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from nnfuzz.backend.registry import backend

sys.path.append(str(Path(__file__).parents[2]))

from tests.planted.faults import Faults, FaultyBackend, FaultyCompiler

FAULTS = Faults()
REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")


@FAULTS.kernel("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean", "PRelu", "MatMul", "Pow")
def constant_loses_sign(node, inputs, run):
    """Constant operands of floats are packed without their signs."""
    packed = zip(inputs, node.constants)
    return run(
        *(np.asarray(np.abs(x)) if held and x.dtype == np.float32 else x for x, held in packed)
    )


@FAULTS.kernel(*(f"Reduce{name}" for name in REDUCTIONS))
def noop_ignored(node, inputs, run):
    """Without axes all are reduced, whatever noop_with_empty_axes says."""
    return run(noop_with_empty_axes=None) if "noop_with_empty_axes" in node.attrs else run()


@FAULTS.kernel("ArgMax", "ArgMin")
def last_index_ignored(node, inputs, run):
    """Of equal elements the first one counts, whatever select_last_index says."""
    return run(select_last_index=0)


@FAULTS.kernel("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool")
def dilations_ignored(node, inputs, run):
    """Windows have no gaps."""
    return run(dilations=None) if "dilations" in node.attrs else run()


@FAULTS.kernel("Max", "Min", "Sum", "Mean")
def third_operand_lost(node, inputs, run):
    """Of three operands and more, two count."""
    return run(*inputs[:2]) if len(inputs) > 2 else run()


@FAULTS.kernel("Attention")
def causal_ignored(node, inputs, run):
    """is_causal does nothing."""
    return run(is_causal=0)


@FAULTS.kernel("Attention")
def softcap_ignored(node, inputs, run):
    """softcap does nothing."""
    return run(softcap=0.0)


COMPILER = FaultyCompiler(FAULTS)
causes_of = COMPILER.causes_of


@backend
class Shared(FaultyBackend):
    name = "shared"
    compiler = COMPILER
    max_opset = 24
