"""The usual shares of a campaign's tests, for the settings and for the help of their options."""

DEFAULT_DYNAMIC, DEFAULT_SKELETONS, DEFAULT_QUANTIZE, DEFAULT_EDGES = 0.1, 0.2, 0.1, 0.1
DEFAULT_SPELLED, DEFAULT_FORMS, AIMED_FORMS = 0.3, 0.2, 0.3
DEFAULT_PIPELINES = 0.5
