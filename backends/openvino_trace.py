"""Reads OpenVINO's own trace of the passes that it runs on a model.

The trace has a line for each pass, with 1 if the pass reports that it changed the model. Some
passes report a change for every model, even the simplest one, and are ignored.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_VARIABLE = "OV_ENABLE_PROFILE_PASS"
_PASS, _CHANGED = "t", "1"
_SPACES = ("ov::", "pass::", "intel_cpu::", "snippets::", "low_precision::", "frontend::")


@dataclass
class Trace:
    """ran: passes in the order of their first run. changed: passes that report a change."""

    ran: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)

    def read(self, text: str) -> None:
        """Adds the lines "t;PASS;MANAGER;NANOSECONDS;CHANGED" of a trace."""
        rows = [line.split(";") for line in text.splitlines()]
        passes = [(bare(row[1]), row[-1]) for row in rows if len(row) == 5 and row[0] == _PASS]
        self.ran = list(dict.fromkeys(name for name, _ in passes))
        self.changed = list(dict.fromkeys(name for name, made in passes if made == _CHANGED))


def bare(name: str) -> str:
    """The name of a pass without namespaces: ":" is a separator in the option --focus."""
    while space := next((space for space in _SPACES if name.startswith(space)), ""):
        name = name.removeprefix(space)
    return name


@contextlib.contextmanager
def traced() -> Iterator[Trace]:
    """Yields the trace of the passes that run within the block; it is filled at the end."""
    trace, before = Trace(), os.environ.get(_VARIABLE)
    with tempfile.NamedTemporaryFile("r", suffix=".csv") as file:
        os.environ[_VARIABLE] = file.name
        try:
            yield trace
        finally:
            if before is None:
                del os.environ[_VARIABLE]
            else:
                os.environ[_VARIABLE] = before
            trace.read(file.read())


def plainest() -> Any:
    """The simplest model: one Relu."""
    import numpy as np
    import openvino
    from openvino import opset13

    x = opset13.parameter([1], np.float32)
    return openvino.Model([opset13.relu(x)], [x])
