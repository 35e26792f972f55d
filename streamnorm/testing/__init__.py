"""Test helpers for code that reads or writes provider streams.

    from streamnorm.testing import FakeProvider, assert_same_message, replay

`plugin` provides the pytest fixture `streamnorm_recording`.  Each name is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamnorm.recording import faults
    from streamnorm.testing.fake import FakeProvider
    from streamnorm.testing.fixture import RecordingFixture
    from streamnorm.testing.script import FakeRequest, tool_call
    from streamnorm.testing.sources import (
        ReplaySource,
        assert_grammatical,
        assert_same_message,
        chunkings,
        replay,
    )

__all__ = [
    "FakeProvider",
    "FakeRequest",
    "RecordingFixture",
    "ReplaySource",
    "assert_grammatical",
    "assert_same_message",
    "chunkings",
    "faults",
    "replay",
    "tool_call",
]

_LAZY = {
    "FakeProvider": "streamnorm.testing.fake",
    "FakeRequest": "streamnorm.testing.script",
    "RecordingFixture": "streamnorm.testing.fixture",
    "ReplaySource": "streamnorm.testing.sources",
    "assert_grammatical": "streamnorm.testing.sources",
    "assert_same_message": "streamnorm.testing.sources",
    "chunkings": "streamnorm.testing.sources",
    "replay": "streamnorm.testing.sources",
    "tool_call": "streamnorm.testing.script",
}


def __getattr__(name: str) -> Any:
    if name == "faults":
        value: Any = import_module("streamnorm.recording.faults")
    elif name in _LAZY:
        value = getattr(import_module(_LAZY[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
