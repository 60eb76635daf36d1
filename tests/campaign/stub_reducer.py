"""A reducing service that knows what graphs shall be reduced to."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

from stub_producer import chain

from nnfuzz.findings.reducer_service import ReduceFinding
from nnfuzz.records.rows import ReductionRow
from nnfuzz.sandbox.job import Service, does
from nnfuzz.triage.pattern import pattern_of


def cause_of(*operators: str) -> str:
    """The name of the cause of a graph that is reduced to a chain of operators."""
    return "-".join(operators).encode().hex()[:12]


class Reducing(Service):
    """Reduces to Relu, Conv if these are there, else to the last operator; says so in a file."""

    def __init__(self, plugins, lent=None) -> None:
        self.plugins = plugins
        self.reduced = False

    @does(ReduceFinding)
    def reduce(self, job, report):
        finding = json.loads((Path(job.folder) / "finding.json").read_text())
        operators = [node["op"] for node in finding["graph"]["nodes"]]
        kept = ["Relu", "Conv"] if "Relu" in operators else operators[-1:]
        graph = chain(kept)
        return ReductionRow(
            job.signature,
            cause=cause_of(*kept),
            title=f"wrong {kept}",
            pattern=str(pattern_of(graph)),
            graph=graph,
            before=len(operators),
            after=len(kept),
            seconds=0.1,
        )


class Dying(Reducing):
    def reduce(self, job, report):
        os.kill(os.getpid(), signal.SIGSEGV)


class Slow(Reducing):
    def reduce(self, job, report):
        time.sleep(1000)


class Once(Reducing):
    def reduce(self, job, report):
        if self.reduced:
            time.sleep(1000)
        self.reduced = True
        return super().reduce(job, report)


class Acquitting(Reducing):
    """Says of every suspect that it has another cause, and notes that it was asked."""

    def reduce(self, job, report):
        if job.only_known:
            (Path(job.folder) / "asked").touch()
            return None
        return super().reduce(job, report)


class Lagging(Reducing):
    """Of two findings at a time, one is read only once the campaign has told of the other."""

    def reduce(self, job, report):
        campaign = Path(job.folder).parent.parent
        try:
            (campaign / "first").touch(exist_ok=False)
        except FileExistsError:
            while not (campaign / "told").exists():
                time.sleep(0.01)
        return super().reduce(job, report)


class Refusing(Reducing):
    def reduce(self, job, report):
        return ReductionRow(job.signature, reason="NotReduced: nothing to be seen")


class Late(Refusing):
    """Answers when a short campaign is over."""

    def reduce(self, job, report):
        time.sleep(1)
        return super().reduce(job, report)
