"""Proofs: attacks that may also close a row as proven."""
