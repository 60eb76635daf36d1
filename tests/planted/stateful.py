"""Compilers whose programs keep something between calls: 14 that must not, and eight that may.

    nnfuzz fuzz --plugin tests/planted/stateful.py -b stateful,keeps=arena_returned --set calls=1

O0 keeps nothing, O1 is one of the programs below.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nnfuzz.backend.contract import Backend, BackendOptions, option
from nnfuzz.backend.registry import backend
from nnfuzz.backend.target import THREADS, TURNS, Target

sys.path.append(str(Path(__file__).parents[2]))

from tests.planted.program import Program, Run, Unsupported, _native, load

SUMS = ("ReduceSum", "ReduceMean", "MatMul", "Gemm", "Conv", "CumSum", "GlobalAveragePool")
PROGRAMS: dict[str, type[Stateless]] = {}


class Stateless:
    """Runs a program node by node. A subclass keeps something: that is its docstring."""

    legal, way = False, ""

    def __init_subclass__(cls, legal: bool = False, way: str = "") -> None:
        words = "".join(f"_{c.lower()}" if c.isupper() else c for c in cls.__name__)
        cls.legal, PROGRAMS[words[1:]] = legal, cls
        cls.way = TURNS if legal else way

    @classmethod
    def level(cls):
        """Where it is to be found; what may be kept is called in turns."""
        return "+".join(filter(None, ("O1", cls.way)))

    def __init__(self, program: Program) -> None:
        self.program, self.calls = program, 0
        self.kept: dict[Any, Any] = {}

    def node(self, node, xs):
        return node(*xs)

    def __call__(self, feeds):
        program, values = self.program, {}
        self.calls += 1
        values |= {n: _native(np.asarray(feeds[n])) for n in program.inputs} | program.constants
        for node in program.nodes:
            xs = [values[name] if name else None for name in node.inputs]
            values.update(zip(node.outputs, self.node(node, xs), strict=True))
        return Run(program, values).outputs()

    def first(self, key, value):
        """What the first call had here, where it is of the same type."""
        old = self.kept.setdefault(key, value)
        return old if old.shape == value.shape and old.dtype is value.dtype else value


# -- what must not be kept ------------------------------------------------------------------------


class AccumulatorNotCleared(Stateless):
    """A sum goes on from that of the call before."""

    def node(self, node, xs):
        results = node(*xs)
        if node.op in SUMS:
            old = self.kept.get(node)
            self.kept[node] = results[0]
            if old is not None and old.shape == results[0].shape:
                return (results[0] + old,)
        return results


class PlanOfTheFirstSize(Stateless):
    """Buffers have the size of the first call: what is beyond it is lost."""

    def node(self, node, xs):
        results = []
        for k, y in enumerate(node(*xs)):
            most = self.kept.setdefault((node, k), y.numel())
            if y.numel() > most:
                flat = y.clone().reshape(-1)
                flat[most:] = 0
                y = flat.reshape(y.shape)
            results.append(y)
        return tuple(results)


class InputOverwritten(Stateless):
    """An operator on an input of the model writes its result there."""

    def __call__(self, feeds):
        outputs = super().__call__(feeds)
        array = feeds[self.program.inputs[0]]
        if array.dtype.kind == "f":
            array *= 2
        return outputs


class ArenaReturned(Stateless):
    """Results are views of memory that the next call uses again."""

    def __call__(self, feeds):
        outputs = super().__call__(feeds)
        for name, array in outputs.items():
            own = self.kept.setdefault((name, array.shape), np.empty_like(array))
            own[...] = array
            outputs[name] = own
        return outputs


class ResultsByShape(Stateless):
    """Results are remembered by the shapes of the operands, whatever their values are."""

    def node(self, node, xs):
        key = node, *(None if x is None else x.shape for x in xs)
        if key not in self.kept:
            self.kept[key] = node(*xs)
        return self.kept[key]


class OperandPackedOnce(Stateless):
    """The second operand of a product is packed in the first call, although it is no constant."""

    def node(self, node, xs):
        if node.op in ("MatMul", "Gemm", "Conv", "Mul") and len(xs) > 1:
            xs = [xs[0], self.first(node, xs[1]), *xs[2:]]
        return node(*xs)


class ThirdCallFails(Stateless):
    """A counter of calls runs over."""

    def __call__(self, feeds):
        if self.calls == 2:
            raise RuntimeError("the ring of 2 workspaces is exhausted")
        return super().__call__(feeds)


class KeyWithoutProgram(Stateless):
    """Small results are shared by all programs of a process; the key lacks values and dtype."""

    shared: dict[Any, Any] = {}

    def node(self, node, xs):
        results = node(*xs)
        if len(results) > 1 or results[0].numel() > 8:
            return results
        key = node.op, results[0].shape
        return (self.shared.setdefault(key, results[0]).to(results[0].dtype),)


class WorkspaceOfAnother(Stateless, way=TURNS):
    """All programs of a process share a workspace, cleared only by the one that had it last."""

    owner: Any = None
    sums: dict[Any, Any] = {}

    def __init__(self, program):
        super().__init__(program)
        WorkspaceOfAnother.owner = None
        self.sums.clear()

    def __call__(self, feeds):
        if self.owner is self:
            self.sums.clear()
        WorkspaceOfAnother.owner = self
        return super().__call__(feeds)

    def node(self, node, xs):
        results = node(*xs)
        if node.op in SUMS and results[0].dtype.is_floating_point:
            key = node.outputs[0], results[0].shape
            self.sums[key] = results[0] + self.sums.get(key, 0)
            return (self.sums[key],)
        return results


class OneCallAtATime(Stateless, way=THREADS):
    """The inputs of a call stand in the program while it runs."""

    def __call__(self, feeds):
        self.feeds = feeds
        time.sleep(0.01)
        return super().__call__(self.feeds)


class SignLearnt(Stateless):
    """An operator that changed nothing in the first call is left out from then on."""

    def node(self, node, xs):
        results = node(*xs)
        if node.op in ("Relu", "Abs", "Clip", "Floor", "Round", "Ceil", "Max", "Min"):
            same = len(results) == 1 and results[0].equal(xs[0])
            if self.kept.setdefault(node, same) and results[0].shape == xs[0].shape:
                return (xs[0],)
        return results


class PaddingNotCleared(Stateless):
    """The zeros of a result keep what the call before had there."""

    def node(self, node, xs):
        results = node(*xs)
        if node.op in ("Pad", "Relu", "Trilu"):
            old, y = self.kept.get(node), results[0]
            self.kept[node] = xs[0] if xs[0].shape == y.shape else y + 1
            if old is not None and old.shape == y.shape:
                return (old.where(y == 0, y),)
        return results


class ScalarFolded(Stateless):
    """An input with one element is taken for a constant."""

    def __call__(self, feeds):
        folded = dict(feeds)
        for name, array in feeds.items():
            if array.size == 1:
                folded[name] = self.kept.setdefault(name, array.copy())
        return super().__call__(folded)


class OneCallBehind(Stateless):
    """The results of a call are those of the one before."""

    def __call__(self, feeds):
        outputs = super().__call__(feeds)
        before, self.kept["results"] = self.kept.get("results"), outputs
        return outputs if before is None else before


# -- what may be kept -----------------------------------------------------------------------------


class CompiledLate(Stateless, legal=True):
    """The first call compiles."""

    def __call__(self, feeds):
        self.kept.setdefault("compiled", self.program.with_nodes(self.program.nodes))
        return super().__call__(feeds)


class ResultsByValue(Stateless, legal=True):
    """Results are remembered by all bytes of the inputs."""

    def __call__(self, feeds):
        key = tuple((name, a.shape, a.tobytes()) for name, a in feeds.items())
        if key not in self.kept:
            self.kept[key] = super().__call__(feeds)
        return self.kept[key]


class ArenaCopied(ArenaReturned, legal=True):
    """The results are copied out of the memory that the next call uses again."""

    def __call__(self, feeds):
        return {name: array.copy() for name, array in super().__call__(feeds).items()}


class ConstantPackedOnce(Stateless, legal=True):
    """A constant operand is packed in the first call."""

    def node(self, node, xs):
        if len(xs) > 1 and node.inputs[1] in self.program.constants:
            xs = [xs[0], self.first(node, xs[1]), *xs[2:]]
        return node(*xs)


class WarmedUp(Stateless, legal=True):
    """The first call runs twice."""

    def __call__(self, feeds):
        if not self.calls:
            super().__call__(feeds)
        return super().__call__(feeds)


class PlanOfEachSize(Stateless, legal=True):
    """There is a plan for each size."""

    def node(self, node, xs):
        key = node, *(None if x is None else x.shape for x in xs)
        self.kept.setdefault(key, len(self.kept))
        return node(*xs)


class CallsCounted(Stateless, legal=True):
    """Calls are counted and logged."""

    def __call__(self, feeds):
        print("call", self.calls)
        return super().__call__(feeds)


class AccumulatorCleared(Stateless, legal=True):
    """Sums begin at zero, in memory that is kept."""

    def node(self, node, xs):
        results = node(*xs)
        if node.op in SUMS:
            memory = self.kept.setdefault((node, results[0].shape), results[0].clone())
            return (memory.zero_().add(results[0]),)
        return results


@backend
class Stateful(Backend):
    """O0 keeps nothing between calls, O1 what the option says."""

    name = "stateful"
    levels = ("O0", "O1")
    preload = ("torch",)
    threads = True

    @dataclass(frozen=True, kw_only=True)
    class Options(BackendOptions):
        keeps: str = option("", "name of a program in tests/planted/stateful.py")

    def versions(self):
        return {"stateful": "1"}

    def load(self, model):
        try:
            return load(model)
        except Unsupported as error:
            raise NotImplementedError(f"{error} is not supported") from error

    def build(self, module, level):
        made = PROGRAMS[self.options.keeps] if level == "O1" and self.options.keeps else Stateless
        return made(module)


# -- the bench --------------------------------------------------------------------------------


def measure(models: int, seed: int, most: int = 0) -> set[str]:
    """The programs that some of the models, which are called three times, show wrong. most: models
    that are tried while a program with a fault is right with all.
    """
    from nnfuzz.backend.service import _runs
    from nnfuzz.testcase.case import TestCase
    from nnfuzz.testcase.producer import Producer
    from tests.planted.vocabulary import CONFIG

    producer, found, index = Producer(seed, replace(CONFIG, calls=1.0, dynamic=0.2)), set[str](), -1
    compilers = {name: Stateful(keeps=name) for name in PROGRAMS}
    wrong, tried = {name for name, made in PROGRAMS.items() if not made.legal}, 0
    while tried < models or (tried < most and not wrong <= found):
        index += 1
        case = producer.produce(index)
        if not isinstance(case, TestCase) or "calls" not in case.variations:
            continue
        try:
            load(case.model)
        except Unsupported:
            continue
        tried += 1
        returned = {}
        for name, compiler in compilers.items():
            program = compiler.compile(compiler.import_model(case.model), PROGRAMS[name].level())
            try:
                returned[Target(name)] = _runs(program, case.inputs)
            except Exception:
                found.add(name)
        found |= {t.compiler for t, ms in producer.judge(case, returned).mismatches.items() if ms}
    return found & PROGRAMS.keys()
