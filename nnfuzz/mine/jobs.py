"""The jobs of a miner's worker (nnfuzz.mine.service), which alone reads models and runs scripts."""

from __future__ import annotations

from dataclasses import dataclass

from nnfuzz.mine.cuts import Cut
from nnfuzz.operators.motif_file import MotifVariant
from nnfuzz.sandbox.job import Job

MOST_MODELS = 3_000
"""Models kept of one script."""


@dataclass(frozen=True)
class ModelCuts:
    """The cuts of a model. problem: why it has none, if it cannot be used."""

    cuts: tuple[Cut, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class CutModel(Job[ModelCuts]):
    """Reads a model and cuts its graph. most: nodes of a cut."""

    file: str
    most: int

    @property
    def about(self) -> str:
        return self.file


@dataclass(frozen=True)
class ScriptModels:
    """How many models a Python file has made. problem: the error that ended it, if one did."""

    count: int
    problem: str = ""


@dataclass(frozen=True)
class RunScript(Job[ScriptModels]):
    """Runs a Python file, its tests included, and writes the models that it makes to a folder.

    paths: folders from which it may import.
    """

    file: str
    out: str
    paths: tuple[str, ...] = ()

    @property
    def about(self) -> str:
        return self.file


@dataclass(frozen=True)
class CollectBackendTests(Job[int]):
    """Writes the models of the backend tests that the onnx package makes to a folder."""

    out: str


@dataclass(frozen=True)
class Generalise(Job[MotifVariant | None]):
    """Finds out which sizes and dtypes of a cut can be others (nnfuzz.mine.generalise)."""

    cut: Cut
    seed: int


@dataclass(frozen=True)
class ListStructures(Job[list[str]]):
    """The structures (nnfuzz.mine.cuts.Cut) of the motifs that there are.

    mined: whether the mined patterns that are installed count as well.
    """

    mined: bool
