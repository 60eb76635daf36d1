"""Finds inputs and weights under which every intermediate value is finite and well defined.

Random draws come first: a forward pass of ten operators costs a fraction of a millisecond, and
range hints (nnfuzz.inputs.range_hints) make most draws succeed. If another graph is cheaper than a
descent, there are only draws (`DRAWS_ONLY`). Otherwise gradient descent moves the parameters of the
topologically first violated node until it is valid, then those of the next one. When steps run out,
everything is drawn again.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from nnfuzz.inputs.descent import Descent, as_array
from nnfuzz.inputs.draws import draw_array
from nnfuzz.inputs.program import (
    InvalidCause,
    Program,
    Values,
    Violation,
    admitted_ranges,
    decisive,
    index_ranges,
    least_stable,
    stable_share,
)
from nnfuzz.inputs.range_hints import range_hints
from nnfuzz.ir.graph import Graph
from nnfuzz.operators.carriers import tensor
from nnfuzz.operators.operator import ANY_RANGE, Range

NUDGE = 0.02
"""Learning rate of the steps away from discontinuities."""
BACK = 0.7
"""Factor of the learning rate after a step that violated an earlier node again."""


@dataclass(frozen=True)
class SearchConfig:
    """Budgets of one search; counted in attempts so that the result does not depend on the clock.

    restarts: number of complete redraws.
    draws: draws in the first attempt before descending.
    steps: gradient steps per restart, fewer in graphs below 25 nodes; 0: no descent.
    patience: steps for one node without progress after which the restart is given up.
    rate: learning rate of Adam, relative to a parameter's magnitude.
    redraws, nudges: further draws and steps on valid values, until a share `steady` is stable.
    moderate: avoid regimes and huge integers, under which much of a model may be constant.
    seconds: CPU time, a last resort against pathological graphs, checked between steps.
    """

    restarts: int = 8
    draws: int = 2
    steps: int = 60
    patience: int = 6
    rate: float = 0.3
    redraws: int = 2
    nudges: int = 2
    steady: float = 0.99
    moderate: bool = False
    seconds: float = 20.0


DRAWS_ONLY = SearchConfig(restarts=2, steps=0, redraws=1, nudges=0)
"""Three draws suffice for nine of ten graphs; another graph costs less than a descent."""
FURTHER = SearchConfig(restarts=2, draws=1, steps=0, redraws=0, nudges=0)
"""For the inputs of a further call: a draw or two, since the weights are known to be good."""


@dataclass(frozen=True)
class Found:
    """Valid parameters by name, in the graph's dtypes, and PyTorch's outputs for them.

    draws, steps: number of complete draws and gradient steps. seconds: wall time. stable: share of
    stable elements (nnfuzz.inputs.program). values: all values of the graph as tensors.
    """

    inputs: dict[str, np.ndarray]
    weights: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    draws: int
    steps: int
    seconds: float
    stable: float = 1.0
    values: Values = field(default_factory=dict)


@dataclass(frozen=True)
class NotFound:
    """No valid parameters were found within the budget.

    reason: text for people. violations: by node position, how often it was the first violated one.
    """

    reason: str
    violations: dict[int, int] = field(default_factory=dict)
    draws: int = 0
    steps: int = 0
    seconds: float = 0.0


def search(
    graph: Graph,
    rng: random.Random,
    settings: SearchConfig | None = None,
    given: Mapping[str, np.ndarray] = MappingProxyType({}),
    known: Mapping[str, Tensor] = MappingProxyType({}),
) -> Found | NotFound:
    """Valid parameters for a concrete graph; a function of the arguments and the state of `rng`.

    given: parameters by name that do not change. known: values of a similar graph; they are reused,
    and missing ones are added, if the result is valid.
    """
    settings = settings or SearchConfig()
    derives = settings.steps or settings.nudges
    with nullcontext() if derives else torch.inference_mode():  # a third less time per operator
        search_ = _Search(graph, rng, settings, given)
        return (search_.kept(known) if known else None) or search_.find()


class _Search:
    def __init__(
        self,
        graph: Graph,
        rng: random.Random,
        settings: SearchConfig,
        given: Mapping[str, np.ndarray],
    ) -> None:
        self.graph = graph
        self.settings = settings
        self.given = given
        self.rng = np.random.default_rng(rng.getrandbits(64))
        self.program = Program(graph)
        indices = index_ranges(graph)
        self.bounds = indices | graph.prescribed
        self.outside = [
            name
            for name, (lo, hi) in graph.prescribed.items()
            if name in indices and not indices[name][0] <= lo <= hi <= indices[name][1]
        ]
        """Index weights whose prescribed range is invalid, as mutated motifs may have."""
        self.decisive = decisive(self.program)
        self.violations: Counter[int] = Counter()
        self.draws = self.steps = 0
        self.start = time.perf_counter()
        self.cpu: float | None = None

    @cached_property
    def limits(self) -> dict[str, Range]:
        """Ranges of parameters during the descent."""
        return admitted_ranges(self.graph)

    def kept(self, known: Mapping[str, Tensor]) -> Found | None:
        """The known values completed by new ones; None if the result is not valid."""
        if self.outside:
            return None
        values = {name: value for name, value in known.items() if name in self.graph.values}
        missing = [name for name in self.program.parameters if name not in values]
        if missing:
            wanted = range_hints(self.graph, self.rng, False, self.bounds)
            for name in missing:
                array = draw_array(self.rng, self.graph.type(name), wanted.get(name), 1)
                values[name] = tensor(array)
        if self.program.complete(values) is not None:
            return None
        self.draws = 1
        return self._found(values, self._share(values))

    def find(self) -> Found | NotFound:
        if self.outside:
            return NotFound(f"prescribed indices are out of range: {', '.join(self.outside)}")
        for restart in range(self.settings.restarts):
            wanted = range_hints(self.graph, self.rng, restart > 0, self.bounds)
            for attempt in range(self.settings.draws if restart == 0 else 1):
                values, violation = self._draw(wanted, restart + attempt)
                if violation is None:
                    return self._stabilised(values, wanted)
            if violation is not None and self.settings.steps and self._descend(values, violation):
                return self._stabilised(values, wanted)
            if self._late():
                break
        return self._not_found()

    def _late(self) -> bool:
        """Whether the CPU time is used up. That clock needs a system call, so it is read only after
        as much wall time has passed."""
        if time.perf_counter() - self.start <= self.settings.seconds:
            return False
        if self.cpu is None:
            self.cpu = time.process_time()
        return time.process_time() - self.cpu > self.settings.seconds

    def _draw(self, wanted: dict[str, Range], restart: int) -> tuple[Values, Violation | None]:
        """New values of all parameters. In the first attempt, those of violated nodes become
        moderate."""
        self.draws += 1
        calm = max(restart, int(self.settings.moderate))
        values: Values = {}
        for name in self.program.parameters:
            array = self.given.get(name)
            if array is None:
                array = draw_array(self.rng, self.graph.type(name), wanted.get(name), calm)
            values[name] = tensor(array)
        violation = self._run(values)
        free = set(self.program.parameters) - self.given.keys() if restart == 0 else set()
        while violation is not None and free:
            behind = free & self.program.ancestors(violation.position)[1]
            if not behind:
                break
            free -= behind
            for name in self.program.parameters:
                if name in behind:
                    array = draw_array(self.rng, self.graph.type(name), wanted.get(name), 1)
                    values[name] = tensor(array)
            violation = self._run(values, self.program.first_reader(behind))
        return values, violation

    def _run(self, values: Values, start: int = 0) -> Violation | None:
        violation = self.program.run(values, start)
        if violation is not None:
            self.violations[violation.position] += 1
        return violation

    def _descend(self, values: Values, violation: Violation) -> bool:
        """Steps until no node is violated; False if the budget ends first."""
        descent, rate, held = None, self.settings.rate, set()
        for _ in range(min(self.settings.steps, 10 + 2 * len(self.graph.nodes))):
            if descent is None or descent.violation != violation:
                if descent is not None and violation.position < descent.violation.position:
                    rate *= BACK
                if violation.cause is InvalidCause.DOMAIN:
                    held.add(violation.position)
                descent = self._target(values, violation, rate, held)
            self.steps += 1
            before = dict(values)
            if not descent.step(values) or descent.stale > self.settings.patience:
                return False
            found = self._run(values, descent.start)
            if found is None:
                return True
            if self._late():
                return False
            if found.position in descent.held:
                values.update(before)
                descent.undo()
            else:
                violation = found
        return False

    # -- the second objective -----------------------------------------------------------------

    def _stabilised(self, values: Values, wanted: dict[str, Range]) -> Found:
        """Valid values with fewer unstable elements if some are found soon; else `values`."""
        best, share = values, self._share(values)
        for i in range(self.settings.redraws):
            if share >= self.settings.steady:
                return self._found(best, share)
            drawn, violation = self._draw(wanted, i)
            if violation is not None:
                continue
            found = self._share(drawn)
            if found <= share:
                break  # The dtype or the operator causes unstable elements, not the draw.
            best, share = drawn, found
        for _ in range(self.settings.nudges):
            nudged = self._nudged(best)
            found = 0.0 if nudged is None else self._share(nudged)
            if nudged is None or found <= share:
                break
            best, share = nudged, found
        return self._found(best, share)

    def _nudged(self, values: Values) -> Values | None:
        """The values after one gradient step off the first discontinuity; None if it fails."""
        position = least_stable(self.program, self.decisive, values)
        if position is None:
            return None
        nudged = dict(values)
        target = self._target(nudged, Violation(position, InvalidCause.EDGE), NUDGE)
        if not target.step(nudged) or self.program.run(nudged, target.start):
            return None
        return nudged

    def _share(self, values: Values) -> float:
        return stable_share(self.program, self.decisive, values)

    def _target(
        self, values: Values, violation: Violation, rate: float, held: Collection[int] = ()
    ) -> Descent:
        fixed, limits = self.bounds | dict.fromkeys(self.given, ANY_RANGE), self.limits
        return Descent(self.program, values, violation, fixed, limits, rate, self.rng, held)

    def _found(self, values: Values, stable: float) -> Found:
        def arrays(names: list[str]) -> dict[str, np.ndarray]:
            return {name: as_array(values[name], self.program.dtypes[name]) for name in names}

        return Found(
            arrays(self.graph.inputs),
            arrays(self.graph.weights),
            arrays(self.graph.outputs),
            self.draws,
            self.steps,
            time.perf_counter() - self.start,
            stable,
            values,
        )

    def _not_found(self) -> NotFound:
        position, _ = self.violations.most_common(1)[0]
        return NotFound(
            f"no valid input within {self.draws} draws and {self.steps} gradient steps; "
            f"most often violated: {self.graph.nodes[position]!r}",
            dict(self.violations),
            self.draws,
            self.steps,
            time.perf_counter() - self.start,
        )
