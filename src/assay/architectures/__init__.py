"""Networks of the papers and small ones for examples; torch modules that give logits.

Those for tables (`MLP`, `TabTransformer`, `TabNet`, `RLN`, `STG`, `VIME`) take a schema, work on
records in raw units, and have `fit` and `predict_proba`.
"""

from assay.architectures.domain import Domain, domain_lenet, domain_mlp
from assay.architectures.lenet import LeNet, NormLeNet
from assay.architectures.mlp import MLP
from assay.architectures.mobilenet import MobileNet
from assay.architectures.resnet import ResNet, resnet18, resnet20, resnet32, resnet34
from assay.architectures.rln import RLN
from assay.architectures.shufflenet import ShuffleNet
from assay.architectures.smallcnn import SmallCNN
from assay.architectures.squeezenet import SqueezeNet
from assay.architectures.stg import STG
from assay.architectures.tablenet import TableNet
from assay.architectures.tabnet import TabNet
from assay.architectures.tabtransformer import TabTransformer
from assay.architectures.vgg import VGG
from assay.architectures.vime import VIME

__all__ = [
    "MLP",
    "RLN",
    "STG",
    "VGG",
    "VIME",
    "Domain",
    "LeNet",
    "MobileNet",
    "NormLeNet",
    "ResNet",
    "ShuffleNet",
    "SmallCNN",
    "SqueezeNet",
    "TabNet",
    "TabTransformer",
    "TableNet",
    "domain_lenet",
    "domain_mlp",
    "resnet18",
    "resnet20",
    "resnet32",
    "resnet34",
]
