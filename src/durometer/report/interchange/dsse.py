"""DSSE: a statement and signatures over its type and its bytes, in one envelope.

What is signed is "DSSEv1 LENGTH TYPE LENGTH PAYLOAD" (https://github.com/secure-systems-lab/dsse),
with an ed25519 key, or an ECDSA key on P-256 and SHA-256.

What a reader would get wrong: a signature shows who made the statement, if the key is theirs. It
does not show that what it states is true.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from durometer.core.errors import DurometerError, Unsupported
from durometer.report.interchange.facts import text_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

TYPE = "application/vnd.in-toto+json"
NEEDS = "signatures need the package cryptography: pip install 'durometer[sign]'"


def envelope(statement: str, key: Path) -> str:
    """The statement, signed with the private key in a PEM file.

    Raises:
        Unsupported: cryptography is not installed, or the key is of another kind.
        DurometerError: The file holds no private key, or one with a password.
    """
    payload = statement.encode()
    secret = _private_key(key)
    length = len(TYPE.encode())
    signed = b"DSSEv1 %d %s %d %s" % (length, TYPE.encode(), len(payload), payload)
    sealed = {
        "keyid": _key_id(secret),
        "sig": base64.b64encode(_signature(secret, signed)).decode(),
    }
    return text_of(
        {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": TYPE,
            "signatures": [sealed],
        }
    )


def _private_key(file: Path) -> Ed25519PrivateKey | EllipticCurvePrivateKey:
    try:
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        raise Unsupported(NEEDS) from None
    try:
        found = load_pem_private_key(file.read_bytes(), None)
    except OSError as error:
        raise DurometerError(f"key '{file}' cannot be read: {error.strerror}") from None
    except TypeError:
        raise DurometerError(
            f"key '{file}' has a password; sign with a key without one, kept where only you can "
            "read it"
        ) from None
    except ValueError:
        raise DurometerError(f"key '{file}' is no private key in PEM") from None
    if isinstance(found, ed25519.Ed25519PrivateKey):
        return found
    if isinstance(found, ec.EllipticCurvePrivateKey) and isinstance(found.curve, ec.SECP256R1):
        return found
    raise Unsupported(
        f"key '{file}' is a {type(found).__name__}; expected ed25519, or ECDSA on P-256"
    )


def _key_id(secret: Ed25519PrivateKey | EllipticCurvePrivateKey) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(secret.public_key().public_bytes(*form)).hexdigest()


def _signature(secret: Ed25519PrivateKey | EllipticCurvePrivateKey, signed: bytes) -> bytes:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    if isinstance(secret, ed25519.Ed25519PrivateKey):
        return secret.sign(signed)
    return secret.sign(signed, ec.ECDSA(hashes.SHA256()))
