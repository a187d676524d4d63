"""Save, load, verify

A run is a folder: records, inputs, hashes, a page. `verify` re-judges every stored example with
code that shares nothing with the attack.
"""

# %%
import tempfile
from pathlib import Path

import assay as ay
from assay.demo import models

net = models.mnist()
data = ay.datasets.mnist().test.sample(40)
report = ay.evaluate(net, data, space=ay.Linf(0.05), attack=ay.APGD(10), progress=False)
folder = Path(tempfile.mkdtemp()) / "run"
report.save(folder)
print(sorted(file.name for file in folder.iterdir()))

# %%
print(ay.verify(folder, model=net))
