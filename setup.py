"""Finds the packages; `pyproject.toml` holds everything else.

opspecs/ and backends/ stand at the top of the checkout, since they are the two extension points.
They are installed as `nnfuzz.opspecs` and `nnfuzz.backends`, which no setting of setuptools can
discover.
"""

from setuptools import find_packages, setup

engine = find_packages(include=["nnfuzz", "nnfuzz.*"])
plugins = find_packages(include=["opspecs", "opspecs.*", "backends", "backends.*"])

setup(
    packages=engine + [f"nnfuzz.{package}" for package in plugins],
    package_dir={"nnfuzz": "nnfuzz"}
    | {f"nnfuzz.{package}": package.replace(".", "/") for package in plugins},
)
