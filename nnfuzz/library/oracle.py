"""The oracle for people who run a compiler themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.compare.mismatch import Verdict
from nnfuzz.execute.target import Target
from nnfuzz.library.case import operator_registry
from nnfuzz.testcase.case import TestCase

if TYPE_CHECKING:
    from nnfuzz.compare.envelope import Enclosure, Envelope
    from nnfuzz.spec.registry import OpRegistry

YOURS = "yours"


class Oracle:
    """Says which results a correct compiler may return, without a tolerance.

        verdict = nnfuzz.Oracle()(case, {"v3": array})
        assert verdict.ok, verdict

    It computes in float64 with an interval around every value, in the calling process, by PyTorch.
    """

    def __init__(self, plugins: Iterable[str | Path] = ()) -> None:
        """plugins: files or modules with further operators that test cases consist of."""
        self._plugins = tuple(plugins)

    def __call__(
        self, case: TestCase, outputs: Mapping[str, np.ndarray], target: str | Target = YOURS
    ) -> Verdict:
        """Holds the outputs of a compiler, by name, against the envelope.

        The verdict's `mismatches` are under `target`; str(verdict) says what is wrong, or that
        nothing is, how much was compared, and how wide the intervals are (`widths`).
        Raises: ReferenceFault if the reference cannot be computed, which is nnfuzz's fault.
        """
        from nnfuzz.compare.verdict import judged, with_widths

        who = Target.parse(target) if isinstance(target, str) else target
        bounds = self._enclosure(case)
        return with_widths(judged(bounds, {who: outputs}), bounds)

    def envelope(self, case: TestCase) -> dict[str, Envelope]:
        """By output: arrays `ref`, `lo` and `hi`, and `any`: a mask of what cannot be compared.

        A float may lie one unit in the last place outside of [lo, hi]: `admitted` has these bounds.
        NaN or an infinity as both bounds asks for that.
        Raises: ReferenceFault.
        """
        return self._enclosure(case).envelopes

    def _enclosure(self, case: TestCase) -> Enclosure:
        from nnfuzz.compare.edges import enclosure
        from nnfuzz.ir.graph import Graph

        graph = Graph.of(case.graph, self._registry.get)
        return enclosure(graph, {**case.inputs, **case.weights}, case.expected)

    @cached_property
    def _registry(self) -> OpRegistry:
        return operator_registry(self._plugins)
