"""The scripted upstream: a fake provider whose answers depend on the history it is sent."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from clients.histories import history_of
from clients.tasks import Call
from clients.variants import Variant
from msgspec import structs

from streamnorm import (
    Block,
    BlockStart,
    BlockStop,
    Event,
    JSONDelta,
    Message,
    MessageStop,
    Reasoning,
    ToolCall,
)
from streamnorm._core.messages import message_events
from streamnorm.asgi import ReplayApp
from streamnorm.recording.faults import FaultQueue
from streamnorm.recording.format import Playback, Step, WireRequest
from streamnorm.recording.recording import find_cut_points, split_at
from streamnorm.testing import FakeProvider, FakeRequest, faults

__all__ = ["Upstream"]

_TAG = re.compile(rb"sn1-id\.openai\.(rs_[0-9a-f]+)\.")
_MINTED_ID = re.compile(rb'"rs_\d+_\d+"')
_STREAMING = (":streamGenerateContent", "/converse-stream")
_MAX_REQUESTS = 40  # beyond which an agent is taken to loop


class Upstream:
    """A responder for one run of an agent, which refuses what its provider would refuse.

    Args:
        dialect: Dialect of the gateway's first upstream.
        variant: What it does besides answering.
        read: The agent's way of reading a file.
        folder: The agent's working directory.
        has_ids: Whether the agent sends the ids of calls back.

    Attributes:
        overrun: Set when there were too many requests.
        unanswered: Requests that the script has no answer to.
    """

    def __init__(
        self, dialect: str, variant: Variant, read: Call, folder: Path, *, has_ids: bool = True
    ) -> None:
        self.overrun = asyncio.Event()
        self.unanswered: list[str] = []
        self._dialect = dialect
        self._variant = variant
        self._read = read
        self._folder = folder
        self._has_ids = has_ids
        self._streamed = 0
        self._errors = FaultQueue(variant.refusals)
        self._provider = FakeProvider(self._turn, strict=True, server=variant.server)

    @property
    def app(self) -> ReplayApp:
        """The upstream as an ASGI application; its pauses last as long as they say."""
        return ReplayApp(self, speed=1)

    @property
    def requests(self) -> list[FakeRequest]:
        """The requests for messages so far."""
        return [one for one in self._provider.requests if _asks_for_message(one)]

    @property
    def refusals(self) -> list[str]:
        """What the provider refused of the requests so far: rule, path and answer."""
        return [f"{each.rule} at {each.path}: {each.message}" for each in self._provider.violations]

    def respond(self, request: WireRequest, /) -> Playback:
        """Return the answer to a request, cut into pieces as the variant says."""
        try:
            playback = self._provider.respond(request)
        except Exception as exc:
            self.unanswered.append(f"{request.method} {type(exc).__name__}: {exc}")
            raise
        if len(self.requests) > _MAX_REQUESTS:
            self.overrun.set()
        playback = _with_issued_reasoning(playback)
        if self._variant.rechunk == "event":
            return playback
        body = playback.body
        pieces = split_at(body, find_cut_points(body, self._variant.rechunk, None))
        steps = tuple(Step(0.0, piece) for piece in pieces)
        return structs.replace(playback, steps=steps)

    def _turn(self, request: FakeRequest) -> Any:
        assert request.dialect is not None
        variant = self._variant
        blocks: list[Block] = variant.task.turn(
            request.dialect, request.body, self._read, self._folder, has_ids=self._has_ids
        )
        if not history_of(request.dialect, request.body).tools:
            return blocks  # no turn of the task: which request is the first must not vary
        if errors := self._errors.take():
            return errors
        if not variant.reasons:
            blocks = [block for block in blocks if not isinstance(block, Reasoning)]
        if variant.moves and self._streamed and request.dialect == self._dialect:
            return faults.http(529)
        if _streams(request):
            injected = [*variant.streams[self._streamed : self._streamed + 1], *variant.each]
            self._streamed += 1
        else:
            injected = [*variant.whole]
        if variant.interleaves and any(isinstance(block, ToolCall) for block in blocks):
            return [*_interleaved(blocks), *injected]
        return [*blocks, *injected]


def _with_issued_reasoning(playback: Playback) -> Playback:
    """Return an answer of Responses with encrypted reasoning under the id that it is bound to.

    An encoder tags it with that id, since it gives the item an id of its own.
    """
    tag = _TAG.search(playback.body)
    if tag is None:
        return playback
    issued = b'"%s"' % tag[1]
    steps = [
        structs.replace(step, data=_MINTED_ID.sub(issued, step.data.replace(tag[0], b"")))
        for step in playback.steps
    ]
    return structs.replace(playback, steps=tuple(steps))


def _asks_for_message(request: FakeRequest) -> bool:
    return request.method == "POST" and not request.path.endswith(("count_tokens", ":countTokens"))


def _streams(request: FakeRequest) -> bool:
    return bool(request.body.get("stream")) or request.path.endswith(_STREAMING)


def _interleaved(blocks: list[Block]) -> list[Event]:
    """Return the events of a message whose calls arrive together, in pieces in turn."""
    calls = [at for at, block in enumerate(blocks) if isinstance(block, ToolCall)]
    message = Message(blocks=tuple(blocks), stop_reason="tool_use")
    events = message_events(message)
    alone = [event for event in events if getattr(event, "index", None) not in calls]
    starts: list[Event] = []
    pieces: list[list[Event]] = []
    for at in calls:
        block = blocks[at]
        assert isinstance(block, ToolCall)
        starts.append(BlockStart(at, structs.replace(block, arguments="")))
        text = block.arguments
        pieces.append([JSONDelta(at, text[n : n + 5]) for n in range(0, len(text), 5)])
    longest = max(map(len, pieces))
    mixed = [own[n] for n in range(longest) for own in pieces if n < len(own)]
    stops: list[Event] = [BlockStop(at) for at in calls]
    end = next(at for at, event in enumerate(alone) if isinstance(event, MessageStop))
    return [*alone[:end], *starts, *mixed, *stops, *alone[end:]]
