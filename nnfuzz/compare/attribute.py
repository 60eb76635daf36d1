"""Which party is wrong, by comparing how the levels and the backends voted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from nnfuzz.compare.cheap import close


class Party(StrEnum):
    """Whom the evidence accuses."""

    NONE = "none"
    OPTIMISER = "optimiser"
    EXPORTER = "exporter"
    IMPORTER_OR_KERNEL = "importer or kernel"
    REFERENCE = "reference"


@dataclass(frozen=True, eq=False)
class Run:
    """One backend at one level: whether its outputs lie in the envelope, and the outputs."""

    backend: str
    level: str
    agrees: bool
    outputs: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Attribution:
    """The accused, and the sentence that says why.

    backend: "" where no single one is accused. level: the first one that is wrong.
    """

    party: Party
    backend: str = ""
    level: str = ""
    evidence: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def attribute(
    runs: Sequence[Run],
    backend: str,
    *,
    torch_agrees: bool | None = None,
    direct: Sequence[Run] | None = None,
) -> Attribution:
    """Say which party is wrong in what `backend` returned.

    runs: of one model, over all backends, the levels of each from the least to the most optimised.
    torch_agrees: whether PyTorch's own result lies in the envelope, None if it has not been run.
    direct: the same backend on the direct lowering of the same graph, where the model came from
    another exporter.
    """
    mine = [run for run in runs if run.backend == backend]
    wrong = [run for run in mine if not run.agrees]
    if not wrong:
        return Attribution(Party.NONE, evidence=f"every level of {backend} agrees")
    level = wrong[0].level
    votes = _votes(runs, backend)
    if _all_wrong(runs, votes) and torch_agrees is not True:
        evidence = f"{backend} and {_names(votes)} all leave the envelope"
        return Attribution(Party.REFERENCE, evidence=evidence)
    if mine[0].agrees:
        evidence = f"{backend} agrees at {mine[0].level} and not at {level}"
        return Attribution(Party.OPTIMISER, backend, level, evidence + _told(votes))
    if direct and all(run.agrees for run in direct):
        evidence = f"{backend} agrees on the direct lowering of the same graph"
        return Attribution(Party.EXPORTER, "", level, evidence)
    if votes and not any(votes.values()):
        evidence = f"{_names(votes)} are off as well, PyTorch agrees"
        return Attribution(Party.EXPORTER, "", level, evidence)
    alike = len(wrong) == len(mine) and all(same(wrong[0].outputs, r.outputs) for r in wrong[1:])
    how = "in the same way" if alike else "in different ways"
    evidence = f"{len(wrong)} of {len(mine)} levels of {backend} are wrong {how}"
    return Attribution(Party.IMPORTER_OR_KERNEL, backend, level, evidence + _told(votes))


def same(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> bool:
    """Whether two runs returned the same, to a few units in the last place."""
    return a.keys() == b.keys() and all(close(a[name], b[name], 16) for name in a)


def _votes(runs: Sequence[Run], backend: str) -> dict[str, bool]:
    """Per other backend, whether its least optimised level agrees."""
    votes: dict[str, bool] = {}
    for run in runs:
        if run.backend != backend:
            votes.setdefault(run.backend, run.agrees)
    return votes


def _all_wrong(runs: Sequence[Run], votes: Mapping[str, bool]) -> bool:
    return bool(votes) and not any(run.agrees for run in runs)


def _names(votes: Mapping[str, bool]) -> str:
    return " and ".join(votes)


def _told(votes: Mapping[str, bool]) -> str:
    return "".join(f"; {name} {'agrees' if ok else 'is off'}" for name, ok in votes.items())
