"""State of message requests: stored items that they refer to, and answers to store.

`MessageEndpoint` begins the turn of a request before any upstream is asked:

    turn = await turns.begin(received, client, body)

`Attempts` sends each upstream `turn.request_for(target)`: unchanged if `turn.passes(target)`,
else translated and completed by `turn.answered`.  The whole answer is passed to `turn.store`
before the client gets the last bytes of it.

Code that changes the request calls `turn.rewrite`, or sets `turn.edit` if the change depends on
the upstream, as for what is sealed in the request: it may be the upstream's own.  Code that makes
an answer itself sets `turn.makes_answer`, writes `turn.fields` into it, and passes it to
`turn.store`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import structs

from streamnorm._bodies import codec_of, reader_of, request_of
from streamnorm._core.blocks import Reasoning
from streamnorm._core.codec import Dialect, StoredAnswers
from streamnorm._core.errors import DecodeError, LimitExceeded
from streamnorm._core.events import Completed
from streamnorm._core.json import encode_pieces, string_of
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Loss
from streamnorm._core.messages import Message
from streamnorm._exchange import (
    add_to_last_answer,
    encode_stored,
    last_answer,
    state_refusals,
    store_scope,
)
from streamnorm._upstream.foreign_turns import disown_foreign_turns, may_have_foreign_turns
from streamnorm._upstream.requests import (
    ClientRequest,
    RequestRefused,
    Upstream,
    UpstreamRequest,
)
from streamnorm.aio import Stream
from streamnorm.aio.pump import TranscodePump
from streamnorm.gateway.receiving import BodyThread, UpstreamResponse
from streamnorm.gateway.routing import Target, changes_requests
from streamnorm.gateway.storing import GatewayStore, store_refusals
from streamnorm.profiles import shipped_profiles
from streamnorm.state import Found, Lookup, StoredResponse
from streamnorm.state.turn import CheckedTurn, forbid_storing, has_ended

if TYPE_CHECKING:
    from streamnorm.gateway.websocket_answers import SocketAnswer
    from streamnorm.gateway.websocket_steering import Steering


class StoredStream(Stream[bytes]):
    """A stream whose answer is stored before its last bytes are returned.

    A client may continue an answer as soon as it has read its end.  If the answer cannot be
    stored, its last event says `store: false`.

    Args:
        pump: The pump of the stream; its events are written anew.
        reader: Reads the upstream's answer.
        turn: Stores the answer.
        bodies: The thread for large bodies.
    """

    def __init__(
        self, pump: TranscodePump, reader: UpstreamResponse, turn: ResponseState, bodies: BodyThread
    ) -> None:
        super().__init__(pump, reader)
        self._turn = turn
        self._bodies = bodies

    async def _last(self) -> bytes:
        data = await super()._last()
        if not isinstance(self.outcome, Completed):
            return data
        self._pump.pending.append(data)  # not returned yet, should the client leave meanwhile
        await self._turn.store_streamed(data, self)
        self._pump.pending.pop()
        if not self._turn.is_lost:
            return data
        return await self._bodies.run(len(data), partial(self._turn.mark_lost, data))


_MAX_REFERENCES = 10_000  # a store looks up each
_STATUS = 400  # also of items, where the vendor says 404: clients take that for a wrong URL


class ResponseState:
    """State of a message request in a dialect without stored answers.

    Args:
        received: The request.
        client: The client's dialect.
        body: The decoded body of the request.

    Attributes:
        body: The decoded body that upstreams are sent, or a translation of it.
        fields: Fields of the answer that are not the upstream's, such as its `id`.
        stores: Whether the answer is stored.
        edit: Returns the body for an upstream, where it depends on who that is; None for the
            same one for all.
        makes_answer: Whether the answer of the upstream is not the client's: that is made of it
            here, and stored by whoever makes it.
        is_lost: Whether the answer could not be stored, although the client expects it.
        is_continued_here: Whether the answer can be continued although nobody stores it, so that
            all of it has to be sent back to its upstream.
        is_background: Whether the client reads the answer later, under its id.
        steering: Input that the client adds to the response; None if it can add none.
        continues: The input that the answer follows, which the upstream gives without a request;
            None for any other answer.
    """

    def __init__(self, received: ClientRequest, client: Dialect, body: dict[str, Any]) -> None:
        self.body = body
        self.fields: dict[str, Any] = {}
        self.stores = False
        self.edit: Callable[[dict[str, Any], Target], dict[str, Any]] | None = None
        self.makes_answer = False
        self.is_lost = False
        self.is_continued_here = False
        self.is_background = False
        self.steering: Steering | None = None
        self.continues: Steering | None = None
        self._request = structs.replace(received, decoded=body)
        self._client = client
        self._is_unchanged = True
        self._written = body  # of which `_request` has the bytes
        self._is_expanded = False
        # By identity of the upstream: `passes` is asked twice for each, and the request is
        # decoded for the answer, which must not be kept as long as the stream lasts.
        self._is_foreign: dict[int, bool] = {}

    def passes(self, target: Target) -> bool:
        """Return whether an upstream receives the client's bytes unchanged."""
        if not self._is_unchanged or not self._is_own(target):
            return False
        # A request at the path of a cloud has a form that the vendor refuses.
        if self._client.cloud is not None and target.upstream.framing is not self._client.framing:
            return False
        if target.normalize or changes_requests(target.options):
            return False
        key = id(target.upstream)
        if key not in self._is_foreign:
            self._is_foreign[key] = self._has_foreign_turns(target.upstream)
        return not self._is_foreign[key]

    def take_successor(self) -> SocketAnswer | None:
        """Return, once, the answer that the upstream has begun without a request; else None."""
        continues, self.continues = self.continues, None
        return None if continues is None else continues.successors.popleft()

    def rewrite(self, body: dict[str, Any], added_bytes: int = 0) -> None:
        """Replace the body; upstreams no longer receive the client's bytes.

        Args:
            body: The body.
            added_bytes: Bytes of what was stored and is in it now, approximately.
        """
        self.body = body
        self._is_unchanged = False
        if added_bytes:  # both together are held against the bounds of a request, once decoded
            self._request = self._replace_body(body, added_bytes)
            self._written, self._is_expanded = body, True

    def request_for(self, target: Target) -> ClientRequest:
        """Return the client's request as an upstream is to receive it, in the client's dialect.

        Raises:
            RequestRefused: This upstream cannot: the request needs what is not stored.
        """
        body = self._edit_body(target)
        if body is self._written:
            return self._request
        if self._is_own(target) or self._is_expanded:
            return self._replace_body(body)
        # Its bytes would be written to be decoded again, which is half of the memory in all.
        return structs.replace(self._request, decoded=body)

    @property
    def size(self) -> int:
        """Size of the request in bytes."""
        return self._request.size

    @property
    def id(self) -> str:
        """Id of the answer; "" if the upstream assigns it."""
        return ""

    def rename(self, id: str) -> None:
        """Set another id for the answer."""

    async def announce(self, response: dict[str, Any]) -> None:
        """Store a response in the background without output, with its input.

        A complete response of the same request stays.

        Args:
            response: The response, queued or failed.

        Raises:
            RequestRefused: The store does not answer, or has no room for it.
        """

    def set_answer_fields(self, sent: UpstreamRequest, target: Target) -> UpstreamRequest:
        """Return a translated request whose answer will contain `fields`."""
        return _add_fields(sent, self.fields) if self.fields else sent

    async def store(self, response: dict[str, Any], size: int = 0) -> None:
        """Store the answer, before the client receives its end.

        Where that fails, `is_lost` is set and the answer says `store: false`: it has been paid
        for, and the client would ask for it again.

        Args:
            response: The whole answer, in the client's dialect.
            size: Bytes of it, where it may be large.
        """

    @property
    def needs_message(self) -> bool:
        """Whether the accumulated message is needed to store a stream's answer."""
        return False

    async def store_streamed(self, data: bytes, stream: Stream[bytes]) -> None:
        """Store a stream's answer, before the client receives its end.

        Args:
            data: The last bytes of the stream, in the client's dialect.
            stream: The stream, which has the message if `needs_message`.
        """

    @property
    def lost_fields(self) -> dict[str, Any]:
        """Fields of the last event that state a failure to store the answer; {} without failure."""
        return {}

    def mark_lost(self, data: bytes) -> bytes:
        """Return a stream's last bytes, changed to state that the answer is not stored."""
        return data

    def _has_foreign_turns(self, upstream: Upstream) -> bool:
        """Return whether the history has turns of another vendor."""
        received = self._request
        if not may_have_foreign_turns(received.body or b"", upstream):
            return False
        path, headers = received.path, received.headers
        try:
            request = request_of(
                self.body,
                reader_of(self._client),
                path=path,
                headers=headers,
                limits=Limits(),
            )
        except DecodeError:
            return False  # what it is is the upstream's affair
        return disown_foreign_turns(request, upstream) is not request

    def _edit_body(self, target: Target) -> dict[str, Any]:
        return self.body if self.edit is None else self.edit(self.body, target)

    def _replace_body(self, body: dict[str, Any], added_bytes: int = 0) -> ClientRequest:
        """Return the request with another body."""
        return self._request.with_body(encode_pieces(body, self.size + added_bytes))

    def _unstored_request(self, target: Target) -> ClientRequest:
        """Return the request, changed so that the upstream does not store the answer."""
        body = self._edit_body(target)
        encrypts = _reasons(body, target.upstream)
        body = forbid_storing(body, self._client.name, encrypts_reasoning=encrypts)
        return self._replace_body(body)

    def _is_own(self, target: Target) -> bool:
        return target.upstream.dialect == self._client.name


class UnstoredState(ResponseState):
    """State of a request whose client expects stored answers from a gateway without store.

    Args:
        received: The request.
        client: The client's dialect.
        body: The decoded body of the request.
        form: How answers of the dialect are stored.

    An agent whose `previous_response_id` is ignored repeats its first step for ever, so such a
    request is refused.  Upstreams of the same dialect have state of their own, and get their
    requests as they are.
    """

    def __init__(
        self,
        received: ClientRequest,
        client: Dialect,
        body: dict[str, Any],
        form: StoredAnswers,
    ) -> None:
        super().__init__(received, client, body)
        # Streams of other dialects may state no time, and a client reads none but one.
        self._unstored_fields = form.created_fields(time.time()) | form.unstored_fields
        self._is_asked_to_store = False

    def request_for(self, target: Target) -> ClientRequest:
        # OpenRouter ignores the id without an error, and agents then repeat their first step.
        if not self._is_own(target):
            self._refuse_state()
        elif self.is_continued_here and self.body.get("store") is False:
            return self._unstored_request(target)
        return super().request_for(target)

    def set_answer_fields(self, sent: UpstreamRequest, target: Target) -> UpstreamRequest:
        if not self._is_own(target):
            sent = _mark_unstored(sent, self._unstored_fields, is_asked=self._is_asked_to_store)
        return super().set_answer_fields(sent, target)

    def _refuse_state(self) -> None:
        with state_refusals(_STATUS):
            turn = CheckedTurn(self.body, self._client.name)
            turn.expand(Found())
        self._is_asked_to_store = turn.stores


class StoredState(ResponseState):
    """State of a request whose answer the gateway stores.

    A request that neither stores nor refers to what is stored is as that of another client.
    Any other is sent with its whole history, also to an upstream that has state of its own:
    the next request may go to another upstream.

    Args:
        received: The request.
        client: The client's dialect.
        body: The decoded body of the request.
        turn: State of the request: its id, and the lookups it needs.
        store: Store of the answers.
        bodies: The thread for large bodies.
    """

    def __init__(
        self,
        received: ClientRequest,
        client: Dialect,
        body: dict[str, Any],
        turn: CheckedTurn,
        store: GatewayStore,
        bodies: BodyThread,
    ) -> None:
        super().__init__(received, client, body)
        self._bodies = bodies
        self.stores = turn.stores
        self._turn = turn
        self._store = store
        self._scope = store_scope(received, client)
        self._created = time.time()
        if turn.stores or turn.lookup != Lookup():
            self.fields = turn.answer_fields

    @property
    def id(self) -> str:
        return self._turn.id

    def rename(self, id: str) -> None:
        self._turn.id = self.fields["id"] = id

    async def announce(self, response: dict[str, Any]) -> None:
        with store_refusals(), state_refusals(_STATUS):
            # A request that is sent again, of which the log knows no more: its answer is replaced
            # by the next one that is complete, and not by one that may fail.
            known = (await self._store.afind(self._scope, Lookup(self.id))).chain
            if known and has_ended(known[0], self._turn.form):
                return
            stored = await self._bodies.run(self.size, partial(self._turn.unended, response))
        if not await self._store.aput(self._scope, stored, stored.size):
            found = f"background: a request of {self.size} bytes, which the store has no room for"
            raise RequestRefused(found, 413, param="background")

    def defer(self) -> None:
        """Mark the answer as produced in the background; the client reads it later.

        Raises:
            RequestRefused: The answer is not stored.
        """
        if not self.stores:
            raise RequestRefused("background: of an answer with store: false", param="background")
        self.is_background = True
        form = self._turn.form
        # The client has learnt it before an upstream begins.
        self.fields |= form.background_fields | form.created_fields(self._created)

    async def expand(self) -> None:
        """Replace references in the request by the stored items.

        Raises:
            RequestRefused: It is not stored, or the store does not answer.
        """
        # Before the upstream is paid: an answer that cannot be stored is lost for the client.
        if self.stores:
            await self._store.check()
        found = await self._store.afind(self._scope, self._turn.lookup)
        stored = sum([response.items_size for response in found.chain])
        stored += sum([len(item.json) for item in found.items.values()])
        await self._bodies.run(self.size + stored, partial(self._expand, found, stored))

    def _expand(self, found: Found, added_bytes: int) -> None:
        with store_refusals(), state_refusals(_STATUS):
            body = self._turn.expand(found)
        if self.fields:
            self.rewrite(body, added_bytes)

    def request_for(self, target: Target) -> ClientRequest:
        if not (self._is_own(target) and (self.fields or self.is_continued_here)):
            return super().request_for(target)
        # A second copy at the provider would outlive its deletion here.
        return self._unstored_request(target)

    def set_answer_fields(self, sent: UpstreamRequest, target: Target) -> UpstreamRequest:
        fields = self.fields
        if not fields:
            if self._is_own(target):
                return sent
            fields = self._turn.form.unstored_fields
        if not self._is_own(target):
            fields = self._turn.form.created_fields(self._created) | fields
        return _add_fields(sent, fields)

    async def store(self, response: dict[str, Any], size: int = 0) -> None:
        if not self.stores:
            return
        try:
            size += self.size
            stored, taken = await self._bodies.run(size, partial(self._prepare_stored, response))
            # The output of an answer beyond the bound of a message is not part of its last event.
            if stored is not None and await self._store.aput(self._scope, stored, taken):
                return
        except RequestRefused:
            pass
        self._lose()
        response |= self._turn.form.unstored_fields

    @property
    def needs_message(self) -> bool:
        return self.stores and not self._turn.form.ends_with_output

    async def store_streamed(self, data: bytes, stream: Stream[bytes]) -> None:
        form = self._turn.form
        if form.ends_with_output:
            read, size = partial(last_answer, data, form.noun), len(data)
        else:
            try:
                message = stream.message
            except LimitExceeded:
                self._lose()
                return
            read, size = partial(self._encode, message, stream.dialect or ""), _size_of(message)
        response = await self._bodies.run(size, read)
        if response:
            await self.store(response, size)
        else:
            self._lose()

    @property
    def lost_fields(self) -> dict[str, Any]:
        return self._turn.form.unstored_fields if self.is_lost else {}

    def mark_lost(self, data: bytes) -> bytes:
        return add_to_last_answer(data, self._turn.form.noun, self.lost_fields)

    def _encode(self, message: Message, upstream: str) -> dict[str, Any]:
        """Return a stream's message as a complete response; {} if it cannot be encoded."""
        fields = self._turn.answer_fields
        return encode_stored(message, self._client.name, upstream, fields, self._created)

    def _lose(self) -> None:
        """Mark the answer as not stored."""
        self.is_lost = True
        self.fields |= self._turn.form.unstored_fields

    def _prepare_stored(self, response: dict[str, Any]) -> tuple[StoredResponse | None, int]:
        """Return the response to store and its size in bytes; None and 0 if nothing is stored."""
        stored = self._turn.stored(response)
        return stored, 0 if stored is None else stored.size


class ResponseStates:
    """Creates the states of message requests.

    Args:
        store: Store of the answers; None if none are stored.
        bodies: The thread for large bodies.
        has_log: Whether answers can be made in the background.

    Attributes:
        follows_steer: Whether the answer follows input that was added to the response before.
    """

    follows_steer = False

    def __init__(
        self, store: GatewayStore | None, bodies: BodyThread, *, has_log: bool = False
    ) -> None:
        self._store = store
        self._bodies = bodies
        self._has_log = has_log

    async def begin(
        self, received: ClientRequest, client: Dialect, body: dict[str, Any]
    ) -> ResponseState:
        """Return the state of a request, with referenced items included.

        Args:
            received: The request.
            client: The client's dialect.
            body: The decoded body of the request.

        Raises:
            RequestRefused: The request refers to what is not stored.
        """
        if client.stored is None:
            return ResponseState(received, client, body)
        if self._store is None:
            return UnstoredState(received, client, body, client.stored)
        with state_refusals(_STATUS):
            is_background = self._has_log and body.get("background") is True
            if is_background:
                body = {name: value for name, value in body.items() if name != "background"}
            asked = await self._bodies.run(received.size, partial(CheckedTurn, body, client.name))
        count = len(asked.lookup.items)
        if count > _MAX_REFERENCES:
            found = f"{count} references to items, expected at most {_MAX_REFERENCES}"
            raise RequestRefused(found, param="input")
        turn = StoredState(received, client, body, asked, self._store, self._bodies)
        if is_background:
            turn.defer()
        await turn.expand()
        return turn

    async def whole_body(
        self, received: ClientRequest, client: Dialect, body: dict[str, Any]
    ) -> dict[str, Any]:
        """Return an auxiliary request's body, with referenced items included.

        Raises:
            RequestRefused: The request refers to what is not stored.
        """
        if self._store is None or client.stored is None:
            return body
        # A count or a compaction answers for the conversation and stores nothing.
        whole = (await self.begin(received, client, {**body, "store": False})).body
        return {name: value for name, value in whole.items() if name != "store"}


def _reasons(body: dict[str, Any], upstream: Upstream) -> bool:
    """Return whether the requested model can reason."""
    profiles = upstream.profiles or shipped_profiles()
    base = codec_of(upstream.dialect_record).capabilities
    model = upstream.upstream_model(string_of(body, "model"))
    # OpenAI answers 400 if `reasoning.encrypted_content` is asked of a model that does not reason.
    return profiles.resolve(base, server=upstream.server, model=model).returns_reasoning


def _size_of(message: Message) -> int:
    """Return the approximate number of characters in a message."""
    texts: list[object] = [value for block in message.blocks for value in structs.astuple(block)]
    for block in message.blocks:
        texts += block.parts if isinstance(block, Reasoning) else ()
    return sum([len(text) for text in texts if isinstance(text, str)])


def _add_fields(sent: UpstreamRequest, fields: dict[str, Any]) -> UpstreamRequest:
    reply = structs.replace(sent.reply, response={**sent.reply.response, **fields})
    return structs.replace(sent, reply=reply)


def _mark_unstored(
    sent: UpstreamRequest, fields: dict[str, Any], *, is_asked: bool
) -> UpstreamRequest:
    """Return a translated request whose answer states that it is not stored.

    Args:
        sent: The request.
        fields: Fields that say so.
        is_asked: Whether the client asked for an answer that is stored.
    """
    losses = sent.losses
    if is_asked and all(loss.feature != "store" for loss in losses):
        losses = (*losses, Loss("store", "request", detail="written as false"))
    return structs.replace(_add_fields(sent, fields), losses=losses)
