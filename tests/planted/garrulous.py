"""A compiler whose words mislead: refusals behind labels, and names that change with every run.

    nnfuzz fuzz --plugin tests/planted/garrulous.py -b garrulous --tests 600
    python -m scripts.check.triage CAMPAIGN --truth tests/planted/garrulous.py

Some operators and dtypes are refused, in the middle of an internal error, by a class called `error`
and by a TypeError of a native binding: no finding may tell of these. Two causes have temporary
names in their messages, one of them says its line once or several times.
"""

from __future__ import annotations

import itertools
import random
import string
import sys
from pathlib import Path

from onnx import TensorProto

from nnfuzz.backend.outcome import Stage
from nnfuzz.backend.registry import backend

sys.path.append(str(Path(__file__).parents[2]))

from tests.planted.faults import Faults, FaultyBackend, FaultyCompiler

REFUSED, FAULTS = Faults(), Faults()
RANDOM, COUNT = random.SystemRandom(), itertools.count(1)


class error(Exception):
    """The only class of errors of a library."""


def temporary():
    return "".join(RANDOM.choices(string.ascii_letters, k=9))


@REFUSED.at(Stage.COMPILE, when=lambda site: site.has(TensorProto.DOUBLE))
def wide_refused(site):
    """float64 is refused behind a label."""
    place = f"internal executor error: unit {site.index}: kernel execution failed"
    raise RuntimeError(f"{place}: {site.op}: unsupported dtype Float64")


@REFUSED.at(Stage.IMPORT, "Resize", "GridSample")
def sampling_refused(site):
    """A library's own class."""
    raise error(f"-213: {site.op} is not implemented")


@REFUSED.at(Stage.IMPORT, when=lambda site: site.has(TensorProto.BFLOAT16))
def bfloat16_refused(site):
    """What a binding of native code says of its arguments."""
    raise TypeError("only float32, int64 and bool arrays are supported")


@FAULTS.at(Stage.COMPILE, "Sigmoid", "Tanh")
def lost_unit(site):
    """The unit of compilation has a name of its own."""
    name = temporary()
    raise RuntimeError(f"unit {name} failed: no rule lowers the table of {name}_exp twice")


@FAULTS.at(Stage.COMPILE, "Concat", "Split")
def repeated_line(site):
    """One line, once or several times."""
    line = f"error: undefined symbol copy_{temporary()} in the kernel of joins"
    raise RuntimeError("\n".join([line] * (1 + next(COUNT) % 3)))


@FAULTS.at(Stage.IMPORT, "Where", "Clip")
def own_error(site):
    """An assertion of the library's own class, with an open parenthesis."""
    raise error(f": Input [Begin={site.index}] of the selection is bad (e.g. ")


@FAULTS.kernel("Sin")
def negated(node, inputs, run):
    """-sin x."""
    return [-x for x in run()]


COMPILER = FaultyCompiler([*REFUSED, *FAULTS], REFUSED)
causes_of = COMPILER.causes_of


@backend
class Garrulous(FaultyBackend):
    name = "garrulous"
    compiler = COMPILER
