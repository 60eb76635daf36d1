"""The jobs of a backend's worker (nnfuzz.backend.service)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from nnfuzz.backend.complaint import Stage
from nnfuzz.backend.outcome import Outcome
from nnfuzz.sandbox.job import Job


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

    model: in the form that the backend reads. inputs: at several sizes "NAME_atK" too
    (nnfuzz.ir.sizes). without: passes to switch off, where the backend can. until: the last stage;
    a level that gets through it is ok, without outputs. lazy: whether levels after one that is ok
    are taken to be so too. invalid: whether the model must be refused: outcomes are then refused or
    accepted, and hold no outputs. expected: bytes by output; of one that takes many times as much,
    only dtype and shape are sent (nnfuzz.sandbox.wire.stand_in). None: everything is sent.
    reference: expected outputs, with which the worker compares those of each level
    (nnfuzz.backend.agreement). None: nobody compares there, and all outputs are sent.
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

    part = Outcome

    @property
    def parts(self) -> int:
        return len(self.levels)
