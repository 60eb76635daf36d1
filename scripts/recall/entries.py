"""Entries of scripts/recall/bugs: bugs that other people filed, one TOML file each.

An entry has
    title, system, address   the bug in a line, whose it is, and the thread or fix it is from
    kind                     "wrong", "error", "crash" or "hang"
    broken, fixed            a release that has it, and one that does not, if there is one
    class                    the part of generation that would have to make its model
    model, inputs, expected  ONNX's text form, and arrays by name; inputs that are not there are
                             drawn, results that are not there are computed by onnx's reference
and maybe `level`, `keep_params`, `tolerance`, `runs`, `script` (scripts/recall/program.py).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import onnx

FOLDER = Path(__file__).parent / "bugs"


@dataclass(frozen=True)
class Entry:
    """A bug. name: "SYSTEM/FILE". fixed: "" where no release is known to be without it.

    keep_params: whether weights stay inputs of the imported module.
    """

    path: Path
    title: str
    system: str
    address: str
    kind: str
    broken: str
    group: str
    text: str
    fixed: str = ""
    inputs: Mapping[str, Any] | None = None
    keep_params: bool = False

    @property
    def name(self) -> str:
        return f"{self.system}/{self.path.stem}"

    @cached_property
    def model(self) -> onnx.ModelProto:
        """The model. Raises: onnx.parser.ParseError."""
        return onnx.parser.parse_model(self.text)

    @property
    def opset(self) -> int:
        """The opset of ONNX's own operators that the model declares."""
        return next(o.version for o in self.model.opset_import if o.domain in ("", "ai.onnx"))

    @property
    def operators(self) -> list[str]:
        """The ONNX operators of the model, each once, those of sub-graphs included."""
        return list(dict.fromkeys(_operators(self.model.graph)))


def entries(wanted: Iterable[str] = (), root: Path = FOLDER) -> list[Entry]:
    """The entries whose names begin with one of the wanted texts; all if none is wanted.

    Raises: ValueError for a file that is no entry, naming it.
    """
    prefixes = tuple(wanted)
    paths = sorted(root.glob("*/*.toml"))
    names = [f"{path.parent.name}/{path.stem}" for path in paths]
    return [_read(p) for p, name in zip(paths, names) if not prefixes or name.startswith(prefixes)]


def _read(path: Path) -> Entry:
    try:
        data = tomllib.loads(path.read_text())
        if data["system"] != path.parent.name:
            raise ValueError(f"system {data['system']!r} in the folder of another one")
        return Entry(
            path=path,
            title=data["title"],
            system=data["system"],
            address=data["address"],
            kind=data["kind"],
            broken=data["broken"],
            group=data["class"],
            text=data["model"],
            fixed=data.get("fixed", ""),
            inputs=data.get("inputs"),
            keep_params=data.get("keep_params", False),
        )
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path}: {error!r}") from error


def _operators(graph: onnx.GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _operators(attribute.g)
