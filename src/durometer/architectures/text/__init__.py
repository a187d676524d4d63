"""Networks for sentences, on word vectors."""

from durometer.architectures.text.lstm import TextLSTM
from durometer.architectures.text.textcnn import TextCNN
from durometer.architectures.text.transformer import TextTransformer

__all__ = ["TextCNN", "TextLSTM", "TextTransformer"]
