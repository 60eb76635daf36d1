"""Random valid models as an endless sequence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnfuzz.backend.contract import suggest
from nnfuzz.backend.registry import plugin_name
from nnfuzz.base.threads import one_thread
from nnfuzz.library.plugins import known_plugins
from nnfuzz.testcase.case import CaseConfig, NotProduced, TestCase

if TYPE_CHECKING:
    from nnfuzz.testcase.producer import Producer

MOST_FAILURES = 100
"""Indexes in a row without a test case after which the settings are hopeless, as for corpora."""


class NoTestCase(LookupError):
    """An index that gives no test case, or settings that give none at all; `why` says more."""

    def __init__(self, why: NotProduced, message: str = "") -> None:
        super().__init__(message or f"index {why.id.index} gives no test case: {why.message}")
        self.why = why


class Generator:
    """An endless sequence of random valid models with inputs and reference results.

        for case in itertools.islice(nnfuzz.Generator(seed=7, nodes=10), 100): ...

    `generator[i]` is a function of the settings and of i: the same on every machine, and the same
    that `nnfuzz generate` and a campaign of these settings make at that index. Iterating begins at
    index 0 and passes over the few indexes that give nothing.

    Test cases are made in the calling process, by PyTorch and Z3: the first one takes a few seconds
    (imports, operator specs), further ones of ten operators some 50 ms; a PyTorch that crashes
    takes the process with it. An `Experiment` runs compilers in processes of their own.
    """

    def __init__(
        self,
        seed: int = 0,
        nodes: int = 10,
        *,
        operators: Sequence[str] = (),
        exclude: Sequence[str] = (),
        dtypes: Sequence[str] = (),
        exclude_dtypes: Sequence[str] = (),
        exporter: str | Sequence[str] = "direct",
        opset: int | None = None,
        motifs: float = 0.5,
        sizes: str = "small",
        plugins: Iterable[str | Path] = (),
        **settings: Any,
    ) -> None:
        """nodes: operators per model. operators: what models are made of; default: all. exclude:
        operators that are left out. dtypes: those that are drawn from; exclude_dtypes: those that
        never occur. exporter: what writes the models: "direct" (which alone has every operator and
        dtype), "torchscript", "dynamo", several of them by turns, or "mixed", the default of
        campaigns. opset: default: each model has one of all that the exporter writes. motifs:
        patterns per model, on average. plugins: files or modules with further operators and motifs.
        sizes: "small", "mixed" (one graph in ten has a tensor of more than 65,536 elements) or
        "large" (all graphs have). settings: further fields of nnfuzz.testcase.case.CaseConfig, such
        as `dynamic` or `quantize`.

        Raises: TypeError for an unknown setting; ConfigError, a ValueError, for an unknown dtype,
        size or exporter. An unknown operator is a KeyError of the first test case.
        """
        from nnfuzz.campaign.configuration import corpus_config

        _check_settings(settings)
        self.seed = seed
        own = {
            "nodes": nodes,
            "operators": tuple(operators),
            "exclude": tuple(exclude),
            "dtypes": tuple(dtypes),
            "exclude_dtypes": tuple(exclude_dtypes),
            "exporter": exporter if isinstance(exporter, str) else ",".join(exporter),
            "opset": opset,
            "motifs": motifs,
            "large": sizes,
            "plugins": tuple(plugin_name(path) for path in known_plugins(plugins)),
        }
        self.config = replace(corpus_config(own), **settings)

    def __getitem__(self, index: int) -> TestCase:
        """The test case of an index, from 0; made with one thread of PyTorch, whatever is set.

        Raises: NoTestCase, IndexError.
        """
        if index < 0:
            raise IndexError(f"there is no index {index}: a generator has no end")
        with one_thread():
            made = self._producer.produce(index)
        if isinstance(made, NotProduced):
            raise NoTestCase(made)
        return made

    def __iter__(self) -> Iterator[TestCase]:
        """All test cases from index 0. Raises: NoTestCase if the settings give none."""
        index = failed = 0
        while True:
            try:
                case = self[index]
            except NoTestCase as error:
                failed += 1
                if failed == MOST_FAILURES:
                    message = f"{failed} indexes in a row gave no test case; the last: {error}"
                    raise NoTestCase(error.why, message) from error
            else:
                failed = 0
                yield case
            index += 1

    @cached_property
    def _producer(self) -> Producer:
        from nnfuzz.testcase.producer import Producer

        return Producer(self.seed, self.config)


def _check_settings(settings: Iterable[str]) -> None:
    """Raises: TypeError, which lists the settings, for one that there is not."""
    known = {f.name for f in fields(CaseConfig)} | set(Generator.__init__.__annotations__)
    for name in settings:
        if name not in known:
            raise TypeError(f"there is no setting {name!r}; {suggest(name, known)}")
