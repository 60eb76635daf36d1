"""Questions to reference implementations: instances of one operator with inputs and results."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.backend.target import DIRECT
from nnfuzz.check.agreement import Expected
from nnfuzz.check.instances import SIZES, OpInstance, solved
from nnfuzz.check.reference_implementations import Arrays, inputs_for, one_node
from nnfuzz.check.report import AGREES, DIFFERS, UNABLE, WAIVED
from nnfuzz.check.runtimes import BUNDLED, Runtime, Unavailable
from nnfuzz.check.versions import legal_opsets
from nnfuzz.ir.dtypes import plain
from nnfuzz.operators.draw import Draw, Sizes
from nnfuzz.operators.operator import OpSpec
from nnfuzz.operators.waiver import Waiver, Waivers

if TYPE_CHECKING:
    import onnx

TINY = Sizes(max_dim=(1, 3, 3, 3, 3, 3, 3), max_numel=1 << 8, max_flops=1 << 16)
SEARCH = 2000
"""Number of instances among which one has to show the difference that a waiver claims."""
SHOWN = 12
"""Elements of a tensor that an example shows."""


@dataclass(frozen=True)
class ReferenceQuestion:
    """An instance with inputs, its model at an opset, and `torch`'s results for it.

    waivers: those declared for reference implementations there.
    """

    instance: OpInstance
    opset: int
    model: onnx.ModelProto
    arrays: Arrays
    expected: Expected
    waivers: Sequence[Waiver]

    def __str__(self) -> str:
        return f"{self.instance}, opset {self.opset}"

    def on(self, implementation: str) -> list[Waiver]:
        """The waivers that are declared for a reference implementation there."""
        return [w for w in self.waivers if w.implementation == implementation]

    def ask(self, name: str, runtime: Runtime) -> tuple[str, str]:
        """A reference implementation's answer, and how it contradicts `torch`, if it does."""
        try:
            text = self.expected.contradicts(runtime(self.model, self.arrays))
        except Unavailable as error:
            return UNABLE, str(error)
        except Exception as error:
            text = f"raises {brief(error)}"
        if not text:
            return AGREES, ""
        return (WAIVED if self.on(name) else DIFFERS), text

    def lines(self, text: str) -> list[str]:
        """The question, its small inputs and a contradiction, for a reader."""
        lines = [str(self)]
        for i, array in enumerate(self.arrays):
            if array.size <= SHOWN:
                values = np.array2string(plain(array), separator=", ", max_line_width=1 << 20)
                lines.append(f"x{i} = {' '.join(values.split())}")
        return [*lines, text]


def example_of(
    spec: type[OpSpec],
    waiver: Waiver,
    rng: random.Random,
    waivers: Waivers,
    runtimes: Mapping[str, Runtime] = BUNDLED,
    search: int = SEARCH,
) -> tuple[ReferenceQuestion, str] | None:
    """A small instance that shows a waiver and nothing but that, with the difference.

    None if none of `search` small and as many larger instances shows it.
    """
    kinds = [
        (s, [o for o in legal_opsets(spec, s) if not waiver.below or o < waiver.below])
        for s in spec.signatures()
    ]
    kinds = [kind for kind in kinds if kind[1]]
    named = {*waiver.dtypes}
    kinds = [k for k in kinds if named & {*k[0][0].values(), k[0][1]}] or kinds
    values = np.random.default_rng(rng.getrandbits(32))
    lo, hi = spec.inputs[0].ranks
    for sizes in (TINY, SIZES):
        draw = Draw(rng, sizes)
        for _ in range(search * bool(kinds)):
            signature, opsets = draw.choice(kinds)
            instance = solved(spec, signature, draw.integer(lo, min(hi, 5)), draw)
            opset = draw.choice(opsets)
            if instance is None or instance.op.refusal(DIRECT, opset, *instance.types):
                continue
            known = waivers.covering(instance.op, opset, instance.types)
            if [w for w in known if w.implementation == waiver.implementation] != [waiver]:
                continue
            arrays, inside = inputs_for(instance, values)
            if not inside:
                continue
            model = one_node(instance, instance.op.type_transfer(*instance.types), opset)
            expected = Expected.of(instance.op, arrays)
            question = ReferenceQuestion(instance, opset, model, arrays, expected, known)
            answer, text = question.ask(waiver.implementation, runtimes[waiver.implementation])
            if answer == WAIVED:
                return question, text
    return None


def brief(error: BaseException) -> str:
    """The class of an error and the first line of its text."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"
