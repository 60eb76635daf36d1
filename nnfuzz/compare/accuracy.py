"""Distances of every target's values from the float64 reference, at elements that are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nnfuzz.backend.target import Target
from nnfuzz.compare.envelope import Envelope
from nnfuzz.compare.mismatch import Accuracy, Distance, Mismatch
from nnfuzz.compare.verdict import as_json_number
from nnfuzz.ir.dtypes import plain


def accuracy(
    envelope: Mapping[str, Envelope],
    everything: Mapping[Target, Mapping[str, np.ndarray]],
    mismatches: Mapping[Target, tuple[Mismatch, ...]],
) -> dict[Target, dict[str, Accuracy]]:
    """By target and wrong output: all targets' distances at the element where this target is worst.

    everything: all targets' outputs. Outputs with a wrong dtype or shape are left out.
    """
    return {
        target: {
            m.output: _at(envelope[m.output], m.output, m.worst.index, everything)
            for m in wrong
            if m.worst is not None
        }
        for target, wrong in mismatches.items()
        if any(m.worst for m in wrong)
    }


def _at(
    expected: Envelope,
    output: str,
    index: tuple[int, ...],
    everything: Mapping[Target, Mapping[str, np.ndarray]],
) -> Accuracy:
    arrays = {target: outputs.get(output) for target, outputs in everything.items()}
    rows = {
        target: _row(expected, index, plain(array)[index])
        for target, array in arrays.items()
        if array is not None and array.shape == expected.ref.shape
    }
    return Accuracy(as_json_number(expected.ref[index]), rows)


def _row(expected: Envelope, index: tuple[int, ...], value: Any) -> Distance:
    if not expected.dtype.is_float:
        return Distance(as_json_number(value), abs(int(value) - int(expected.ref[index])), None)
    with np.errstate(all="ignore"):
        distance = np.abs(np.float64(value) - np.float64(expected.ref[index]))
        distance = np.float64(0) if value == expected.ref[index] else distance
        ulp = distance / np.maximum(expected.ulp[index], 5e-324)
    return Distance(as_json_number(value), as_json_number(distance), as_json_number(ulp))
