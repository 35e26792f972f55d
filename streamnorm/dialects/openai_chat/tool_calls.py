"""One tool call: its fragments and signature on the wire, its arguments and state.

`open_calls` decides which call a fragment belongs to and when a call starts and stops.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from streamnorm._core.blocks import ToolCall
from streamnorm._core.events import Event, JSONDelta
from streamnorm._core.failures import malformed, too_large
from streamnorm._core.json import clean, compact, is_json, is_object
from streamnorm._core.limits import StoredBytes, text_bytes
from streamnorm._core.text import FreshTexts, Signed, TextBuffer, tag_signature, untag_signature
from streamnorm.dialects.openai_chat import wire


class CallFragment(Struct):
    """An entry of `delta.tool_calls`, or a legacy `function_call`.

    The name may be a further part of the tool's name; the arguments of a custom tool are
    its input.
    """

    index: int | None
    id: str | None
    name: str
    arguments: str
    is_custom: bool = False
    signature: Signed | None = None


def call_fragment_from_wire(
    delta: wire.ToolCallDelta, check_depth: Callable[[object], None]
) -> CallFragment | None:
    """Return a tool call fragment; None for an entry without content.

    `check_depth` raises `Fatal` if a value nests too deep.
    """
    function = delta.function or delta.custom or wire.Function()
    arguments = function.arguments
    # GLM-4.5 and Mistral send the object itself (zai/index-minus-one-objects-in-the-finish-chunk).
    if arguments is not None and not isinstance(arguments, str):
        check_depth(arguments)
        arguments = compact(arguments)
    arguments = arguments or function.input or ""
    # Qwen repeats the id as "" (qwen/empty-id-on-continuation), Mistral's SDK has the text `null`
    # for none (mistral/literal-null-id), OpenRouter relays numbers (openrouter/numeric-id).
    id = str(delta.id) if delta.id not in (None, "", "null") else None
    signed = signature_from_wire(delta.extra_content) if delta.extra_content else None
    signed = signed or signature_from_fields(delta.provider_specific_fields)
    if id is not None:
        id, signed_by_id = split_signed_id(id)
        signed = signed or signed_by_id
    if not (id or function.name or arguments or delta.extra_content or signed):
        return None  # it would begin a call that never has a name
    index = delta.index
    if index is not None and index < 0:  # GLM-4.5 and Bedrock gateways send -1
        index = None
    is_custom = delta.custom is not None or delta.type == "custom"
    return CallFragment(index, id, function.name or "", arguments, is_custom, signed)


def signature_from_wire(extra_content: dict[str, Any]) -> Signed | None:
    """Return a call's signature, as Gemini's compatible endpoint sends it."""
    google = extra_content.get("google")
    signature = google.get("thought_signature") if is_object(google) else None
    if isinstance(signature, str) and signature:
        # Our encoder writes signatures of other vendors to the same field, with their issuer.
        return untag_signature(signature) or Signed(signature, "google")
    return None


def signature_from_fields(fields: object) -> Signed | None:
    """Return a call's signature, as LiteLLM has it in `provider_specific_fields`."""
    signature = fields.get("thought_signature") if is_object(fields) else None
    return Signed(signature, "google") if isinstance(signature, str) and signature else None


def signature_to_fields(signature: str) -> dict[str, Any]:
    """Return the `provider_specific_fields` in which LiteLLM reads Google's signature of a call."""
    return {"thought_signature": signature}


def split_signed_id(id: str) -> tuple[str, Signed | None]:
    """Return a call's id, and the signature that LiteLLM appends to it.

    LiteLLM 1.110.2 does so for clients that drop unknown fields of calls.  Google's signatures
    have up to some thousands of characters, and ids of other servers are short.
    """
    bare, mark, signature = id.partition("__thought__")
    if not (bare and mark and signature):
        return id, None
    return bare, Signed(signature, "google")


def signature_to_wire(signature: str, issuer: str | None) -> dict[str, Any]:
    """Return the `extra_content` with a call's signature.

    Gemini's compatible endpoint has this field; signatures of other vendors are tagged.
    """
    if issuer != "google":
        signature = tag_signature(signature, issuer)
    return {"google": {"thought_signature": signature}}


def call_start_to_wire(number: int, id: str, name: str, kind: str) -> dict[str, Any]:
    """Return the first fragment of a call, without arguments."""
    # The TypeScript SDK throws at a call that never has a `type`, the Python SDK joins ids and
    # names that come twice: all of them are sent here, once.
    start = {"index": number, "id": id, "type": kind}
    if kind == "function":
        return {**start, "function": {"name": name, "arguments": ""}}
    return {**start, "custom": {"name": name, "input": ""}}


def call_to_wire(call: ToolCall) -> dict[str, Any]:
    """Return a whole call; missing arguments become `{}`."""
    if call.kind == "custom":
        owner = {"name": call.name, "input": call.arguments}
    else:
        owner = {"name": call.name, "arguments": call.arguments or "{}"}
    value: dict[str, Any] = {"id": call.id, "type": call.kind, call.kind: owner}
    if call.signature is not None:
        value["extra_content"] = signature_to_wire(call.signature, call.issuer)
    return value


def arguments_frame(number: int, kind: str) -> tuple[bytes, bytes]:
    """Return the bytes before and after the arguments in a call's deltas."""
    owner = b'"function":{"arguments":' if kind == "function" else b'"custom":{"input":'
    return b'"tool_calls":[{"index":%d,%b' % (number, owner), b"}}]"


def call_signature_to_wire(
    number: int, kind: str, signature: str, issuer: str | None
) -> dict[str, Any]:
    """Return a call fragment with the call's signature."""
    # The python SDK and LangChain fail at a fragment without `function`.
    empty = {"custom": {"input": ""}} if kind == "custom" else {"function": {"arguments": ""}}
    return {"index": number, **empty, "extra_content": signature_to_wire(signature, issuer)}


COMPLETE_ENDS = frozenset('}]" \t\r\n')
"""Characters that complete arguments may end with, trailing white space included."""

_MARKS = re.compile(r'\\.|["{}\[\]]', re.DOTALL)
_MAX_NULL_CHARS = 16
_MAX_FRESH = 16  # fragments before they are packed
_CLOSERS = ("}", "]", '"')
_CLOSER_OF = {"{": "}", "[": "]", '"': '"'}


class Arguments:
    """The accumulated arguments of a call, and whether they are complete JSON.

    All checks of one call together are linear in its size, and nothing is scanned before
    the first check.

    Args:
        stored: Counter of what the decoder stores.
    """

    __slots__ = (
        "_broken",
        "_buffer",
        "_checked_size",
        "_closer",
        "_complete",
        "_depth",
        "_fresh",
        "_in_string",
        "_is_object",
        "_last",
        "_scanned",
        "_size",
        "stored",
    )

    def __init__(self, stored: StoredBytes) -> None:
        self.stored = stored
        self._size = 0
        self._buffer = TextBuffer()
        self._fresh = FreshTexts(stored)  # the last inner fragments
        self._is_object = False  # whether the text begins with a brace
        self._closer: str | None = None  # of the value; "" if it is no object, array or string
        self._last = ""  # the last fragment that is not white space
        self._checked_size = 0  # size at the last check
        self._scanned = False
        self._depth = 0
        self._in_string = False
        self._complete = False
        self._broken = False

    def append(self, text: str) -> None:
        """Append a fragment.

        Raises:
            Fatal: More than `max_accumulated_bytes` would be stored.
        """
        if not self.append_if_bounded(text):
            raise too_large("max_accumulated_bytes", self.stored.bound)

    def append_if_bounded(self, text: str) -> bool:
        """Append a fragment; refuse a fragment that exceeds the bound by returning False."""
        stored = self.stored
        if self._fresh.texts:
            self._take_fresh()
        size = len(text) if text.isascii() else text_bytes(text)
        if size > stored.left:
            return False
        stored.left -= size
        self._append(text)
        return True

    def _append(self, text: str) -> None:
        fresh = self._buffer.fresh
        fresh.append(text)
        if len(fresh) >= _MAX_FRESH:
            self._buffer.pack()
        if not self._size:
            self._is_object = text.startswith("{")
        self._size += len(text)
        if not text.isspace():
            # White space may follow a JSON value, anything else makes the text no JSON.
            if self._complete:
                self._complete, self._broken = False, True
            self._last = text
            if self._closer is None:
                self._closer = _CLOSER_OF.get(text.lstrip()[:1], "")

    def _take_fresh(self) -> None:
        """Append the fragments in `fresh`."""
        self._append(self._fresh.take())

    @property
    def size(self) -> int:
        """Number of characters so far."""
        if self._fresh.texts:
            self._take_fresh()
        return self._size

    @property
    def fresh(self) -> list[str] | None:
        """List for fragments that `is_inner` accepts; None near the bound or before an object.

        What `is_inner` accepts neither completes an object nor repeats it nor begins another, so
        that nothing has to be checked.
        """
        return self._fresh.open if self._is_object else None

    def close_fresh(self) -> None:
        """Accept no more fragments in `fresh`; the delta run calls `try_append` instead."""
        if self._fresh.texts:
            self._take_fresh()
        self._fresh.close()

    def text(self) -> str:
        """Return the joined fragments."""
        if self._fresh.texts:
            self._take_fresh()
        return self._buffer.text()

    def is_empty(self) -> bool:
        """Return whether the text is empty or only `{}`."""
        return not self.size or (self.size == 2 and self.text() == "{}")

    def is_whole(self) -> bool:
        """Return whether the text so far is empty or one JSON value."""
        return not self.size or self.is_complete() or is_json(self.text())

    def may_end_with(self, text: str) -> bool:
        """Return whether a fragment ending in one of `COMPLETE_ENDS` may complete the JSON."""
        return not self._closer or self._closer in text

    def closes_object(self) -> bool:
        """Return whether the text ends in a closing brace, apart from white space."""
        if self._fresh.texts:
            self._take_fresh()
        return self._last.rstrip().endswith("}")

    def is_complete(self) -> bool:
        """Return whether the text is one complete object, array, string or `null`.

        A lone `{}` is not complete: some servers send it before the real object.
        """
        size = self.size
        if self._checked_size == size or self._complete or self._broken:
            return self._complete
        self._checked_size = size
        # Groq sends `null` for a call without arguments.
        is_short = size <= _MAX_NULL_CHARS
        if is_short and self._last.endswith("l") and self.text().strip() == "null":
            self._complete = True
            return True
        if not self._last.rstrip().endswith(_CLOSERS):
            return False
        # Groq, xAI and Mistral send all arguments in one fragment, which one parse settles.
        if not self._scanned:
            text = self.text()
            if text.strip() != "{}" and is_json(text):
                self._complete = True
                return True
        self._scan()
        if self._depth == 0 and not self._in_string:
            text = self.text()
            # A lone `{}` may be the placeholder of Bedrock, which must not stop the call.
            if text.strip() != "{}":
                self._complete = is_json(text)
                self._broken = not self._complete
        return self._complete

    def _scan(self) -> None:
        """Track brackets and strings in the text added since the last scan.

        The text ends in a closer or white space, so no escape sequence is cut in half.
        """
        self._scanned = True
        for match in _MARKS.finditer(self._buffer.unread()):
            mark = match[0]
            if self._in_string:
                self._in_string = mark != '"'
            elif mark == '"':
                self._in_string = True
            elif mark in "{[":
                self._depth += 1
            elif mark in "}]":
                self._depth -= 1


_ENDS_OR_NULL = COMPLETE_ENDS | {"l"}

ChunkId: TypeAlias = str | int | None
"""Id of a chunk; None if it is empty."""


class Call(Struct, eq=False):
    """One tool call of a choice.

    Attributes:
        id: The provider's id; None until it is known.
        name: The tool's name as far as it is known.
        arguments: The arguments so far.
        wire_index: Index on the wire, the latest if it drifts; None without one.
        chunk_id: Id of the chunk that began the call; None while its chunks have none.
        kind: Whether the arguments are JSON (`function`) or free text (`custom`).
        index: Block index; -1 while the start is held.
        delta: A delta of the block, valid once the block has started.
        is_appendable: Whether `try_append` may accept fragments.
        has_placeholder: Whether the arguments are a lone `{}` that has not been emitted.
        followed: Whether a later block has begun.
        stopped: Whether the block has stopped.
        carry: High surrogate at the end of the last fragment.
        signature: Signature that arrived before the start was emitted.
        issuer: Issuer of the signature.
    """

    id: str | None
    name: str
    arguments: Arguments
    wire_index: int | None = None
    chunk_id: ChunkId = None
    kind: Literal["function", "custom"] = "function"
    index: int = -1
    delta: JSONDelta = JSONDelta(-1, "")
    is_appendable: bool = False
    has_placeholder: bool = False
    followed: bool = False
    stopped: bool = False
    carry: str = ""
    signature: str | None = None
    issuer: str | None = None

    @property
    def has_content(self) -> bool:
        """Whether arguments or a signature have arrived."""
        return bool(self.arguments.size) or self.signature is not None

    def is_complete(self) -> bool:
        """Return whether no further arguments can follow."""
        return self.kind == "function" and self.arguments.is_complete()

    def is_executable(self) -> bool:
        """Return whether the arguments received so far are complete."""
        return self.kind == "custom" or self.arguments.is_whole()

    def can_grow(self, *, is_last: bool) -> bool:
        """Return whether a fragment with neither id nor index may continue the call.

        Args:
            is_last: Whether no later call has begun, which ends a call without arguments.
        """
        if self.stopped or self.is_complete():
            return False
        return is_last or not self.arguments.is_empty()

    def update_appendable(self) -> None:
        """Set `is_appendable` after a fragment on the slow path."""
        held = self.stopped or self.has_placeholder or self.carry or self.index < 0
        was_appendable = self.is_appendable
        self.is_appendable = self.kind == "function" and not held and self.arguments.size > 0
        if was_appendable and not self.is_appendable:
            self.arguments.close_fresh()

    def stop(self) -> None:
        """Record that the block has stopped."""
        self.stopped, self.is_appendable = True, False
        self.arguments.close_fresh()

    def append(self, text: str, note: Callable[[str, str], None], *, cumulative: bool) -> str:
        """Append a fragment; return the part of the fragment to emit now.

        A lone `{}` is held until the next fragment or `release`: it may be a placeholder
        for the object that follows it.

        Args:
            text: The fragment.
            note: Records an accepted deviation.
            cumulative: Whether each fragment repeats all before it.

        Raises:
            Fatal: The arguments were already complete.
        """
        arguments = self.arguments
        if self.kind == "custom":
            arguments.append(text)
            return text
        if arguments.size:
            # Qianfan, and no other server known (qianfan/cumulative-arguments).
            if cumulative and text.startswith(arguments.text()):
                note("cumulative_arguments", "tool call")
                text = text[arguments.size :]
                if not text:
                    return ""
            # vLLM's tool parsers end with all arguments once more
            # (vllm/arguments-resent-at-the-end, vllm-project/vllm#51697).
            if self._is_resent(text):
                note("resent_arguments", "tool call")
                return ""
            if self.has_placeholder:
                return self._append_to_placeholder(text, note)
        arguments.append(text)
        # Bedrock behind proxies begins with `{}` (bedrock/placeholder-empty-object,
        # openai/openai-agents-js#712).
        if text == "{}" and arguments.size == 2:
            self.has_placeholder = True
            return ""
        return text

    def try_append(self, text: str) -> bool:
        """Append a fragment if it only extends the arguments; else return False.

        False leaves the call unchanged: the fragment may repeat, restart or complete the
        arguments, and needs `append`.
        """
        arguments = self.arguments
        # Only a fragment as long as all before it can be the arguments once more.
        if not self.is_appendable or len(text) == arguments.size:
            return False
        if not text:
            return True
        first = text[0]
        # A second object behind a closed one is another call without its id, or the arguments
        # again.
        if (first == "{" or first.isspace()) and arguments.closes_object():
            return False
        # Once a later block has begun, complete arguments stop the call.
        if self.followed and text[-1] in _ENDS_OR_NULL and arguments.may_end_with(text):
            return False
        return arguments.append_if_bounded(text)

    def release(self, events: list[Event]) -> None:
        """Append the event of the held arguments, since the call ends."""
        # No object has followed: `{}` were the arguments (a tool without parameters).
        held = ("{}" if self.has_placeholder else "") + clean(self.carry)
        self.has_placeholder, self.carry = False, ""
        if held:
            events.append(JSONDelta(self.index, held))

    def _is_resent(self, text: str) -> bool:
        """Return whether a fragment only repeats complete arguments."""
        # `{}` behind a held `{}` may still precede the real object.
        if self.has_placeholder:
            return False
        arguments = self.arguments
        if len(text) == arguments.size and text == arguments.text() and self._is_closed():
            return True
        if self.stopped:
            if text.isspace():
                return True
            # A client runs a call at its stop: more arguments would make it another call.
            raise malformed("arguments of a tool call that has stopped")
        if text.lstrip().startswith("{") and arguments.closes_object() and self._is_closed():
            # gateway/second-call-without-id-and-name (dyedd/lens#49): the name of the second call
            # is lost.
            raise malformed("a second object as arguments of one tool call")
        return False

    def _is_closed(self) -> bool:
        """Return whether the arguments are complete or are a `{}` that was emitted."""
        return self.arguments.is_complete() or self.arguments.is_empty()

    def _append_to_placeholder(self, text: str, note: Callable[[str, str], None]) -> str:
        # What follows is no object, so that the `{}` was the beginning of the text.
        if not text.lstrip().startswith("{"):
            self.has_placeholder = False
            self.arguments.append(text)
            return "{}" + text
        note("placeholder_arguments", "tool call")
        self.arguments = Arguments(self.arguments.stored)
        self.arguments.append(text)
        self.has_placeholder = text == "{}"
        return "" if self.has_placeholder else text
