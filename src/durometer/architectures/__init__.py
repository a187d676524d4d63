"""Networks of the papers and small ones for examples; torch modules that give logits.

Those for tables (`MLP`, `TabTransformer`, `TabNet`, `RLN`, `STG`, `VIME`) take a schema, work on
records in raw units, and have `fit` and `predict_proba`. `TextCNN`, `TextLSTM` and
`TextTransformer` take rows of words.
"""

from durometer.architectures.domain import Domain, domain_lenet, domain_mlp
from durometer.architectures.images.lenet import LeNet, NormLeNet
from durometer.architectures.images.mobilenet import MobileNet
from durometer.architectures.images.resnet import ResNet, resnet18, resnet20, resnet32, resnet34
from durometer.architectures.images.shufflenet import ShuffleNet
from durometer.architectures.images.smallcnn import SmallCNN
from durometer.architectures.images.squeezenet import SqueezeNet
from durometer.architectures.images.vgg import VGG
from durometer.architectures.tables.mlp import MLP
from durometer.architectures.tables.nanopfn import GivenContext, NanoPFN
from durometer.architectures.tables.rln import RLN
from durometer.architectures.tables.stg import STG
from durometer.architectures.tables.tablenet import TableNet
from durometer.architectures.tables.tabnet import TabNet
from durometer.architectures.tables.tabtransformer import TabTransformer
from durometer.architectures.tables.vime import VIME
from durometer.architectures.text.lstm import TextLSTM
from durometer.architectures.text.textcnn import TextCNN
from durometer.architectures.text.transformer import TextTransformer

__all__ = [
    "MLP",
    "RLN",
    "STG",
    "VGG",
    "VIME",
    "Domain",
    "GivenContext",
    "LeNet",
    "MobileNet",
    "NanoPFN",
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
