"""Compilers whose programs cost too much: ten that are slow, ten that leak, and twelve that may.

nnfuzz fuzz --plugin tests/planted/costly.py -b costly,program=sums_one_by_one --set slow=1
nnfuzz fuzz --plugin tests/planted/costly.py -b costly,program=results_kept --set leak=1
"""

import ctypes
import mmap
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from nnfuzz.backend.contract import BackendOptions, option
from nnfuzz.backend.registry import backend

sys.path.append(str(Path(__file__).parents[2]))

from tests.planted.stateful import PROGRAMS, SUMS, Stateful, Stateless

MOVES, PAIRS = ("Transpose", "Concat", "Reshape", "Slice"), ("Max", "Min", "Less", "Where", "Clip")
ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "Erf", "Elu", "Gelu")
_MALLOC = ctypes.CDLL(None).malloc
_MALLOC.restype, _MALLOC.argtypes = ctypes.c_void_p, [ctypes.c_size_t]


def burn(steps):
    """Some 30 ns of CPU a step."""
    return sum(range(min(int(steps), 2_000_000)))


def in_threads(p):
    threads = [threading.Thread(target=burn, args=(300_000,)) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]


def cycle(p):
    p.last = [p.last, np.ones(8)]
    p.last.append(p.last)


# Steps of CPU for each element that a node computes.
SLOW_NODES = {
    "sums_one_by_one": lambda p, node, xs, y: 90_000 * (node.op in SUMS),
    "copied_often": lambda p, node, xs, y: 3000 * (node.op in MOVES),
    "activations_interpreted": lambda p, node, xs, y: 3000 * (node.op in ACTIVATIONS),
    "half_emulated": lambda p, node, xs, y: 1000 * (y.dtype is torch.float16),
    "double_in_software": lambda p, node, xs, y: 1000 * (y.dtype is torch.float64),
    "pairs_compared": lambda p, node, xs, y: 3 * y.numel() * (node.op in PAIRS),
    "scalars_broadcast": lambda p, node, xs, y: 3000 * any(x.numel() < y.numel() for x in xs),
    "signs_one_by_one": lambda p, node, xs, y: 3000 * (node.op in ("Neg", "Abs")),
}
# What a call does besides.
SLOW_CALLS = {"compiled_each_time": lambda p: burn(2_000_000), "waits_busily": in_threads}
LEAKS = {
    "results_kept": lambda p: p.rows.append([x.copy() for x in p.outputs.values()]),
    "inputs_kept": lambda p: p.rows.extend(x.copy() for x in p.feeds.values()),
    "calls_logged": lambda p: p.rows.append(f"call {p.calls} of a program"),
    "plan_of_each_call": lambda p: p.kept.update({p.calls: dict.fromkeys(p.feeds)}),
    "not_freed": lambda p: ctypes.memset(_MALLOC(256), 1, 256),
    "pages_mapped": lambda p: p.rows.append((m := mmap.mmap(-1, 4096), m.write(b"1"))),
    "workspace_kept": lambda p: p.rows.append(np.ones(64)),
    "text_grows": lambda p: setattr(p, "last", (p.last or b"") + b"-" * 512),
    "cycles_held": cycle,
    "locks_made": lambda p: p.rows.append(threading.Condition()),
}
LEGAL_NODES = {"half_ten_times": lambda p, node, xs, y: 0.1 * (y.dtype is torch.float16)}
LEGAL_CALLS = {
    "first_call_compiles": lambda p: burn(0 if p.calls > 1 else 1_000_000),
    "third_call_compiles_again": lambda p: burn(1_000_000 if p.calls == 3 else 0),
    "every_tenth_call_collects": lambda p: burn(0 if p.calls % 10 else 500_000),
    "ten_times_as_slow": lambda p: [Stateless.__call__(p, p.feeds) for _ in range(9)],
    "interpreted_unless_optimised": lambda p: burn(1_000_000 if p.level == "O0" else 0),
    "cache_fills": lambda p: p.kept.setdefault(p.calls % 150, np.ones(64)),
    "arena_doubles": lambda p: p.rows.append(np.ones(1 << 17)) if p.calls in (2, 64) else None,
    "log_turns": lambda p: setattr(p, "rows", [*p.rows[-99:], f"call {p.calls}"]),
    "workspace_freed": lambda p: setattr(p, "last", np.ones(100_000 + 1000 * (p.calls % 7))),
    "results_by_value": lambda p: p.kept.setdefault(tuple(map(bytes, p.feeds.values())), p.outputs),
    "cycles_collected": lambda p: cycle(p) or setattr(p, "last", None),
}
NODES, CALLS = SLOW_NODES | LEGAL_NODES, SLOW_CALLS | LEAKS | LEGAL_CALLS
AT_O0 = ("half_emulated", "double_in_software", "half_ten_times", "interpreted_unless_optimised")
"""Programs that O0 has, too."""


class Costly(Stateless, legal=True):
    """A program of the tables."""

    def __init__(self, program, name, level):
        super().__init__(program)
        self.slow, self.behind = NODES.get(name), CALLS.get(name)
        self.level, self.rows, self.last = level, [], None

    def node(self, node, xs):
        results = node(*xs)
        given = [x for x in xs if x is not None]
        burn(results[0].numel() * self.slow(self, node, given, results[0]) if self.slow else 0)
        return results

    def __call__(self, feeds):
        self.feeds, self.outputs = feeds, super().__call__(feeds)
        if self.behind:
            self.behind(self)
        return self.outputs


del PROGRAMS["costly"]  # it is none of those that keep something


@backend
class CostlyBackend(Stateful):
    """O0 is plain but for AT_O0, O1 is the program of the option."""

    name = "costly"

    @dataclass(frozen=True, kw_only=True)
    class Options(BackendOptions):
        program: str = option("", "name of a program in tests/planted/costly.py")

    def versions(self):
        return {"costly": "1"}

    def build(self, module, level):
        name = self.options.program
        own = level == "O1" or name in AT_O0
        return Costly(module, name if own else "", level)
