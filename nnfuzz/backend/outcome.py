"""The outcome of one test case on one target."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from nnfuzz.backend.complaint import Complaint, Stage
from nnfuzz.backend.target import Target
from nnfuzz.base.writing import UNWRITTEN

__all__ = ["MEMORY_LIMIT", "Outcome", "OutcomeKind", "Stage"]


class OutcomeKind(StrEnum):
    """How a stage ended. `unsupported`: the backend itself says that it does not implement this.

    A model that must be refused is `refused` by a clean error, or `accepted`; an `exception` is
    then an error from the inside of the compiler (nnfuzz.backend.complaint). What ran is `not
    compared` where no element of any output is comparable, or where onnx.reference contradicts that
    it is wrong: neither right nor wrong.
    """

    OK = "ok"
    UNSUPPORTED = "unsupported"
    EXCEPTION = "exception"
    CRASH = "crash"
    TIMEOUT = "timeout"
    MISMATCH = "mismatch"
    REFUSED = "refused"
    ACCEPTED = "accepted"
    NOT_COMPARED = "not compared"


MEMORY_LIMIT = "memory limit"
"""The message of a death by the memory limit; `Outcome.over_memory_limit` marks it."""


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
    its death says nothing and beginnings of the model were run.
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

    @property
    def backend(self) -> str:
        """The backend's label, unique among those of a campaign."""
        return self.label or self.target.compiler

    @property
    def level(self) -> str:
        return self.target.level

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
