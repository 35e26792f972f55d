"""Registry of dialects by name and alias, with their decoders and encoders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Unpack

from streamnorm._core.bodies.fields import Body, body_object
from streamnorm._core.codec import (
    ALL_EVENTS,
    Checker,
    DecodeOptions,
    Decoder,
    Dialect,
    DialectOptions,
    Encoder,
    FormatSniffer,
)
from streamnorm._core.codec.dialect import FirstUse
from streamnorm._core.codec.event_messages import EVENTSTREAM
from streamnorm._core.codec.framing import SSE, Framing
from streamnorm._core.codec.invoke_chunks import INVOKE_CHUNKS
from streamnorm._core.codec.websocket_messages import WS_MESSAGE
from streamnorm._core.errors import DecodeError, UnknownDialect, did_you_mean
from streamnorm._core.events import Event, MessageStart
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Capabilities, OnLoss, OnNote, ReasoningField
from streamnorm.dialects import (
    ag_ui,
    anthropic,
    bedrock_converse,
    gemini,
    gemini_interactions,
    openai_chat,
    openai_responses,
    ui_message_stream,
)
from streamnorm.sse import Frame, RawFrame


def detect(frame_or_body: Frame | Body, /) -> str | None:
    """Return the dialect of a frame, or of a whole request or response, by name.

    Args:
        frame_or_body: A frame of a stream; or a body, as JSON text or as the decoded object.

    Returns:
        The name, or None if more than one dialect has such a frame or body, or none has.
    """
    if isinstance(frame_or_body, Frame):
        found = detect_frame(frame_or_body, DIALECTS.values())
        return None if found is None else found.name
    try:
        body = body_object(frame_or_body, Limits())
    except DecodeError:
        return None
    return detect_body(body)


def detect_frame(frame: Frame, among: Iterable[Dialect]) -> Dialect | None:
    """Return the first dialect in `among` that recognises a frame; None if no dialect does."""
    found = next((known for known in among if known.recognises(frame)), None)
    first, joined, _ = frame.data.partition("\n")
    if found is None and joined:  # several events, perhaps, without blank lines between
        return detect_frame(Frame(frame.event, first), among)
    return found


def detect_body(
    body: dict[str, Any], kind: Literal["request", "response"] | None = None
) -> str | None:
    """Return the only dialect that recognises a body; None if no dialect or several do.

    Args:
        body: A decoded JSON object.
        kind: What it is; None if it may be either.
    """
    names = {
        known.name
        for known in DIALECTS.values()
        if (kind != "response" and known.is_request(body))
        or (kind != "request" and known.is_response(body))
    }
    return names.pop() if len(names) == 1 else None


def detect_path(path: str) -> str | None:
    """Return the name of the dialect with an endpoint at a URL path, or None.

    Args:
        path: The path, decoded, without empty segments and query.
    """
    for name, known in DIALECTS.items():
        if known.endpoints.serves(path):
            return name
    return None


def dialect_at(path: str) -> Dialect | None:
    """Return the dialect with an endpoint at a path, adapted to the path's cloud, or None.

    Args:
        path: The path, without empty segments and query; decoded or, if a cloud has it, as the
            URL spells it.
    """
    name = detect_path(path)
    return None if name is None else DIALECTS[name].adapt_to_path(path)


DIALECTS: dict[str, Dialect] = {
    # The order of detection: errors of the first and of the second are both of type `error`,
    # and only those of the first are numbered.
    room.DIALECT.name: room.DIALECT
    for room in (
        *(openai_responses, anthropic, openai_chat),
        *(gemini, gemini_interactions, bedrock_converse),
        *(ui_message_stream, ag_ui),
    )
}

DEFAULT_ERROR_DIALECT = openai_chat.DIALECT.name
"""The dialect of error bodies where none is known: most clients can read them."""

DEFAULT_STATE_DIALECT = openai_responses.DIALECT.name
"""The dialect of stored answers where none is named: the first that had them."""

FRAMINGS: dict[str, Framing] = {
    framing.name: framing for framing in (SSE, INVOKE_CHUNKS, EVENTSTREAM, WS_MESSAGE)
}
"""The framings by name; of those with one media type, the first has the most headers."""

_BY_NAME = {name: known for known in DIALECTS.values() for name in (known.name, *known.aliases)}


def register(dialect: Dialect) -> Callable[[], None]:
    """Add a dialect, last in detection order; return a function that removes it.

    Raises:
        ValueError: Its name or an alias is taken.
    """
    names = (dialect.name, *dialect.aliases)
    for name in names:
        if name in _BY_NAME:
            raise ValueError(f"name {name!r} is taken by dialect {_BY_NAME[name].name!r}")
    DIALECTS[dialect.name] = dialect
    _BY_NAME.update(dict.fromkeys(names, dialect))

    def remove() -> None:
        del DIALECTS[dialect.name]
        for name in names:
            del _BY_NAME[name]

    return remove


def lookup(name: str) -> Dialect:
    """Return a dialect by its name or an alias.

    Raises:
        UnknownDialect: There is none of that name.
    """
    known = _BY_NAME.get(name)
    if known is None:
        expected = f"{', '.join(_BY_NAME)}{did_you_mean(name, _BY_NAME)}"
        raise UnknownDialect(f"no dialect {name!r}, expected one of {expected}")
    return known


def framing_of(dialect: str | None, framing: Framing | None = None) -> Framing:
    """Return the framing of a stream.

    Args:
        dialect: Dialect of the stream; None if the first frames decide, which are those of
            server-sent events.
        framing: The framing that the caller names; None for that of the dialect.

    Raises:
        UnknownDialect: There is no such dialect.
    """
    if framing is not None:
        return framing
    return SSE if dialect is None else lookup(dialect).framing


def stated_framing(content_type: str | None, headers: Mapping[str, str]) -> Framing | None:
    """Return the framing that a response's headers state; None for SSE or unknown media types.

    Framings of one media type differ in the further headers of their responses.

    Args:
        content_type: Value of `content-type`; parameters and case are ignored.
        headers: Headers of the response.
    """
    essence = (content_type or "").partition(";")[0].strip().lower()
    for framing in FRAMINGS.values():
        if framing.media_type == essence and all(name in headers for name in framing.headers):
            return None if framing is SSE else framing
    return None


def decoder_of(known: Dialect, own: dict[str, Any], **shared: Unpack[DecodeOptions]) -> Decoder:
    """Return a decoder for exactly one dialect, which does not detect the dialect's variants.

    Args:
        known: The dialect.
        own: Options that some dialects alone have.
        shared: Options of all decoders.

    Raises:
        UnknownDialect: It cannot be read.
    """
    make: Callable[..., Decoder] = _part(known, "decoder")
    return make(**shared, **_own_options(known, own))


def decoder(
    dialect: str | None = None,
    *,
    server: str | None = None,
    think_tags: bool = False,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    on_note: OnNote | None = None,
    framing: Framing | None = None,
) -> Decoder:
    """Return a decoder of one stream's bytes to events.

    Args:
        dialect: Dialect to read; None to find out from the first frames, at most 16.
        server: Name of the server (for example `qianfan`); enables its quirks.
        think_tags: Read `<think>…</think>` at the start of an answer as reasoning.
        limits: Bounds.
        on_note: Called with each note as it happens.
        framing: How the events stand in the bytes; None for the framing of the dialect.

    Raises:
        UnknownDialect: There is no such dialect, or it cannot be read.
    """
    shared: DecodeOptions = {
        "server": server,
        "limits": limits,
        "on_note": on_note,
        "framing": framing_of(dialect, framing),
    }
    own = {"think_tags": think_tags}
    if dialect is None:
        return _UnnamedDecoder(own, **shared)
    known = lookup(dialect)
    variants = [other for other in DIALECTS.values() if other.variant_of == known.name]
    if variants:
        return _VariantDecoder(known, variants, own, **shared)
    return decoder_of(known, own, **shared)


def encoder(
    dialect: str,
    *,
    model: str | None = None,
    strict: bool = False,
    on_loss: OnLoss | None = None,
    include_usage: bool = True,
    reasoning: ReasoningField | None = "reasoning_content",
    page_client: str | None = None,
    extras: bool = False,
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> Encoder:
    """Return an encoder of one stream's events to bytes.

    It writes blocks as they come; a `Transcoder` puts those that overlap one after the other.

    Args:
        dialect: Dialect to write.
        model: Model to name in place of the one that answered.
        strict: Whether to raise `LossyEncoding` at the first loss.
        on_loss: Called with each loss as it happens.
        include_usage: Whether to write the tokens in Chat Completions, whose clients ask for
            them; other dialects always have them.
        reasoning: Field of Chat Completions that reasoning is written to;
            `reasoning_details` holds its signatures and who issued them.  None leaves
            reasoning out, in any dialect.
        page_client: Client of a page, such as `ai@7` or `ag-ui@1`, to write what older ones do not
            show; None for what all of them accept.
        extras: Whether to write the vendor's own fields (`extra`) back: for events that
            were decoded from the same dialect.
        limits: `max_accumulated_bytes` bounds what the encoder stores; `encode` raises
            `LimitExceeded` beyond it.

    Raises:
        UnknownDialect: There is no such dialect, or it cannot be written.
        ValueError: Chat Completions have no such field for reasoning, or pages of the dialect no
            such client.
    """
    known = lookup(dialect)
    make: Callable[..., Encoder] = _part(known, "encoder")
    own = {"include_usage": include_usage, "reasoning": reasoning, "page_client": page_client}
    options = _own_options(known, own)
    return make(
        model=model,
        strict=strict,
        on_loss=on_loss,
        extras=extras,
        limits=limits,
        capabilities=_limit(known, options, reasoning),
        **options,
    )


def checker(dialect: str) -> Checker:
    """Return a checker of one stream's frames, which reports violations of the protocol.

    Raises:
        UnknownDialect: There is no such dialect, or its bytes are not checked.
    """
    make: Callable[[], Checker] = _part(lookup(dialect), "checker")
    return make()


def capabilities(
    dialect: str,
    *,
    reasoning: ReasoningField | None = "reasoning_content",
    include_usage: bool = True,
) -> Capabilities:
    """Return the capabilities of a dialect's encoder with these options.

    Raises:
        UnknownDialect: There is no such dialect, or it has no capabilities.
    """
    known = lookup(dialect)
    own = {"include_usage": include_usage, "reasoning": reasoning}
    return _limit(known, _own_options(known, own), reasoning)


def _limit(
    known: Dialect, own: dict[str, DialectOptions], reasoning: ReasoningField | None
) -> Capabilities:
    """Return the capabilities of a dialect's encoder with some options."""
    target: Capabilities = _part(known, "capabilities")
    for options in own.values():
        target = options.limit(target)
    return target.without_reasoning() if reasoning is None else target


def _own_options(known: Dialect, keywords: dict[str, Any]) -> dict[str, DialectOptions]:
    """Return the dialect's own options in `keywords` as the keyword `options`; {} without any."""
    if known.options is None:
        return {}
    names = known.options.__struct_fields__
    own = {name: value for name, value in keywords.items() if name in names}
    return {"options": known.options(**own)} if own else {}


def _part(known: Dialect, what: Literal["capabilities", "checker", "decoder", "encoder"]) -> Any:
    """Return one part of a dialect, such as its decoder.

    Raises:
        UnknownDialect: The dialect lacks the part.
    """
    part = getattr(known, what)
    if part is None:
        others = ", ".join(n for n, d in DIALECTS.items() if getattr(d, what) is not None)
        raise UnknownDialect(f"no {what} of dialect {known.name!r}, expected one of {others}")
    return part.load() if type(part) is FirstUse else part


_MAX_DETECTION_FRAMES = 16
_UNKNOWN = "no stream of a known dialect"


class _UnnamedDecoder(Decoder):
    """A decoder that detects the dialect from the first frames, then uses the dialect's decoder."""

    def __init__(self, own: dict[str, Any], **shared: Unpack[DecodeOptions]) -> None:
        super().__init__(**shared)
        self.formats = tuple(format for known in DIALECTS.values() for format in known.formats)
        self._own = own
        count = self.note
        self._shared: DecodeOptions = {
            **shared,
            "on_note": lambda note: count(note.kind, note.where),
        }
        self._room: Decoder | None = None
        self._waiting: list[Frame] = []
        self._is_known = False  # whether `_room` is certain to be that of the stream

    def read_raw(self, raw: RawFrame) -> list[Event]:
        if self.active is None:
            events = super().read_raw(raw)
            if self._is_known and self._room is not None and self.outcome is None:
                self.active = self._room
                self.active.adopt_framing(self)
        else:
            events = self.active.read_raw(raw)
        self._follow()
        return events

    @property
    def next_sequence_number(self) -> int:
        return 0 if self._room is None else self._room.next_sequence_number

    @property
    def resume_token(self) -> dict[str, Any] | None:
        return None if self._room is None else self._room.resume_token

    @property
    def lacks_only_terminal(self) -> bool:
        return self._room is not None and self._room.lacks_only_terminal

    @property
    def idle_frames(self) -> int:
        return super().idle_frames if self.active is None else self.active.idle_frames

    def as_event_stream(self, data: bytes) -> bytes:
        return (
            super().as_event_stream(data)
            if self.active is None
            else self.active.as_event_stream(data)
        )

    def feed_frame(self, frame: Frame) -> list[Event]:
        events = super().feed_frame(frame) if self.active is None else self.active.feed_frame(frame)
        self._follow()
        return events

    def close(self) -> list[Event]:
        events = super().close() if self.active is None else self.active.close()
        self._follow()
        return events

    def abort(self, cause: BaseException) -> list[Event]:
        events = super().abort(cause) if self.active is None else self.active.abort(cause)
        self._follow()
        return events

    def read(self, frame: Frame, events: list[Event]) -> None:
        room = self._room
        if room is None:
            self._waiting.append(frame)
            room = self._find(frame)
            if room is None:
                if len(self._waiting) >= _MAX_DETECTION_FRAMES:
                    raise self.malformed(_UNKNOWN)
                return
            for waiting in self._waiting:
                self.refused = 0 if waiting is frame else ALL_EVENTS
                self._pass_frame(room, waiting, events)
                if room.outcome is not None:
                    break
        else:
            self._pass_frame(room, frame, events)

    def _pass_frame(self, room: Decoder, frame: Frame, events: list[Event]) -> None:
        try:
            room.read(frame, events)
        finally:  # a frame that fails may have brought the usage
            self.outcome, self.first_usage = room.outcome, room.first_usage

    def end(self, rest: Frame | None, events: list[Event]) -> None:
        room = self._room
        if room is None and rest is not None and (room := self._find(rest)) is not None:
            for waiting in self._waiting:
                self.refused = ALL_EVENTS
                room.read(waiting, events)
            self.refused = 0
        if room is not None:
            room.end(rest, events)
            self.outcome = room.outcome
        elif rest is None and any(waiting.data.strip() for waiting in self._waiting):
            raise self.malformed(_UNKNOWN)

    def _follow(self) -> None:
        """Copy the state of the active decoder."""
        if self.active is not None:
            self.split, self.run = self.active.split, self.active.run
            self.is_plain = self.active.is_plain
            self.outcome, self.first_usage = self.active.outcome, self.active.first_usage
            self.error_outside_stream = self.active.error_outside_stream

    def _find(self, frame: Frame) -> Decoder | None:
        found = detect_frame(frame, DIALECTS.values())
        if found is None:
            return None
        self.dialect = found.name
        return self._enter(found)

    def _enter(self, known: Dialect) -> Decoder:
        """Create the decoder of a dialect, and delegate to it from now on."""
        try:
            self._room = decoder_of(known, self._own, **self._shared)
        except UnknownDialect as exc:
            raise self.malformed(str(exc)) from exc
        self._room.response_id = self.response_id
        self._is_known = True
        return self._room


class _VariantDecoder(_UnnamedDecoder):
    """A decoder that detects a dialect or its variant from the frames before the message start.

    Args:
        known: The dialect that was named.
        variants: The variants.
        own: Options that one of them alone has.
        shared: Options of all decoders.
    """

    def __init__(
        self,
        known: Dialect,
        variants: list[Dialect],
        own: dict[str, Any],
        **shared: Unpack[DecodeOptions],
    ) -> None:
        super().__init__(own, **shared)
        self.dialect = known.name
        self._variants = variants
        self._room = self._named = decoder_of(known, own, **self._shared)

    def sniffer(self, start: bytes) -> FormatSniffer | None:
        return self._named.sniffer(start)

    def read(self, frame: Frame, events: list[Event]) -> None:
        self._find_variant(frame)
        super().read(frame, events)
        if not self._is_known:
            self._is_known = any(isinstance(event, MessageStart) for event in events)

    def end(self, rest: Frame | None, events: list[Event]) -> None:
        self._judge_strays()
        if rest is not None:
            self._find_variant(rest)
        super().end(rest, events)

    def _find_variant(self, frame: Frame) -> None:
        if not self._is_known and (variant := detect_frame(frame, self._variants)) is not None:
            self._enter(variant)
