"""Scripts that measure, check and torment nnfuzz, or make its data. Each runs as a module of the
checkout, such as `python -m scripts.check.triage --help`; CONTRIBUTING.md lists them."""
