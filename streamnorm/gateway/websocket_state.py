"""State of a WebSocket's responses, stored while the connection is open.

The latest response of each lane can be continued by its id, also one with `store: false`; any
other has to be stored, or the client sends its whole input again
(https://developers.openai.com/api/docs/guides/websocket-mode, read 2026-11-23).
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from streamnorm._core.bodies.fields import get_str
from streamnorm._core.codec import Dialect
from streamnorm._core.json import compact
from streamnorm._exchange import state_refusals
from streamnorm._upstream.requests import ClientRequest, refusals
from streamnorm.gateway.receiving import BodyThread
from streamnorm.gateway.response_state import ResponseState, ResponseStates
from streamnorm.gateway.storing import GatewayStore
from streamnorm.state.stored import value_of
from streamnorm.state.turn import items_in, previous_not_found

if TYPE_CHECKING:
    from streamnorm.gateway.websocket_steering import Steering

# An object and a reference to it.
_ITEM_BYTES = 64
_Key: TypeAlias = "tuple[ConnectionState, str | None]"
_STATUS = 400


class History(Struct, frozen=True):
    """A response with all items that precede it.

    Attributes:
        id: Id of the response.
        items: JSON of the items of its input and its output.
        size: Bytes that they take in memory, approximately.
    """

    id: str
    items: tuple[bytes, ...]
    size: int

    @classmethod
    def of(cls, id: str, items: tuple[bytes, ...]) -> History:
        """Return a history with the given items and the items' size."""
        return cls(id, items, sum([len(item) + _ITEM_BYTES for item in items]))


class Histories:
    """The histories of all connections, by connection and lane.

    Beyond the bound, the one that was not used for the longest time is forgotten: its client sends
    the whole input again.

    Args:
        max_bytes: Bytes that they take.  Items that several of them have count in each.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[_Key, History] = OrderedDict()  # least recently used first
        self._bytes = 0

    @property
    def size(self) -> int:
        """Size of all histories in bytes."""
        return self._bytes

    def put(self, key: _Key, history: History) -> None:
        """Store the history of a lane in place of the lane's previous history."""
        self.drop(key)
        self._entries[key] = history
        self._bytes += history.size
        while self._bytes > self._max_bytes:
            self.drop(next(iter(self._entries)))

    def find(self, key: _Key) -> History | None:
        """Return the history of a lane; None if none is stored."""
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
        return found

    def drop(self, key: _Key) -> None:
        """Forget the history of a lane."""
        found = self._entries.pop(key, None)
        if found is not None:
            self._bytes -= found.size


class ConnectionState:
    """The conversations on one WebSocket, by their `stream_id`.

    Args:
        histories: Those of all connections.
        max_bytes: Bound on one history: a longer one could not be sent as a request, either.
    """

    def __init__(self, histories: Histories, max_bytes: int) -> None:
        self._histories = histories
        self._max_bytes = max_bytes
        self._lanes: dict[str | None, str] = {}  # the id of the latest response of each lane
        # By id of a response: the items that wait for its continuation, and their bytes.
        self._queued: dict[str, tuple[list[dict[str, Any]], int]] = {}

    def find(self, lane: str | None, id: str) -> History | None:
        """Return the history that ends in a response, from `lane` or else from another lane."""
        for name in dict.fromkeys((lane, *self._lanes)):
            if self._lanes.get(name) == id:
                return self._histories.find((self, name))
        return None

    def put(self, lane: str | None, history: History) -> None:
        """Store the history of a lane's latest response."""
        self._lanes[lane] = history.id
        key = (self, lane)
        if history.size > self._max_bytes:
            self._histories.drop(key)
        else:
            self._histories.put(key, history)

    def queue(self, id: str, items: list[dict[str, Any]], size: int) -> None:
        """Store input for the `response.create` that will continue a response.

        Args:
            id: Id of the response.
            items: Items of the input.
            size: Bytes of the messages that had them.
        """
        self._queued[id] = (items, size)

    def find_queued(self, id: object) -> list[dict[str, Any]]:
        """Return the input stored for the `response.create` that continues a response."""
        items, _ = self._queued.get(id, ([], 0)) if isinstance(id, str) else ([], 0)
        return items

    def drop_queued(self, id: str) -> None:
        """Drop the input stored for the `response.create` that continues a response."""
        self._queued.pop(id, None)

    @property
    def queued_bytes(self) -> int:
        """Bytes of the input that waits for a `response.create`."""
        return sum([size for _, size in self._queued.values()])

    def evict(self, id: str) -> None:
        """Drop the history of a response that a failed request has named."""
        for name in [name for name, latest in self._lanes.items() if latest == id]:
            self._forget(name)

    def close(self) -> None:
        """Forget all histories of the connection."""
        for name in [*self._lanes]:
            self._forget(name)

    def _forget(self, lane: str | None) -> None:
        del self._lanes[lane]
        self._histories.drop((self, lane))


class Continuation(ResponseStates):
    """Creates the state of one `response.create`, and stores the response for its continuation.

    Args:
        store: Store of the answers; None if none are stored.
        bodies: The thread for large bodies.
        connection: State of the connection.
        lane: The lane of the create.
        asks_upstream: Whether the request is sent to an upstream, which may have stored what is
            not stored here.
        continues: The input that the answer follows; None for the answer to a create.
    """

    def __init__(
        self,
        store: GatewayStore | None,
        bodies: BodyThread,
        connection: ConnectionState,
        lane: str | None,
        *,
        asks_upstream: bool,
        continues: Steering | None = None,
    ) -> None:
        super().__init__(store, bodies)
        self._connection = connection
        self._lane = lane
        self._asks_upstream = asks_upstream
        self._continues = continues
        self.follows_steer = continues is not None
        self._named: str | None = None  # the response that is continued
        self._before: tuple[bytes, ...] = ()
        self._input: list[dict[str, Any]] | None = None  # None if its history is not known
        self._turn: ResponseState | None = None

    async def begin(
        self, received: ClientRequest, client: Dialect, body: dict[str, Any]
    ) -> ResponseState:
        """Return the request's state, with the connection's history in the input."""
        with refusals():
            self._named = get_str(body, "previous_response_id")
            own = items_in(body)
        known = None if self._named is None else self._connection.find(self._lane, self._named)
        if known is None:
            return await self._begin_unknown(received, client, body)
        self._before, self._input = known.items, own
        size = received.size + known.size
        expanded = await self._bodies.run(size, partial(_expand, body, known, own))
        turn = await self._begin(received, client, expanded)
        await self._bodies.run(size, partial(turn.rewrite, turn.body, known.size))
        if self._store is not None:
            turn.fields = {"store": turn.stores, **turn.fields}
        turn.fields = {**turn.fields, "previous_response_id": self._named}
        return turn

    async def _begin_unknown(
        self, received: ClientRequest, client: Dialect, body: dict[str, Any]
    ) -> ResponseState:
        """Return the state of a request that does not continue a known response."""
        if self._named is not None and self._store is None and not self._asks_upstream:
            with state_refusals(_STATUS):
                raise previous_not_found(self._named)
        turn = await self._begin(received, client, body)
        # An upstream that has stored what the request continues knows the rest of its input.
        if self._named is None or self._store is not None:
            self._input = items_in(turn.body)
        return turn

    async def _begin(
        self, received: ClientRequest, client: Dialect, body: dict[str, Any]
    ) -> ResponseState:
        turn = self._turn = await super().begin(received, client, body)
        turn.is_continued_here = True
        turn.continues = self._continues
        return turn

    @property
    def steering(self) -> Steering | None:
        """Input that the client adds to the response; None if the client can add none."""
        return None if self._turn is None else self._turn.steering

    async def end(self, response_id: str, output: list[bytes] | None) -> None:
        """Store a complete response, unless the response store has it.

        Args:
            response_id: The id.
            output: JSON of its items; None if they are not known.
        """
        # A create that fails is sent again, with the same input.
        if self._named is not None:
            self._connection.drop_queued(self._named)
        turn, given = self._turn, self._input
        is_stored = turn is not None and turn.stores and not turn.is_lost
        if output is None or given is None or not response_id or is_stored:
            return
        items = await self._bodies.run(
            0 if turn is None else turn.size, lambda: [compact(item).encode() for item in given]
        )
        history = History.of(response_id, (*self._before, *items, *output))
        self._connection.put(self._lane, history)

    def release(self) -> None:
        """Drop the request and its input, since the answer has ended."""
        self._turn = self._input = None
        self._before = ()

    def fail(self) -> None:
        """Drop the history of the response that a refused or failed request has named."""
        if self._named is not None:
            self._connection.evict(self._named)


def _expand(body: dict[str, Any], known: History, own: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a request with its whole input instead of a previous response's id."""
    rest = {name: value for name, value in body.items() if name != "previous_response_id"}
    return {**rest, "input": [*map(value_of, known.items), *own]}
