#!/usr/bin/env bash
# The wheel in clean environments of several Pythons, without a compiler; the source distribution with one.
#     requirements/pythons.sh DIST python3.11 python3.12 ...      DIST: the folder that `make wheel` made
#     DEMO=1 requirements/pythons.sh DIST python3.12              the whole demo, too
# Needs a network and about 2 GB of room per Python; not part of .ci/run.
set -uo pipefail
dist=$(cd "$1" && pwd)
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=()

tried() { # environment, what it is called
    (cd "$work" && PATH="$1/bin:$work/none" "$1/bin/python" -c "
import sys, torch, durometer as du
from sklearn.ensemble import RandomForestClassifier
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
x = torch.rand(40, 4)
data = du.Dataset(x, net(x).argmax(1))
one = du.evaluate(net, data, space=du.Linf(0.05), progress=False)
forest = RandomForestClassifier(10, max_depth=4, random_state=0).fit(x.numpy(), data.y.numpy())
two = du.evaluate(forest, data, space=du.Linf(0.05), progress=False)
one.save('run'), du.verify('run', model=net)
print('$2: Python', sys.version.split()[0], 'torch', torch.__version__, 'network', one.metric('robust'),
      'proven', one.metric('proven'), 'forest', two.metric('robust'), 'proven', two.metric('proven'))" ) || return 1
    [ -z "${DEMO:-}" ] || (cd "$work" && PATH="$1/bin:$work/none" "$1/bin/durometer" demo >"$work/demo.txt" 2>&1 &&
        echo "$2: demo: $(grep -c . "$work/demo.txt") lines") || { tail -5 "$work/demo.txt"; return 1; }
}

for python in "$@"; do
    for what in wheel sdist; do
        [ $what = sdist ] && [ "$python" != "$1" ] && continue
        env=$work/env
        rm -rf "$env" "$work/run"
        "$python" -m venv "$env" || { failed+=("$python: no venv"); continue; }
        if [ $what = wheel ]; then # no compiler within reach
            PATH="$env/bin:$work/none" "$env/bin/python" -m pip install --quiet --no-compile "$dist"/durometer-*.whl
        else
            "$env/bin/python" -m pip install --quiet --no-compile "$dist"/durometer-*.tar.gz
        fi && tried "$env" "$what" || failed+=("$python: $what")
    done
done
if ((${#failed[@]})); then
    printf 'FAILED: %s\n' "${failed[@]}"
    exit 1
fi
