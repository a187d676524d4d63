"""XML against an XML Schema, as far as the JUnit schema uses one: elements by reference, sequences,
choices, how often each may stand, text, required and known attributes, patterns of values.

Not a validator of XML Schema at large: whatever it does not know in a schema is an error here.
tests/plugins/guests compares it with lxml's.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as Xml

XS = "{http://www.w3.org/2001/XMLSchema}"


class Schema:
    """The elements and types of a schema file."""

    def __init__(self, file: Path) -> None:
        root = Xml.parse(file).getroot()
        self.elements = {e.get("name"): e for e in root.findall(f"{XS}element")}
        self.types = {t.get("name"): t for t in root if t.tag != f"{XS}element"}

    def wrong(self, node: Xml.Element) -> list[str]:
        """What is wrong with a document; empty: it is valid."""
        if node.tag not in self.elements:
            return [f"no element {node.tag}"]
        return list(self._element(node, self.elements[node.tag]))

    def _element(self, node: Xml.Element, declared: Xml.Element):
        kind = declared.find(f"{XS}complexType")
        named = declared.get("type")
        if kind is None and named in self.types and self.types[named].tag == f"{XS}complexType":
            kind = self.types[named]
        if kind is None:  # xs:string
            if len(node) or node.attrib:
                yield f"{node.tag}: text only"
            return
        yield from self._attributes(node, kind)
        model = next((k for k in kind if k.tag in (f"{XS}sequence", f"{XS}choice")), None)
        pattern = "" if model is None else self._pattern(model)
        inside = "".join(f"<{child.tag}>" for child in node)
        if not re.fullmatch(pattern, inside):
            yield f"{node.tag}: {inside[:200]} does not follow the schema"
        if kind.get("mixed") != "true" and (node.text or "").strip():
            yield f"{node.tag}: text is not allowed"
        for child in node:
            if child.tag in self.elements:
                yield from self._element(child, self.elements[child.tag])

    def _attributes(self, node: Xml.Element, kind: Xml.Element):
        known = {a.get("name"): a for a in kind.findall(f"{XS}attribute")}
        for name, value in node.attrib.items():
            if name not in known:
                yield f"{node.tag}: no attribute {name}"
                continue
            simple = self.types.get(known[name].get("type"))
            if simple is not None:
                form = simple.find(f"{XS}restriction/{XS}pattern").get("value")
                if not re.fullmatch(form, value):
                    yield f"{node.tag}: {name}={value!r}"
        for name, attribute in known.items():
            if attribute.get("use") == "required" and name not in node.attrib:
                yield f"{node.tag}: {name} is missing"

    def _pattern(self, part: Xml.Element) -> str:
        if part.tag == f"{XS}element":
            inside = f"<{re.escape(part.get('ref') or part.get('name'))}>"
        elif part.tag in (f"{XS}sequence", f"{XS}choice"):
            inside = ("" if part.tag.endswith("sequence") else "|").join(map(self._pattern, part))
        else:
            raise AssertionError(f"{part.tag} is not known here")
        least, most = part.get("minOccurs", "1"), part.get("maxOccurs", "1")
        return f"(?:{inside}){{{least},{'' if most == 'unbounded' else most}}}"
