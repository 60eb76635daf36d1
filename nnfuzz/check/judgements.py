"""Judgements on operator specs, which later processes need not make again.

Which signatures ONNX admits at an opset, and which of ONNX's operators a spec is written with,
follow from the sources of nnfuzz and the release of onnx. A digest of these names the file of the
judgements, so that those of other sources are never read. Only built-in operators are in it, since
the sources of others are not known.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from nnfuzz.base.files import write_atomically
from nnfuzz.base.reading import Unreadable, read
from nnfuzz.base.untrusted import read_json
from nnfuzz.operators.operator import OpSpec
from nnfuzz.operators.registry import BUILT_IN, specs_digest


class Judgements:
    """The judgements of earlier processes, to which those of this one are added."""

    def __init__(self, path: Path | None = None) -> None:
        """path: of the file; without one nothing is kept. A damaged file counts as empty."""
        self._path = path
        self._answers: dict[str, str] = {}
        self._added = False
        self._seen = 0
        """When the file last changed, as far as this process knows it; ns since the epoch."""
        self._catch_up()

    @classmethod
    def kept_in(cls, folder: str | Path) -> Judgements:
        """The judgements on the operators of this version of nnfuzz; "": nothing is kept."""
        if not folder:
            return NOTHING_KEPT
        about = f"{specs_digest((), ('check',))} {version('onnx')}".encode()
        digest = hashlib.sha256(about).hexdigest()[:16]
        return cls(Path(folder) / f"judgements-{digest}.json")

    def answer(self, spec: type[OpSpec], about: str, form: str, judge: Callable[[], str]) -> str:
        """The judgement on an operator: the kept one, or else the one that `judge` gives now.

        about: the question. form: a regular expression; the judge is asked again where the kept
        answer does not match it.
        """
        if not _is_built_in(spec):
            return judge()
        key = f"{spec.name}@{about}"
        if key not in self._answers:
            self._catch_up()
        kept = self._answers.get(key)
        if kept is None or not re.fullmatch(form, kept):
            kept = self._answers[key] = judge()
            self._added = True
        return kept

    def save(self) -> None:
        """Writes the file if anything is new; a folder that cannot be written costs only time.

        Of two processes that write at the same moment the later one wins.
        """
        if self._added and self._path:
            self._added = False
            self._catch_up()
            with suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(self._path, json.dumps(self._answers).encode())
                self._seen = self._path.stat().st_mtime_ns

    def _catch_up(self) -> None:
        """Adds what other processes have written since the file was read."""
        if self._path:
            with suppress(OSError, Unreadable):
                time = self._path.stat().st_mtime_ns
                if time != self._seen:
                    others = read(dict[str, str], read_json(self._path))
                    self._answers = others | self._answers
                    self._seen = time


def _is_built_in(spec: type[OpSpec]) -> bool:
    return spec.__module__.startswith(f"{BUILT_IN}.")


NOTHING_KEPT = Judgements()
"""Judgements that are not kept, for callers with few operators."""
