"""What the parent decides about a test case: by outcomes, cheap check and the judge's verdict.

Pure functions over values; the envelope itself is built in a producer's worker.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np

from nnfuzz.compare.cheap import close
from nnfuzz.execute.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.testcase.case import TestCase
from nnfuzz.triage.mismatch import wrong_outputs

BRIEF = 300  # characters of a message in the store; the finding's folder has all of it


def doubtful(case: TestCase, outcomes: Iterable[Outcome]) -> list[str]:
    """The outputs that some ok outcome lacks or has farther than a few ULP from PyTorch's."""
    ran = [o.outputs for o in outcomes if o.outputs is not None]
    return [
        name
        for name, array in case.expected.items()
        if not all(name in found and close(array, found[name]) for found in ran)
    ]


def judge_job(
    case: TestCase, outcomes: Sequence[Outcome], names: Sequence[str] = ()
) -> tuple[dict[str, Any], dict[str, np.ndarray | bytes]]:
    """Header and blobs of the producer service's "judge" job for the outcomes that are ok.

    names: the outputs to look at; default: all.
    """
    ran = [o for o in outcomes if o.outputs is not None]
    header, blobs = case.to_frame()
    for number, outcome in enumerate(ran):
        wanted = {n: a for n, a in outcome.outputs.items() if not names or n in names}
        blobs.update({f"party/{number}/{name}": a for name, a in wanted.items()})
    parties = [[o.backend, o.level] for o in ran]
    return {"do": "judge", "case": header, "parties": parties, "outputs": list(names)}, blobs


def with_mismatches(outcomes: Iterable[Outcome], verdict: Mapping[str, Any]) -> list[Outcome]:
    """The outcomes, with `mismatch` in place of ok where the verdict says so; outputs are kept.

    A verdict that suspects the reference accuses no compiler.
    """
    if suspects_reference(verdict):
        return list(outcomes)
    wrong = {(m.backend, m.level) for m in wrong_outputs(verdict)}
    return [
        replace(o, kind=OutcomeKind.MISMATCH, stage=Stage.COMPARE)
        if o.ok and (o.backend, o.level) in wrong
        else o
        for o in outcomes
    ]


def suspects_reference(verdict: Mapping[str, Any] | None) -> bool:
    """Whether PyTorch and every backend differ from the reference, which then is wrong itself."""
    return bool(verdict and verdict.get("suspect_reference"))


def accused_party(verdict: Mapping[str, Any] | None, backend: str) -> str:
    """Whom the verdict accuses of a backend's mismatch; "" without a verdict."""
    return (verdict or {}).get("attribution", {}).get(backend, {}).get("party", "")


def comparable_share(verdict: Mapping[str, Any], outputs: Collection[str]) -> float | None:
    """Mean share of comparable elements over the outputs; None unless the verdict has them all.

    Where only the doubtful ones were looked at, it would be too low.
    """
    shares = verdict.get("comparable") or {}
    whole = bool(shares) and all(name in shares for name in outputs)
    return fmean(shares.values()) if whole else None


def same_outputs(one: Outcome, other: Outcome) -> bool:
    """Whether two outcomes gave the same outputs, bit for bit."""
    if one.outputs is None or other.outputs is None or one.outputs.keys() != other.outputs.keys():
        return False
    return all(_digest(one.outputs[k]) == _digest(other.outputs[k]) for k in one.outputs)


def brief(outcome: Outcome) -> str | dict[str, str]:
    """What the store keeps of an outcome: its kind, and more where it is not ok."""
    if outcome.ok:
        return outcome.kind.value
    fields = {
        "kind": outcome.kind.value,
        "stage": outcome.stage.value,
        "signal": outcome.signal,
        "error_type": outcome.error_type,
        "message": outcome.message[:BRIEF],
    }
    return {name: value for name, value in fields.items() if value}


def briefs(outcomes: Iterable[Outcome]) -> dict[str, dict[str, Any]]:
    """backend -> level -> brief."""
    table: dict[str, dict[str, Any]] = {}
    for outcome in outcomes:
        table.setdefault(outcome.backend, {})[outcome.level] = brief(outcome)
    return table


def _digest(array: np.ndarray) -> tuple[Any, ...]:
    return array.dtype, array.shape, zlib.crc32(np.ascontiguousarray(array).tobytes())
