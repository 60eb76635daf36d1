"""`nnfuzz init`: files to begin with, for a compiler of one's own."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.cli.errors import UsageError, writing
from nnfuzz.cli.options import OTHERS
from nnfuzz.findings.text import environment

PLACES = ("{model}", "{inputs}", "{outputs}")
_MODULE = re.compile(r"(?P<module>[A-Za-z_][\w.]*)(?::(?P<function>[A-Za-z_]\w*))?")


def init(
    what: Annotated[str, typer.Argument(metavar="backend", show_default=False)],
    name: Annotated[str, typer.Argument(help="Of the compiler, as for -b.", show_default=False)],
    compiler: Annotated[
        str,
        typer.Argument(
            metavar="MODULE|MODULE:FUNCTION|COMMAND",
            help="What compiles: a package of Python; a function from a model (bytes) and its "
            "inputs (arrays by name) to its outputs; or a command that reads {model} and the "
            "folder {inputs}, and writes the folder {outputs}.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, OTHERS.option("Folder for the files.", "DIR")] = Path(),
) -> None:
    """Write an adapter of a compiler, its test, and a workflow that fuzzes it every night.

    \b
    nnfuzz init backend toyc toyc
    nnfuzz init backend toyc toyc.api:run
    nnfuzz init backend toyc 'toyc {model} -{level} {inputs} {outputs}'

    Files that are there already stay as they are: then nothing is written.
    """
    if what != "backend":
        raise UsageError(f"there are no files for {what!r}: nnfuzz init backend NAME COMPILER")
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", name):
        raise UsageError(f"{name!r} is no name: small letters, digits, - and _, a letter first")
    module = _MODULE.fullmatch(compiler)
    if lacking := [place for place in PLACES if not module and place not in compiler]:
        raise UsageError(
            f"{compiler!r} is no module, such as toyc or toyc.api:run, and no command, which needs "
            f"{lacking[0]}"
        )
    kind = "command" if module is None else "function" if module["function"] else "package"
    stem = name.replace("-", "_")
    file, test = f"{stem}_backend.py", f"test_{stem}_backend.py"
    files = {
        out / file: "backend.py.jinja",
        out / test: "backend_test.py.jinja",
        out / f".github/workflows/nnfuzz-{name}.yml": "backend_workflow.yml.jinja",
    }
    if there := [path for path in files if path.exists()]:
        raise UsageError(f"{there[0]} is there already: name another --out, or remove it")
    facts: dict[str, object] = {"kind": kind, "name": name, "file": file, "test": test}
    facts |= {"cls": stem.title().replace("_", ""), "words": shlex.split(compiler)}
    facts |= module.groupdict() if module else {}
    for path, template in files.items():
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            text = environment().get_template(template).render(facts)
            path.write_text(text, encoding="utf-8")
        typer.echo(path)
    plugin = shlex.quote(str(out / file))
    typer.echo(f"next: nnfuzz backends --check {name} --plugin {plugin}")
    typer.echo(f"      pytest {shlex.quote(str(out / test))}")
    typer.echo(f"      nnfuzz fuzz -b {name} --plugin {plugin}")
