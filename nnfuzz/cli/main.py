"""The command line: mounts one sub-command per file and turns errors into exit codes.

Nothing heavy is imported before it is used, so that --help answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer

from nnfuzz.base.text import one_line
from nnfuzz.cli.commands.backends import backends
from nnfuzz.cli.commands.bugs import bugs
from nnfuzz.cli.commands.check import check
from nnfuzz.cli.commands.findings import bisect, file, reduce, replay
from nnfuzz.cli.commands.fuzz import fuzz, merge, settings
from nnfuzz.cli.commands.generate import generate
from nnfuzz.cli.commands.metrics import metrics
from nnfuzz.cli.commands.ops import ops
from nnfuzz.cli.commands.report import report, serve
from nnfuzz.cli.commands.rewrite import rewrite
from nnfuzz.cli.commands.select import select
from nnfuzz.cli.commands.show import show
from nnfuzz.cli.commands.verify import verify
from nnfuzz.cli.defaults import FILE, read_defaults
from nnfuzz.cli.errors import FAULT, INTERRUPTED, USAGE, UsageError, plain_message
from nnfuzz.cli.limits import limit_command
from nnfuzz.cli.shell import Grouped, GroupedGroup, guard_streams

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

_SHOWN = 120  # characters of a path that is refused


class _Nnfuzz(GroupedGroup):
    """The program itself, whose commands have defaults in a file."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Raises: UsageError for a mistake in the file, unless help or completion is wanted."""
        if args and not ctx.resilient_parsing and not {"-h", "--help", "--version"} & {*args}:
            ctx.default_map = read_defaults(self)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> object:
        """Turns an exception by which a plug-in or library would end the program into an error.

        Click would make exit code 1, which says "it fails", of the end of a file and of Ctrl-C.
        """
        try:
            return super().invoke(ctx)
        except SystemExit as error:
            raise UsageError(
                f"a plug-in or a library has ended the program (SystemExit: {error.code})"
            ) from error
        except EOFError as error:
            raise RuntimeError("the end of a file that nobody has checked") from error
        except KeyboardInterrupt as error:
            raise typer.Exit(INTERRUPTED) from error


def application() -> typer.Typer:
    app = typer.Typer(
        name="nnfuzz",
        help=HELP,
        no_args_is_help=True,
        cls=_Nnfuzz,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_top)
    fuzzing = (fuzz, settings, merge)
    findings = (replay, reduce, bisect, report, serve, metrics, file, show)
    for command in (*fuzzing, check, *findings, generate, select, verify, rewrite, backends):
        app.command(command.__name__, cls=Grouped)(command)
    app.add_typer(ops, name="ops")
    app.add_typer(bugs, name="bugs")
    return app


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
        call()
    except UsageError as error:
        _fail(str(error), USAGE)
    except MemoryError:
        _fail("there is not enough memory for what the given file means", USAGE)
    except Exception as error:
        if _disk_is_full(error):
            _fail("the disk is full: free some space (a campaign goes on with --resume)", USAGE)
        if refusal := _refused_path(error):
            _fail(refusal, USAGE)
        code = _code(error)
        if code is None:
            import traceback

            traceback.print_exc()
            _fail(f"nnfuzz failed ({type(error).__name__}): please report this", FAULT)
        _fail(plain_message(error), code)


def _code(error: Exception) -> int | None:
    """The exit code of an error that explains itself; None for an unexpected one."""
    from nnfuzz.backend.contract import BackendUnavailable, OptionError
    from nnfuzz.backend.registry import RegistryError
    from nnfuzz.backend.runner import RunnerError
    from nnfuzz.base.reading import Unreadable
    from nnfuzz.campaign.lanes import PoolError
    from nnfuzz.records.config import ConfigError
    from nnfuzz.reduction.trials import WorkerError
    from nnfuzz.store.store import StoreError
    from nnfuzz.testcase.client import ProducerError, ProducerSettingsError

    named = Unreadable | ConfigError | StoreError | RegistryError | OptionError
    if isinstance(error, named | ProducerSettingsError):
        return USAGE
    if isinstance(error, RunnerError):
        return USAGE if BackendUnavailable.__name__ in str(error) else FAULT
    return FAULT if isinstance(error, PoolError | ProducerError | WorkerError) else None


def _refused_path(error: Exception) -> str:
    """Why the system refuses a path that a command was given; "" for another error."""
    from errno import EACCES, EISDIR, ELOOP, ENAMETOOLONG, ENOTDIR, EPERM, EROFS

    refusals = (EACCES, EISDIR, ELOOP, ENAMETOOLONG, ENOTDIR, EPERM, EROFS)
    if not isinstance(error, OSError) or error.errno not in refusals or not error.filename:
        return ""
    path = one_line(error.filename)
    short = path if len(path) <= _SHOWN else f"{path[:_SHOWN]}..."
    return f"{short}: {error.strerror}; name another path"


def _disk_is_full(error: Exception) -> bool:
    import errno
    import sqlite3

    if isinstance(error, sqlite3.OperationalError):
        return error.sqlite_errorcode == sqlite3.SQLITE_FULL
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def _fail(message: str, code: int) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
