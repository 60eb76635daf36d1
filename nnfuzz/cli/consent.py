"""The plug-ins of a folder that may run: those that the user has named once.

A plug-in is a program with the rights of its user, and a finding or campaign may come from anybody.
Plug-ins that were given as --plugin are remembered per user: a module by its name, a file by its
path and by its contents, which a finding has a copy of. So one's own findings and campaigns need no
further word. For everything else --plugin has to be given once more.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from nnfuzz.base.reading import Unreadable
from nnfuzz.base.untrusted import read_text
from nnfuzz.cli.errors import UsageError


def remember(plugins: list[Path] | None) -> list[Path] | None:
    """Remembers plug-ins that the user has named, if the disk allows. A module that is installed
    nowhere may be one of the working directory, whose modules then hide no others.
    """
    from nnfuzz.backend.registry import plugin_name

    if plugins:
        names = set(map(plugin_name, plugins))
        if any(not Path(name).is_absolute() and _is_absent(name) for name in names):
            sys.path.append(os.getcwd())
        names = {key for name in names if _exists(name) for key in _keys(name)} - _remembered()
        try:
            _file().parent.mkdir(parents=True, exist_ok=True)
            with _file().open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(name) + "\n" for name in sorted(names))
        except OSError:
            pass
    return plugins


class Consent:
    """Answers whether a plug-in that a folder names may run.

    given: those that the command names; refused: those that may not.
    """

    def __init__(self, folder: Path, given: Iterable[Path] = ()) -> None:
        """given: with --plugin in this command."""
        from nnfuzz.backend.registry import plugin_name

        self._folder = folder
        self.given = list(map(plugin_name, given))
        self._known = _remembered()
        self.refused: list[str] = []

    def __call__(self, plugin: str) -> str:
        """The plug-in that may run in place of one: the given one of its name, or itself; or ""."""
        from nnfuzz.backend.registry import namesake

        return namesake(self.given)(plugin) or (plugin if self._allows(plugin) else "")

    def _allows(self, plugin: str) -> bool:
        if plugin in self.given:
            return True
        if _is_own(plugin) and not self._known.isdisjoint(_keys(plugin)):
            return True
        self.refused = list(dict.fromkeys([*self.refused, plugin]))
        return False

    def require(self, plugins: Iterable[str]) -> None:
        """Raises: UsageError if one of them may not run."""
        if any([not self._allows(plugin) for plugin in plugins]):
            raise self.error()

    def error(self) -> UsageError:
        """The error for plug-ins that may not run, with the fix."""
        options = " ".join(f"--plugin {plugin}" for plugin in self.refused if _exists(plugin))
        absent = [plugin for plugin in self.refused if not _exists(plugin)]
        if absent:
            return UsageError(
                f"{self._folder} needs the plug-in {absent[0]}, which is not there: say where "
                f"{Path(absent[0]).name} is now, with --plugin FILE"
            )
        return UsageError(
            f"{self._folder} needs a plug-in, a program that would run with your rights and that "
            f"you have not used before: add {options} if you trust it"
        )


def _file() -> Path:
    import platformdirs

    return Path(platformdirs.user_state_dir("nnfuzz")) / "plugins"


def _remembered() -> set[str]:
    try:
        return {json.loads(line) for line in read_text(_file()).splitlines()}
    except (Unreadable, ValueError, TypeError):
        return set()


def _is_absent(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module.partition(".")[0]) is None


def _exists(plugin: str) -> bool:
    return Path(plugin).is_file() or not Path(plugin).is_absolute()


def _keys(plugin: str) -> list[str]:
    """The identity of a remembered plug-in: its path or name, and the digest of its source, which
    includes the modules beside it that it would import.
    """
    from nnfuzz.backend.registry import plugin_files

    if not _exists(plugin):
        return []
    files = plugin_files([plugin]).files
    source = json.dumps(sorted((name, data.hex()) for name, data in files.items()))
    digest = hashlib.sha256(source.encode()).hexdigest()
    return [plugin, f"sha256:{digest}"] if files else [plugin]


def _is_own(plugin: str) -> bool:
    """Whether nobody else can have put another file in the place of the one that was named."""
    try:
        return not Path(plugin).is_absolute() or Path(plugin).stat().st_uid in (0, os.getuid())
    except OSError:
        return False
