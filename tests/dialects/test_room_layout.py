"""Every room has the same files, in the same reading order."""

from __future__ import annotations

from pathlib import Path

import pytest

import streamnorm.dialects

ROOMS = Path(streamnorm.dialects.__file__).parent

# In reading order; a package has the name of the file that it stands for.
COMMON = {
    "": (
        *("__init__", "traits", "wire", "decode", "blocks", "content", "outcome"),
        *("encode", "validate", "body"),
    ),
    "body": (
        *("__init__", "request", "messages", "content", "tools", "response"),
        *("fitting", "validate"),
    ),
}

# What one dialect alone has, with the reason.
OWN = {
    "openai_chat": {
        "tool_calls": "with the calls `content` has more than 600 lines",
        "open_calls": "a fragment names its call by index, id or neither",
        "options": "servers differ in what one field means, and callers in the field they read",
    },
    "gemini": {
        "tool_calls": "with the calls `content` has more than 600 lines",
        "body_format": "streams may also be JSON arrays",
    },
    "gemini_interactions": {
        "steps": "a step of an interaction is one of many kinds",
    },
    "openai_responses": {
        "encode_items": "each item is stated by its deltas, its parts and its whole",
        "items": "an output item is one of many kinds: stands for `blocks`",
        "validate_shapes": "the fields of an item are many: in `validate` elsewhere",
        "validate_texts": "a text is stated by its deltas, its part and its item",
    },
    "anthropic/body": {
        "validate_fields": "the vendor refuses unknown fields of each part",
        "validate_options": "with the options `validate` has more than 600 lines",
    },
    "bedrock_converse/body": {
        "files": "media are bytes or objects of S3, with a format in place of a type",
    },
    "gemini/body": {
        "validate_fields": "the vendor refuses unknown fields of each part",
    },
}

# What a room may lack, since its dialect has no such thing or is only read.
LACKS = {
    "gemini_interactions/body": {"fitting"},  # no client needs it
    "openai_responses": {"blocks"},  # in `items`
    # Only the requests of a page are read; those of `useChat` offer no tools.
    "ag_ui/body": {"response", "fitting", "validate"},
    "ui_message_stream/body": {"tools", "response", "fitting", "validate"},
    "bedrock_converse/body": {"fitting"},  # no client needs it
}


def files_of(room: Path) -> set[str]:
    """Return the names of a room's modules and packages."""
    return {path.stem for path in room.iterdir() if path.name != "__pycache__"}


@pytest.mark.parametrize("folder", COMMON)
@pytest.mark.parametrize(
    "room",
    [path for path in sorted(ROOMS.iterdir()) if (path / "__init__.py").is_file()],
    ids=lambda room: room.name,
)
def test_room_has_the_files_of_the_table(room: Path, folder: str) -> None:
    if folder in LACKS.get(room.name, set()):
        assert not (room / folder).exists()
        return
    name = f"{room.name}/{folder}" if folder else room.name
    expected = {*COMMON[folder]} - LACKS.get(name, set()) | OWN.get(name, {}).keys()
    assert files_of(room / folder) == expected
