"""Parser of the pages of `streamnorm inspect --html`."""

from __future__ import annotations

import base64
import json
import zlib
from html.parser import HTMLParser
from typing import Any

__all__ = ["Page"]


class Page(HTMLParser):
    """The elements of a page.

    Attributes:
        elements: Name, attributes and text of each element that has attributes or text.
    """

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.feed(page.decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), []))

    def handle_endtag(self, tag: str) -> None:
        self.elements.append(("", {}, []))  # which takes the text behind it

    def handle_data(self, data: str) -> None:
        if self.elements:
            self.elements[-1][2].append(data)

    def texts(self, tag: str, **attributes: str) -> list[str]:
        """Return the texts of the elements with these attributes."""
        wanted = attributes.items()
        return [
            "".join(text)
            for name, given, text in self.elements
            if name == tag and wanted <= given.items()
        ]

    @property
    def stream(self) -> dict[str, Any]:
        (text,) = self.texts("script", id="stream")
        decoded: dict[str, Any] = json.loads(text)
        return decoded

    @property
    def chunks(self) -> list[list[Any]]:
        packed = self.texts("script", **{"class": "chunk"})
        return [json.loads(zlib.decompress(base64.b64decode(text))) for text in packed]
