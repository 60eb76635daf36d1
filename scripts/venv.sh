# Sourced by the other scripts: makes sure that .venv holds nnfuzz and everything it needs.
# Makes it on first use and again when pyproject.toml has changed. PYTHON picks the interpreter.
cd "$(dirname "$0")/.." || exit 3
if [ ! -e .venv/.ready ] || [ pyproject.toml -nt .venv/.ready ]; then
    echo "nnfuzz: setting up .venv (once; a few minutes, mostly downloads)" >&2
    "${PYTHON:-python3}" -m venv .venv || exit 3
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -e '.[dev]' || exit 3
    # On all cores, which pip does not; some files of packages are templates and no Python.
    .venv/bin/python -m compileall -q -j 0 .venv/lib >/dev/null 2>&1 || :
    touch .venv/.ready
fi
