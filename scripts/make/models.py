"""Builds nnfuzz-models-N.tar.gz, the corpus of a release: a selection of many generated models.

python -m scripts.make.models 1 --out dist      some ten minutes on two cores

The archive holds the same bytes whenever the same versions build it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nnfuzz.corpus.select import KINDS

SHARES = {"direct": 0.8, "torchscript": 0.2}
"""Shares of the candidates by exporter: only direct emission has every operator and dtype;
PyTorch's exporter writes the patterns that compilers meet most."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("number", type=int, help="of the release: nnfuzz-models-NUMBER")
    parser.add_argument("--count", type=int, default=500, help="models at most (default 500)")
    parser.add_argument("--max-bytes", default="20M", help="of their files (default 20M)")
    parser.add_argument("--candidates", type=int, default=3000, help="to choose from")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("dist"))
    args = parser.parse_args(argv)
    name = f"nnfuzz-models-{args.number}"
    with tempfile.TemporaryDirectory(prefix="nnfuzz-models-") as text:
        work = Path(text)
        for exporter, share in SHARES.items():
            count = max(1, round(args.candidates * share))
            nnfuzz("generate", "--exporter", exporter, "--count", count, "--seed", args.seed,
                   "--out", work / exporter)  # fmt: skip
        nnfuzz("select", *(work / exporter for exporter in SHARES), "--count", args.count,
               "--max-bytes", args.max_bytes, "--out", work / name)  # fmt: skip
        manifest = json.loads((work / name / "manifest.json").read_text())
        (work / name / "COVERAGE.md").write_text(coverage(name, manifest), encoding="utf-8")
        args.out.mkdir(parents=True, exist_ok=True)
        archive = pack(work / name, args.out / f"{name}.tar.gz")
    print(f"{archive}: {len(manifest['tests'])} models, {archive.stat().st_size:,} bytes packed")
    return 0


def nnfuzz(*arguments: object) -> None:
    """Raises: subprocess.CalledProcessError."""
    subprocess.run([sys.executable, "-m", "nnfuzz", *map(str, arguments)], check=True)


def coverage(name: str, manifest: Mapping[str, Any]) -> str:
    """The table of what the models cover."""
    lines = [f"# {name}", "", f"{len(manifest['tests'])} models, {manifest['bytes']:,} bytes.", ""]
    lines += ["| what | covered | of the candidates | share |", "| --- | --- | --- | --- |"]
    for kind, (kept, whole) in manifest["coverage"].items():
        lines.append(f"| {KINDS[kind]} | {kept} | {whole} | {kept / whole:.0%} |")
    return "\n".join(lines) + "\n"


def pack(folder: Path, archive: Path) -> Path:
    """A compressed archive of a folder without times, owners or the order of the disk."""

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.mtime, info.uid, info.gid, info.uname, info.gname = 0, 0, 0, "", ""
        info.mode = 0o755 if info.isdir() else 0o644
        return info

    with (
        open(archive, "wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted([folder, *folder.rglob("*")]):
            tar.add(path, path.relative_to(folder.parent), recursive=False, filter=plain)
    return archive


if __name__ == "__main__":
    sys.exit(main())
