"""Asks compilers which signatures they support, by models of single operators that a lane makes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.registry import BackendRegistry, BackendSpec
from nnfuzz.backend.runner import BackendRunner, CompilerServers, RunnerError
from nnfuzz.backend.target import Target
from nnfuzz.campaign.lanes import Lanes, PoolError
from nnfuzz.feedback.lacking import Instance, answers
from nnfuzz.feedback.support import OK, UNSUPPORTED, Answer, answer_of, newest
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.materialize.opsets import exporter_of
from nnfuzz.records.config import CampaignConfig, ConfigError
from nnfuzz.sandbox.events import Reply, WorkerFault, event_line
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.client import blames_settings
from nnfuzz.testcase.identity import Probe
from nnfuzz.testcase.jobs import ListVocabulary, Produce, Vocabulary


def started(
    specs: Iterable[BackendSpec],
    registry: BackendRegistry,
    servers: CompilerServers,
    stack: ExitStack,
) -> list[BackendRunner]:
    """A running worker of each compiler. stack: closes them. Raises: RunnerError."""
    runners = []
    for spec in specs:
        runner = servers.runner(spec, registry)
        stack.callback(runner.close)
        runner.sandbox.start()
        runners.append(runner)
    return runners


def vocabulary_of(lanes: Lanes) -> Vocabulary:
    """Asks a lane which signatures there are with which exporters.

    Raises: ConfigError, PoolError.
    """
    event = lanes.call(ListVocabulary())
    if isinstance(event, Reply):
        vocabulary: Vocabulary = event.value
        return vocabulary
    if isinstance(event, WorkerFault) and event.starting and blames_settings(event.error_type):
        raise ConfigError(event.message.strip("'\""))
    raise PoolError(f"lanes cannot work: {event_line(event)}\n{event.captured}")


def keys_of(vocabulary: Vocabulary) -> list[SupportKey]:
    """Every signature with every writer."""
    signatures = vocabulary.signatures.items()
    return [SupportKey.parse(f"{name}:{text}") for name, texts in signatures for text in texts]


def ask(
    lanes: Lanes,
    runner: BackendRunner,
    keys: Sequence[SupportKey],
    levels: Sequence[str],
    stopped: Callable[[], bool],
    most: int | None = None,
) -> dict[SupportKey, Answer]:
    """The answers of a compiler on the newest versions of signatures, and on older ones where these
    are refused. keys: of one exporter.

    levels: those that models run at; the first failure is the answer. stopped: once true, nothing
    more is asked. most: signatures that are asked for; None: all.
    """
    found: dict[SupportKey, Answer] = {}

    def make(key: SupportKey, number: int) -> Instance | None:
        event = lanes.call(Produce(Probe(key, number)))
        case = event.value if isinstance(event, Reply) else None
        return (case.model, case.inputs) if isinstance(case, TestCase) else None

    def run(model: bytes, inputs: Mapping[str, np.ndarray]) -> Outcome | None:
        if stopped():
            return None
        try:
            outcomes = runner.run(model, inputs, levels)
        except RunnerError as error:
            failed = OutcomeKind.EXCEPTION, Stage.COMPILE, Target(runner.spec.name)
            return Outcome(*failed, message=str(error))
        return next((o for o in outcomes if answer_of(o).kind != OK), outcomes[0])

    while asked := newest(keys):
        now = answers(asked, make, run, most)
        found |= now
        refused = {key.signature for key, answer in now.items() if answer.kind == UNSUPPORTED}
        keys = [key for key in keys if key.signature in refused and key not in found]
    return found


def support_of(
    config: CampaignConfig,
    registry: BackendRegistry,
    cache: Path,
    stopped: Callable[[], bool],
    note: Callable[[str], None],
) -> Iterator[tuple[BackendRunner, dict[SupportKey, Answer]]]:
    """Asks each compiler for every signature of every exporter, at every level.

    note: called with a line before each exporter.

    Raises: RunnerError, ConfigError, PoolError.
    """
    with ExitStack() as stack:
        servers = CompilerServers()
        stack.callback(servers.close)
        runners = started(config.backends, registry, servers, stack)
        lent = [runner.sandbox.server for runner in runners]
        lanes = stack.enter_context(Lanes(config, lent, cache))
        by_exporter: dict[str, list[SupportKey]] = {}
        for key in keys_of(vocabulary_of(lanes)):
            by_exporter.setdefault(exporter_of(key.exporter), []).append(key)
        for runner in runners:
            levels = config.levels or runner.backend.default_levels()
            found: dict[SupportKey, Answer] = {}
            for exporter, keys in by_exporter.items():
                note(f"{runner.name}: asked for {len(newest(keys))} signatures by {exporter}")
                found |= ask(lanes, runner, keys, levels, stopped)
            yield runner, found
