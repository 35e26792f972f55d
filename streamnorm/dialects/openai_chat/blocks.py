"""One choice of a Chat Completions stream: its blocks, which the wire never names.

Chat has no block boundaries.  A text, reasoning or refusal block ends when another
block starts; a function call stops when its arguments are complete and another block
has begun.  A call's start is held until its name is known and an argument, another
block or the end has come, and what comes behind a held start waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from streamnorm._core.blocks import (
    Block,
    Citation,
    Reasoning,
    RedactedReasoning,
    Refusal,
    Text,
    ToolCall,
)
from streamnorm._core.codec import Delta
from streamnorm._core.events import (
    BlockStart,
    BlockStop,
    CitationDelta,
    Event,
    JSONDelta,
    MessageStop,
    Opaque,
    ReasoningDelta,
    RefusalDelta,
    SignatureDelta,
    StreamError,
    TextDelta,
)
from streamnorm._core.failures import Fatal, too_large
from streamnorm._core.ids import mint_id
from streamnorm._core.json import clean, compact, rejoin, too_deep
from streamnorm.dialects.openai_chat.arguments import ENDS
from streamnorm.dialects.openai_chat.tool_calls import Call, Calls
from streamnorm.dialects.openai_chat.shared import Shared
from streamnorm.dialects.openai_chat.stop_reasons import message_stop
from streamnorm.dialects.openai_chat.think import ThinkTags
from streamnorm.dialects.openai_chat.pending_starts import Kind, LaterText, Queue

__all__ = ["Answer"]

_BLOCKS: dict[Kind, type[Text | Reasoning | Refusal]] = {
    "text": Text,
    "reasoning": Reasoning,
    "refusal": Refusal,
}
_DELTAS: dict[Kind, Callable[[int, str], Event]] = {
    "text": TextDelta,
    "reasoning": ReasoningDelta,
    "refusal": RefusalDelta,
}


class Answer:
    """Follow one choice.

    Attributes:
        finish: The last finish reason; None until one came.
        extra: Unknown fields of the choice's last chunk.
    """

    def __init__(self, number: int, shared: Shared) -> None:
        self.finish: str | None = None
        self.extra: dict[str, Any] = {}
        self._number = number
        self._shared = shared
        self._live = -1  # the open text, reasoning or refusal block
        self._kind: Kind | None = None  # its kind; None once it is signed
        self._live_delta: Delta | None = None  # a delta of it, while it is text or reasoning
        self._carry = ""  # high surrogate that it ended in
        self._texts = 0
        self._refused = False
        self._calls = Calls()
        self._open: dict[int, Call] = {}  # by block
        self._unsettled: dict[int, Call] = {}  # those that may be complete when a block begins
        self._queue = Queue(shared.limits.max_held_bytes)
        self._early: dict[str, str] = {}  # signatures of calls to come, by id
        self._early_chars = 0
        self._think = ThinkTags() if shared.think_tags else None

    @property
    def live(self) -> int | None:
        """Number of the text, reasoning or refusal block that is open and not yet followed."""
        return self._live if self._live >= 0 and not self._queue else None

    @property
    def extendable_delta(self) -> Delta | None:
        """A delta of the block of text or reasoning that more can be appended to as it is."""
        return None if self._carry or self._queue or self._think else self._live_delta

    @property
    def has_open_calls(self) -> bool:
        """Whether arguments may be appended to a call as they are."""
        return bool(self._open) and not self._shared.quirks.cumulative_arguments

    def append_arguments(self, call_index: int, fragment: str) -> JSONDelta | None:
        """Append a fragment to an open call, and return a delta of its block.

        None leaves the call unchanged: the fragment may repeat, restart or complete it.
        """
        call = self._calls.by_index.get(call_index)
        if call is None or not call.append_plain(fragment):
            return None
        if fragment:
            self._calls.last = call
        return call.delta

    def content(self, text: str, events: list[Event]) -> None:
        """Take text for the user, which may hold reasoning between tags."""
        if self._think is None:
            self.piece("text", text, events)
            return
        for kind, part in self._think.feed(text):
            self.piece(kind, part, events)

    def piece(self, kind: Kind, text: str, events: list[Event]) -> None:
        """Take text of one kind."""
        if not text:
            return
        if self._queue:
            self._queue.add_text(kind, text)
            self._pump(events)
            return
        self._write(kind, text, events)

    def sign(self, signature: str, issuer: str | None, events: list[Event]) -> None:
        """Take the signature of the reasoning that is open, or of none."""
        self._behind_queue(partial(self._sign, clean(signature), issuer), signature, events)

    def encrypted(
        self,
        data: str,
        issuer: str | None,
        owner: object,
        events: list[Event],
        *,
        alone: bool,
    ) -> None:
        """Take reasoning that only its issuer can read.

        Anthropic sends it as a block of its own (`alone`); with others it is the signature
        of a call, which may come later, of the reasoning before it, or stands alone.
        """
        call = self._calls.by_id(owner)
        if issuer == "google" and call is not None and not alone:
            self.sign_call(call, data, issuer, events)
        elif issuer == "google" and isinstance(owner, str) and not alone:
            self._keep_early(owner, clean(data))
        else:
            encrypted = partial(self._encrypted, clean(data), issuer, alone)
            self._behind_queue(encrypted, data, events)

    def cite(self, citation: Citation, events: list[Event]) -> bool:
        """Take a source of the open text.  Return False if there is none."""
        if self._kind != "text" or self._queue:
            return False
        events.append(CitationDelta(self._live, citation))
        return True

    @property
    def begun(self) -> bool:
        """Whether anything of it has arrived."""
        return bool(self._live >= 0 or self._calls.all)

    @property
    def texts(self) -> int:
        """How many text blocks have started."""
        return self._texts

    def call(
        self,
        index: int | None,
        id: str | None,
        name: str,
        fragment: str,
        kind: str | None,
        signed: tuple[str, str | None] | None,
        events: list[Event],
    ) -> None:
        """Take a piece of a tool call, with its signature and who issued that, if it has one."""
        known = len(self._calls.all)
        call = self._calls.find(index, id, name, fragment)
        if len(self._calls.all) > known:
            self._shared.calls += 1
            if self._shared.calls > self._shared.limits.max_tool_calls:
                raise too_large("max_tool_calls", self._shared.limits.max_tool_calls)
            if kind == "custom":
                call.kind = "custom"
            self._queue.hold(call)
        if not call.name.endswith(name):
            self._shared.note("late_name", "tool call")
        if max(len(call.name), len(id or "")) > self._shared.limits.max_id_chars:
            raise too_large("max_id_chars", self._shared.limits.max_id_chars)
        if self._shared.surrogates or call.carry:
            fragment, call.carry = rejoin(call.carry, fragment)
        if signed is not None:
            self.sign_call(call, *signed, events)
        if fragment:
            self._fragment(call, fragment, events)
        elif self._queue:  # its name may have been what the queue waited for
            self._pump(events)
        call.settle()

    def sign_call(
        self, call: Call, signature: str, issuer: str | None, events: list[Event]
    ) -> None:
        """Take a value that must come back with a call."""
        if call.stopped:
            raise Fatal(StreamError("malformed", "signature of a tool call that has stopped"))
        if call.index >= 0:
            events.append(SignatureDelta(call.index, clean(signature), issuer))
            return
        self._queue.ripen(signature, first=not call.ripe)
        call.signature, call.issuer = clean(signature), issuer
        self._pump(events)

    def flush(self, events: list[Event]) -> list[int]:
        """Let out what was held, at the end, and return the blocks that are open."""
        if self._think is not None:
            for kind, text in self._think.close():
                self.piece(kind, text, events)
        self._pump(events, force=True)
        for signature in self._early.values():  # of calls that never came
            self._behind_queue(partial(self._encrypted, signature, "google", False), "", events)
        if self._queue:
            raise Fatal(StreamError("malformed", "tool call without a name, expected one"))
        self._flush_carry(events)
        blocks = [self._let_out(call, events) for call in self._open.values()]
        return [*blocks, self._live] if self._live >= 0 else blocks

    def stop(self) -> MessageStop:
        """Return the end of this answer."""
        calls = [call for call in self._calls.all if call.index >= 0]
        return message_stop(
            self.finish,
            choice=self._number,
            called=bool(calls),
            unfinished=not all(call.whole() for call in calls),
            refused=self._refused,
            extra=self.extra,
        )

    def opaque(self, name: str, value: Any, events: list[Event]) -> None:
        """Take data that has no place in the events."""
        self.check_depth(value)
        events.append(Opaque("openai_chat", name, compact(value), self.live))

    def check_depth(self, value: Any) -> None:
        """Refuse a value that nests too deep to be kept."""
        if too_deep(value, self._shared.limits.max_json_depth):
            raise too_large("max_json_depth", self._shared.limits.max_json_depth)

    # What is out, and what waits

    def _sign(self, signature: str, issuer: str | None, events: list[Event]) -> None:
        if self._kind != "reasoning":
            self._begin(Reasoning(), events, kind="reasoning")
        self._flush_carry(events)
        events.append(SignatureDelta(self._live, signature, issuer))
        self._kind = self._live_delta = None

    def _encrypted(self, data: str, issuer: str | None, alone: bool, events: list[Event]) -> None:
        if not alone and self._kind == "reasoning":
            self._sign(data, issuer, events)
            return
        events.append(BlockStop(self._begin(RedactedReasoning(data, issuer), events)))

    def _write(
        self, kind: Kind, text: str, events: list[Event], *, surrogates: bool = False
    ) -> None:
        if self._kind != kind:
            self._begin(_BLOCKS[kind](), events, kind=kind)
        if surrogates or self._shared.surrogates or self._carry:
            text, self._carry = rejoin(self._carry, text)
            if not text:
                return
        events.append(_DELTAS[kind](self._live, text))

    def _behind_queue(
        self, do: Callable[[list[Event]], None], text: str, events: list[Event]
    ) -> None:
        """Do what comes behind all that waits: now, or when that has gone out."""
        self._pump(events, force=True)
        if not self._queue:
            do(events)
            return
        self._queue.add(do, text)

    def _pump(self, events: list[Event], *, force: bool = False) -> None:
        """Let out what waits, up to a call whose start is still unknown."""
        while (item := self._queue.pop(force=force)) is not None:
            match item:
                case Call():
                    self._start_call(item, events)
                case LaterText(kind, text):
                    self._write(kind, text.text(), events, surrogates=True)
                case later:
                    later.do(events)

    def _begin(self, block: Block, events: list[Event], *, kind: Kind | None = None) -> int:
        """Start a block, after all that it ends."""
        shared = self._shared
        if shared.blocks >= shared.limits.max_blocks:
            raise too_large("max_blocks", shared.limits.max_blocks)
        self._flush_carry(events)
        ended = [] if self._live < 0 else [self._live]
        for _, call in sorted(self._unsettled.items()):
            call.followed = True
            if call.complete():
                ended.append(self._stop_call(call, events))
        self._unsettled.clear()
        events += [BlockStop(index) for index in sorted(ended)]
        index = shared.blocks
        shared.blocks += 1
        events.append(BlockStart(index, block, self._number))
        self._live = index if kind else -1
        self._kind = kind
        reasoning = ReasoningDelta(index, "") if kind == "reasoning" else None
        self._live_delta = TextDelta(index, "") if kind == "text" else reasoning
        self._texts += kind == "text"
        self._refused = self._refused or kind == "refusal"
        return index

    def _flush_carry(self, events: list[Event]) -> None:
        if self._carry and self._kind is not None:
            carry, self._carry = clean(self._carry), ""
            events.append(_DELTAS[self._kind](self._live, carry))

    # Tool calls

    def _start_call(self, call: Call, events: list[Event]) -> None:
        id = call.id
        if id is None:
            id = mint_id(*self._shared.seed, self._number, self._shared.blocks)
            self._shared.note("minted_id", "tool call")
        if early := self._early.pop(id, ""):
            call.signature, call.issuer = early, "google"
        block = ToolCall(
            clean(id),
            clean(call.name),
            kind=call.kind,
            signature=call.signature,
            issuer=call.issuer,
        )
        call.index = self._begin(block, events)
        call.delta = JSONDelta(call.index, "")
        self._open[call.index] = self._unsettled[call.index] = call
        if call.arguments.size and not call.placeholder:
            events.append(JSONDelta(call.index, call.arguments.text()))
        call.settle()

    def _keep_early(self, id: str, signature: str) -> None:
        """Keep a signature that came before its call."""
        self._early[id] = signature
        self._early_chars += len(signature)
        if self._early_chars > self._shared.limits.max_held_bytes:
            raise too_large("max_held_bytes", self._shared.limits.max_held_bytes)

    def _fragment(self, call: Call, text: str, events: list[Event]) -> None:
        shared = self._shared
        first = not call.ripe
        text = call.take(text, shared.note, cumulative=shared.quirks.cumulative_arguments)
        if call.index < 0:
            self._queue.ripen(text, first=first)
            self._pump(events)
        elif text:
            self._write_arguments(call, text, events)

    def _write_arguments(self, call: Call, text: str, events: list[Event]) -> None:
        events.append(JSONDelta(call.index, text))
        self._unsettled[call.index] = call
        if call.followed and text[-1] in ENDS and call.complete():
            events.append(BlockStop(self._stop_call(call, events)))

    def _stop_call(self, call: Call, events: list[Event]) -> int:
        call.stop()
        del self._open[call.index], self._unsettled[call.index]
        return self._let_out(call, events)

    def _let_out(self, call: Call, events: list[Event]) -> int:
        """Let out what a started call held, and return the number of its block."""
        if rest := call.rest():
            events.append(JSONDelta(call.index, rest))
        return call.index
