"""A packed finding is read like any other, and a kill or a damaged archive costs nothing else."""

from __future__ import annotations

import io
import lzma
import tarfile
from dataclasses import replace

import pytest

from nnfuzz.cli.commands.show import read_graph
from nnfuzz.findings import folder as finding_folder
from nnfuzz.findings import packed_folder
from nnfuzz.findings.folder import (
    REDUCED,
    FindingError,
    is_finding,
    read_finding,
    rename_signature,
    write_finding,
)
from nnfuzz.findings.packed_folder import PACKED, is_packed, pack_folder, unpack_folder


@pytest.fixture
def folder(finding_of, tmp_path):
    finding = finding_of("planted,bug=value")
    made = write_finding(tmp_path / "f", finding)
    write_finding(made / REDUCED, replace(finding, localisation=None))
    return made


def files(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_what_is_packed_is_read_and_comes_back(folder):
    before, whole, reduced = files(folder), read_finding(folder), read_finding(folder / REDUCED)
    graph = read_graph(folder)
    pack_folder(folder)
    assert [path.name for path in folder.iterdir()] == [PACKED]
    assert len((folder / PACKED).read_bytes()) < sum(map(len, before.values())) / 3
    assert is_finding(folder) and is_packed(folder)
    assert read_finding(folder).failure == whole.failure
    assert read_finding(folder).case.digest() == whole.case.digest()
    assert read_finding(folder / REDUCED).case.digest() == reduced.case.digest()
    assert read_graph(folder) == graph
    unpack_folder(folder)
    assert files(folder) == before
    unpack_folder(folder)
    assert files(folder) == before


def test_a_kill_leaves_a_whole_archive_or_whole_files(folder, monkeypatch):
    before = files(folder)
    with monkeypatch.context() as killed:
        killed.setattr(packed_folder.shutil, "rmtree", None)
        killed.setattr(packed_folder.Path, "unlink", None)
        with pytest.raises(TypeError):
            pack_folder(folder)
    assert is_packed(folder)
    (folder / "model.onnx").unlink()
    assert read_finding(folder).case.model == before[(folder / "model.onnx").relative_to(folder)]
    pack_folder(folder)
    assert [path.name for path in folder.iterdir()] == [PACKED]
    unlink = packed_folder.Path.unlink

    def last(path, **more):
        if path.name == PACKED:
            raise KeyboardInterrupt
        unlink(path, **more)

    with monkeypatch.context() as killed:
        killed.setattr(packed_folder.Path, "unlink", last)
        with pytest.raises(KeyboardInterrupt):
            unpack_folder(folder)
    assert is_packed(folder) and is_finding(folder)
    unpack_folder(folder)
    assert files(folder) == before


def test_a_finding_that_is_packed_while_it_is_read_is_read(folder, monkeypatch):
    digest, read = read_finding(folder).case.digest(), finding_folder._read

    def late(place, trusted):
        if place == folder:
            pack_folder(folder)
        return read(place, trusted)

    monkeypatch.setattr(finding_folder, "_read", late)
    assert read_finding(folder).case.digest() == digest


def test_a_new_signature_is_in_the_files(folder):
    pack_folder(folder)
    signature = replace(read_finding(folder).failure.signature, hash="0" * 12)
    rename_signature(folder, signature)
    assert not is_packed(folder)
    assert read_finding(folder).failure.signature == signature


def member(name, **more):
    made = tarfile.TarInfo(name)
    for key, value in more.items():
        setattr(made, key, value)
    return made


HOSTILE = {
    "outside": [member("../outside")],
    "absolute": [member("/tmp/outside")],
    "a link": [member("finding.json", type=tarfile.SYMTYPE, linkname="/etc/passwd")],
    "a device": [member("finding.json", type=tarfile.CHRTYPE)],
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_an_archive_of_somebody_else_writes_nothing_outside(folder, kind):
    pack_folder(folder)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz") as archive:
        for item in HOSTILE[kind]:
            archive.addfile(item, io.BytesIO(b""))
    (folder / PACKED).write_bytes(buffer.getvalue())
    with pytest.raises(FindingError, match=r"outside|regular"):
        read_finding(folder)
    assert not (folder.parent / "outside").exists()


def test_an_archive_that_is_cut_off_or_too_large_is_told(folder, monkeypatch):
    pack_folder(folder)
    data = (folder / PACKED).read_bytes()
    (folder / PACKED).write_bytes(data[:-20])
    with pytest.raises(FindingError, match="cut off"):
        read_finding(folder)
    monkeypatch.setattr(packed_folder, "MAX_ARRAY_BYTES", 1 << 16)
    (folder / PACKED).write_bytes(lzma.compress(bytes(1 << 20)))
    with pytest.raises(FindingError, match="more than 65,536 bytes"):
        read_finding(folder)
