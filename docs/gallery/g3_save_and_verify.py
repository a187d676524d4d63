"""Save, load, verify

A run is a folder: records, inputs, hashes, a page. `verify` re-judges every stored example with
code that shares nothing with the attack.
"""

# %%
import tempfile
from pathlib import Path

import durometer as du
from durometer.demo import models

net = models.mnist()
data = du.datasets.mnist().test.sample(40)
report = du.evaluate(net, data, space=du.Linf(0.05), attack=du.APGD(10), progress=False)
folder = Path(tempfile.mkdtemp()) / "run"
report.save(folder)
print(sorted(file.name for file in folder.iterdir()))

# %%
print(du.verify(folder, model=net))
