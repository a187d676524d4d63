"""Networks of the papers and small ones for examples; plain torch modules that give logits."""

from assay.architectures.smallcnn import SmallCNN

__all__ = ["SmallCNN"]
