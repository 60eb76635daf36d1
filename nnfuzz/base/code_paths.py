"""Where the code of a process lies: with it, the text of an error says the same in every checkout,
environment and home folder.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

PLUGIN = "nnfuzz_plugin_"
"""The beginning of the names under which plug-in files are imported."""
LIBRARY, ADAPTER = "PYTHON/", "ADAPTER/"
"""Stand in texts for the folder of Python's own library, and for that of a plug-in."""
_PACKAGE = __name__.partition(".")[0]
_FRAME = re.compile(r'^\s*File "([^"]*)", line \d+,? in ')
_QUOTED = "    "
"""The beginning of the lines of source that a traceback prints below a frame."""
_FROZEN = "<frozen "
"""The beginning of the file names of modules that are part of the interpreter."""
MODEL_FOLDER = "nnfuzz-model"
"""The beginning of the name of a temporary folder with a model."""
_OF_A_MODEL = re.compile(rf"\b{MODEL_FOLDER}-\w+")


@dataclass(frozen=True)
class CodePaths:
    """own: folders of nnfuzz's packages. adapters: files of plug-ins. short: absolute folder of
    other files -> what a text has in its place, with a slash at its end unless it is "".
    """

    own: tuple[str, ...] = ()
    adapters: tuple[str, ...] = ()
    short: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def here(cls) -> CodePaths:
        """Those of this process, with the plug-in files that it has imported."""
        own, adapters = _imported(len(sys.modules), next(reversed(sys.modules)))
        return cls(own, adapters, short_here())

    def with_adapter(self, files: Iterable[str]) -> CodePaths:
        """These, and the files of an adapter."""
        return replace(self, adapters=tuple(dict.fromkeys((*self.adapters, *files))))

    def foreign(self, text: str) -> str:
        """The text of a compiler's error without stack frames of nnfuzz and of the interpreter, and
        with short paths. Files of adapters are below ADAPTER.
        """
        folders, kept, own = tuple(f"{folder}/" for folder in self.own), [], False
        for line in text.splitlines(keepends=True):
            if frame := _FRAME.match(line):
                own = frame[1].startswith((*folders, _FROZEN))
                if frame[1] in self.adapters:
                    line = line.replace(frame[1], f"{ADAPTER}{Path(frame[1]).name}", 1)
            elif not line.startswith(_QUOTED):
                own = False
            if not own:
                kept.append(line)
        return self.shortened("".join(kept))

    def shortened(self, text: str) -> str:
        """The text with short paths: none starts with a folder of this process, or has a random
        name of a model's folder.
        """
        beside = {str(Path(file).parent): "" for file in self.adapters}
        beside |= dict(self.short)
        folders = {f.rstrip("/"): to for f, to in beside.items() if f.startswith("/") and f != "/"}
        longest = sorted(map(re.escape, folders), key=len, reverse=True)
        pattern = rf"(?<![\w/.~-])({'|'.join(longest)})/"
        text = re.sub(pattern, lambda match: folders[match[1]], text) if longest else text
        return _OF_A_MODEL.sub(MODEL_FOLDER, text)


@lru_cache(maxsize=1)
def _imported(count: int, latest: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The folders of nnfuzz's packages and the files of plug-ins among the imported modules.

    count, latest: the number of these modules and the last one's name, which change when a module
    is imported: until then the result is kept.
    """
    own: list[str] = []
    adapters: list[str] = []
    for name in [name for name in list(sys.modules) if name.startswith(_PACKAGE)]:
        if name.partition(".")[0] == _PACKAGE:
            own += getattr(sys.modules[name], "__path__", ())
        elif name.startswith(PLUGIN):
            adapters.append(str(sys.modules[name].__file__))
    return tuple(dict.fromkeys(own)), tuple(adapters)


def short_here() -> dict[str, str]:
    """The folders of this process's modules, home and temporary files, as in CodePaths.short."""
    short = {**dict.fromkeys(sys.path, ""), os.path.dirname(os.__file__): LIBRARY}
    return short | {tempfile.gettempdir(): "/tmp/", os.path.expanduser("~"): "~/"}
