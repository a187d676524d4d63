"""All runs in one place

`durometer view runs` shows every run of a folder in a browser: search, rows, segments, comparisons. `--export` writes
the same as a static site that any web server can host.
"""

# %%
import tempfile
from pathlib import Path

from typer.testing import CliRunner

import durometer as du
from durometer.cli.app import app

runs = Path(tempfile.mkdtemp()) / "runs"
net, data = du.testing.toy()
for eps in (0.05, 0.1, 0.2):
    report = du.evaluate(net, data, space=du.Linf(eps), attack=du.PGD(10), progress=False)
    report.save(runs / f"eps-{eps}", evidence={"tags": "toy", "owner": "me"})

# %%
site = runs.parent / "site"
done = CliRunner().invoke(app, ["view", str(runs), "--export", str(site)])
print(done.exit_code, sorted(p.name for p in site.iterdir())[:4])

# %%
# In Python: any two of them, paired row by row.
small, large = (du.Report.load(runs / f"eps-{eps}") for eps in (0.05, 0.2))
print(small.metric("robust"), large.metric("robust"))
small.plot.verdicts()
