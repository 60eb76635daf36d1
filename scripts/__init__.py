"""Scripts that measure, check, make and torment nnfuzz. Each runs as a module from the checkout,
such as `python -m scripts.check.bugs --help`; CONTRIBUTING.md lists them."""
