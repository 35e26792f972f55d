"""State of the Responses API for transcoding transports: stored turns, and operations on them."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

from msgspec import structs

from streamnorm._core.codec import Dialect
from streamnorm._core.errors import StateError
from streamnorm._core.json import dumps, is_object, object_in
from streamnorm._upstream.requests import ClientRequest, RequestRefused, json_body, refusals
from streamnorm.sse import SSEDecoder
from streamnorm.state import (
    Found,
    Operation,
    ResponseStore,
    StoredResponse,
    SyncResponseStore,
    Turn,
    scope_of,
)

AnyStore: TypeAlias = ResponseStore | SyncResponseStore
"""A store for clients of either kind."""


def stores_responses(client: Dialect) -> bool:
    """Return whether clients of a dialect expect its server to store responses."""
    return any(route.operation == "response" for route in client.endpoints.routes)


def client_scope(received: ClientRequest, client: Dialect) -> str:
    """Return the scope of a client in the store, derived from its API key.

    A key is the same scope in every header.  Several different keys in one request form a
    separate scope, since any of them may be the key that was checked.

    Args:
        received: The request.
        client: The client's dialect.
    """
    found = [received.headers.get(name, "").strip() for name in client.endpoints.key_headers]
    keys = sorted({_without_scheme(key) for key in found if key})
    # The digest of what OpenAI's SDK sends: `authorization` alone.
    return scope_of("\n".join(f"Bearer {key}" for key in keys) + "\n")


def _without_scheme(key: str) -> str:
    """Return a key without the scheme `Bearer` of an `authorization` header."""
    scheme, _, bare = key.partition(" ")
    return bare.strip() if scheme.lower() == "bearer" else key


def refusal_of(exc: StateError) -> RequestRefused:
    """Return the refusal for a request whose state is missing or wrong."""
    return RequestRefused(str(exc), exc.status, code=exc.code, param=exc.param)


class StoredTurn:
    """A request and its answer, for a client whose responses are stored.

    Args:
        received: The request.
        client: The client's dialect.
        store: Store of the responses.

    Raises:
        RequestRefused: By any method: the request refers to state that is not stored.
    """

    def __init__(self, received: ClientRequest, client: Dialect, store: AnyStore) -> None:
        self._received = received
        # A client is synchronous or asynchronous, and calls only the methods of its kind.
        self._store = cast("ResponseStore", store)
        self._sync_store = cast("SyncResponseStore", store)
        self._scope = client_scope(received, client)
        self.turn: Turn | None = None

    @property
    def stores(self) -> bool:
        """Whether the answer is to be stored."""
        return self.turn is not None and self.turn.stores

    def begin(self) -> Turn:
        """Return the turn of a request for a message."""
        with refusals():
            try:
                self.turn = Turn(json_body(self._received))
            except StateError as exc:
                raise refusal_of(exc) from exc
        return self.turn

    def expand(self) -> ClientRequest:
        """Return the request with its whole input."""
        turn = self.begin()
        return self._expand(turn, self._sync_store.find(self._scope, turn.lookup))

    async def expand_async(self) -> ClientRequest:
        """Return the request with its whole input."""
        turn = self.begin()
        return self._expand(turn, await self._store.afind(self._scope, turn.lookup))

    def put(self, response: dict[str, Any]) -> None:
        """Store the answer, if it is to be stored."""
        if (stored := self._response_to_store(response)) is not None:
            self._sync_store.put(self._scope, stored)

    async def put_async(self, response: dict[str, Any]) -> None:
        """Store the answer, if it is to be stored."""
        if (stored := self._response_to_store(response)) is not None:
            await self._store.aput(self._scope, stored)

    def answer(self, operation: Operation) -> dict[str, Any]:
        """Return the answer to a request about a stored response."""
        found = self._sync_store.find(self._scope, operation.lookup)
        body = _answer(operation, found)
        if operation.deletes:
            self._sync_store.delete(self._scope, operation.id)
        return body

    async def answer_async(self, operation: Operation) -> dict[str, Any]:
        """Return the answer to a request about a stored response."""
        found = await self._store.afind(self._scope, operation.lookup)
        body = _answer(operation, found)
        if operation.deletes:
            await self._store.adelete(self._scope, operation.id)
        return body

    def _expand(self, turn: Turn, found: Found) -> ClientRequest:
        with refusals():
            try:
                body = turn.expand(found)
            except StateError as exc:
                raise refusal_of(exc) from exc
        return structs.replace(self._received, body=dumps(body))

    def _response_to_store(self, response: dict[str, Any]) -> StoredResponse | None:
        return None if self.turn is None else self.turn.stored(response)


def last_response(chunk: bytes) -> dict[str, Any]:
    """Return the response in the last event of a stream; {} if it has none."""
    frames = SSEDecoder().feed(chunk)
    response = object_in(frames[-1].data).get("response") if frames else None
    return response if is_object(response) else {}


def _answer(operation: Operation, found: Found) -> dict[str, Any]:
    try:
        return operation.answer(found)
    except StateError as exc:
        raise refusal_of(exc) from exc
