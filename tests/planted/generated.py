"""A compiler that writes C++. Another compiler refuses what it writes, or the program dies.

    nnfuzz fuzz --plugin tests/planted/generated.py -b generated --tests 600
    python -m scripts.check.triage CAMPAIGN --truth tests/planted/generated.py

The cause is in the middle of a log. Before it there is a command with temporary files; after it
there are quoted source, remarks in any order, and a last line that all logs have. No finding may
report the refusals: these have a label in front, or are of a class called `error`, or a TypeError.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from onnx import TensorProto

from nnfuzz.backend.outcome import Stage
from nnfuzz.backend.registry import backend

sys.path.append(str(Path(__file__).parents[2]))

from tests.planted.faults import Death, Faults, FaultyBackend, FaultyCompiler

REFUSED, FAULTS = Faults(), Faults()
LOG = """c++ -O2 -shared -o {path}.so {path}.cpp: exit status 1
{path}.cpp: In function 'void run(const Buffer*, Buffer*)':
{path}.cpp:{line}:{column}: error: {statement}
 {line} |   {source};
      |   ^~~~~~~~
{remarks}
compilation terminated due to -Wfatal-errors."""
BOOLEAN = ("And", "Or", "Xor", "Not")
ALONG = ("Softmax", "LogSoftmax", "Concat", "Gather", "ArgMax", "ArgMin")


def log(site, statement):
    """What the other compiler prints about a node."""
    path = tempfile.mktemp(prefix="gen-")
    line = random.randrange(40, 900)
    names = random.sample(["tile.h", "buffer.h", "loops.h", "simd.h"], 2)
    remarks = [f"{path[:-8]}/{name}:{line + 7}: note: candidate declared here" for name in names]
    source = f"auto {site.node.outputs[0]}_{line} = nn::{site.op}(t{site.index}, arena + {line})"
    place = {"path": path, "line": line, "column": random.randrange(3, 40), "source": source}
    return LOG.format(**place, statement=statement, remarks="\n".join(remarks))


def fail(site, statement):
    raise RuntimeError(log(site, statement))


class error(Exception):
    """The only class of errors of a library."""


@REFUSED.at(Stage.IMPORT, when=lambda site: site.node.inputs and site.rank() == 0)
def no_rank_0(site):
    """Scalars are refused at the start of each node."""
    raise RuntimeError(f"Tile<T, 0>: tensors of rank 0 are not supported ({site.node.outputs[0]})")


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
    raise TypeError("only float32, float16, int64 and bool arrays are supported")


@FAULTS.at(Stage.COMPILE, *BOOLEAN, when=lambda site: site.rank() > 1)
def no_mask(site):
    """A template lacks a member for bool."""
    fail(site, f"'class Tile<bool, {site.rank()}>' has no member named 'mask'")


@FAULTS.at(Stage.COMPILE, *ALONG, when=lambda site: site.node.attrs.get("axis", 0) < 0)
def negative_axis(site):
    """Negative axes are written into the code as they are."""
    axis = site.node.attrs["axis"]
    fail(site, f"narrowing conversion of '{axis}' from 'int' to 'unsigned int'")


@FAULTS.at(Stage.COMPILE, "Split", "TopK")
def declared_twice(site):
    """Operators with several results declare a variable twice."""
    fail(site, f"redeclaration of 'auto {site.node.outputs[0]}_{random.randrange(99)}'")


@FAULTS.at(Stage.COMPILE, when=lambda site: site.has(TensorProto.FLOAT16))
def literal(site):
    """No literal of float16 can be written, whatever the operator."""
    fail(site, "unable to find numeric literal operator 'operator\"\"_f16'")


@FAULTS.at(Stage.COMPILE, "Erf")
def unresolved(site):
    """A function has no body."""
    fail(site, "undefined reference to 'float nn::poly<7>(float)'")


@FAULTS.at(Stage.COMPILE, "Mod")
def unresolved_too(site):
    """Another function has no body; the message differs by its name only."""
    fail(site, "undefined reference to 'void nn::divide_floor(Tile<float, 2>&)'")


@FAULTS.at(Stage.COMPILE, "Tile", "Expand")
def repeated_line(site):
    """One line, once or several times."""
    line = f"error: undefined symbol copy_{random.randrange(10**9):x} in the kernel of copies"
    raise RuntimeError("\n".join([line] * random.randrange(1, 4)))


@FAULTS.at(Stage.IMPORT, "Where", "Clip")
def own_error(site):
    """An assertion of the library's own class, with an open parenthesis."""
    raise error(f": Input [Begin={site.index}] of the selection is bad (e.g. ")


@FAULTS.kernel("CumSum")
def freed_twice(node, inputs, run):
    """The heap notices when a running sum starts behind the first element."""
    if node.attrs.get("exclusive"):
        raise Death("abort", "double free or corruption (!prev)")
    return run()


@FAULTS.kernel("GatherElements", "GatherND")
def beyond(node, inputs, run):
    """Indexes that count from the end read in front of the array."""
    if (inputs[1] < 0).any():
        raise Death("segfault")
    return run()


COMPILER = FaultyCompiler([*REFUSED, *FAULTS], REFUSED)
causes_of = COMPILER.causes_of


@backend
class Generated(FaultyBackend):
    name = "generated"
    compiler = COMPILER
