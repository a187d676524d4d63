#!/usr/bin/env bash
# The tests with the oldest versions that pyproject.toml declares, in an environment of their own.
#     requirements/oldest.sh [tests ...]
#     WORK=folder requirements/oldest.sh      keep the environment there
# Needs a network and, where no CPU build of that torch is at hand, about 6 GB of room.
set -euo pipefail
cd "$(dirname "$0")/.."
work=${WORK:-$(mktemp -d)}
[ -n "${WORK:-}" ] || trap 'rm -rf "$work"' EXIT
mkdir -p "$work"
if [ ! -e "$work/done" ]; then
    "${PYTHON:-python3.11}" -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet uv
    # lowest-direct: what is declared here at its oldest, what those ask for as they resolve today
    "$work/venv/bin/uv" pip compile pyproject.toml --resolution lowest-direct --python-version 3.11 \
        --no-config --no-annotate --no-header --quiet --output-file "$work/oldest.txt"
    "$work/venv/bin/pip" install --quiet --requirement "$work/oldest.txt"
    "$work/venv/bin/pip" install --quiet pytest pytest-xdist hypothesis hatchling editables packaging
    "$work/venv/bin/pip" install --quiet --no-deps --no-build-isolation --editable .
    touch "$work/done"
fi
"$work/venv/bin/pip" list 2>/dev/null |
    grep -iE '^(cloudpickle|filelock|jinja2|numpy|pandas|pyarrow|rich|scikit-learn|scipy|torch|typer) '
tests=${*:-tests/core tests/data tests/run/test_store.py tests/proofs/test_network_constructs.py
    tests/proofs/test_networks.py tests/attacks/test_closed_form.py tests/cli/test_cli.py}
# shellcheck disable=SC2086
OMP_NUM_THREADS=1 "$work/venv/bin/python" -m pytest -n 2 $tests
