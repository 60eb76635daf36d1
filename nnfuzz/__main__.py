"""The program. Ctrl-C ends it without a traceback, also while it imports what it needs."""

import signal

if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until a command runs, which answers it

from nnfuzz.cli.main import main

if __name__ == "__main__":
    main()
