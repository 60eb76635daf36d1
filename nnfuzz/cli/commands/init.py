"""`nnfuzz init`: files to begin with, for a compiler of one's own."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.cli.errors import UsageError, writing
from nnfuzz.cli.options import OTHERS, TESTED
from nnfuzz.findings.text import environment

PLACES = ("{model}", "{inputs}", "{outputs}")
_MODULE = re.compile(r"(?P<module>[A-Za-z_][\w.]*)(?::(?P<function>[A-Za-z_]\w*))?")


def init(
    what: Annotated[str, typer.Argument(metavar="backend", show_default=False)],
    name: Annotated[str, typer.Argument(help="Of the compiler, as for -b.", show_default=False)],
    package: Annotated[
        str, TESTED.option("Package of Python that loads and compiles models.", "MODULE")
    ] = "",
    function: Annotated[
        str,
        TESTED.option(
            "Function from a model (bytes) and its inputs (arrays by name) to its outputs.",
            "MODULE:NAME",
        ),
    ] = "",
    command: Annotated[
        str,
        TESTED.option(
            "Program that reads a model and a folder of inputs, and writes a folder of outputs.",
            "'toyc {model} -{level} {inputs} {outputs}'",
        ),
    ] = "",
    out: Annotated[Path, OTHERS.option("Folder for the files.", "DIR")] = Path(),
) -> None:
    """Write an adapter of a compiler, its test, and a workflow that fuzzes it every night.

    \b
    nnfuzz init backend toyc --package toyc
    nnfuzz init backend toyc --function toyc.api:run
    nnfuzz init backend toyc --command 'toyc {model} -{level} {inputs} {outputs}'

    Files that are there already stay as they are: then nothing is written.
    """
    given = {"package": package, "function": function, "command": command}
    ways = [way for way, value in given.items() if value]
    if what != "backend":
        raise UsageError(f"there are no files for {what!r}: nnfuzz init backend NAME")
    if len(ways) != 1:
        raise UsageError("say what the compiler is: one of --package, --function and --command")
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", name):
        raise UsageError(f"{name!r} is no name: small letters, digits, - and _, a letter first")
    module = _MODULE.fullmatch(package or function)
    if lacking := [place for place in PLACES if command and place not in command]:
        raise UsageError(f"--command has no {lacking[0]}: it needs {', '.join(PLACES)}")
    if not command and (module is None or bool(module["function"]) != bool(function)):
        form = "toyc.api:run" if function else "toyc"
        raise UsageError(f"--{ways[0]} names a module of Python, such as {form}")
    stem = name.replace("-", "_")
    file, test = f"{stem}_backend.py", f"test_{stem}_backend.py"
    files = {
        out / file: "backend.py.jinja",
        out / test: "backend_test.py.jinja",
        out / f".github/workflows/nnfuzz-{name}.yml": "backend_workflow.yml.jinja",
    }
    if there := [path for path in files if path.exists()]:
        raise UsageError(f"{there[0]} is there already: name another --out, or remove it")
    facts: dict[str, object] = {"kind": ways[0], "name": name, "file": file, "test": test}
    facts |= {"cls": stem.title().replace("_", ""), "words": shlex.split(command)}
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
