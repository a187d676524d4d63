"""Real data: small attributed samples in the package, full sets from your files.

One file per data set; each says where the data comes from, under which licence and how it was
prepared. Every function returns `Splits`, and none of them loads torch before it is called.

>>> from durometer import datasets
>>> datasets.pima().test.classes
('healthy', 'diabetic')
"""

from durometer.data.splits import Splits
from durometer.datasets import corruptions
from durometer.datasets.cifar10 import cifar10
from durometer.datasets.ctu13 import ctu13
from durometer.datasets.gtsrb import gtsrb
from durometer.datasets.lcld import lcld
from durometer.datasets.mixed import adult, bank, german, heart
from durometer.datasets.mnist import mnist
from durometer.datasets.orl import orl
from durometer.datasets.pima import pima
from durometer.datasets.sst5 import sst5
from durometer.datasets.url import url
from durometer.datasets.wids import wids

__all__ = [
    "Splits",
    "adult",
    "bank",
    "cifar10",
    "corruptions",
    "ctu13",
    "german",
    "gtsrb",
    "heart",
    "lcld",
    "mnist",
    "orl",
    "pima",
    "sst5",
    "url",
    "wids",
]
