#!/usr/bin/env bash
# Each extra of the wheel, installed by itself into an environment of its own and imported:
#     requirements/extras.sh [extra ...]
# Needs a network and about 2 GB per extra; not part of .ci/run. Plain pip would take a torch with
# CUDA (6 GB), so the CPU wheel comes first from torch's own index, where that can be reached.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
declare -A modules=([catboost]=catboost [lightgbm]=lightgbm [onnx]=onnxruntime [ray]=ray
    [xgboost]=xgboost [xgboost-cpu]=xgboost)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m pip wheel --quiet --no-deps --wheel-dir "$work" .
for extra in "${@:-${!modules[@]}}"; do
    for extra in $extra; do
        "$python" -m venv "$work/$extra"
        bin="$work/$extra/bin"
        "$bin/pip" install --quiet torch --index-url https://download.pytorch.org/whl/cpu ||
            echo "== no CPU index here: torch comes from wherever pip is set to"
        "$bin/pip" install --quiet "$(ls "$work"/*.whl)[$extra]"
        "$bin/python" -c "
import ${modules[$extra]}, torch, assay as ay
net = torch.nn.Linear(4, 2)
print('$extra:', ay.evaluate(net, ay.Dataset(torch.rand(4, 4), [0, 1, 0, 1]), space=ay.Linf(0.1), attack=ay.FGSM()).metric('robust'))"
        rm -rf "${work:?}/$extra"
    done
done
