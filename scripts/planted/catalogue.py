"""All changes of the bench."""

from planted import legal, wrong_kernels, wrong_numbers, wrong_rewrites

PLANTED_BUGS = (*wrong_kernels.BUGS, *wrong_rewrites.BUGS, *wrong_numbers.BUGS)
LEGAL_VARIATIONS = tuple(legal.VARIATIONS)
