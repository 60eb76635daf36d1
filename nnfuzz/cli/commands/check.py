"""`nnfuzz check MODEL.onnx`: do compilers compute a model of one's own right?"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.target import Target, TargetError
from nnfuzz.base.files import npz_bytes
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.untrusted import read_bytes, read_model, read_npz
from nnfuzz.campaign.configuration import chosen_backends
from nnfuzz.cli.errors import (
    FAULT,
    FINDINGS,
    NOT_COMPARED,
    OK,
    USAGE,
    UsageError,
    listed,
    write_json,
    write_whole,
    writing,
)
from nnfuzz.cli.limits import computing
from nnfuzz.cli.options import FED, MODELS, REPORTED, Backends, Levels, Plugins
from nnfuzz.cli.progress import phases
from nnfuzz.corpus.layout import MODEL, NotTensors, data_set_folders, interface, read_tensors
from nnfuzz.library.checking import check_model, installed_compilers, parts_at
from nnfuzz.library.model_check import ModelCheck
from nnfuzz.testcase.case import ModelError, NoReference

SECONDS = 600.0
"""CPU time per core to import a model, to find inputs for it, and to compute its reference."""


WORST_FIRST = (FINDINGS, FAULT, USAGE, NOT_COMPARED, OK)
"""The exit code of several models is the first of these that one of them has."""
Arrays = dict[str, np.ndarray]
FOREIGN = (".pt", ".pth", ".pt2", ".safetensors", ".keras", ".h5", ".tflite", ".mlmodel")
"""Endings of models in other forms, which are no damaged ONNX."""


def check(
    models: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODEL.onnx...",
            help="The models; or folders with model.onnx, and data sets as ONNX's tests have them.",
            show_default=False,
        ),
    ],
    backend: Backends = None,
    level: Levels = None,
    inputs: Annotated[
        Path | None,
        FED.option(
            "Inputs by name, as numpy.savez writes them; or a folder with input_0.pb and so "
            "on, as ONNX's tests have [default: valid ones are searched].",
            "FILE.npz|DIR",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        REPORTED.option(
            "Write each failure as a finding, for nnfuzz reduce, replay, bisect and file.",
            "DIR",
            file_okay=False,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        REPORTED.option("Write everything as JSON.", "FILE.json", "--json", dir_okay=False),
    ] = None,
    page: Annotated[
        Path | None,
        REPORTED.option(
            "Write a page with the graph, its first wrong node, and heat maps of the worst output.",
            "FILE.html",
            "--html",
            dir_okay=False,
        ),
    ] = None,
    cut: Annotated[
        str,
        REPORTED.option(
            "Check nothing: write the model up to this node, and the node alone, each with its "
            "inputs, to the folder of --save or beside the model.",
            "NODE",
        ),
    ] = "",
    every_node: Annotated[
        bool,
        REPORTED.option(
            "Say of every node what each compiler computes.", "", "--nodes", show_default=False
        ),
    ] = False,
    seed: Annotated[
        int, MODELS.option("Same seed, same inputs where none are given.", "S", min=0)
    ] = 0,
    plugin: Plugins = None,
) -> None:
    """Check whether compilers compute models of yours right, and where they go wrong if not.

    \b
    nnfuzz check mine.onnx                              on all installed compilers of ONNX models
    nnfuzz check mine.onnx -b onnxruntime -b tvm        on these, at their least and most optimised
    nnfuzz check mine.onnx --save out; nnfuzz reduce out/NAME

    A result is right if it lies in the error envelope: an interval around a float64 reference, with
    room for the rounding errors that a correct compiler may make, and no more. For a wrong output
    the report names the first wrong node, its worst element, and the pass that is to blame if it
    can be found. docs/CHECK.md explains the report.

    Exit codes: 0 every output is right, or all agree on it where nobody knows the truth, 1
    something is wrong, fails, or gives accuracy away by default or by its interface, 2 wrong usage,
    or no valid model, 3 a fault of nnfuzz itself, 4 an output was not compared, or less than nine
    tenths of it.
    """
    several = len(models) > 1
    if several and (inputs or report or page):
        raise UsageError("--inputs, --json and --html are for a single model")
    if save is not None:
        with writing(save):
            save.mkdir(parents=True, exist_ok=True)
    try:
        targets = _targets(backend or [], listed(level), plugin or [])
    except TargetError as error:
        raise UsageError(str(error)) from error
    asked = partial(check_model, targets=targets, seed=seed, plugins=plugin or [])

    def one(model: Path) -> int:
        """Checks a model, or cuts it; returns the exit code. Raises: UsageError, Unreadable."""
        file = _model_file(model)
        calls, expected = _data_sets(model) if not inputs else ([_inputs(inputs, file)], [])
        if cut:
            _cut(file, cut, next(iter(calls), None), seed, save or file.parent)
            return OK
        result = _checked(file, calls, partial(asked, expected=expected))
        if result is None:
            return NOT_COMPARED
        folder = save / file.stem if save and several else save
        try:
            if folder is not None:
                with writing(folder):
                    result = result.save(folder)
            if report is not None:
                write_json(report, result.to_json())
            if page is not None:
                with writing(page):
                    page.write_text(result.html(), encoding="utf-8")
        finally:  # a result of minutes is not lost because it cannot be written
            typer.echo(f"{file}: " * several + result.text(every_node))
        _next(result)
        if result.failed or result.given_away:
            return FINDINGS
        return OK if result.compared else FAULT if result.contradicted else NOT_COMPARED

    codes = []
    for model in models:
        try:
            codes.append(one(model))
        except Unreadable as error:
            if not several:
                raise
            typer.echo(f"not checked: {error}")
            codes.append(USAGE)
        if several:
            typer.echo("")
    raise typer.Exit(min(codes, key=WORST_FIRST.index))


def _checked(
    file: Path, calls: Sequence[Arrays], check: Callable[..., ModelCheck]
) -> ModelCheck | None:
    """The result of a check. If no compiler can be asked, it is None and the reason is printed.

    calls: the inputs of each; if the model cannot be called with all of them, the first ones are
    taken, which is printed. Raises: UsageError.
    """
    limit = SECONDS * (os.cpu_count() or 1)
    try:
        with phases() as watch:
            with computing(limit):
                read = read_model(file)
            return check(read, inputs=calls or None, watch=watch, reading=computing(limit))
    except NoReference as error:
        typer.echo(f"not compared: {file}: {error}")
        return None
    except ModelError as error:
        if len(calls) > 1:
            typer.echo(f"note: of {len(calls)} data sets the first one alone is checked: {error}")
            return _checked(file, calls[:1], check)
        raise UsageError(f"{file}: {error}") from error


def _cut(file: Path, node: str, inputs: Arrays | None, seed: int, folder: Path) -> None:
    """Writes the model up to a node, and the node alone. Raises: UsageError, Unreadable."""
    with computing(SECONDS):
        try:
            parts = parts_at(read_model(file), node, inputs, seed)
        except ModelError as error:
            raise UsageError(f"{file}: {error}") from error
    for kind, (model, arrays) in parts.items():
        out = folder / f"{file.stem}-{kind}-{re.sub(r'[^A-Za-z0-9_.-]+', '-', node)}.onnx"
        write_whole(out, model.SerializeToString())
        write_whole(out.with_suffix(".npz"), npz_bytes(arrays))
        typer.echo(f"wrote {out}, and its inputs beside it (.npz)")


def _model_file(path: Path) -> Path:
    """Raises: UsageError, which names the models, for a folder without model.onnx."""
    file = path / MODEL if path.is_dir() else path
    if path.is_dir() and not file.exists():
        names = sorted(model.name for model in path.glob("*.onnx"))
        there = f"name one of {', '.join(names[:8])} in it" if names else "there is no .onnx file"
        raise UsageError(f"{path} is a folder without model.onnx: {there}")
    if file.suffix in FOREIGN:
        raise UsageError(f"{file} is no ONNX model: export it, as torch.onnx.export does")
    return file


def _targets(texts: Sequence[str], levels: Sequence[str], plugins: Sequence[Path]) -> list[Target]:
    """The targets of some backends, or of all installed compilers; at the levels, if there are any.

    Raises: UsageError for a level that none of them has, RegistryError, OptionError.
    """
    registry = BackendRegistry.discover(plugins)
    specs = chosen_backends(registry, list(texts) or installed_compilers(plugins))
    classes = {spec.name: registry.get(spec.name) for spec in specs}
    for level in levels:
        if not any(cls.having([level]) for cls in classes.values()):
            next(iter(classes.values())).check_level(level)
    targets = []
    for spec in specs:
        compiler = ",".join([spec.name, *(f"{k}={v}" for k, v in spec.options.items())])
        own = classes[spec.name].having(levels) if levels else ("",)
        targets += [Target(compiler, spec.release, pipeline=at) for at in own]
    return targets


def _data_sets(folder: Path) -> tuple[list[Arrays], list[Arrays]]:
    """The inputs of each data set in the folder of a model, and the outputs where there are any;
    none where they are no tensors, which is printed. Raises: Unreadable.
    """
    if folder.is_file() or not (sets := data_set_folders(folder)):
        return [], []
    try:
        inputs, outputs = interface(read_bytes(folder / MODEL), texts=True)
        fed = [read_tensors(own, "input", inputs) for own in sets]
        ends = [outputs if any(own.glob("output_*.pb")) else [] for own in sets]
        return fed, [read_tensors(own, "output", end) for own, end in zip(sets, ends)]
    except NotTensors as error:
        typer.echo(f"note: the data sets of {folder} are not read: {error}")
        return [], []


def _inputs(path: Path, model: Path) -> Arrays:
    """The arrays of an archive, or of a folder of ONNX's tests. Raises: UsageError, Unreadable."""
    if not path.exists():
        raise UsageError(f"--inputs {path}: no such file or folder")
    if path.is_dir():
        return read_tensors(path, "input", _input_names(model))
    if path.suffix == ".npy":
        raise UsageError(f"--inputs {path} is one array without a name: write it by numpy.savez")
    arrays = read_npz(path)
    unnamed = [f"arr_{i}" for i in range(len(arrays))]
    if list(arrays) != unnamed:
        return arrays
    names = _input_names(model)  # numpy.savez has names of its own for arrays without one
    return dict(zip(names, arrays.values())) if len(names) == len(arrays) else arrays


def _input_names(model: Path) -> list[str]:
    return interface(read_bytes(model), texts=True)[0]


def _next(check: ModelCheck) -> None:
    """Prints the next command for failures."""
    if not check.places:
        return
    saved = next((place.folder for place in check.places if place.folder), "")
    typer.echo("")
    if saved and not check.case.graph:
        typer.echo(f"next: python {saved}/repro.py")
    elif saved:
        typer.echo(f"next: nnfuzz reduce {saved}")
    else:
        typer.echo("next: --save DIR writes findings, which nnfuzz reduce makes small")
