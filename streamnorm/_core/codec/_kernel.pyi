from typing import Any

from streamnorm._core.codec.delta_run import Consumer, DeltaRun, Forward
from streamnorm._core.codec.framing import AnySplitter
from streamnorm._core.codec.templates import BlockSinks, EventNumbers, Numbers, ReadText
from streamnorm._core.grammar import HeldTexts
from streamnorm._core.text import TextBuffer

SOURCE: str

def setup(
    decode_string: object,
    fast_errors: tuple[type[Exception], ...],
    limit_error: type[Exception],
    max_fresh: int,
    batch: int,
    long_chars: int,
    max_digits: int,
    /,
) -> None: ...

class TemplateReader:
    def __new__(
        cls,
        run: DeltaRun,
        known: dict[bytes, BlockSinks],
        prefix: bytes,
        head: bytes,
        middle: bytes,
        tail: bytes,
        end: bytes,
        between: bytes,
        behind: bytes,
        repeats: bool,
        spaced: bool,
        otherwise: ReadText,
        framing: AnySplitter | None,
        leave: Forward | None,
        numbers: EventNumbers | None,
        has_ids: bool,
        /,
    ) -> TemplateReader: ...
    def read(self, data: bytes, /) -> str | None: ...
    def forward(self, data: bytes, out: list[Any], consumer: Consumer, /) -> bytes: ...

class DeltaFrames:
    def __new__(
        cls,
        head: bytes,
        tail: bytes,
        stored: TextBuffer | HeldTexts | None,
        numbers: Numbers | None = None,
        middle: bytes = b"",
        /,
    ) -> DeltaFrames: ...
    def write(self, text: str, /) -> Any: ...
    def characters(self) -> int: ...
