"""nnfuzz backends lists and removes environments."""

from __future__ import annotations

from nnfuzz.cli.commands import backends


def test_environments_are_listed_and_removed(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = tmp_path / "nnfuzz" / "environments" / "toyrel" / "1.0-abcd" / "bin" / "python"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x" * 2_000_000)
    (file.parents[2] / "2.0-abcd.part").mkdir()
    backends._print_environments()
    shown = capsys.readouterr().out
    assert "toyrel 1.0: 2 MB in" in shown and "2.0" not in shown
    backends.backends(prune=True)
    assert "removed toyrel 1.0" in capsys.readouterr().out
    assert not file.exists()
    backends._print_environments()
    assert capsys.readouterr().out == ""
