"""Motifs that a choice of operators can write."""

from __future__ import annotations

from nnfuzz.generate.writable import writable
from nnfuzz.operators.motif import load_motifs, motif
from nnfuzz.operators.registry import OpRegistry

REGISTRY = OpRegistry.load()
MOTIFS = tuple(load_motifs())


def chosen(*names: str):
    return tuple(REGISTRY.select(names).specs())


@motif(size=2)
def one_or_the_other(m, x):
    """Has a form with each of two operators."""
    m(m.draw.choice(("Relu", "Tanh")), x)


def test_all_operators_can_write_almost_all_motifs():
    assert len(writable(MOTIFS, tuple(REGISTRY.specs()))) >= 0.97 * len(MOTIFS)


def test_a_motif_that_lacks_an_operator_is_left_out():
    names = {m.name for m in writable(MOTIFS, chosen("Mul", "Sigmoid"))}
    assert names and names < {m.name for m in MOTIFS}


def test_one_form_that_can_be_written_is_enough():
    assert writable((one_or_the_other,), chosen("Relu")) == (one_or_the_other,)
    assert writable((one_or_the_other,), chosen("Exp")) == ()
