"""The package that is prosecuted: `PROSECUTED=NAME` (on the path) is an older one of that name."""

import importlib
import os

du = importlib.import_module(os.environ.get("PROSECUTED", "durometer"))
