"""The outcome of one test case on one target, and the jobs of a backend's worker.

nnfuzz.backend.service does the jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from nnfuzz.backend.complaint import Complaint, Stage
from nnfuzz.backend.target import Target
from nnfuzz.base.writing import UNWRITTEN
from nnfuzz.sandbox.job import Job

__all__ = ["MEMORY_LIMIT", "Outcome", "OutcomeKind", "Stage"]


class OutcomeKind(StrEnum):
    """How a stage ended. `unsupported`: the backend itself says that it does not implement this.

    A model that must be refused is `refused` by a clean error, or `accepted`; an `exception` is
    then an error from the inside of the compiler (nnfuzz.backend.complaint). What ran is `not
    compared` where no element of any output is comparable, or where onnx.reference contradicts that
    it is wrong: neither right nor wrong. A `slow` program takes many times the CPU of its
    rival; one with a `leak` uses more memory after each call.
    """

    OK = "ok"
    UNSUPPORTED = "unsupported"
    EXCEPTION = "exception"
    CRASH = "crash"
    TIMEOUT = "timeout"
    SLOW = "slow"
    LEAK = "leak"
    MISMATCH = "mismatch"
    REFUSED = "refused"
    ACCEPTED = "accepted"
    NOT_COMPARED = "not compared"


COSTS = (OutcomeKind.SLOW, OutcomeKind.LEAK)
"""Kinds that are found by many calls. The variations that ask for them have the same names."""

MEMORY_LIMIT = "memory limit"
"""The message of a death by the memory limit; `Outcome.over_memory_limit` marks it."""


LACKING = "this machine lacks what the library needs"
"""Before the message of an error about a locale, a file or the environment, which is no failure."""


BRIEF = 300
"""Characters of a message in the store."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The last stage reached by one test case on one target, with outputs or an error.

    `captured` is the tail of what the compiler wrote to stdout and stderr. `seconds` maps a stage
    to the wall time spent in it; `cpu` is the CPU time of all of them. `outputs` is set when kind
    is ok, unless the outcome `agrees`. A process that died names its signal in `signal`
    ("SIGSEGV"), or its exit code in `message` ("exited with code 3"). `over_memory_limit` marks a
    crash for want of memory; its message begins with MEMORY_LIMIT.
    `complaint` is the backend's reading of its compiler's words,
    where there was an error. `label` is that of the backend (nnfuzz.backend.registry.labelled)
    where it is not the compiler's name. `baseline`: of a level that shows nothing of the backend's
    own (Backend.baseline). `dies_at`: the operator of the graph at which the process dies, where
    its death says nothing and beginnings of the model were run. `given_away`: the steps that would
    make the level DEFAULT exact; empty for other levels. `rival`: the level, or the dtype of the
    same model, that takes less CPU than a slow program.
    """

    kind: OutcomeKind
    stage: Stage
    target: Target
    error_type: str = ""
    message: str = ""
    traceback: str = ""
    signal: str = ""
    captured: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    cpu: float = 0.0
    outputs: dict[str, np.ndarray] | None = field(default=None, metadata=UNWRITTEN)
    complaint: Complaint | None = None
    label: str = ""
    baseline: bool = False
    over_memory_limit: bool = False
    dies_at: str = ""
    given_away: tuple[str, ...] = ()
    rival: str = ""

    @property
    def backend(self) -> str:
        """The backend's label, unique among those of a campaign."""
        return self.label or self.target.compiler

    @property
    def level(self) -> str:
        return self.target.level

    def same_end(self, other: Outcome) -> bool:
        """Whether two runs on one target ended at one stage in one way."""
        ends = ((o.target, o.kind, o.stage) for o in (self, other))
        return len({*ends}) == 1

    @property
    def ok(self) -> bool:
        return self.kind is OutcomeKind.OK

    @property
    def agrees(self) -> bool:
        """Whether its worker has compared all outputs with the expected ones, found them close, and
        has not sent them (RunLevels.reference).
        """
        return self.ok and self.stage is Stage.EXECUTE and self.outputs is None


@dataclass(frozen=True)
class Brief:
    """The part of an outcome that a campaign's store keeps: its kind, and more if that is not `ok`.

    message: its first BRIEF characters; the finding's folder has all of it.
    """

    kind: str
    stage: str = ""
    signal: str = ""
    error_type: str = ""
    message: str = ""
    over_memory_limit: bool = False

    @classmethod
    def of(cls, outcome: Outcome) -> Brief:
        if outcome.ok:
            return cls(outcome.kind.value)
        return cls(
            outcome.kind.value,
            outcome.stage.value,
            outcome.signal,
            outcome.error_type,
            outcome.message[:BRIEF],
            outcome.over_memory_limit,
        )

    @classmethod
    def parse(cls, text: str) -> Brief:
        return cls(text)

    def to_json(self) -> str | dict[str, str | bool]:
        """The kind alone if there is no more, else the fields that are set."""
        written = {name: value for name, value in vars(self).items() if value}
        return written if len(written) > 1 else self.kind


@dataclass(frozen=True)
class Versions:
    """Versions of the compiler and its libraries, by name. release: that of the targets."""

    versions: dict[str, str]
    release: str


@dataclass(frozen=True)
class AskVersions(Job[Versions]):
    """Which compiler is installed where the worker runs."""


class Passes(StrEnum):
    """Which passes of a compiler: the method of nnfuzz.backend.contract.Backend that tells."""

    FIRED = "fired_passes"
    CHANGED = "changed_passes"
    KNOWN = "known_passes"


@dataclass(frozen=True)
class ListPasses(Job[list[str]]):
    """The names of passes. model: in the form that the backend reads (Backend.form)."""

    model: bytes
    level: str
    which: Passes


@dataclass(frozen=True)
class WriteCode(Job[str]):
    """A model as source of PyTorch, see nnfuzz.backend.modules.TorchSource.code."""

    model: bytes


@dataclass(frozen=True, eq=False)
class HeldOutputs:
    """The outputs of a level that agrees (Outcome.agrees)."""

    level: str
    outputs: Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class RunLevels(Job[tuple[HeldOutputs, ...]]):
    """Runs a model at some levels; an outcome of each, in this order, is sent ahead of the answer.

    The answer has the outputs of levels that agree where another level does not, since a verdict
    needs those of all levels; where all agree, no outputs are sent.

    model: in the form that the backend reads. inputs: by name, which is "NAME_atK" for further
    calls (nnfuzz.ir.sizes). without: passes to switch off, where the backend can. until: the last
    stage; a level that gets through it is ok, without outputs. lazy: whether levels after one that
    is ok are taken to be so too. invalid: whether the model must be refused: outcomes are then
    refused or accepted, and hold no outputs. expected: bytes by output; of one that takes many
    times as much, only dtype and shape are sent (nnfuzz.sandbox.wire.stand_in). None: everything
    is sent. reference: expected outputs, with which the worker compares those of each level
    (nnfuzz.backend.numeric). None: nobody compares there, and all outputs are sent. costs: which
    of SLOW and LEAK are looked for by further calls (nnfuzz.backend.costs).
    """

    model: bytes
    inputs: Mapping[str, np.ndarray]
    levels: tuple[str, ...]
    without: tuple[str, ...] = ()
    until: Stage = Stage.EXECUTE
    lazy: bool = False
    invalid: bool = False
    expected: Mapping[str, int] | None = None
    reference: Mapping[str, np.ndarray] | None = None
    costs: tuple[OutcomeKind, ...] = ()

    part = Outcome

    @property
    def parts(self) -> int:
        return len(self.levels)
