"""Which files of a folder are mined, and what is said of the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nnfuzz.base.reading import Unreadable
from nnfuzz.mine.sources import UNKNOWN, builds_models, licence_of, source_of
from nnfuzz.sandbox.zygote import remove_tree
from tests.mine.models import attention, save

HUGE = 3 << 30


def sparse(file: Path) -> Path:
    with file.open("wb") as opened:
        opened.truncate(HUGE)
    return file


def test_what_is_no_file_or_not_of_the_folder_is_named(tmp_path):
    folder = tmp_path / "zoo"
    save(attention(), folder / "inner" / "good.onnx")
    (folder / "good.py").write_text("")
    (tmp_path / "other.py").write_text("")
    os.mkfifo(folder / "pipe.onnx")
    (folder / "circle.onnx").symlink_to("circle.onnx")
    (folder / "zero.prototxt").symlink_to("/dev/zero")
    (folder / "linked.onnx").symlink_to(folder / "inner" / "good.onnx")
    (folder / "outside.py").symlink_to("../other.py")
    (folder / "folder.onnx").mkdir()
    (folder / "line\nbreak.onnx").write_bytes(b"")
    (folder / os.fsdecode(b"\xff.onnx")).write_bytes(b"")
    found = source_of(str(folder))
    assert [file.name for file in found.models] == ["good.onnx", "linked.onnx"]
    assert [file.name for file in found.scripts] == ["good.py"]
    assert all("\n" not in problem for problem in found.problems)
    text = "\n".join(sorted(found.problems))
    for name in ("pipe.onnx", "circle.onnx", "zero.prototxt"):
        assert f"{name} cannot be read: it is no regular file" in text
    assert "outside.py is not run: it is a link to" in text
    assert text.count("characters that cannot be printed") == 2
    assert len(found.problems) == 6


def test_folders_in_folders_are_no_recursion(tmp_path):
    deep = place = tmp_path / "deep"
    for _ in range(1100):
        place.mkdir()
        place = place / "d"
    try:
        assert source_of(str(deep)).models == ()
    finally:
        remove_tree(deep)  # pytest cannot


def test_large_texts_are_not_read(tmp_path):
    with pytest.raises(Unreadable, match="has more than"):
        builds_models(sparse(tmp_path / "large.py"))
    sparse(tmp_path / "LICENSE")
    assert licence_of(tmp_path) == UNKNOWN
