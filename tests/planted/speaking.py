"""Five compilers with the same faults that speak differently: one panics with backtraces, one
prints its reasons on the console only, one has addresses, temporary paths and counters in its
messages, one takes two seconds a model besides, and one dies without a word.

    nnfuzz fuzz --plugin tests/planted/speaking.py -b panicking --tests 600
    python -m scripts.check.triage CAMPAIGN --truth tests/planted/speaking.py

What is in REFUSED is a refusal and no cause: a finding of it counts as one that fails for no
planted cause. The adapters read nothing but, on the console, the lines that say "error:".
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from pathlib import Path

import onnx
from onnx import TensorProto

from nnfuzz.backend.outcome import Stage
from nnfuzz.backend.registry import backend

sys.path.append(str(Path(__file__).parents[2]))

from tests.planted.faults import Faults, FaultyBackend, FaultyCompiler

FAULTS, REFUSED = Faults(), Faults()
COUNTER = itertools.count(4711)
UNWRAPPED = "called `Option::unwrap()` on a `None` value"


class Claim(Exception):
    """A statement, the function that makes it, and the node that it is about."""

    def __init__(self, site, place, statement):
        super().__init__(statement)
        self.site, self.place, self.statement = site, place, statement


@FAULTS.at(Stage.IMPORT, "Squeeze", "Unsqueeze", when=lambda site: site.rank() > 2)
def axes_twice(site):
    """From rank 3 on, axes are normalised twice."""
    rank = site.rank()
    raise Claim(
        site, "shape::axes::normalise", f"axis {rank + 1} is beyond a tensor of rank {rank}"
    )


@FAULTS.at(Stage.IMPORT, "DepthToSpace", "SpaceToDepth")
def blocks(site):
    """Blocks lose an axis."""
    raise Claim(site, "layout::blocks", f"expected 6 axes for {site.node.outputs[0]}, got 5")


@FAULTS.at(Stage.IMPORT, "Einsum")
def equation(site):
    """What is missing is unwrapped, while an equation is parsed."""
    raise Claim(site, "import::einsum::parse", UNWRAPPED)


@FAULTS.at(Stage.IMPORT, "Unique", "NonZero", "Compress")
def bound(site):
    """The same words for the bound of a size."""
    raise Claim(site, "import::bounds::of_result", UNWRAPPED)


@FAULTS.at(Stage.COMPILE, "TopK")
def largest(site):
    """An index is out of bounds."""
    raise Claim(site, "kernels::top::heap", "index out of bounds: the len is 3 but the index is 3")


@FAULTS.at(Stage.COMPILE, "GatherND", "ScatterND", "GatherElements")
def indices(site):
    """The same words elsewhere."""
    text = f"index out of bounds: the len is {site.rank()} but the index is {site.rank()}"
    raise Claim(site, "kernels::gather::offsets", text)


@FAULTS.at(Stage.COMPILE, "CumSum")
def running(site):
    """An assertion that sounds like a refusal."""
    raise Claim(site, "kernels::scan::run", "assertion failed: axis is only supported from 0 on")


@FAULTS.at(Stage.COMPILE, "OneHot")
def depth(site):
    """What should not happen, in words of a refusal."""
    text = "internal error: entered unreachable code: depth is not supported here"
    raise Claim(site, "kernels::hot::depth", text)


@FAULTS.at(Stage.COMPILE, "Pow")
def power(site):
    """Arithmetic overflows."""
    raise Claim(site, "fold::constants::power", "attempt to multiply with overflow")


@FAULTS.at(Stage.COMPILE, "If", "Loop", "Scan")
def capture(site):
    """Values of bodies are looked up in the wrong scope."""
    raise Claim(site, "scope::resolve", f"no value {site.node.outputs[0]} in scope {site.index}")


@FAULTS.at(Stage.COMPILE, "HardSwish", "Mish")
def gate(site):
    """Gated activations have no entry."""
    raise Claim(site, "tables::gate", f"the gate table is empty at entry {next(COUNTER)}")


@FAULTS.at(Stage.COMPILE, "ReduceLogSum", "ReduceLogSumExp")
def log_sum(site):
    """Reductions of logarithms lose their accumulator."""
    raise Claim(site, "kernels::reduce::plan", "the accumulator has been moved out of the plan")


@FAULTS.at(Stage.COMPILE, "Resize")
def corners(site):
    """The scales are read twice."""
    raise Claim(site, "kernels::resize::scales", f"scale of axis {site.rank() - 1} was read before")


@REFUSED.at(Stage.IMPORT, "GRU", "LSTM", "RNN")
def recurrent(site):
    """Recurrent layers."""
    raise Claim(site, "import::convert", f"recurrent layers are not supported ({site.op})")


@REFUSED.at(Stage.IMPORT, when=lambda site: site.has(TensorProto.UINT16))
def uint16(site):
    """A dtype."""
    raise Claim(site, "import::dtype", f"we don't support type uint16 of {site.node.outputs[0]}")


@REFUSED.at(Stage.IMPORT, "Celu", "Selu", "Elu")
def exponential(site):
    """Operators without a converter."""
    raise Claim(site, "import::convert", f"no converter registered for operator {site.op}")


@REFUSED.at(Stage.COMPILE, "ConvTranspose")
def transposed(site):
    """Strides."""
    raise Claim(site, "kernels::conv::plan", "the transposed kernel only supports stride 1")


@REFUSED.at(Stage.COMPILE, "DFT", "STFT")
def fourier(site):
    """A status."""
    raise Claim(site, "kernels::find", f"E7 NOT_IMPLEMENTED: {site.op}")


@REFUSED.at(Stage.EXECUTE, "RoiAlign")
def regions(site):
    """Claim while the model runs."""
    raise Claim(site, "run::step", f"step {site.index}: {site.op} is not yet implemented")


COMPILER, POLITE = FaultyCompiler(FAULTS), FaultyCompiler(REFUSED)


def causes_of(model, inputs):
    """Ground truth: the causes by which these ONNX bytes fail on these inputs."""
    module = onnx.load_model_from_string(model)
    for stage in (Stage.IMPORT, Stage.COMPILE):
        if POLITE.first(module, stage):
            return set()
        if met := COMPILER.first(module, stage):
            return {met[0].cause}
    return COMPILER.causes(module, inputs)


def _claim(fault, site):
    try:
        fault.act(site)
    except Claim as said:
        return said


class Speaking(FaultyBackend):
    """Fails only by static faults; `say` voices them."""

    compiler = FaultyCompiler(())

    def build(self, module, level):
        run = super().build(module, level)

        def checked(inputs):
            self.check(module, Stage.EXECUTE)
            return run(inputs)

        return checked

    def check(self, module, stage):
        for compiler in (POLITE, COMPILER):
            if met := compiler.first(module, stage):
                self.say(_claim(*met), compiler is POLITE)

    def say(self, said, refused):
        raise NotImplementedError


BACKTRACE = """\
   0: rust_begin_unwind
             at /rustc/{hash:040x}/library/std/src/panicking.rs:665:5
   1: core::panicking::panic_fmt
             at /rustc/{hash:040x}/library/core/src/panicking.rs:74:14
   2: toy::{place}
   3: <toy::passes::Pass{pass_} as toy::passes::Run>::call
   4: toy::compile::{caller}
   5: core::ops::function::FnOnce::call_once
   6: std::sys::backtrace::__rust_begin_short_backtrace
   7: main
   8: __libc_start_call_main
   9: __libc_start_main_impl
  10: _start
"""
PANIC = """\
   INFO toy::compile: reading /tmp/.toy{number}/model.onnx
   WARN toy::fold: folding of {op} is not supported, left out
thread 'main' panicked at src/{file}.rs:{line}:9:
{statement}
stack backtrace:
{backtrace}note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.
"""
CHAIN = """\
Error: compiling the graph

Caused by:
    0: lowering node #{index} "{name}" {op}
    1: {statement}

Stack backtrace:
{backtrace}"""


@backend
class Panicking(Speaking):
    """Panics with backtraces; what it refuses is a chain of causes with one."""

    name = "panicking"

    def say(self, said, refused):
        file, _, _ = said.place.rpartition("::")
        told = {
            "statement": said.statement,
            "place": said.place,
            "index": said.site.index,
            "name": said.site.node.outputs[0],
            "op": said.site.op,
            "number": next(COUNTER),
            "file": file.replace("::", "/"),
            "line": 100 + len(said.place),
            "hash": id(said),
            "pass_": said.site.index,
            "caller": "module" if said.site.index % 2 else "graph",
        }
        told["backtrace"] = BACKTRACE.format(**told)
        raise RuntimeError((CHAIN if refused else PANIC).format(**told))


@backend
class Muttering(Speaking):
    """Says on the console what is wrong, and nothing in its error."""

    name = "muttering"

    def say(self, said, refused):
        number = next(COUNTER)
        print(f"[10:{number % 60:02}:07] reading /tmp/mutter-{number}/model.onnx")
        print(f"[10:{number % 60:02}:07] warning: {said.site.op} is not supported by the planner")
        print(f"[10:{number % 60:02}:08] error: {said.statement}", file=sys.stderr)
        raise RuntimeError("mutter ended with exit code 1")

    @classmethod
    def console(cls, text):
        told = [line.partition("error: ")[2] for line in text.splitlines() if "error: " in line]
        return "\n".join(filter(None, told)) or None


RAMBLE = """\
Exception from /tmp/ramble-{number}/build/src/core/session.cpp:{line}:
Session {address:#x} of thread {number}, attempt {attempt}, plan at {address:#x}
Exception from /tmp/ramble-{number}/build/src/{file}.cpp:{line}:
While converting node '{name}' (#{attempt}):
{statement}
/tmp/ramble-{number}/libramble.so(_ZN3toy{mangled}Ev+0x{number:x}) [{address:#x}]
/tmp/ramble-{number}/libramble.so(_ZN3toy7Session3runEv+0x1f) [{address:#x}]
/lib/x86_64-linux-gnu/libc.so.6(__libc_start_main+0x80) [{address:#x}]
"""


@backend
class Rambling(Speaking):
    """Chains of C++, with addresses, temporary paths and counters."""

    name = "rambling"

    def say(self, said, refused):
        parts = said.place.split("::")
        told = {
            "statement": said.statement,
            "name": said.site.node.outputs[0],
            "number": next(COUNTER) + os.getpid(),
            "line": 100 + len(said.place),
            "address": id(said),
            "attempt": next(COUNTER),
            "file": "/".join(parts[:-1]),
            "mangled": "".join(f"{len(part)}{part}" for part in parts),
        }
        raise RuntimeError(RAMBLE.format(**told))


@backend
class Mute(Speaking):
    """Dies of a bad address wherever it is wrong; what it refuses it says."""

    name = "mute"

    def say(self, said, refused):
        if refused:
            raise NotImplementedError(said.statement)
        os.kill(os.getpid(), signal.SIGSEGV)


@backend
class Unhurried(Rambling):
    """Speaks as the rambling one does, and takes two seconds to load a model."""

    name = "unhurried"

    def load(self, model):
        time.sleep(2)
        return super().load(model)
