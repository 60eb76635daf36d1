"""Lists schemas of ONNX that changed after the release of onnx that introduced their opset.

    python -m scripts.make.schemas          print the differences of all releases on PyPI
    python -m scripts.make.schemas --write  and write nnfuzz/check/late_schemas.json, which
                                           generation reads

Each release's wheel is unpacked into a folder of its own (--folder, kept for the next run), where a
process lists its schemas: attributes with their types, inputs and outputs with theirs, and the
dtypes of each type variable, by (operator, since_version). An entry of a later release is late if
the release that introduced the opset lacks it, and withdrawn in the opposite case. Release
candidates and the releases before FIRST, whose wheels Python 3.11 cannot load, do not count: FIRST
counts as the one that introduced older opsets.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

Parts = set[tuple[str, str, str]]
Schemas = dict[str, Parts]
""""OPERATOR-SINCE" -> (kind, name, detail) of all entries of a schema."""
FIRST = (1, 13, 1)
TABLE = Path(__file__).parents[2] / "nnfuzz" / "check" / "late_schemas.json"
ASK = """
import json, onnx, onnx.defs
schemas = {}
for schema in onnx.defs.get_all_schemas_with_history():
    if schema.domain:
        continue
    parts = schemas.setdefault(f"{schema.name}-{schema.since_version}", [])
    for name, attribute in schema.attributes.items():
        parts.append(["attribute", name, str(attribute.type).rpartition(".")[2]])
    for kind in ("inputs", "outputs"):
        for place, formal in enumerate(getattr(schema, kind)):
            option = str(formal.option).rpartition(".")[2]
            parts.append([kind[:-1], formal.name or str(place), option])
    for constraint in schema.type_constraints:
        for type_ in constraint.allowed_type_strs:
            parts.append(["type", constraint.type_param_str, type_])
print(json.dumps({"opset": onnx.defs.onnx_opset_version(), "schemas": schemas}))
"""


def pip(*arguments: str) -> str:
    command = [sys.executable, "-m", "pip", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def releases() -> list[str]:
    """The releases on PyPI from FIRST on, oldest first."""
    listed = re.search(r"Available versions: (.*)", pip("index", "versions", "onnx"))
    assert listed, "pip has listed no version of onnx"
    found = {tuple(map(int, text.split("."))): text for text in listed[1].split(", ")}
    return [found[version] for version in sorted(found) if version >= FIRST]


def schemas_of(release: str, folder: Path) -> tuple[int, Schemas]:
    """The newest opset of a release, and its schemas."""
    place = folder / release
    if not place.exists():
        wheel = ("--no-deps", "--only-binary", ":all:", "--target", str(place), f"onnx=={release}")
        pip("install", "--quiet", *wheel)
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        env={**os.environ, "PYTHONPATH": str(place)},
        cwd=place,
        check=True,
        capture_output=True,
        text=True,
    )
    told = json.loads(done.stdout)
    return told["opset"], {k: {tuple(part) for part in v} for k, v in told["schemas"].items()}


def differences(folder: Path) -> list[dict[str, object]]:
    """A row for each difference between a schema and the one of the release that introduced its
    opset, or, if that has none, the schema that was in force at that opset.
    """
    newest: dict[int, str] = {}
    last: Schemas = {}
    rows: list[dict[str, object]] = []
    for release in releases():
        opset, schemas = schemas_of(release, folder)
        for reached in range(max(newest, default=0) + 1, opset + 1):
            newest[reached] = release
        for name, parts in sorted(schemas.items()):
            operator, _, since = name.rpartition("-")
            if newest[int(since)] == release:
                continue
            before = last[name] if name in last else _in_force(last, operator, int(since))
            where = (operator, int(since), newest[int(since)], release)
            rows += _rows(where, "late", parts - before)
            rows += _rows(where, "withdrawn", before - parts)
        last = schemas
        print(f"onnx {release}: opset {opset}, {len(schemas)} schemas", file=sys.stderr)
    return rows


def _in_force(schemas: Schemas, operator: str, opset: int) -> Parts:
    """The newest schema of an operator up to an opset; empty for none."""
    versions = [int(k.rpartition("-")[2]) for k in schemas if k.rpartition("-")[0] == operator]
    reached = [version for version in versions if version <= opset]
    return schemas[f"{operator}-{max(reached)}"] if reached else set()


def _rows(where: tuple[str, int, str, str], change: str, parts: Parts) -> list[dict[str, object]]:
    names = ("operator", "since", "brought", "release", "change", "kind", "name", "detail")
    return [dict(zip(names, (*where, change, *part), strict=True)) for part in sorted(parts)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "onnx-wheels")
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.name}")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    rows = differences(options.folder)
    for row in rows:
        print(
            f"{row['operator']}-{row['since']} (onnx {row['brought']}): {row['change']} in "
            f"{row['release']}: {row['kind']} {row['name']} {row['detail']}".rstrip()
        )
    if options.write:
        TABLE.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


if __name__ == "__main__":
    main()
