"""`python -m nnfuzz`: the command line, where no `nnfuzz` is on the path."""

from nnfuzz.cli.main import main

main()
