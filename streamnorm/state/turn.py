"""Requests with state: one for a response, and those about a stored response.

https://platform.openai.com/docs/api-reference/responses (read 2026-11-23).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias
from uuid import uuid4

from msgspec import Struct, structs

from streamnorm._core.bodies.fields import (
    Body,
    as_object,
    body_object,
    get_bool,
    get_str,
    prefix_path,
    require_str,
    unexpected,
)
from streamnorm._core.bodies.request import Reply
from streamnorm._core.errors import DecodeError, LocalProtocolError, StateError
from streamnorm._core.json import compact, dumps, is_array, string_of
from streamnorm._core.limits import Limits
from streamnorm.state.stored import Found, Item, Lookup, StoredResponse, value_of

_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)

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


def error_body(error: StateError) -> bytes:
    """Return the JSON body of the error response; its status is that of the error."""
    fields = {"message": str(error), "type": "invalid_request_error"}
    return dumps({"error": {**fields, "param": error.param, "code": error.code}})


def previous_not_found(id: str) -> StateError:
    """Return the error of a `previous_response_id` whose chain is not stored to its start."""
    return StateError(
        f"Previous response with id {_quoted(id)} not found. "
        "Send the whole conversation as `input` instead.",
        # The vendor's status and code, by which agents send their whole input again.
        status=400,
        code="previous_response_not_found",
        param="previous_response_id",
    )


def item_not_found(id: str) -> StateError:
    """Return the error of an `item_reference` to an item that is not stored."""
    return StateError(
        f"Item with id {_quoted(id)} not found. Items are not persisted when `store` is set to "
        "false. Try again with `store` set to true, or remove this item from your input.",
        status=404,
        param="input",
    )


def duplicate_item(id: str) -> StateError:
    """Return the error of an `item_reference` to an item that the input has already."""
    return StateError(
        f"Duplicate item found with id {_quoted(id)}. "
        "Remove duplicate items from your input and try again.",
        status=400,
        param="input",
    )


def response_not_found(id: str) -> StateError:
    """Return the error of a URL whose response is not stored."""
    return StateError(f"Response with id {_quoted(id)} not found.", status=404)


def not_cancellable() -> StateError:
    """Return the error of a response that has ended, as all that are stored have."""
    return StateError("Cannot cancel a synchronous response.", status=400)


def unsupported(name: str) -> StateError:
    """Return the error of a parameter that asks for state of another kind."""
    return StateError(
        f"Unsupported parameter: '{name}' is not supported by this provider.",
        status=400,
        code="unsupported_parameter",
        param=name,
    )


def invalid_value(name: str, expected: str) -> StateError:
    """Return the error of a value of a query that is not the expected one."""
    return StateError(
        f"Invalid value for '{name}': expected {expected}.",
        status=400,
        code="invalid_value",
        param=name,
    )


def unverified_content(name: str) -> StateError:
    """Return the error of sealed content that was not sealed here, or was changed."""
    return StateError(
        f"The encrypted content of '{name}' could not be verified. It was not made by this "
        "provider, or was changed.",
        status=400,
        code="invalid_encrypted_content",
        param=name,
    )


def _quoted(id: str) -> str:
    """Return an id in quotes; one that no server issues only with its length."""
    return f"'{id}'" if _ID.fullmatch(id) else f"of {len(id)} characters"


_PREFIX = "resp_"
_ENDED = ("completed", "incomplete")
_ENCRYPTED = "reasoning.encrypted_content"
# State of other kinds, which only the vendor's own server has.
_UNSUPPORTED = ("background", "conversation", "prompt")


class Turn:
    """One request and its answer.

    Args:
        body: The client's request: JSON text, or the decoded object, which stays unchanged.
        limits: Bounds.

    Raises:
        StateError: The request has a `conversation`, a `prompt` or `background`.
        DecodeError: The body is no Responses request.

    Attributes:
        id: Id of the answer; unguessable, and never one of the provider.
        stores: Whether the answer is stored, as it is unless `store` is false.
        lookup: Responses and items that the request needs from the store.
    """

    def __init__(
        self,
        body: Body,
        *,
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> None:
        self._read(body_object(body, limits))

    def _read(self, body: dict[str, Any]) -> None:
        self._body = body
        for name in _UNSUPPORTED:
            if body.get(name) not in (None, False):
                raise unsupported(name)
        self.id = _PREFIX + uuid4().hex
        # The vendor stores by default; the AI SDK relies on that (vercel/ai#10060).
        self.stores = get_bool(self._body, "store") is not False
        self._input = items_in(self._body)
        self._references = _references_in(self._input)
        previous = get_str(self._body, "previous_response_id")
        self.lookup = Lookup(previous, tuple(self._references.values()))
        # The request's own input with the items that it refers to; None before `expand`.
        self._resolved: list[Item | dict[str, Any]] | None = None

    def expand(self, found: Found) -> dict[str, Any]:
        """Return the request with its whole input, and without references to stored state.

        Input and output of the chain precede the request's own input.  Instructions, tools and
        all other options are those of the request alone, as the API has it.

        Args:
            found: Result of `lookup`.

        Raises:
            StateError: A response of the chain or an item is missing, or an item is referred
                to that the input has already.
            StoreError: What is stored is damaged.
        """
        previous, references = self.lookup.response, self.lookup.items
        history: list[Item] = []
        if previous is not None:
            chain = history_of(found.chain, previous)
            if chain is None:
                raise previous_not_found(previous)
            history = chain
        seen = {item.id for item in history}
        for id in references:
            if id not in found.items:
                raise item_not_found(id)
            # The vendor refuses an item that the input has twice.
            if id in seen:
                raise duplicate_item(id)
            seen.add(id)
        own = self._resolved = [
            found.items[self._references[number]] if number in self._references else item
            for number, item in enumerate(self._input)
        ]
        body = {**self._body}
        if body.pop("store", None) is False:
            body["store"] = False
        if previous is not None or references:
            body.pop("previous_response_id", None)
            body["input"] = [
                value_of(item.json) if isinstance(item, Item) else item for item in (*history, *own)
            ]
        return body

    def reply(self, reply: Reply) -> Reply:
        """Return a reply with which the answer is written under `id`, if it is stored.

        Args:
            reply: The one of the request that was sent to the provider.
        """
        if not self.stores:
            return reply
        previous = self.lookup.response
        fields = {"id": self.id, "store": True, "previous_response_id": previous}
        return structs.replace(reply, response={**reply.response, **fields})

    def stored(self, response: dict[str, Any]) -> StoredResponse | None:
        """Return the response to store; None if the answer failed or is not to be stored.

        Args:
            response: The whole response that the client gets, written with `reply`; of a
                stream, the one of its last event.

        Raises:
            LocalProtocolError: `expand` was not called, or the response has another id.
            DecodeError: An item of the output is no object.
        """
        if self._resolved is None:
            raise LocalProtocolError("answer stored before `expand`, expected it after")
        output = response.get("output")
        # An output beyond the bound of a message is not part of the last event.
        if not (self.stores and response.get("status") in _ENDED and is_array(output)):
            return None
        # An answer under another id could never be found by the client that read it.
        if response.get("id") != self.id:
            raise LocalProtocolError("answer with another id, expected that of `reply`")
        stem = self.id.removeprefix(_PREFIX)
        rest = {name: value for name, value in response.items() if name != "output"}
        return StoredResponse(
            self.id,
            self.lookup.response,
            compact(rest).encode(),
            _items_of(self._resolved, f"{stem}_in"),
            _items_of(output, stem),
        )


class CheckedTurn(Turn):
    """The turn of a body that `body_object` has returned, which is not checked again.

    Args:
        body: The body.

    Raises:
        StateError: As for `Turn`.
        DecodeError: As for `Turn`.
    """

    def __init__(self, body: dict[str, Any]) -> None:
        self._read(body)


def forbid_storing(body: dict[str, Any], *, encrypts_reasoning: bool) -> dict[str, Any]:
    """Return a request whose answer its provider does not store, although it could.

    Args:
        body: The request, with its whole input.
        encrypts_reasoning: Whether to ask for reasoning that can be sent back; models that do
            not reason refuse that.
    """
    body = {**body, "store": False}
    if encrypts_reasoning:
        asked = body.get("include")
        included: list[Any] = asked if is_array(asked) else []
        body["include"] = list(dict.fromkeys([*included, _ENCRYPTED]))
    return body


def history_of(chain: tuple[StoredResponse, ...], id: str) -> list[Item] | None:
    """Return the items of a chain, oldest first; None if a response of it is missing.

    Args:
        chain: The chain as a store found it, the last response first.
        id: Id of the last response.
    """
    wanted: str | None = id
    for stored in chain:
        if stored.id != wanted:
            return None
        wanted = stored.previous
    if wanted is not None:
        return None
    return [item for stored in reversed(chain) for item in (*stored.input, *stored.output)]


def items_in(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the items of the input; text is a message of the user."""
    value = body.get("input")
    if value is None:
        return []
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if not is_array(value):
        raise unexpected(value, "a string or an array", "$.input")
    return [as_object(item, f"$.input[{number}]") for number, item in enumerate(value)]


def _references_in(items: list[dict[str, Any]]) -> dict[int, str]:
    """Return the ids of stored items by the positions of the references to them."""
    references: dict[int, str] = {}
    # The AI SDK sends references to all items of earlier answers.
    for number, item in enumerate(items):
        kind = item.get("type")
        # The type of a reference may be left out.
        if kind == "item_reference" or (kind is None and "role" not in item):
            try:
                references[number] = require_str(item, "id")
            except DecodeError as exc:
                raise prefix_path(exc, f"$.input[{number}]") from None
    return references


def _items_of(values: Sequence[Any], stem: str) -> tuple[Item, ...]:
    """Return items with their ids; those without one get an id made of `stem`."""
    items: list[Item] = []
    for number, value in enumerate(values):
        if isinstance(value, Item):
            items.append(value)
            continue
        item = as_object(value, f"$.output[{number}]")
        # Clients list inputs by id, and send most of them without one.
        id = string_of(item, "id") or f"{'msg' if 'role' in item else 'item'}_{stem}_{number}"
        items.append(Item(id, compact(item).encode()))
    return tuple(items)


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
