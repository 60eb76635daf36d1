"""What all operators with windows have in common."""

from __future__ import annotations

import random

import pytest

from nnfuzz.check.instances import SIZES, solved
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.families.window import Window
from nnfuzz.operators.operator import ConstraintError
from nnfuzz.operators.registry import OpRegistry

SPECS = [spec for spec in OpRegistry.load().specs() if issubclass(spec, Window)]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_every_axis_has_attributes_and_no_other(spec):
    """An operator that takes its attributes from another one may get the 8 pads of a Pad."""
    draw = Draw(random.Random(1), SIZES)
    found = (solved(spec, spec.signatures()[0], 4, draw) for _ in range(8))
    instance = next(i for i in found if i is not None)
    for name in ("pads", "strides", "dilations"):
        if given := instance.op.attributes.get(name):
            for other in (given * 2, given[:-1]):
                op = spec(**{**instance.op.attributes, name: other})
                with pytest.raises(ConstraintError):
                    op.check(*instance.types)
