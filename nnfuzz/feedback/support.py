"""Which operator signatures a compiler supports, by its answers to models of single operators.

Only unsupported signatures, such as "Add(float16)->float16", are left out of generation. A failing
one is a finding, be it a wrong result, an exception or a crash: generation keeps away from it once
it keeps occurring in tests (nnfuzz.feedback.throttle).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from nnfuzz.backend.backtrace import normalise
from nnfuzz.backend.causes import refusing_lines
from nnfuzz.backend.outcome import Outcome, OutcomeKind
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.ir.view import GraphView
from nnfuzz.materialize.opsets import exporter_of, opset_of
from nnfuzz.triage.keys import EVERY_DTYPE
from nnfuzz.triage.pattern import OPERATOR, general_message

INSTANCES = 3
"""Instances of a signature that must be refused before the signature is."""
OK, UNSUPPORTED, FAILING = "ok", "unsupported", "failing"
REASON = 80  # last characters of a reason in a table that travels with an adapter


@dataclass(frozen=True)
class Answer:
    """What a compiler does with a model. kind: OK, UNSUPPORTED or FAILING. message: one line on the
    failure.
    """

    kind: str
    message: str = ""


def answer_of(outcome: Outcome) -> Answer:
    """The answer that the outcome of a run gives."""
    if outcome.ok or outcome.kind is OutcomeKind.NOT_COMPARED:
        return Answer(OK)
    unsupported = outcome.kind is OutcomeKind.UNSUPPORTED
    line = telling_line(outcome.message) or outcome.signal
    message = f"{outcome.kind} in {outcome.stage} at {outcome.level}: {line}"
    return Answer(UNSUPPORTED if unsupported else FAILING, message)


def telling_line(message: str) -> str:
    """The first line of a message that calls something unsupported; if none does, the first."""
    lines = message.strip().splitlines()
    return next(iter(refusing_lines(lines) or lines), "")[:200]


class Phrases:
    """The words in which a compiler refuses whole signatures, whatever the instance.

    Such words name the operator. Two operators had signatures that were refused in them at every
    instance, and none was that runs otherwise. One more refusal in these words decides a signature.
    """

    def __init__(self) -> None:
        self._operators: dict[str, set[str]] = {}
        self._partial: set[str] = set()

    def add(self, key: SupportKey, message: str, ran: bool = False) -> None:
        """Records the words of a refusal. ran: whether another instance of the signature runs."""
        words = _words(key, message)
        self._operators.setdefault(words, set()).add(key.operator)
        self._partial.update([words] if ran else [])

    def whole(self, key: SupportKey, message: str) -> bool:
        """Whether a refusal concerns all instances of a signature."""
        words = _words(key, message)
        enough = OPERATOR in words and len(self._operators.get(words, ())) > 1
        return enough and words not in self._partial


@lru_cache(10_000)
def _words(key: SupportKey, message: str) -> str:
    """The words of a refusal without its operator, dtypes, numbers and names."""
    asked = message.startswith(f"{UNSUPPORTED} in ")
    line = telling_line(message.partition(": ")[2] if asked else message)
    return general_message(normalise(line), EVERY_DTYPE, (key.operator.rpartition(".")[2],))


def wider(key: SupportKey) -> Iterator[SupportKey]:
    """The keys that stand for a key and for others, the most general first, itself last: without
    an exporter, without the opset of a writer; for all dtypes, but not at a single opset.
    """
    exporter = exporter_of(key.exporter)
    yield SupportKey("", key.operator, "")
    yield SupportKey(exporter, key.operator, "")
    yield from (key.signature, key.with_exporter(exporter), key)


def generalised(answers: Mapping[SupportKey, Answer]) -> dict[SupportKey, str]:
    """The unsupported signatures as few keys, with the reasons: each by the most general one that
    stands for no signature that runs or fails. A signature without an answer follows the others.
    """
    taken = {w for key, answer in answers.items() if answer.kind != UNSUPPORTED for w in wider(key)}
    refused: dict[SupportKey, str] = {}
    for key in sorted(answers, key=lambda key: (-opset_of(key.exporter), key)):
        if answers[key].kind == UNSUPPORTED:
            general = next(w for w in wider(key) if w not in taken)
            reason = answers[key].message.partition(": ")[2] or answers[key].message
            refused.setdefault(general, reason[-REASON:])
    return dict(sorted(refused.items()))


def remaining(keys: Iterable[SupportKey], refused: Collection[SupportKey] = ()) -> set[SupportKey]:
    """The signatures, without exporters, that some writer is left for. keys: of every signature
    with every writer. refused: keys that may stand for several (see `wider`).
    """
    gone = {*refused}
    return {key.signature for key in keys if gone.isdisjoint(wider(key))}


def newest(keys: Iterable[SupportKey]) -> list[SupportKey]:
    """The key of the newest opset for each signature and exporter. Signatures that exist since an
    older opset come first.
    """
    by_age = sorted(keys, key=lambda key: opset_of(key.exporter))
    return [*{key.with_exporter(exporter_of(key.exporter)): key for key in by_age}.values()]


def signature_keys(graph: GraphView, variables: Mapping[str, Sequence[int]]) -> set[str]:
    """The written signatures in a graph.

    variables: for each operator, the first input that each of its type variables binds, in the
    order in which a signature names them.
    """
    dtypes = graph.dtypes
    keys = set()
    for node in graph.nodes:
        inputs = node.inputs
        bound = [dtypes[inputs[i]] for i in variables.get(node.op, ()) if i < len(inputs)]
        keys.add(str(SupportKey.of_signature(node.op, bound, dtypes[node.outputs[0]])))
    return keys
