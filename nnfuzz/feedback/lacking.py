"""Which signatures a compiler without a table refuses, asked before the first test.

One model holds many operators beside each other. If it fails, its parts are asked for, those that
the message names first: so a compiler is asked about as often as it refuses something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np

from nnfuzz.backend.outcome import Outcome
from nnfuzz.feedback.probe import by_turns, named_in
from nnfuzz.feedback.support import (
    INSTANCES,
    OK,
    UNSUPPORTED,
    ProbeAnswer,
    SupportEntry,
    answer_of,
    generalised,
)
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.support_key import SupportKey

Instance = tuple[bytes, Mapping[str, np.ndarray]]
"""A serialised model of one operator, and its inputs."""
Make = Callable[[SupportKey, int], Instance | None]
"""The n-th instance of a signature; None if there is none."""
Run = Callable[[bytes, Mapping[str, np.ndarray]], Outcome | None]
"""Runs a model; None once time is up."""
TOGETHER = 64
"""Most operators in one model."""


def lacking(keys: Sequence[SupportKey], make: Make, run: Run, most: int) -> dict[SupportKey, str]:
    """The refused signatures as few keys, with the reasons.

    A signature is refused if INSTANCES of it are. keys: of one exporter, at the newest opsets.
    most: signatures that are asked for; operators take turns, float32 comes first.
    """
    usual = sorted(keys, key=lambda key: DType.FLOAT32.value not in key.dtypes)
    entries: dict[SupportKey, SupportEntry] = {}
    for _, turn in groupby(enumerate(by_turns(usual)[:most]), lambda pair: pair[0] // TOGETHER):
        made = {key: case for _, key in turn if (case := make(key, 0))}
        for key, answer in _answers(made, run):
            for n in range(1, INSTANCES):
                again = make(key, n) if answer.kind == UNSUPPORTED else None
                answer = dict(_answers({key: again}, run)).get(key, answer) if again else answer
            entries[key] = SupportEntry(answer.kind, answer.message)
    return {key: entry.message for key, entry in generalised(entries).items()}


def _answers(
    made: Mapping[SupportKey, Instance], run: Run
) -> Iterator[tuple[SupportKey, ProbeAnswer]]:
    """The answers on signatures by one instance of each; none once time is up."""
    left = [tuple(made)] if made else []
    while left:
        keys = left.pop()
        outcome = run(*beside([made[key] for key in keys]))
        if outcome is None:
            return
        answer = answer_of(outcome)
        if answer.kind == OK or len(keys) == 1:
            yield from ((key, answer) for key in keys)
            continue
        named = named_in(keys, [outcome.message])
        if not 0 < len(named) < len(keys):
            named = list(keys[: len(keys) // 2])
        left += [tuple(key for key in keys if key not in named), tuple(named)]


def beside(instances: Sequence[Instance]) -> Instance:
    """One model that computes what several ones do; their names get prefixes."""
    from onnx import ModelProto, load_model_from_string

    from nnfuzz.materialize.names import put_before

    whole, opsets = ModelProto(), dict[str, int]()
    inputs: dict[str, np.ndarray] = {}
    for n, (model, given) in enumerate(instances):
        part, prefix = load_model_from_string(model), f"m{n}_"
        put_before(prefix, part.graph)
        inputs |= {prefix + name: array for name, array in given.items()}
        whole.ir_version = max(whole.ir_version, part.ir_version)
        whole.graph.MergeFrom(part.graph)
        whole.functions.extend(part.functions)
        opsets |= {own.domain: own.version for own in part.opset_import}
    whole.graph.name = "beside"
    for domain, version in opsets.items():
        whole.opset_import.add(domain=domain, version=version)
    return whole.SerializeToString(deterministic=True), inputs
