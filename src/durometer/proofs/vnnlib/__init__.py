"""VNN-LIB: properties of ONNX networks in files, as the verification competitions write them."""
