"""Plug-ins that were written for an earlier nnfuzz import its modules by names of that time."""

from __future__ import annotations

import subprocess
import sys

import pytest

import nnfuzz.backend.contract
from nnfuzz.moved import new_name


def test_an_old_name_gives_the_module_itself():
    with pytest.warns(DeprecationWarning, match="today"):
        from nnfuzz.execute.backend import Backend  # type: ignore[import-not-found]
    assert Backend is nnfuzz.backend.contract.Backend
    assert nnfuzz.backend.contract.__spec__.name == "nnfuzz.backend.contract"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nnfuzz.spec.families.elementwise", "nnfuzz.operators.families.elementwise"),
        ("nnfuzz.execute.outcome", "nnfuzz.backend.outcome"),
    ],
)
def test_a_module_is_loaded_once_under_both_names(old, new):
    code = f"import {old}, sys; assert sys.modules[{old!r}] is sys.modules[{new!r}]"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_other_names_are_left_alone():
    assert new_name("nnfuzz.specification") == new_name("nnfuzz.backend") == new_name("numpy") == ""
