"""Judgements on operator specs, which later processes need not make again.

Which signatures ONNX admits at an opset, and which of ONNX's operators a spec is written with,
follow from the sources of nnfuzz and the release of onnx. A digest of these names the file of the
judgements, so that those of other sources are never read. Only built-in operators are in it, since
the sources of others are not known.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from nnfuzz.base.files import write_atomically
from nnfuzz.base.reading import Unreadable, read
from nnfuzz.base.untrusted import read_json
from nnfuzz.base.writing import as_json
from nnfuzz.operators.digest import BUILT_IN, specs_digest
from nnfuzz.operators.operator import OpSpec

_DIGITS = "01"


@dataclass(frozen=True)
class _Content:
    """A file of judgements.

    legal: by operator, opset and release of onnx, a digit for each signature: 1 if it has a valid
    model. written: by operator, the names of the ONNX operators that it is lowered to.
    """

    legal: dict[str, str] = field(default_factory=dict)
    written: dict[str, tuple[str, ...]] = field(default_factory=dict)


class Judgements:
    """The judgements of earlier processes, to which those of this one are added."""

    def __init__(self, path: Path | None = None) -> None:
        """path: of the file; without one nothing is kept. A damaged file counts as empty."""
        self._path = path
        self._content = _Content()
        self._added = False
        self._seen = 0
        """When the file last changed, as far as this process knows it; ns since the epoch."""
        self._catch_up()

    @classmethod
    def kept_in(cls, folder: str | Path) -> Judgements:
        """The judgements on the operators of this version of nnfuzz; "": nothing is kept."""
        if not folder:
            return NOTHING_KEPT
        differences = (files(__package__) / "late_schemas.json").read_bytes()
        about = f"{specs_digest((), ('check',))} {version('onnx')}".encode()
        digest = hashlib.sha256(about + differences).hexdigest()[:16]
        return cls(Path(folder) / f"judgements-{digest}.json")

    def legal(
        self, spec: type[OpSpec], about: str, count: int, judge: Callable[[], Iterable[bool]]
    ) -> list[bool]:
        """Whether each of the signatures of an operator, `count` of them, has a valid model.

        about: the opset and the release of onnx. judge: is asked if that is not known.
        """
        if not _is_built_in(spec):
            return list(judge())
        key = f"{spec.name}@{about}"
        if key not in self._content.legal:
            self._catch_up()
        digits = self._content.legal.get(key, "")
        if len(digits) != count or digits.strip(_DIGITS):
            digits = "".join(_DIGITS[legal] for legal in judge())
            self._content.legal[key] = digits
            self._added = True
        return [digit == "1" for digit in digits]

    def written(self, spec: type[OpSpec], names: Callable[[], Iterable[str]]) -> tuple[str, ...]:
        """The names of the ONNX operators of a lowering. names: is asked if they are not known."""
        if not _is_built_in(spec):
            return tuple(names())
        if spec.name not in self._content.written:
            self._catch_up()
        if spec.name not in self._content.written:
            self._content.written[spec.name] = tuple(names())
            self._added = True
        return self._content.written[spec.name]

    def save(self) -> None:
        """Writes the file if anything is new; a folder that cannot be written costs only time.

        Of two processes that write at the same moment the later one wins.
        """
        if self._added and self._path:
            self._added = False
            self._catch_up()
            with suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(self._path, json.dumps(as_json(self._content)).encode())
                self._seen = self._path.stat().st_mtime_ns

    def _catch_up(self) -> None:
        """Adds what other processes have written since the file was read."""
        if self._path:
            with suppress(OSError, Unreadable):
                time = self._path.stat().st_mtime_ns
                if time != self._seen:
                    others = read(_Content, read_json(self._path))
                    legal = others.legal | self._content.legal
                    self._content = _Content(legal, others.written | self._content.written)
                    self._seen = time


def _is_built_in(spec: type[OpSpec]) -> bool:
    return spec.__module__.startswith(f"{BUILT_IN}.")


NOTHING_KEPT = Judgements()
"""Judgements that are not kept, for callers with few operators."""
