"""A reducing service that knows what graphs shall be reduced to."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

from stub_producer import chain

from nnfuzz.triage.refine import pattern_of


class Reducing:
    """Reduces to Relu, Conv if these are there, else to the last operator; says so in a file."""

    def __init__(self, plugins) -> None:
        self.plugins = plugins
        self.done = False

    def handle(self, header, blobs, report):
        finding = json.loads((Path(header["folder"]) / "finding.json").read_text())
        operators = [node["op"] for node in finding["graph"]["nodes"]]
        kept = ["Relu", "Conv"] if "Relu" in operators else operators[-1:]
        graph = chain(kept)
        return {
            "refined": "-".join(kept),
            "title": f"wrong {kept}",
            "pattern": str(pattern_of(graph)),
            "graph": graph.to_json(),
            "before": len(operators),
            "after": len(kept),
            "seconds": 0.1,
        }, {}


class Dying(Reducing):
    def handle(self, header, blobs, report):
        os.kill(os.getpid(), signal.SIGSEGV)


class Slow(Reducing):
    def handle(self, header, blobs, report):
        time.sleep(1000)


class Once(Reducing):
    def handle(self, header, blobs, report):
        if self.done:
            time.sleep(1000)
        self.done = True
        return super().handle(header, blobs, report)


class Acquitting(Reducing):
    """Says of every suspect that it has another cause, and notes that it was asked."""

    def handle(self, header, blobs, report):
        if header["do"] == "ask":
            (Path(header["folder"]) / "asked").touch()
            return {}, {}
        return super().handle(header, blobs, report)


class Lagging(Reducing):
    """Of two findings at a time, one is read only once the campaign has told of the other."""

    def handle(self, header, blobs, report):
        campaign = Path(header["folder"]).parent.parent
        try:
            (campaign / "first").touch(exist_ok=False)
        except FileExistsError:
            while not (campaign / "told").exists():
                time.sleep(0.01)
        return super().handle(header, blobs, report)


class Refusing(Reducing):
    def handle(self, header, blobs, report):
        return {"reason": "NotReduced: nothing to be seen"}, {}


def reducing(plugins, folder):
    return Reducing(plugins)


def dying(plugins, folder):
    return Dying(plugins)


def slow(plugins, folder):
    return Slow(plugins)


def once(plugins, folder):
    return Once(plugins)


def acquitting(plugins, folder):
    return Acquitting(plugins)


def lagging(plugins, folder):
    return Lagging(plugins)


def refusing(plugins, folder):
    return Refusing(plugins)
