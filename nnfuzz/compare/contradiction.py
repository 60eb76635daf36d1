"""Groups results that agree, and finds wrong outputs on which onnx.reference agrees with the
target: nnfuzz's own reference may be wrong there, so no compiler is accused."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from nnfuzz.backend.numeric import close
from nnfuzz.backend.target import Target
from nnfuzz.compare.envelope import Envelope
from nnfuzz.compare.mismatch import Contradiction, Mismatch, Verdict
from nnfuzz.compare.verdict import as_json_number, mismatch, outside
from nnfuzz.ir.dtypes import DType, plain

if TYPE_CHECKING:
    from nnfuzz.compare.envelope import Envelope

Key = TypeVar("Key", bound=Hashable)


def groups_that_agree(
    arrays: Mapping[Key, np.ndarray], envelope: Envelope | None = None
) -> list[list[Key]]:
    """Groups of keys whose arrays agree, the largest group first.

    Two comparable elements agree if they differ by at most the width of the envelope. Incomparable
    elements, and all elements if there is no envelope, agree if discrete ones and texts are equal
    and floats differ by at most sqrt(unit roundoff) times the largest element. NaN agrees with NaN.
    """
    loose = _half_the_digits(arrays)
    slack: np.ndarray | float = loose
    if envelope is not None:
        with np.errstate(invalid="ignore", over="ignore"):
            least, most = (end.astype(np.float64) for end in envelope.admitted)
            width = np.nan_to_num(most - least, nan=0.0, posinf=np.inf)
        slack = np.where(envelope.any, loose, width)
    groups: list[list[Key]] = []
    for key, array in arrays.items():
        own = slack if np.shape(slack) == array.shape else loose  # some have another shape
        mine = next((g for g in groups if _agree(arrays[g[0]], array, own)), None)
        if mine is None:
            groups.append([key])
        else:
            mine.append(key)
    return sorted(groups, key=len, reverse=True)


def _half_the_digits(arrays: Mapping[Key, np.ndarray]) -> float:
    numbers = [array for array in arrays.values() if array.dtype.kind != "U"]
    wide = map(_wide, numbers)
    largest = max((np.abs(a[np.isfinite(a)]).max(initial=0.0) for a in wide), default=0.0)
    dtypes = (DType.of(array.dtype) for array in numbers)
    roundoff = max((dtype.unit_roundoff for dtype in dtypes if dtype.is_float), default=0.0)
    return float(np.sqrt(roundoff) * largest)


def _agree(one: np.ndarray, other: np.ndarray, slack: np.ndarray | float) -> bool:
    if "U" in (one.dtype.kind, other.dtype.kind):
        return one.dtype.kind == other.dtype.kind and np.array_equal(one, other)
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    a, b = _wide(one), _wide(other)
    with np.errstate(invalid="ignore", over="ignore"):
        near = (np.abs(a - b) <= slack) | np.isinf(slack)
    return bool((near | (plain(one) == plain(other)) | (np.isnan(a) & np.isnan(b))).all())


def _wide(array: np.ndarray) -> np.ndarray:
    return plain(array).astype(np.float64)


Arrays = Mapping[str, np.ndarray]


def without_contradicted(
    verdict: Verdict,
    envelopes: Mapping[str, Envelope],
    outputs: Mapping[Target, Arrays],
    arbiter: Target,
    reference: Arrays,
    finite: bool = True,
) -> Verdict:
    """The verdict, with wrong elements moved to `contradictions` where onnx.reference agrees with
    the target.

    outputs: by target, the arbiter included. arbiter: the target that is onnx.reference; it is not
    judged. reference: the trusted outputs of onnx.reference. finite: whether all inputs are finite.
    """
    mismatches = {**verdict.mismatches, arbiter: ()}
    contradictions: dict[Target, tuple[Contradiction, ...]] = {}
    for target in (target for target in outputs if target != arbiter):
        parts = [
            _split(wrong, envelopes[wrong.output], outputs[target], reference, finite)
            for wrong in verdict.mismatches.get(target, ())
        ]
        mismatches[target] = tuple(wrong for wrong, _ in parts if wrong)
        if differing := tuple(contradiction for _, contradiction in parts if contradiction):
            contradictions[target] = differing
    return replace(verdict, mismatches=mismatches, contradictions=contradictions)


def _split(
    wrong: Mismatch, expected: Envelope, outputs: Arrays, reference: Arrays, finite: bool
) -> tuple[Mismatch | None, Contradiction | None]:
    """The remaining part of a mismatch, and the part on which onnx.reference and target agree."""
    actual, theirs = outputs.get(wrong.output), reference.get(wrong.output)
    if actual is None or theirs is None:
        return wrong, None
    if (theirs.dtype, theirs.shape) != (actual.dtype, actual.shape):
        return wrong, None
    if wrong.worst is None:  # another dtype or shape
        types = f"{expected.dtype}{list(expected.ref.shape)}", f"{theirs.dtype}{list(theirs.shape)}"
        whole = Contradiction(wrong.output, *types)
        return (None, whole) if close(theirs, actual) else (wrong, None)
    both = outside(expected, actual) & outside(expected, theirs) & _near(expected, actual, theirs)
    if finite and expected.dtype.is_float:
        both &= np.isfinite(plain(theirs))
    if not both.any():
        return wrong, None
    rest = mismatch(wrong.output, replace(expected, any=expected.any | both), actual)
    index = tuple(int(i) for i in np.argwhere(both)[0])
    ours, other = (str(as_json_number(plain(x)[index])) for x in (expected.ref, theirs))
    return rest, Contradiction(wrong.output, ours, other, index, int(np.count_nonzero(both)))


def _near(expected: Envelope, actual: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Mask of the elements of two arrays that differ by at most the width of the envelope."""
    if not expected.dtype.is_float:
        return actual == theirs
    least, most = expected.admitted
    one, other = (plain(x).astype(np.float64) for x in (actual, theirs))
    with np.errstate(invalid="ignore", over="ignore"):
        distance = one - other
        near = (distance >= least - expected.ref) & (distance <= most - expected.ref)
    return near | (one == other) | (np.isnan(one) & np.isnan(other))
