"""An attestation: a result that is tied to its files

A report can be mailed around; who says that it belongs to this model and these rows? An attestation names the SHA-256
of the model, the data and every file of the run, in the in-toto format that build systems store. Here a model is
tested by a gate, the result attested, and then somebody changes one file.
"""

# %%
# Three files, as a build has them: rows, a model, and a run file with a limit that is fixed beforehand.
import json
import os
import tempfile
from pathlib import Path

import joblib
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from typer.testing import CliRunner

import durometer as du
from durometer.cli.app import app


def durometer(command: str) -> None:
    """The same as in a terminal."""
    done = CliRunner().invoke(app, command.split())
    print(f"$ durometer {command}\n{done.output.strip()}\n(exit code {done.exit_code})\n")


os.chdir(tempfile.mkdtemp())
pima = du.datasets.pima()
names = [f"f{i}" for i in range(pima.test.x.shape[1])]
forest = RandomForestClassifier(20, max_depth=4, random_state=0)
forest.fit(pima.train.x.numpy(), pima.train.y.numpy())
joblib.dump(forest, "model.joblib")
rows = pd.DataFrame(pima.test.x.numpy(), columns=names).assign(ill=pima.test.y.numpy())
rows.to_csv("rows.csv", index=False)
Path("run.toml").write_text("""
[data]
path = "rows.csv"
label = "ill"
[model]
path = "model.joblib"
[space]
type = "Linf"
eps = 0.5
low = 0
high = 1000
[attack]
type = "Exact"
certificates = true
[gate]
criteria = ["robust >= 0.4"]
""")
durometer("gate run.toml --out run --quiet")

# %%
# The attestation. `--sign key.pem` would sign it.
durometer("export run --format intoto --out attestation.json")
statement = json.loads(Path("attestation.json").read_text())
print(statement["predicateType"], "|", statement["predicate"]["result"])
print(*[file["name"] for file in statement["subject"]][:4], sep=", ")

# %%
# Somebody else checks it, with the files they were given.
durometer("verify run --attestation attestation.json --model model.joblib --data rows.csv")

# %%
# The model is replaced by another one, fitted on other rows. That is found before anything is loaded.
forest.fit(pima.train.x.numpy()[:300], pima.train.y.numpy()[:300])
joblib.dump(forest, "model.joblib")
durometer("verify run --attestation attestation.json --model model.joblib --data rows.csv")
