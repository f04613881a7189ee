"""Figures as inline SVG: text stays text, ids are of one figure alone, colours are attributes that a style sheet may change."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import matplotlib

_SVG, _LINK = "http://www.w3.org/2000/svg", "{http://www.w3.org/1999/xlink}href"
_FONT_SIZE = re.compile(r"(\d+(?:\.\d+)?)px")
_USED = re.compile(r"(?:^|url\()#([^)]+)")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")

ElementTree.register_namespace("", _SVG)


def to_svg(figure: Any, key: str, title: str, description: str) -> str:
    """A figure as an SVG element for a page; equal figures give equal text.

    key: begins every id, so that several figures fit in a page. title, description: what is read aloud in place of it.
    """
    figure.patch.set_visible(False)
    for axis in figure.axes:
        axis.patch.set_visible(False)
    written = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "hpcdp"}):
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Type": None, "Format": None})
    root = ElementTree.fromstring(written.getvalue().partition("?>")[2].partition(">")[2])
    for parent in list(root.iter()):
        for child in [c for c in parent if c.tag.rpartition("}")[2] in ("metadata", "style")]:
            parent.remove(child)
    for element in root.iter():
        _plain_attributes(element, key)
    used = {place for element in root.iter() for value in element.attrib.values() for place in _USED.findall(value)}
    for element in root.iter():
        if element.get("id") not in used:
            element.attrib.pop("id", None)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-labelledby": f"{key}-title {key}-description"}
    for place, (name, text) in enumerate((("title", title), ("desc", description))):
        node = ElementTree.Element(
            f"{{{_SVG}}}{name}", {"id": f"{key}-{'title' if name == 'title' else 'description'}"}
        )
        node.text = text
        root.insert(place, node)
    return ElementTree.tostring(root, encoding="unicode")


def _plain_attributes(element: ElementTree.Element, key: str) -> None:
    for name, value in _declarations(element.attrib.pop("style", "")):
        if name == "font":
            size = _FONT_SIZE.search(value)
            if size is not None:
                element.set("font-size", size[1])
        else:
            element.set(name, value)
    if (link := element.attrib.pop(_LINK, None)) is not None:
        element.set("href", f"#{key}-{link.removeprefix('#')}")
    if "id" in element.attrib:
        element.set("id", f"{key}-{element.get('id')}")
    for name, value in list(element.attrib.items()):
        if "url(#" in value:
            element.set(name, _REFERENCE.sub(rf"url(#{key}-\1)", value))


def _declarations(style: str) -> Iterator[tuple[str, str]]:
    for part in style.split(";"):
        name, colon, value = part.partition(":")
        if colon:
            yield name.strip(), value.strip()
