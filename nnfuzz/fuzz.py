"""`python -m nnfuzz.fuzz` is the same as `nnfuzz fuzz`."""

from __future__ import annotations


def main() -> None:
    import typer

    from nnfuzz.cli.fuzz import fuzz
    from nnfuzz.cli.main import run

    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command(name="python -m nnfuzz.fuzz")(fuzz)
    run(app)


if __name__ == "__main__":
    main()
