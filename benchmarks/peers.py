"""The libraries we compare with, brought to the state in which they import at all.

adv-lib asks for visdom (which no longer builds from source) and torchvision (for a perceptual
distance nobody uses here). It is installed without them (requirements/bare.txt), and empty modules
stand in for them while it is imported. They are taken away again afterwards: other libraries look
for torchvision and must not find a dummy.

Run as a script it prints which peers are there, and their versions.
"""

import importlib.util
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

PEERS = ("foolbox", "adv-lib", "torchattacks", "pyautoattack", "pymoo", "treelite", "dtai-veritas")


def adv_lib_attacks() -> ModuleType:
    """Return the module `adv_lib.attacks`.

    >>> adv_lib_attacks().apgd.__name__
    'apgd'
    """
    stand_ins = {}
    for name in ("visdom", "torchvision"):
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            stand_ins[name] = ModuleType(name)
    if "torchvision" in stand_ins:
        stand_ins["torchvision"].models = ModuleType("torchvision.models")  # type: ignore[attr-defined]
    sys.modules.update(stand_ins)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # it still imports distutils
            return importlib.import_module("adv_lib.attacks")
    finally:
        for name in stand_ins:
            del sys.modules[name]


def main() -> None:
    for name in PEERS:
        try:
            print(f"{name:14s} {version(name)}")
        except PackageNotFoundError:
            print(f"{name:14s} not installed")
    print(f"adv_lib.attacks.apgd: {adv_lib_attacks().apgd.__doc__ is not None}")


if __name__ == "__main__":
    main()
