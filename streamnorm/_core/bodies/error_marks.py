"""Results that are errors, in dialects without a field that says so.

`<tool_error>…</tool_error>` stands around the whole text of such a result, and only exactly that
is read back as an error.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import structs

from streamnorm._core.blocks import ResultBlock, Text, ToolResult

__all__ = ["mark_error", "unmark_error"]

_Content: TypeAlias = tuple[ResultBlock, ...]

_START, _END = "<tool_error>", "</tool_error>"


def mark_error(result: ToolResult) -> _Content:
    """Return the content of a result, its text marked and in front if the result is an error."""
    if not result.is_error:
        return result.content
    texts = [item for item in result.content if isinstance(item, Text)]
    marked = Text(f"{_START}{''.join(item.text for item in texts)}{_END}")
    if len(texts) == 1:
        marked = structs.replace(texts[0], text=marked.text)
    return (marked, *(item for item in result.content if not isinstance(item, Text)))


def unmark_error(content: _Content) -> tuple[bool, _Content]:
    """Return whether the content of a result is that of an error, and the content unmarked."""
    first = content[0] if content else None
    if not isinstance(first, Text) or any(isinstance(item, Text) for item in content[1:]):
        return False, content
    text = first.text
    if not (text.startswith(_START) and text.endswith(_END)):
        return False, content
    return True, (structs.replace(first, text=text[len(_START) : -len(_END)]), *content[1:])
