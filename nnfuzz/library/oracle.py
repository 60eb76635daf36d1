"""The oracle for people who run a compiler themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.backend.target import Target
from nnfuzz.base.threads import one_thread
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.library.case import check_case, checked_arrays, operator_registry
from nnfuzz.testcase.case import TestCase

if TYPE_CHECKING:
    from nnfuzz.compare.envelope import Enclosure, Envelope
    from nnfuzz.operators.registry import OpRegistry

YOURS = "yours"


class Oracle:
    """Says which results a correct compiler may return, without a tolerance.

        verdict = nnfuzz.Oracle()(case, {"v3": array})
        assert verdict.ok, verdict

    It computes in float64 with an interval around every value, in the calling process, by PyTorch
    with one thread.
    """

    def __init__(
        self,
        plugins: Iterable[str | Path] = (),
    ) -> None:
        """plugins: files or modules with further operators that test cases consist of."""
        self._plugins = tuple(plugins)

    def __call__(
        self, case: TestCase, outputs: Mapping[str, np.ndarray], target: str | Target = YOURS
    ) -> Verdict:
        """Compares the outputs of a compiler, by name, with the envelope.

        The verdict's `mismatches` are under `target`; str(verdict) lists the mismatches, or states
        that there are none, how much was compared, and how wide the intervals are (`widths`). An
        output that is not given is a mismatch. Raises: TypeError if it is no test case or no
        mapping to arrays; ValueError for an output that the case does not have; ReferenceFault if
        the reference cannot be computed, which is nnfuzz's fault.
        """
        from nnfuzz.compare.verdict import judged, with_widths

        check_case(case)
        parsed = Target.parse(target) if isinstance(target, str) else target
        arrays = _outputs(case, outputs)
        with one_thread():
            bounds = self._enclosure(case)
            return with_widths(judged(bounds, {parsed: arrays}), bounds)

    def envelope(self, case: TestCase) -> dict[str, Envelope]:
        """By output: arrays `ref`, `lo` and `hi`, and `any`: a mask of incomparable elements.

        A float may lie one unit in the last place outside of [lo, hi]: `admitted` has these bounds.
        NaN or an infinity as both bounds asks for that.
        Raises: ReferenceFault, TypeError if it is no test case.
        """
        check_case(case)
        with one_thread():
            return self._enclosure(case).envelopes

    def _enclosure(self, case: TestCase) -> Enclosure:
        from nnfuzz.compare.edges import enclosure
        from nnfuzz.ir.graph import Graph

        graph, params = Graph.of(case.graph, self._registry.get), {**case.inputs, **case.weights}
        return enclosure(graph, params, case.expected)

    @cached_property
    def _registry(self) -> OpRegistry:
        return operator_registry(self._plugins)


def _outputs(case: TestCase, given: object) -> dict[str, np.ndarray]:
    """The arrays by name. Raises: TypeError, ValueError."""
    outputs = checked_arrays(given, "outputs")
    if surplus := sorted(set(outputs) - set(case.expected)):
        names = ", ".join(case.expected)
        raise ValueError(f"{surplus[0]!r} is no output of the test case; these are: {names}")
    return outputs
