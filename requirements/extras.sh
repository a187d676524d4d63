#!/usr/bin/env bash
# The wheel without extras, and then with each extra by itself: installed, imported, one evaluation.
#     requirements/extras.sh [extra ...]
#     WORK=folder requirements/extras.sh [extra ...]     keep the wheel and the bare environment there
# Needs a network and about 2 GB of room; not part of .ci/run. Plain pip would take a torch with
# CUDA (6 GB), so the CPU wheel comes first from torch's own index, where that can be reached.
#
# What no extra changes is installed once: an extra's environment sees the bare one through a .pth
# file, so pip adds only what the extra brings, and no extra sees another.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
extras=${*:-$("$python" -c "
import tomllib
print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies'])")}
declare -A modules=([onnx]=onnxruntime [text]=transformers [xgboost-cpu]=xgboost)
work=${WORK:-$(mktemp -d)}
[ -n "${WORK:-}" ] || trap 'rm -rf "$work"' EXIT
mkdir -p "$work"
ls "$work"/durometer-*.whl >/dev/null 2>&1 ||
    "$python" -m pip wheel --quiet --no-deps --wheel-dir "$work" .
wheel=$(ls "$work"/durometer-*.whl)

tried() { # environment, what it is called, module
    (cd "$work" && "$1/bin/python" -c "
import importlib, torch, durometer as du
module = importlib.import_module('$3')
net = torch.nn.Linear(4, 2)
data = du.Dataset(torch.rand(4, 4), [0, 1, 0, 1])
report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.FGSM())
print('$2:', '$3', getattr(module, '__version__', ''), 'robust', report.metric('robust'))")
}

if [ ! -e "$work/bare/done" ]; then
    "$python" -m venv "$work/bare"
    "$work/bare/bin/pip" install --quiet --no-compile --retries 1 torch \
        --index-url https://download.pytorch.org/whl/cpu ||
        echo "== no CPU index here: torch comes from wherever pip is set to"
    "$work/bare/bin/pip" install --quiet --no-compile "$wheel"
    tried "$work/bare" "no extra" durometer
    touch "$work/bare/done"
fi
site=$("$work/bare/bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")
failed=()
for extra in $extras; do
    "$python" -m venv "$work/$extra"
    own=$("$work/$extra/bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")
    echo "$site" > "$own/bare.pth"
    "$work/$extra/bin/pip" install --quiet --no-compile "$wheel[$extra]" &&
        tried "$work/$extra" "$extra" "${modules[$extra]:-$extra}" || failed+=("$extra")
    rm -rf "${work:?}/$extra"
done
if ((${#failed[@]})); then
    echo "extras that do not work by themselves: ${failed[*]}"
    exit 1
fi
