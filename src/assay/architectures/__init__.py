"""Networks of the papers and small ones for examples; plain torch modules that give logits."""

from assay.architectures.domain import Domain, domain_lenet, domain_mlp
from assay.architectures.lenet import LeNet, NormLeNet
from assay.architectures.resnet import ResNet, resnet18, resnet20, resnet34
from assay.architectures.smallcnn import SmallCNN

__all__ = [
    "Domain",
    "LeNet",
    "NormLeNet",
    "ResNet",
    "SmallCNN",
    "domain_lenet",
    "domain_mlp",
    "resnet18",
    "resnet20",
    "resnet34",
]
