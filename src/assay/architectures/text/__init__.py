"""Networks for sentences, on word vectors."""

from assay.architectures.text.lstm import TextLSTM
from assay.architectures.text.textcnn import TextCNN
from assay.architectures.text.transformer import TextTransformer

__all__ = ["TextCNN", "TextLSTM", "TextTransformer"]
