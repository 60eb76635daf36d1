"""What an attribute costs, also where its modes depend on other attributes."""

from nnfuzz.opspecs.resize import ResizeNearest

from nnfuzz.reduction.simplicity import attribute_cost, declaration, value_cost
from nnfuzz.reduction.values import simpler_values


def resize(mode, transformation="asymmetric"):
    return ResizeNearest(
        scales=(1,),
        by_size=0,
        transformation=transformation,
        region=(0, 1),
        nearest_mode=mode,
    )


def test_modes_that_depend_on_others_become_the_first_that_is_left():
    assert simpler_values(resize("floor"), "nearest_mode", "floor") == [
        "round_prefer_floor",
        "round_prefer_ceil",
    ]
    assert not simpler_values(resize("round_prefer_floor"), "nearest_mode", "round_prefer_floor")
    assert attribute_cost(resize("floor")) > attribute_cost(resize("round_prefer_floor"))


def test_modes_in_a_fixed_order_keep_it():
    plain, other = (resize("floor", name) for name in ("half_pixel", "asymmetric"))
    declared = declaration(plain, "transformation")
    assert declared is plain.declared["transformation"]
    costs = [value_cost("transformation", op.transformation, declared) for op in (plain, other)]
    assert costs == [0, 1]
