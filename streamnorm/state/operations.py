"""The requests about a stored response: retrieve, delete, cancel, list its input items.

https://platform.openai.com/docs/api-reference/responses (read 2026-11-23).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from streamnorm.state.stored import Found, Item, Lookup, StoredResponse, value_of
from streamnorm.state.turn import history_of, invalid_value, not_cancellable, response_not_found

Action: TypeAlias = Literal["retrieve", "delete", "cancel", "list_input"]

_PATH = re.compile(r"/responses/([^/]+)(/cancel|/input_items)?$")
_ACTIONS: dict[tuple[str, str | None], Action] = {
    ("GET", None): "retrieve",
    ("DELETE", None): "delete",
    ("POST", "/cancel"): "cancel",
    ("GET", "/input_items"): "list_input",
}
# https://platform.openai.com/docs/api-reference/responses/input-items (read 2026-11-23).
_MAX_LISTED = 100
_DEFAULT_LISTED = "20"


class Operation(Struct, frozen=True):
    """A request about a stored response.

    Attributes:
        action: Action that the request asks for.
        id: Id of the response.
        query: The query of its URL.
    """

    action: Action
    id: str
    query: Mapping[str, str] = {}

    @property
    def lookup(self) -> Lookup:
        """Lookup of the response."""
        return Lookup(self.id)

    @property
    def deletes(self) -> bool:
        """Whether the response is to be deleted once the answer is known."""
        return self.action == "delete"

    def answer(self, found: Found) -> dict[str, Any]:
        """Return the body of the answer.

        Args:
            found: Result of `lookup`.

        Raises:
            StateError: The response is not stored, or the request cannot be met.
            StoreError: What is stored is damaged.
        """
        if not found.chain or found.chain[0].id != self.id:
            raise response_not_found(self.id)
        return _ANSWERS[self.action](self, found.chain)


def read_operation(
    method: str, path: str, query: Mapping[str, str] | None = None
) -> Operation | None:
    """Return the operation of a request; None if it is not about a stored response.

    Args:
        method: Method of the request.
        path: Path of its URL.
        query: Query of its URL.
    """
    match = _PATH.search(path)
    action = None if match is None else _ACTIONS.get((method.upper(), match[2]))
    return None if match is None or action is None else Operation(action, match[1], query or {})


def _retrieve(operation: Operation, chain: tuple[StoredResponse, ...]) -> dict[str, Any]:
    if operation.query.get("stream", "false") != "false":
        raise invalid_value("stream", "false for a response without `background`")
    stored = chain[0]
    output = [value_of(item.json) for item in stored.output]
    return {**value_of(stored.body), "output": output}


def _delete(operation: Operation, chain: tuple[StoredResponse, ...]) -> dict[str, Any]:
    return {"id": operation.id, "object": "response", "deleted": True}


def _cancel(operation: Operation, chain: tuple[StoredResponse, ...]) -> dict[str, Any]:
    # The vendor cancels responses in the background alone, of which none is stored here.
    raise not_cancellable()


def _list_input(operation: Operation, chain: tuple[StoredResponse, ...]) -> dict[str, Any]:
    """Return a page of the input items of a response, including those of its chain."""
    last, *before = chain
    items = [] if last.previous is None else history_of(tuple(before), last.previous)
    if items is None:
        raise response_not_found(operation.id)
    items = [*items, *last.input]
    # The newest first, as at the vendor.
    order, limit = operation.query.get("order", "desc"), _limit_in(operation.query)
    if order not in ("asc", "desc"):
        raise invalid_value("order", "'asc' or 'desc'")
    if order == "desc":
        items.reverse()
    after = operation.query.get("after")
    if after is not None:
        items = _items_after(items, after)
    page = [_listed(item) for item in items[:limit]]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else "",
        "last_id": page[-1]["id"] if page else "",
        "has_more": len(items) > limit,
    }


def _limit_in(query: Mapping[str, str]) -> int:
    text = query.get("limit", _DEFAULT_LISTED)
    limit = int(text) if re.fullmatch(r"[0-9]{1,3}", text, re.ASCII) else 0
    if not 1 <= limit <= _MAX_LISTED:
        raise invalid_value("limit", f"a number from 1 to {_MAX_LISTED}")
    return limit


def _items_after(items: list[Item], id: str) -> list[Item]:
    for number, item in enumerate(items):
        if item.id == id:
            return items[number + 1 :]
    raise invalid_value("after", "the id of an item of the list")


def _listed(item: Item) -> dict[str, Any]:
    """Return an item as lists have it: with type and id, and its text in parts."""
    value: dict[str, Any] = {**value_of(item.json), "id": item.id}
    if "role" in value:
        value.setdefault("type", "message")
        text = value.get("content")
        if isinstance(text, str):
            part: dict[str, Any] = {"type": "input_text", "text": text}
            if value["role"] == "assistant":
                part |= {"type": "output_text", "annotations": []}
            value["content"] = [part]
    return value


_ANSWERS: dict[Action, Callable[[Operation, tuple[StoredResponse, ...]], dict[str, Any]]] = {
    "retrieve": _retrieve,
    "delete": _delete,
    "cancel": _cancel,
    "list_input": _list_input,
}
