"""A compiler with two devices and two releases, and faults of which it is known whom to blame.

    nnfuzz fuzz --plugin tests/planted/blamed.py -b blamed -b blamed,device=gpu \\
        -b blamed,release=1.1

One fault each is the optimiser's (O3 only), a kernel's on one device, a kernel's in one release, a
kernel's everywhere, and the importer's; one more corrupts what an exporter wrote.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import onnx

from nnfuzz.backend.contract import BackendOptions, option
from nnfuzz.backend.outcome import Stage
from nnfuzz.backend.registry import backend

sys.path.append(str(Path(__file__).parents[2]))

from tests.planted.faults import Faults, FaultyBackend, FaultyCompiler, dying

OPTIMISER, GPU, NEWER, ANYWHERE = (Faults() for _ in range(4))


def negated(run):
    """The results with their signs changed; integers and truth values inverted bit by bit."""
    return [-x if x.dtype.kind not in "biu" else ~x for x in run()]


@OPTIMISER.at(Stage.COMPILE, "Floor")
def fails_on_floor(site):
    """A pass does not know Floor."""
    raise RuntimeError(f"pass Canonicalise: cannot simplify {site.node.outputs[0]} = Floor")


@GPU.kernel("Sin", "Cos")
def trigonometry_on_gpu(node, inputs, run):
    """Wrong sign."""
    return negated(run)


@NEWER.at(Stage.COMPILE, "Ceil")
def ceil_since_1_1(site):
    """A regression: no code for Ceil."""
    raise RuntimeError(f"no schedule for {site.node.outputs[0]} = Ceil")


@ANYWHERE.kernel("Erf")
def erf_kernel(node, inputs, run):
    """Wrong sign."""
    return negated(run)


@ANYWHERE.kernel("LeakyRelu", "Elu")
def alpha_unread(node, inputs, run):
    """The importer does not read alpha."""
    return run(alpha=None)


def badly_exported(model: bytes) -> bytes:
    """The model as an exporter would write it that takes Atan for Tanh."""
    proto = onnx.load_model_from_string(model)
    for node in proto.graph.node:
        node.op_type = "Tanh" if node.op_type == "Atan" else node.op_type
    return proto.SerializeToString()


@backend
class Blamed(FaultyBackend):
    """One of eight targets."""

    name = "blamed"
    levels = ("O0", "O3")

    @dataclass(frozen=True, kw_only=True)
    class Options(BackendOptions):
        device: Literal["cpu", "gpu"] = option("cpu", "where it seems to run")
        release: Literal["1.0", "1.1"] = option("1.0", "which release it pretends to be")

    def versions(self):
        return {"blamed": self.options.release, "onnx": onnx.__version__}

    @property
    def compiler(self):
        return self._at("O0")

    def build(self, module, level):
        made = self._at(level)
        dying(made.check, module, Stage.COMPILE)
        return lambda inputs: dying(made.run, module, inputs)

    def _at(self, level):
        faults = [*ANYWHERE]
        faults += GPU if self.options.device == "gpu" else []
        faults += NEWER if self.options.release == "1.1" else []
        return FaultyCompiler(faults + (OPTIMISER if level == "O3" else []))
