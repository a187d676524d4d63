#!/usr/bin/env bash
# Resolve pyproject.toml anew and write requirements/lock.txt, and requirements/heavy.txt: what
# `make test-all` needs on top of it (Ray, and Playwright to drive a browser).
#
# The lock is for plain pip on any machine: torch is written without a local label such as "+cpu"
# (which only a machine with that very wheel could install), and what only torch's CUDA build needs
# is left out: pip adds it by itself where that build is taken.
set -euo pipefail
cd "$(dirname "$0")/.."

TORCH=2.13.0
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools/venv"
"$tools/venv/bin/pip" install --quiet uv
echo "torch==$TORCH" > "$tools/pins.txt"

"$tools/venv/bin/uv" pip compile pyproject.toml \
    --universal --python-version 3.11 --no-config --no-sources \
    --constraint "$tools/pins.txt" --group dev \
    --no-annotate --no-header --quiet --output-file "$tools/lock.txt" "$@"

{
    echo "# Written by requirements/lock.sh from pyproject.toml; do not edit by hand."
    grep -vE '^(nvidia-|cuda-|triton|durometer)' "$tools/lock.txt" \
        | sed -E 's/^torch==([0-9.]+)\+[a-z0-9]+/torch==\1/'
} > requirements/lock.txt
grep -q "^torch==$TORCH" requirements/lock.txt

"$tools/venv/bin/uv" pip compile pyproject.toml \
    --universal --python-version 3.11 --no-config --no-sources \
    --constraint requirements/lock.txt --group dev --group heavy \
    --no-annotate --no-header --quiet --output-file "$tools/all.txt"
{
    echo "# Written by requirements/lock.sh: on top of lock.txt, for make test-all."
    grep -vE '^(nvidia-|cuda-|triton|durometer|torch==)' "$tools/all.txt" | grep -vxFf requirements/lock.txt
} > requirements/heavy.txt
"$tools/venv/bin/uv" pip compile pyproject.toml \
    --universal --python-version 3.11 --no-config --no-sources \
    --constraint requirements/lock.txt --group dev --group docs \
    --no-annotate --no-header --quiet --output-file "$tools/all.txt"
{
    echo "# Written by requirements/lock.sh: on top of lock.txt, for make docs."
    grep -vE '^(nvidia-|cuda-|triton|durometer|torch==)' "$tools/all.txt" | grep -vxFf requirements/lock.txt
} > requirements/docs.txt
echo "requirements/docs.txt: $(grep -c '==' requirements/docs.txt) packages"
echo "requirements/heavy.txt: $(grep -c '==' requirements/heavy.txt) packages"
echo "requirements/lock.txt: $(grep -c '==' requirements/lock.txt) packages"
