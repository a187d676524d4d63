"""Networks of the papers and small ones for examples; torch modules that give logits.

Those for tables (`MLP`, `TabTransformer`, `TabNet`, `RLN`, `STG`, `VIME`) take a schema, work on
records in raw units, and have `fit` and `predict_proba`. `TextCNN`, `TextLSTM` and
`TextTransformer` take rows of words.
"""

from assay.architectures.domain import Domain, domain_lenet, domain_mlp
from assay.architectures.images.lenet import LeNet, NormLeNet
from assay.architectures.images.mobilenet import MobileNet
from assay.architectures.images.resnet import ResNet, resnet18, resnet20, resnet32, resnet34
from assay.architectures.images.shufflenet import ShuffleNet
from assay.architectures.images.smallcnn import SmallCNN
from assay.architectures.images.squeezenet import SqueezeNet
from assay.architectures.images.vgg import VGG
from assay.architectures.tables.mlp import MLP
from assay.architectures.tables.rln import RLN
from assay.architectures.tables.stg import STG
from assay.architectures.tables.tablenet import TableNet
from assay.architectures.tables.tabnet import TabNet
from assay.architectures.tables.tabtransformer import TabTransformer
from assay.architectures.tables.vime import VIME
from assay.architectures.text.lstm import TextLSTM
from assay.architectures.text.textcnn import TextCNN
from assay.architectures.text.transformer import TextTransformer

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
    "TextCNN",
    "TextLSTM",
    "TextTransformer",
    "domain_lenet",
    "domain_mlp",
    "resnet18",
    "resnet20",
    "resnet32",
    "resnet34",
]
