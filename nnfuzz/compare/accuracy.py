"""How far every party is from the float64 reference at the element that one of them gets wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nnfuzz.compare.envelope import Envelope
from nnfuzz.compare.mismatch import Mismatch
from nnfuzz.compare.verdict import number
from nnfuzz.ir.dtypes import plain


def accuracy(
    envelope: Mapping[str, Envelope],
    outputs_by_party: Mapping[str, Mapping[str, np.ndarray]],
    mismatches: Mapping[str, tuple[Mismatch, ...]],
) -> dict[str, dict[str, Any]]:
    """By party and wrong output {"reference": number, "rows": {party: [value, distance, ULP]}},
    all at the party's worst element; nothing for wrong dtypes and shapes.

    The reference is float64, or exact for integers. distance: |value - reference|. ULP: the same
    in units in the last place of the output's dtype at the reference; None for integers.
    """
    return {
        party: {
            m.output: _at(envelope[m.output], m.output, m.worst.index, outputs_by_party)
            for m in wrong
            if m.worst is not None
        }
        for party, wrong in mismatches.items()
        if any(m.worst for m in wrong)
    }


def _at(
    expected: Envelope,
    output: str,
    index: tuple[int, ...],
    outputs_by_party: Mapping[str, Mapping[str, np.ndarray]],
) -> dict[str, Any]:
    arrays = {party: outputs.get(output) for party, outputs in outputs_by_party.items()}
    rows = {
        party: _row(expected, index, plain(array)[index])
        for party, array in arrays.items()
        if array is not None and array.shape == expected.ref.shape
    }
    return {"reference": number(expected.ref[index]), "rows": rows}


def _row(expected: Envelope, index: tuple[int, ...], value: Any) -> list[Any]:
    if not expected.dtype.is_float:
        return [number(value), abs(int(value) - int(expected.ref[index])), None]
    with np.errstate(all="ignore"):
        distance = np.abs(np.float64(value) - np.float64(expected.ref[index]))
        distance = np.float64(0) if value == expected.ref[index] else distance
        ulp = distance / np.maximum(expected.ulp[index], 5e-324)
    return [number(value), number(distance), number(ulp)]
