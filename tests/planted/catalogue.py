"""All changes of the bench."""

from tests.planted import (
    legal,
    wrong_elementwise,
    wrong_numbers,
    wrong_rewrites,
    wrong_shapes,
    wrong_sums,
)

PLANTED_BUGS = (
    *wrong_sums.BUGS,
    *wrong_elementwise.BUGS,
    *wrong_shapes.BUGS,
    *wrong_rewrites.BUGS,
    *wrong_numbers.BUGS,
)
LEGAL_VARIATIONS = tuple(legal.VARIATIONS)
