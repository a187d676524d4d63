#!/usr/bin/env bash
# The sample projects of tests/plugins/guests, each with the real package in an environment of its own:
#     requirements/guests.sh [deepchecks | skore | pre-commit | documents ...]
# An environment sees .venv through a .pth file, so pip adds only what the guest brings. Needs a network.
# Prints the seconds of installing beside those of the tests; not part of .ci/run.
set -uo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-$PWD/.venv/bin/python}
site=$("$python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
declare -A packages=(
    # deepchecks 0.19.1 imports pkg_resources, and names of scikit-learn that 1.8 took away
    [deepchecks]="deepchecks==0.19.1 setuptools<81 scikit-learn>=1.6,<1.8 pandas<3 numpy<2.4"
    [skore]="skore>=0.28"
    [pre-commit]="pre-commit>=4"
    [documents]="in-toto-attestation>=0.9.3 securesystemslib>=1.6 lxml>=6 pypdf>=6"
)
failed=()
for guest in ${*:-deepchecks skore pre-commit documents}; do
    "$python" -m venv "$work/$guest"
    own=$("$work/$guest/bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")
    echo "$site" > "$own/bare.pth"
    began=$SECONDS
    # shellcheck disable=SC2086
    "$work/$guest/bin/pip" install --quiet --no-compile ${packages[$guest]} || failed+=("$guest: pip")
    installed=$((SECONDS - began))
    began=$SECONDS
    PYTHONPATH=src OMP_NUM_THREADS=1 "$work/$guest/bin/python" -m pytest -m heavy -p no:cacheprovider -ra \
        "tests/plugins/guests/test_${guest//-/_}.py" || failed+=("$guest")
    echo "== $guest: installed in $installed s, played in $((SECONDS - began)) s"
done
((${#failed[@]} == 0)) || { printf 'FAILED: %s\n' "${failed[@]}"; exit 1; }
