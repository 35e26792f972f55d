"""The files of a recording: `NAME.sse`, and its optional companions.

`NAME.sse` is the exact body after content decoding; `NAME.json` tells the rest, such as
the dialect; `NAME.events.jsonl` is what the body decodes to, one event a line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from streamnorm.errors import RecordingError
from streamnorm.events import Event

__all__ = ["Companion", "Recording", "load_companion"]

_EVENT: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


class Companion(Struct):
    """What is read of `NAME.json`.

    Attributes:
        dialect: Name of the dialect; None if it does not say.
        server: Who sent the stream; None if it does not say.
        provenance: Whether a server sent these bytes.
    """

    streamnorm_recording: Literal[1]
    dialect: str | None = None
    server: str | None = None
    provenance: Literal["recorded", "written"] = "recorded"


_COMPANION: msgspec.json.Decoder[Companion] = msgspec.json.Decoder(Companion)


def load_companion(path: str | Path) -> Companion:
    """Read the `NAME.json` beside a `.sse` file; what it would say by default if there is none.

    Raises:
        RecordingError: It is not of this format.
    """
    companion = Path(path).with_suffix(".json")
    if not companion.is_file():
        return Companion(1)
    try:
        return _COMPANION.decode(companion.read_bytes())
    except OSError as exc:
        raise RecordingError(f"{companion}: {exc.strerror}") from exc
    except (msgspec.MsgspecError, UnicodeError) as exc:
        raise RecordingError(f"{companion}: no companion of a recording: {exc}") from exc


class Recording:
    """A stream as it was recorded, or written by hand.

    Attributes:
        path: The `.sse` file.
        body: Its bytes.
        dialect: Name of its dialect; None if the companion does not say.
        server: Who sent it; None if the companion does not say.
        provenance: Whether a server sent these bytes.
    """

    def __init__(self, path: Path, body: bytes, companion: Companion) -> None:
        self.path = path
        self.body = body
        self.dialect = companion.dialect
        self.server = companion.server
        self.provenance = companion.provenance

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """Read `NAME.sse` and `NAME.json`, the latter if it is there.

        Raises:
            RecordingError: The file cannot be read, or its companion is not of this format.
        """
        path = Path(path)
        try:
            body = path.read_bytes()
        except OSError as exc:
            raise RecordingError(f"{path}: {exc.strerror}") from exc
        return cls(path, body, load_companion(path))

    @property
    def name(self) -> str:
        """Folder and file name without ending, as `openai/text`."""
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def expected(self) -> list[Event]:
        """The events written down beside it.

        Raises:
            RecordingError: There are none, or a line is no event.
        """
        path = self.path.with_suffix(".events.jsonl")
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
            return [_EVENT.decode(line) for line in lines if line]
        except OSError as exc:
            raise RecordingError(f"{path}: {exc.strerror}") from exc
        except (msgspec.MsgspecError, UnicodeError) as exc:
            raise RecordingError(f"{path}: {exc}") from exc

    def __str__(self) -> str:
        return self.name
