"""Where onnx.reference contradicts nnfuzz's own reference, so that nobody is accused.

It does so at an element that the verdict calls wrong if its result leaves the envelope there too,
and the target's result agrees with it: bit for bit in a discrete dtype, for floats within an
interval as wide as the envelope's, around the result of onnx.reference. A fault that a compiler and
onnx.reference share without agreeing so closely is still the compiler's. Where all inputs are
finite, so is an envelope, and NaN or an infinity of onnx.reference says that it overflowed on its
way in the dtype of the graph: this contradicts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from nnfuzz.backend.agreement import close
from nnfuzz.backend.target import Target
from nnfuzz.compare.envelope import Envelope
from nnfuzz.compare.mismatch import Contradiction, Mismatch, Verdict
from nnfuzz.compare.verdict import as_json_number, mismatch, outside
from nnfuzz.ir.dtypes import plain

Arrays = Mapping[str, np.ndarray]


def without_contradicted(
    verdict: Verdict,
    envelopes: Mapping[str, Envelope],
    outputs: Mapping[Target, Arrays],
    arbiter: Target,
    reference: Arrays,
    finite: bool = True,
) -> Verdict:
    """The verdict without the wrong elements at which onnx.reference contradicts it, which are its
    `contradictions`.

    outputs: of the targets. arbiter: that of onnx.reference, which is not judged itself.
    reference: its outputs, as far as they are to be trusted. finite: whether all inputs are.
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
    """The part of a mismatch that onnx.reference does not contradict, and the part that it does."""
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
    """Mask of elements of one dtype and shape that agree as far as the envelope is wide."""
    if not expected.dtype.is_float:
        return actual == theirs
    least, most = expected.admitted
    one, other = (plain(x).astype(np.float64) for x in (actual, theirs))
    with np.errstate(invalid="ignore", over="ignore"):
        distance = one - other
        near = (distance >= least - expected.ref) & (distance <= most - expected.ref)
    return near | (one == other) | (np.isnan(one) & np.isnan(other))
