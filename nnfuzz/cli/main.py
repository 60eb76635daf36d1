"""The command line: its commands, each imported when it is first looked up, and its exit codes."""

from __future__ import annotations

import signal
import sys
from collections import UserDict
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer

from nnfuzz.base.reading import Unreadable
from nnfuzz.base.text import one_line
from nnfuzz.cli.errors import FAULT, INTERRUPTED, USAGE, UsageError, plain_message
from nnfuzz.cli.limits import limit_command
from nnfuzz.cli.options import FILE, read_defaults
from nnfuzz.cli.shell import Grouped, GroupedGroup, guard_streams, usage_in_one_line

HELP = """Find bugs in deep-learning compilers with random valid models.

\b
  nnfuzz fuzz --backend tvm --time 10m      fuzz Apache TVM for ten minutes
  nnfuzz check mine.onnx                    do compilers compute a model of yours right?
  nnfuzz replay nnfuzz-out/.../FOLDER       does the finding still reproduce?
  nnfuzz report nnfuzz-out/...              the campaign as one HTML page
  nnfuzz backends                           which compilers are here, and how to get the others

Defaults for options may stand in nnfuzz.toml in the working directory, in a table per command:

\b
  [fuzz]
  backend = ["tvm"]
  time = "10m"

Exit codes: 0 nothing found, 1 findings, 2 wrong usage, 3 a fault of nnfuzz itself.
"""

COMMANDS = {
    "fuzz": ("fuzz.fuzz", "Fuzz compilers with random valid models and collect findings."),
    "settings": ("fuzz.settings", "List the settings that fuzz --set NAME=VALUE changes."),
    "merge": ("fuzz.merge", "Merge the parts of a campaign."),
    "check": ("check.check", "Check whether compilers compute a model of yours right."),
    "replay": ("findings.replay", "Run a finding again."),
    "reduce": ("findings.reduce", "Reduce a finding to the smallest model that fails alike."),
    "bisect": ("findings.bisect", "Name the release with which a finding came or went."),
    "report": ("fuzz.report", "Write a campaign as one self-contained HTML page."),
    "metrics": ("models.metrics", "Count how diverse models are, also those of other tools."),
    "file": ("findings.file", "Print a finding as an issue in the form of a tracker."),
    "show": ("models.show", "Print the graph of a finding or of any ONNX model, or draw it."),
    "generate": ("corpus.generate", "Write a folder of models as ONNX's backend tests."),
    "select": ("corpus.select", "Copy those models of a folder that cover most."),
    "verify": ("corpus.verify", "Run a folder of models against a compiler."),
    "backends": ("backends.backends", "List backends, and say how to get those that are missing."),
    "init": ("init.init", "Write an adapter of a compiler of yours, with a test and a workflow."),
    "ops": ("ops.ops", "List the operators that models are made of; check their specs."),
    "bugs": ("bugs.bugs", "Keep bugs in a ledger: a folder for git."),
}
"""By name: the place below nnfuzz.cli.commands, and a line for `nnfuzz --help`."""

_SHOWN = 120  # characters of a path that is refused


class _Commands(UserDict[str, Any]):
    """The commands by name. The module of one is imported when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        return _command(name, self.data[name][0])


@cache
def _command(name: str, place: str) -> Any:
    module, _, attribute = place.partition(".")
    found = getattr(import_module(f"nnfuzz.cli.commands.{module}"), attribute)
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, cls=Grouped)(found)
    return typer.main.get_command(app)


class _Nnfuzz(GroupedGroup):
    """The program itself, whose commands have defaults in a file."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Raises: UsageError for a mistake in the file, unless help is wanted."""
        if args and not {"-h", "--help", "--version"} & {*args}:
            ctx.default_map = read_defaults(self)
        with usage_in_one_line():
            return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def invoke(self, ctx: Any) -> object:
        """Turns an exception by which a plug-in or library would end the program into an error.

        Click would make exit code 1, which says "it fails", of the end of a file and of Ctrl-C.
        """
        if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:  # as the program has begun
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with usage_in_one_line():
                return super().invoke(ctx)
        except SystemExit as error:
            raise UsageError(
                f"a plug-in or a library has ended the program (SystemExit: {error.code})"
            ) from error
        except EOFError as error:
            raise RuntimeError("the end of a file that nobody has checked") from error
        except (KeyboardInterrupt, Exception) as error:
            if not _interrupted(error):
                raise
            raise typer.Exit(INTERRUPTED) from error


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error. Python wraps it in another one while it makes a class."""
    while error and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def application() -> Any:
    """The program as a click command."""
    app = typer.Typer(
        name="nnfuzz",
        help=HELP,
        no_args_is_help=True,
        add_completion=False,
        cls=_Nnfuzz,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_top)
    group: Any = typer.main.get_command(app)
    group.commands = _Commands(COMMANDS)
    return group


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"nnfuzz {version('nnfuzz')}")
        raise typer.Exit


def _top(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, help="Show the version and exit."),
    ] = False,
) -> None:
    """Options in front of every command."""
    table = (context.default_map or {}).get(context.invoked_subcommand or "")
    if table:
        settings = [text.partition("=")[0] for text in table.get("set", ())]
        options = [name.replace("_", "-") for name in table if name != "set"]
        typer.echo(f"defaults from {FILE}: {', '.join(options + settings)}", err=True)


def main() -> None:
    guard_streams()
    limit_command(sys.argv[1:])
    run(application())


def run(call: Callable[[], object]) -> None:
    """Runs the command and exits; a mistake of the user becomes one line and exit code 2."""
    try:
        try:
            call()
        finally:
            sys.stdout.flush()
    except Unreadable as error:
        _fail(plain_message(error), USAGE)
    except MemoryError:
        _fail("there is not enough memory for what the given file means", USAGE)
    except Exception as error:
        if reason := _refusal(error):
            _fail(reason, USAGE)
        code = _code(error)
        if code is None:
            import traceback

            traceback.print_exc()
            _fail(f"nnfuzz failed ({type(error).__name__}): please report this", FAULT)
        _fail(plain_message(error), code)


def _code(error: Exception) -> int | None:
    """The exit code of an error that explains itself; None for an unexpected one."""
    from nnfuzz.backend.contract import BackendUnavailable
    from nnfuzz.backend.runner import RunnerError
    from nnfuzz.campaign.lanes import PoolError
    from nnfuzz.reduction.trials import WorkerError
    from nnfuzz.testcase.client import ProducerError

    if isinstance(error, RunnerError) and BackendUnavailable.__name__ in str(error):
        return USAGE
    return (
        FAULT if isinstance(error, RunnerError | PoolError | ProducerError | WorkerError) else None
    )


def _refusal(error: Exception) -> str:
    """Why the system or a campaign's file refuses what a command wants; "" for another error."""
    import errno
    import sqlite3

    full = "the disk is full or fails: free space (a campaign goes on with --resume)"
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            return full
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return f"the file of a campaign is damaged ({one_line(error)}): start a new one"
    if not isinstance(error, OSError):
        return ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
        return full
    names = "EACCES EISDIR ELOOP ENAMETOOLONG ENOTDIR EPERM EROFS"
    if not error.filename or errno.errorcode.get(error.errno or 0) not in names.split():
        return ""
    path = one_line(error.filename)
    short = path if len(path) <= _SHOWN else f"{path[:_SHOWN]}..."
    return f"{short}: {error.strerror}; name another path"


def _fail(message: str, code: int) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
