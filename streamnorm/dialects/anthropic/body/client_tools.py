"""Typed tools that the client executes, with the schemas that only their types imply.

Their schemas are for the tools of other vendors.

https://platform.claude.com/docs/en/agents-and-tools/tool-use (read 2026-11-22).
"""

from __future__ import annotations

from typing import Any

__all__ = ["client_tool_schema"]


def client_tool_schema(kind: str) -> tuple[str, dict[str, Any]] | None:
    """Return a description and the schema of a typed tool; None if its type is not known.

    Args:
        kind: Type of the tool, such as `bash_20250124`.
    """
    for prefix, described in _TOOLS.items():
        if kind.startswith(prefix):
            return described
    return None


def _object(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


def _words(*words: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words)}


_TEXT: dict[str, Any] = {"type": "string"}

_LINES: dict[str, Any] = {
    "type": "array",
    "items": {"type": "integer"},
    "description": "First and last line",
}
_FILES: dict[str, dict[str, Any]] = {
    "path": _TEXT,
    "view_range": _LINES,
    "file_text": _TEXT,
    "old_str": _TEXT,
    "new_str": _TEXT,
    "insert_line": {"type": "integer", "description": "Line after which to insert"},
}
_EDITS = ("view", "create", "str_replace", "insert")
_EDITOR = "View, create and edit files."
_REVERTING_EDITOR = (
    _EDITOR,
    _object(["command", "path"], command=_words(*_EDITS, "undo_edit"), **_FILES),
)

# The first prefix counts.
_TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "bash_": (
        "Run a command in a bash session that persists, or restart the session.",
        _object([], command=_TEXT, restart={"type": "boolean"}),
    ),
    "text_editor_2024": _REVERTING_EDITOR,
    "text_editor_20250124": _REVERTING_EDITOR,
    "text_editor_": (
        _EDITOR,
        _object(["command", "path"], command=_words(*_EDITS), **_FILES, insert_text=_TEXT),
    ),
    "memory_": (
        "Read and write files in the memory directory, which persists between conversations.",
        _object(
            ["command"],
            command=_words(*_EDITS, "delete", "rename"),
            **_FILES,
            insert_text=_TEXT,
            old_path=_TEXT,
            new_path=_TEXT,
        ),
    ),
}
