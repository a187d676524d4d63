"""Verification: a saved run looked at again by code that shares nothing with what made it."""

from durometer.verification.verify import Finding, Verification, verify

__all__ = ["Finding", "Verification", "verify"]
