"""Asks a compiler which signatures it supports.

One model holds many operators beside each other. If it fails, its parts are asked for, first those
that the message names, by operator or by the prefix of a part's names: so a compiler is asked about
as often as it refuses something. A signature that is refused in words that meant whole signatures
before is not asked for again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np

from nnfuzz.backend.outcome import Outcome
from nnfuzz.feedback.support import (
    INSTANCES,
    OK,
    UNSUPPORTED,
    Answer,
    Phrases,
    answer_of,
)
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.support_key import SupportKey

Instance = tuple[bytes, Mapping[str, np.ndarray]]
"""A serialised model of one operator, and its inputs."""
Make = Callable[[SupportKey, int], Instance | None]
"""The n-th instance of a signature; None if there is none."""
Run = Callable[[bytes, Mapping[str, np.ndarray]], Outcome | None]
"""Runs a model; None once time is up."""
TOGETHER = 32
"""Most operators in one model."""
_PREFIX = re.compile(r"(?<![^\W_])m\d+_")


def answers(
    keys: Sequence[SupportKey], make: Make, run: Run, most: int | None = None
) -> dict[SupportKey, Answer]:
    """The answers of a compiler on signatures.

    A signature is refused if INSTANCES of it are, or one in the words of others' refusals. keys: of
    one exporter, at the newest opsets. most: signatures that are asked for; operators take turns,
    float32 comes first.
    """
    usual = sorted(keys, key=lambda key: DType.FLOAT32.value not in key.dtypes)
    found: dict[SupportKey, Answer] = {}
    phrases = Phrases()
    for together in _beside_each_other(by_turns(usual)[:most]):
        made = {key: case for key in together if (case := make(key, 0))}
        for key, answer in _answers(made, run, phrases):
            refused = answer.message if answer.kind == UNSUPPORTED else ""
            for n in range(1, INSTANCES):
                asks = answer.kind == UNSUPPORTED and not phrases.whole(key, answer.message)
                again = make(key, n) if asks else None
                more = _answers({key: again}, run, phrases) if again else ()
                answer = dict(more).get(key, answer)
            if refused:
                phrases.add(key, refused, ran=answer.kind != UNSUPPORTED)
            found[key] = answer
    return found


def _beside_each_other(keys: Sequence[SupportKey]) -> Iterator[list[SupportKey]]:
    """The signatures in their order in rows of at most TOGETHER, no two of one operator."""
    row: dict[str, SupportKey] = {}
    for key in keys:
        if key.operator in row or len(row) == TOGETHER:
            yield [*row.values()]
            row = {}
        row[key.operator] = key
    yield [*row.values()]


def _answers(
    made: Mapping[SupportKey, Instance], run: Run, phrases: Phrases
) -> Iterator[tuple[SupportKey, Answer]]:
    """The answers on signatures by one instance of each; none once time is up."""
    left = [tuple(made)]
    while left:
        if not (keys := left.pop()):
            continue
        outcome = run(*beside([made[key] for key in keys]))
        if outcome is None:
            return
        answer = answer_of(outcome)
        answer = replace(answer, message=_PREFIX.sub("", answer.message))
        if answer.kind == OK or len(keys) == 1:
            yield from ((key, answer) for key in keys)
            continue
        prefixes = {f"m{n}_": key for n, key in enumerate(keys)}
        parts = dict.fromkeys(_PREFIX.findall(outcome.message))
        named = [prefixes[part] for part in parts if part in prefixes]
        single = len(named) == 1 and answer.kind == UNSUPPORTED
        if single and phrases.whole(named[0], answer.message):
            yield named[0], answer
            left.append(tuple(key for key in keys if key not in named))
            continue
        named = named or named_in(keys, outcome.message)
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


def named_in(keys: Sequence[SupportKey], message: str) -> list[SupportKey]:
    """The keys whose operator a message mentions, with its domain or without."""
    words = set(re.findall(r"\w+", message))
    return [key for key in keys if key.operator.rpartition(".")[2] in words]


def by_turns(keys: Sequence[SupportKey]) -> list[SupportKey]:
    """The first signature of every operator, then the second ones, and so on."""
    groups: dict[SupportKey, list[SupportKey]] = {}
    for key in keys:
        groups.setdefault(key.any_dtypes, []).append(key)
    return [key for turn in zip_longest(*groups.values()) for key in turn if key is not None]
