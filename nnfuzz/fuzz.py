"""`python -m nnfuzz.fuzz` is the same as `nnfuzz fuzz`."""

from __future__ import annotations


def main() -> None:
    import sys

    from nnfuzz.cli.main import application, run

    run(lambda: application()(["fuzz", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
