"""Which domains campaigns and corpora have."""

from __future__ import annotations

import pytest

from nnfuzz.library.domains import chosen_domains
from nnfuzz.records.config import ConfigError

TAKEN = {"one": ("com.acme", "com.microsoft"), "two": ("com.microsoft",)}


def test_by_default_it_is_what_every_backend_takes():
    assert chosen_domains(TAKEN, {}) == ("com.microsoft",)
    assert chosen_domains({**TAKEN, "three": ()}, {}) == ()
    assert chosen_domains(TAKEN, {}, usual=False) == chosen_domains({}, {}) == ()
    assert chosen_domains(TAKEN, {"invalid": True}) == ()


def test_what_is_asked_for_decides():
    assert chosen_domains(TAKEN, {"domains": ("ai.onnx",)}) == ()
    assert chosen_domains({}, {"domains": ("com.acme",)}) == ("com.acme",)
    assert chosen_domains(TAKEN, {"operators": ("Add",)}) == ()
    named = {"operators": ("Add", "com.microsoft.Gelu")}
    assert chosen_domains(TAKEN, named) == ("com.microsoft",)


def test_a_backend_without_the_domain_is_named():
    with pytest.raises(ConfigError, match="two takes no operators of the domain"):
        chosen_domains(TAKEN, {"domains": ("com.acme",)})
    with pytest.raises(ConfigError, match="two takes no operators of the domain"):
        chosen_domains(TAKEN, {"operators": ("com.acme.Gelu",)})
