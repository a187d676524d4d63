"""An attestation compared with a run: signature, statement, and every file that it names.

Digests are computed here, from the files; what was signed is put together here again. The statement
must also be, byte for byte, what the evidence of the run gives.

What a reader would get wrong: names in a statement come from whoever wrote it. None of them becomes
a path: a file of the run is one of a fixed list, and files of model and data are those that the
user names.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from durometer.core import durable_files
from durometer.core.errors import DurometerError, Unsupported
from durometer.report.folder import FILES, KEPT
from durometer.report.interchange import facts as run_facts
from durometer.report.interchange import intoto

RUN = ("spec.json", *FILES, *KEPT)
ROLES = {"model": "--model", "data": "--data", "schema": "--config"}
LARGEST = 1 << 26  # bytes of an attestation: a statement has a few thousand
_PAYLOAD = "application/vnd.in-toto+json"


@dataclass
class Attested:
    """What came of it: what is wrong, what was not compared, what else to say."""

    wrong: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compared: int = 0


def check(folder: Path, file: Path, key: Path | None, sources: Mapping[str, str]) -> Attested:
    """The attestation in a file, compared with a run, with a key and with files of the user's."""
    made = Attested()
    public = None if key is None else _public_key(key)
    written = _bytes(file)
    try:
        found = durable_files.parsed(written.decode())
        if not isinstance(found, dict):
            raise ValueError("it is no table")
        if written != _canonical(found):
            raise ValueError("it is not as it was exported")
        payload = _opened(made, found, public) if "payload" in found else written
        if "payload" not in found:
            made.notes.append("the statement is not signed: it does not show who made it")
            if public is not None:
                made.wrong.append("a key was given, but the statement is not signed")
        statement = durable_files.parsed(payload.decode())
        _statement(made, folder, statement, payload)
        _subjects(made, folder, statement, sources)
    except (ValueError, binascii.Error) as error:
        made.wrong.append(f"'{file.name}': {error}")
    return made


def _bytes(file: Path) -> bytes:
    try:
        if not file.is_file():
            raise DurometerError(f"attestation '{file}': no such file")
        if file.stat().st_size > LARGEST:
            raise DurometerError(f"attestation '{file}' is larger than any that durometer writes")
        return file.read_bytes()
    except OSError as error:
        raise DurometerError(f"attestation '{file}' cannot be read: {error.strerror}") from None


def _canonical(found: dict[str, Any]) -> bytes:
    return (json.dumps(found, indent=1) + "\n").encode()


def _opened(made: Attested, envelope: dict[str, Any], public: Any) -> bytes:
    """The payload of an envelope, its signature checked where there is a key."""
    if sorted(envelope) != ["payload", "payloadType", "signatures"]:
        raise ValueError("it is no DSSE envelope")
    if envelope["payloadType"] != _PAYLOAD:
        raise ValueError(f"its payload is {envelope['payloadType']!r}, expected {_PAYLOAD}")
    payload = _decoded(envelope["payload"])
    signatures = envelope["signatures"]
    if not (isinstance(signatures, list) and len(signatures) == 1):
        raise ValueError("it has no signature, or several")
    (one,) = signatures
    if not (isinstance(one, dict) and sorted(one) == ["keyid", "sig"]):
        raise ValueError("its signature is not as it was exported")
    sig = _decoded(one["sig"])
    if public is None:
        made.left.append("the signature: give the public key with --key")
        return payload
    kind = _PAYLOAD.encode()
    parts = (b"DSSEv1", str(len(kind)).encode(), kind, str(len(payload)).encode(), payload)
    if not _signed(public, sig, b" ".join(parts)):
        made.wrong.append("the signature is not that of the key, or what was signed is not this")
    elif one["keyid"] != _key_id(public):
        made.wrong.append("the signature names another key")
    return payload


def _decoded(text: Any) -> bytes:
    if not isinstance(text, str):
        raise ValueError("its payload or signature is no text")
    found = base64.b64decode(text, validate=True)
    if base64.b64encode(found).decode() != text:  # bits that decoding drops
        raise ValueError("it is not as it was exported")
    return found


def _statement(made: Attested, folder: Path, statement: Any, payload: bytes) -> None:
    """Whether the statement is what the run's evidence gives."""
    if not isinstance(statement, dict) or statement.get("_type") != intoto.STATEMENT:
        raise ValueError(f"it is no in-toto statement ({intoto.STATEMENT})")
    if statement.get("predicateType") != intoto.PREDICATE:
        raise ValueError(f"its predicate is {str(statement.get('predicateType'))[:80]!r}, "
                         f"expected {intoto.PREDICATE}")  # fmt: skip
    try:
        again = intoto.statement(run_facts.read(folder))
    except DurometerError as error:
        made.wrong.append(f"the run gives no statement to compare it with: {error}")
        return
    if again.encode() == payload:
        return
    place = _difference(statement, json.loads(again), "")
    made.wrong.append(f"the statement is not what the run gives{place and ': '}{place}")


def _difference(a: Any, b: Any, place: str) -> str:
    """Where two documents differ first."""
    if isinstance(a, dict) and isinstance(b, dict):
        for name in {**b, **a}:
            if a.get(name) != b.get(name):
                return _difference(a.get(name), b.get(name), f"{place}.{name}" if place else name)
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            if x != y:
                return _difference(x, y, f"{place}[{k}]")
    return f"{place}: {str(a)[:80]!r} attested, {str(b)[:80]!r} in the run" if place else ""


def _digests(statement: Any) -> dict[str, str]:
    """The subjects of a statement: SHA-256 by name."""
    subjects = statement.get("subject") if isinstance(statement, dict) else None
    if not isinstance(subjects, list) or not subjects:
        raise ValueError("it has no subjects")
    found: dict[str, str] = {}
    for one in subjects:
        name = one.get("name") if isinstance(one, dict) else None
        digest = one.get("digest") if isinstance(one, dict) else None
        sha256 = digest.get("sha256") if isinstance(digest, dict) else None
        if not (isinstance(name, str) and isinstance(sha256, str)) or name in found:
            raise ValueError("a subject has no name or no SHA-256, or stands there twice")
        found[name] = sha256
    return found


def _subjects(made: Attested, folder: Path, statement: Any, sources: Mapping[str, str]) -> None:
    attested = _digests(statement)
    own = {f"run/{name}": name for name in RUN}
    for name, sha256 in attested.items():
        if name.split("/")[0] in ROLES:
            continue
        if name not in own:
            made.wrong.append(f"{name[:80]!r} is no file of a run")
            continue
        made.compared += 1
        path = durable_files.entry(folder, own[name])
        if not path.is_file():
            made.wrong.append(f"{own[name]} is missing")
        elif durable_files.sha256(path) != sha256:
            made.wrong.append(f"{own[name]} is not the attested file")
    for role, option in ROLES.items():
        stated, given = _of_role(attested, role), _of_role(sources, role)
        if not stated and given:
            made.notes.append(
                f"the statement names no file of the {role}: the run was made in Python, and is "
                "bound to it by its hash"
            )
        if not stated:
            continue
        if not given:
            named = ", ".join(n[:80] for n in attested if n.startswith(f"{role}/"))
            made.left.append(f"{named}: name the file with {option}")
            continue
        made.compared += len(stated)
        if stated != given:
            made.wrong.append(f"the file of the {role} is not the attested one")


def _of_role(digests: Mapping[str, str], role: str) -> list[str]:
    """Digests only: a file may have another name where it is checked."""
    return sorted(d for name, d in digests.items() if name.startswith(f"{role}/"))


def _public_key(file: Path) -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    except ImportError:
        raise Unsupported(
            "signatures need the package cryptography: pip install 'durometer[sign]'"
        ) from None
    try:
        found = load_pem_public_key(file.read_bytes())
    except OSError as error:
        raise DurometerError(f"key '{file}' cannot be read: {error.strerror}") from None
    except ValueError:
        raise DurometerError(f"key '{file}' is no public key in PEM") from None
    if isinstance(found, ed25519.Ed25519PublicKey):
        return found
    if isinstance(found, ec.EllipticCurvePublicKey) and isinstance(found.curve, ec.SECP256R1):
        return found
    raise Unsupported(
        f"key '{file}' is a {type(found).__name__}; expected ed25519, or ECDSA on P-256"
    )


def _key_id(public: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


def _signed(public: Any, sig: bytes, signed: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    try:
        if isinstance(public, ed25519.Ed25519PublicKey):
            public.verify(sig, signed)
        else:
            public.verify(sig, signed, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True
