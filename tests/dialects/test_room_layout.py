"""Every room has the same files, in the same reading order."""

from __future__ import annotations

from pathlib import Path

import pytest

import streamnorm.dialects

ROOMS = Path(streamnorm.dialects.__file__).parent

# In reading order; a package has the name of the file that it stands for.
COMMON = (
    "__init__",
    "wire",
    "detect",
    "decode",
    "blocks",
    "tool_calls",
    "content",
    "outcome",
    "delta_run",
    "encode",
    "capabilities",
    "options",
    "endpoints",
    "body",
    "validate",
)

# What one dialect alone has, with the reason.
OWN = {
    "openai_chat": {
        "open_calls": "a fragment names its call by index, id or neither",
    },
    "gemini": {
        "body_format": "streams may also be JSON arrays",
    },
    "gemini_interactions": {
        "steps": "a step of an interaction is one of many kinds",
    },
    "openai_responses": {
        "encode_items": "each item is stated by its deltas, its parts and its whole",
        "items": "an output item is one of many kinds: stands for `blocks`",
    },
}

# What a room may lack, since its dialect has no such thing or is only read.
LACKS = {
    "ag_ui": {"options", "endpoints", "body", "validate"},
    "anthropic": {"options"},
    "bedrock_converse": {"options"},
    "gemini": {"options"},
    "gemini_interactions": {
        *("delta_run", "encode", "capabilities", "options", "body", "validate"),
    },
    "openai_responses": {"blocks", "tool_calls", "options"},  # the first two in `items`
    "ui_message_stream": {
        *("options", "endpoints", "body"),
    },
}


def files_of(room: Path) -> set[str]:
    """Return the names of a room's modules and packages."""
    return {path.stem for path in room.iterdir() if path.name != "__pycache__"}


@pytest.mark.parametrize(
    "room",
    [path for path in sorted(ROOMS.iterdir()) if (path / "__init__.py").is_file()],
    ids=lambda room: room.name,
)
def test_room_has_the_files_of_the_table(room: Path) -> None:
    expected = {*COMMON} - LACKS.get(room.name, set()) | OWN.get(room.name, {}).keys()
    assert files_of(room) == expected
