#!/usr/bin/env bash
# Resolve pyproject.toml anew and write requirements/lock.txt, and on top of it heavy.txt (what
# `make test-all` needs: Ray, Playwright), docs.txt (`make docs`) and release.txt (`make wheel`).
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

# On top of the lock: one file per further group.
for group in heavy docs release; do
    "$tools/venv/bin/uv" pip compile pyproject.toml \
        --universal --python-version 3.11 --no-config --no-sources \
        --constraint requirements/lock.txt --group dev --group "$group" \
        --no-annotate --no-header --quiet --output-file "$tools/all.txt"
    {
        echo "# Written by requirements/lock.sh: on top of lock.txt, the group \`$group\` of pyproject.toml."
        grep -vE '^(nvidia-|cuda-|triton|durometer|torch==)' "$tools/all.txt" | grep -vxFf requirements/lock.txt
    } > "requirements/$group.txt"
    echo "requirements/$group.txt: $(grep -c '==' "requirements/$group.txt") packages"
done
echo "requirements/lock.txt: $(grep -c '==' requirements/lock.txt) packages"
