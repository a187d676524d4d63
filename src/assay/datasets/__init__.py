"""Real data: small attributed samples in the package, full sets from your files.

One file per data set; each says where the data comes from, under which licence and how it was
prepared. Every function returns `Splits`, and none of them loads torch before it is called.

>>> from assay import datasets
>>> datasets.pima().test.classes
('healthy', 'diabetic')
"""

from assay.datasets import corruptions
from assay.datasets.cifar10 import cifar10
from assay.datasets.ctu13 import ctu13
from assay.datasets.gtsrb import gtsrb
from assay.datasets.lcld import lcld
from assay.datasets.mixed import adult, bank, german, heart
from assay.datasets.mnist import mnist
from assay.datasets.orl import orl
from assay.datasets.pima import pima
from assay.datasets.splits import Splits
from assay.datasets.sst5 import sst5
from assay.datasets.url import url
from assay.datasets.wids import wids

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
