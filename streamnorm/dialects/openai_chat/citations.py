"""Citations: the `annotations` of a delta and of a whole message."""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import Citation
from streamnorm._core.json import compact, is_object
from streamnorm._core.limits import OBJECT_BYTES, StoredBytes, text_bytes, value_bytes


def citation_from_wire(annotation: object, *, in_first_text: bool) -> Citation | None:
    """Return the citation of an annotation; None if the annotation is opaque.

    Args:
        annotation: An entry of `delta.annotations`.
        in_first_text: Whether the cited text is the first of the choice.  Only then the
            vendor's offsets, which count over the whole message, count within the block.
    """
    if not is_object(annotation) or not isinstance(kind := annotation.get("type"), str):
        return None
    # The vendor nests the fields under the name of the kind (openai/url-citations).
    inner = annotation.get(kind)
    rest = dict(inner) if is_object(inner) else {k: v for k, v in annotation.items() if k != "type"}

    def pop(key: str, kind: type) -> Any:
        return rest.pop(key) if type(rest.get(key)) is kind else None

    return Citation(
        kind,
        url=pop("url", str),
        title=pop("title", str),
        # OpenRouter (openrouter/citations-with-the-words-of-the-source).
        cited_text=pop("content", str),
        # Without the length of the texts before, an offset into the message names no character
        # here.
        start=pop("start_index", int) if in_first_text else None,
        end=pop("end_index", int) if in_first_text else None,
        extra={key: value for key, value in rest.items() if value is not None} or None,
    )


class Annotations:
    """The annotations of one choice, which are all written at its end.

    The Python SDK's accumulator raises at a second list without indexes, and a citation
    without offsets ends where its block does.

    Args:
        stored: Counter of what the encoder stores.
    """

    def __init__(self, stored: StoredBytes) -> None:
        self._stored = stored
        self._characters = 0
        self._starts: dict[int, int] = {}  # by block, within the text of the choice
        self._ends: dict[int, int] = {}
        self._cited: list[tuple[int, Citation]] = []
        self._opaque: list[Any] = []

    def start_block(self, index: int) -> None:
        """Record the start of a text block."""
        self._starts[index] = self._characters

    def stop_block(self, index: int, characters: int) -> None:
        """Record the stop of a text block, and the length of its text."""
        self._characters += characters
        self._ends[index] = self._characters

    def add(self, index: int, citation: Citation) -> None:
        """Add a citation of a text block."""
        self._stored.add(OBJECT_BYTES + text_bytes(compact(citation)))
        self._cited.append((index, citation))

    def add_opaque(self, annotation: Any) -> None:
        """Add an annotation that was decoded as `Opaque`."""
        self._stored.add(value_bytes(annotation))
        self._opaque.append(annotation)

    def to_wire(self) -> list[Any]:
        """Return all annotations, with offsets within the text of the whole choice."""
        return [*(self._to_wire(*cited) for cited in self._cited), *self._opaque]

    def _to_wire(self, index: int, citation: Citation) -> dict[str, Any]:
        start = self._starts[index]
        fields = {
            # The reference counts within the whole message, of which `start` is the beginning of
            # the block.
            "start_index": start + (citation.start or 0),
            "end_index": self._ends.get(index) if citation.end is None else start + citation.end,
            "url": citation.url,
            # The reference requires the title of a page.
            "title": citation.title or ("" if citation.kind == "url_citation" else None),
            "content": citation.cited_text,
        }
        known = {key: value for key, value in fields.items() if value is not None}
        return {"type": citation.kind, citation.kind: {**(citation.extra or {}), **known}}
