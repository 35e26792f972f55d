"""Requests that refer to stored state, and requests on stored responses.

https://platform.openai.com/docs/api-reference/responses (read 2026-11-23) and
https://ai.google.dev/gemini-api/docs/interactions (read 2026-11-27).  The `StoredAnswers` of a
dialect say in which form; an answer is called a response here, as in the store.
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
)
from streamnorm._core.bodies.request import Reply
from streamnorm._core.codec import Operation as RequestedOperation
from streamnorm._core.codec import StoredAnswers
from streamnorm._core.errors import LocalProtocolError, StateError, UnknownDialect
from streamnorm._core.events import StreamError
from streamnorm._core.json import compact, dumps, is_array, string_of
from streamnorm._core.limits import Limits
from streamnorm._registry import DEFAULT_STATE_DIALECT, DIALECTS, encoder, lookup
from streamnorm.state.stored import Found, Item, Lookup, StoredResponse, value_of

_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)

Action: TypeAlias = Literal["retrieve", "delete", "cancel", "list_input"]

_ACTIONS: dict[RequestedOperation, Action] = {
    "response": "retrieve",
    "delete": "delete",
    "cancel": "cancel",
    "input_items": "list_input",
}
# https://platform.openai.com/docs/api-reference/responses/input-items (read 2026-11-23).
_MAX_LISTED = 100
_DEFAULT_LISTED = "20"


def error_body(error: StateError, dialect: str = DEFAULT_STATE_DIALECT) -> bytes:
    """Return the JSON body for an error.

    Args:
        error: The error.
        dialect: The client's dialect.
    """
    if lookup(dialect).name != DEFAULT_STATE_DIALECT:
        failure = StreamError("upstream", str(error), status_hint=error.status)
        return encoder(dialect).error_body(failure)
    fields = {"message": str(error), "type": "invalid_request_error"}
    return dumps({"error": {**fields, "param": error.param, "code": error.code}})


def form_of(dialect: str) -> StoredAnswers:
    """Return a dialect's rules for stored answers.

    Raises:
        UnknownDialect: There is no such dialect, or its clients expect no stored answers.
    """
    form = lookup(dialect).stored
    if form is None:
        raise UnknownDialect(f"no stored answers in {dialect!r}, expected a dialect that has them")
    return form


def previous_not_found(id: str, noun: str = "response", missing: str | None = None) -> StateError:
    """Return the error for a `previous_response_id` whose chain is not stored completely.

    Args:
        id: The id.
        noun: The vendor's word for an answer.
        missing: Id of the response of the chain that is missing; None for the last one.
    """
    found = f"Previous {noun} with id {_quote_id(id)} not found"
    if missing is not None and missing != id:
        found = f"Previous {noun} with id {_quote_id(missing)} not found, which {_quote_id(id)} "
        found += "continues"
    return StateError(
        f"{found}. Send the whole conversation as `input` instead.",
        # The vendor's status and code, by which agents send their whole input again.
        status=400,
        code=f"previous_{noun}_not_found",
        param=f"previous_{noun}_id",
    )


def previous_without_output(id: str, noun: str = "response") -> StateError:
    """Return the error for a `previous_response_id` of a response that has no complete output."""
    return StateError(
        f"Previous {noun} with id {_quote_id(id)} has no complete output. "
        "Send the whole conversation as `input` instead.",
        # It may have failed: the code by which agents do so, as where nothing is stored.
        status=400,
        code=f"previous_{noun}_not_found",
        param=f"previous_{noun}_id",
    )


def item_not_found(id: str) -> StateError:
    """Return the error for a reference to an item that is not stored."""
    return StateError(
        f"Item with id {_quote_id(id)} not found. Items are not persisted when `store` is set to "
        "false. Try again with `store` set to true, or remove this item from your input.",
        status=404,
        param="input",
    )


def duplicate_item(id: str) -> StateError:
    """Return the error for a reference to an item that the input already has."""
    return StateError(
        f"Duplicate item found with id {_quote_id(id)}. "
        "Remove duplicate items from your input and try again.",
        status=400,
        param="input",
    )


def response_not_found(id: str, noun: str = "response") -> StateError:
    """Return the error for a URL of a response that is not stored."""
    return StateError(f"{noun.capitalize()} with id {_quote_id(id)} not found.", status=404)


def not_cancellable(noun: str = "response") -> StateError:
    """Return the error for cancelling a response that has ended."""
    return StateError(f"Cannot cancel a synchronous {noun}.", status=400)


def unsupported(name: str) -> StateError:
    """Return the error for a parameter that needs unsupported state."""
    return StateError(
        f"Unsupported parameter: '{name}' is not supported by this provider.",
        status=400,
        code="unsupported_parameter",
        param=name,
    )


def invalid_value(name: str, expected: str) -> StateError:
    """Return the error for an unexpected value in the query."""
    return StateError(
        f"Invalid value for '{name}': expected {expected}.",
        status=400,
        code="invalid_value",
        param=name,
    )


def unverified_content(name: str) -> StateError:
    """Return the error for sealed content that has another key or was changed."""
    return StateError(
        f"The encrypted content of '{name}' could not be verified. It was not made by this "
        "provider, or was changed.",
        status=400,
        code="invalid_encrypted_content",
        param=name,
    )


def _quote_id(id: str) -> str:
    """Return an id in quotes; only its length if no server could have issued it."""
    return f"'{id}'" if _ID.fullmatch(id) else f"of {len(id)} characters"


class Turn:
    """One request with its stored state, and its answer.

    Args:
        body: The client's request: JSON text, or the decoded object, which stays unchanged.
        dialect: The client's dialect.
        limits: Bounds.

    Raises:
        StateError: The request has a `conversation`, a `prompt` or `background`.
        DecodeError: The body is no request of the dialect.
        UnknownDialect: Clients of the dialect expect no stored answers.

    Attributes:
        id: Id of the answer; unguessable, and never one of the provider.
        stores: Whether the answer is stored, as it is unless `store` is false.
        form: How answers of the dialect are stored.
        lookup: Responses and items that the request needs from the store.
    """

    def __init__(
        self,
        body: Body,
        dialect: str = DEFAULT_STATE_DIALECT,
        *,
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> None:
        self._read(body_object(body, limits, finite=True), form_of(dialect))

    def _read(self, body: dict[str, Any], form: StoredAnswers) -> None:
        self._body = body
        self.form = form
        for name in form.unsupported:
            if body.get(name) not in (None, False):
                raise unsupported(name)
        self.id = form.id_prefix + uuid4().hex
        # The vendors store by default; the AI SDK relies on that (vercel/ai#10060).
        self.stores = get_bool(self._body, "store") is not False
        self._input = form.input_items(self._body)
        self._references = form.references(self._input)
        previous = get_str(self._body, form.previous_field)
        self.lookup = Lookup(previous, tuple(self._references.values()))
        # The request's own input with the items that it refers to; None before `expand`.
        self._resolved: list[Item | dict[str, Any]] | None = None

    def expand(self, found: Found) -> dict[str, Any]:
        """Return the request with its whole input in place of references.

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
                missing = _missing_in(found.chain, previous)
                raise previous_not_found(previous, self.form.noun, missing)
            if not has_ended(found.chain[0], self.form):
                raise previous_without_output(previous, self.form.noun)
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
            body.pop(self.form.previous_field, None)
            body["input"] = [
                value_of(item.json) if isinstance(item, Item) else item for item in (*history, *own)
            ]
        return body

    def reply(self, reply: Reply) -> Reply:
        """Return a `Reply` with the id under which the answer is stored.

        Args:
            reply: The one of the request that was sent to the provider.
        """
        if not self.stores:
            return reply
        return structs.replace(reply, response={**reply.response, **self.answer_fields})

    @property
    def answer_fields(self) -> dict[str, Any]:
        """Fields of the answer that depend on its storage."""
        id = self.id if self.stores else None
        return self.form.answer_fields(id, self.lookup.response)

    def stored(self, response: dict[str, Any]) -> StoredResponse | None:
        """Return the response to store; None if the response failed or must not be stored.

        Args:
            response: The whole response that the client gets, written with `reply`; of a
                stream, the one of its last event.

        Raises:
            LocalProtocolError: `expand` was not called, or the response has another id.
            DecodeError: An item of the output is no object.
        """
        if self._resolved is None:
            raise LocalProtocolError("answer stored before `expand`, expected it after")
        form = self.form
        output = response.get(form.output)
        # An output beyond the bound of a message is not part of the last event.
        if not (self.stores and response.get("status") in form.ended and is_array(output)):
            return None
        # An answer under another id could never be found by the client that read it.
        if response.get("id") != self.id:
            raise LocalProtocolError("answer with another id, expected that of `reply`")
        return self._with_input(response, output)

    def _with_input(self, response: dict[str, Any], output: Sequence[Any]) -> StoredResponse:
        """Return a response as it is stored, with the items of the request's own input."""
        form = self.form
        stem = self.id.removeprefix(form.id_prefix)
        rest = {name: value for name, value in response.items() if name != form.output}
        return StoredResponse(
            self.id,
            self.lookup.response,
            compact(rest).encode(),
            _items_of(self._resolved or (), f"{stem}_in", has_ids=form.has_item_ids),
            _items_of(output, stem, has_ids=form.has_item_ids),
        )


class CheckedTurn(Turn):
    """A `Turn` whose body was already checked by `body_object`.

    Args:
        body: The body.
        dialect: The client's dialect.

    Raises:
        StateError: As for `Turn`.
        DecodeError: As for `Turn`.
    """

    def __init__(self, body: dict[str, Any], dialect: str = DEFAULT_STATE_DIALECT) -> None:
        self._read(body, form_of(dialect))

    def unended(self, response: dict[str, Any]) -> StoredResponse:
        """Return a response to store that has no complete output: not yet, or because it failed.

        Args:
            response: The response, whose output is not stored; `expand` was called before.
        """
        return self._with_input(response, ())


def has_ended(stored: StoredResponse, form: StoredAnswers) -> bool:
    """Return whether a stored response has its output; one in the background is stored before.

    Args:
        stored: The response.
        form: Rules of its dialect.

    Raises:
        StoreError: What is stored is damaged.
    """
    # A body that is stored no longer was that of a response that others continue.
    status = value_of(stored.body).get("status") if stored.body else None
    return not isinstance(status, str) or status in form.ended


def forbid_storing(
    body: dict[str, Any], dialect: str = DEFAULT_STATE_DIALECT, *, encrypts_reasoning: bool
) -> dict[str, Any]:
    """Return a request whose provider must not store the answer.

    Args:
        body: The request, with its whole input.
        dialect: The dialect.
        encrypts_reasoning: Whether to ask for reasoning that can be sent back; models that do
            not reason refuse that.
    """
    body = {**body, "store": False}
    include = form_of(dialect).reasoning_include
    if encrypts_reasoning and include is not None:
        asked = body.get("include")
        included: list[Any] = asked if is_array(asked) else []
        body["include"] = list(dict.fromkeys([*included, include]))
    return body


def _missing_in(chain: tuple[StoredResponse, ...], id: str) -> str:
    """Return the id of the first response that an incomplete chain lacks."""
    for stored in chain:
        if stored.id != id or stored.previous is None:
            break
        id = stored.previous
    return id


def history_of(chain: tuple[StoredResponse, ...], id: str) -> list[Item] | None:
    """Return the items of a chain, oldest first; None if a response is missing.

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
    """Return a request's input as items; text becomes a user message."""
    return form_of(DEFAULT_STATE_DIALECT).input_items(body)


def _items_of(values: Sequence[Any], stem: str, *, has_ids: bool) -> tuple[Item, ...]:
    """Return items with ids; missing ids are derived from `stem`."""
    items: list[Item] = []
    for number, value in enumerate(values):
        if isinstance(value, Item):
            items.append(value)
            continue
        item = as_object(value, f"$.output[{number}]")
        # Clients list inputs by id, and send most of them without one.
        id = string_of(item, "id") if has_ids else ""
        id = id or f"{'msg' if 'role' in item else 'item'}_{stem}_{number}"
        items.append(Item(id, compact(item).encode()))
    return tuple(items)


class Operation(Struct, frozen=True):
    """A request on a stored response.

    Attributes:
        action: Action that the request asks for.
        id: Id of the response.
        query: The query of its URL.
        dialect: The client's dialect.
    """

    action: Action
    id: str
    query: Mapping[str, str] = {}
    dialect: str = DEFAULT_STATE_DIALECT

    @property
    def lookup(self) -> Lookup:
        """Lookup of the response."""
        return Lookup(self.id)

    @property
    def deletes(self) -> bool:
        """Whether the request deletes the response."""
        return self.action == "delete"

    def answer(self, found: Found) -> dict[str, Any]:
        """Return the body of the response to the request.

        Args:
            found: Result of `lookup`.

        Raises:
            StateError: The response is not stored, or the request cannot be met.
            StoreError: What is stored is damaged.
        """
        if not found.chain or found.chain[0].id != self.id:
            raise response_not_found(self.id, self.form.noun)
        return _ANSWERS[self.action](self, found.chain)

    def answer_deleted(self, *, was_stored: bool) -> dict[str, Any]:
        """Return the body of the response to a request that deletes, without a lookup.

        Args:
            was_stored: Result of the store's `delete`.

        Raises:
            StateError: The response was not stored.
        """
        if not was_stored:
            raise response_not_found(self.id, self.form.noun)
        return self.form.deleted(self.id)

    @property
    def form(self) -> StoredAnswers:
        """Rules of the client's dialect for stored answers."""
        return form_of(self.dialect)


def read_operation(
    method: str, path: str, query: Mapping[str, str] | None = None
) -> Operation | None:
    """Return the operation of a request on a stored response; None for other requests.

    Args:
        method: Method of the request.
        path: Path of its URL.
        query: Query of its URL.
    """
    for dialect in DIALECTS.values():
        asked = None if dialect.stored is None else dialect.endpoints.match(method.upper(), path)
        action = None if asked is None else _ACTIONS.get(asked.operation)
        if asked is not None and action is not None:
            return Operation(action, asked.response_id, query or {}, dialect.name)
    return None


def _retrieve(operation: Operation, chain: tuple[StoredResponse, ...]) -> dict[str, Any]:
    form, query = operation.form, operation.query
    if query.get("stream", "false") != "false":
        raise invalid_value("stream", f"false for {form.noun}s without `background`")
    stored = chain[0]
    body = value_of(stored.body) if stored.body else {}
    # One that failed or was cancelled is stored as such; one under way is not known here.
    if not body or body.get("status") in (form.queued_status, "in_progress"):
        raise response_not_found(operation.id, form.noun)
    answer = {**body, form.output: _values_of(stored.output)}
    if form.include_input is not None and query.get(form.include_input, "false") != "false":
        answer["input"] = _values_of(stored.input)
    return answer


def _values_of(items: tuple[Item, ...]) -> list[dict[str, Any]]:
    return [value_of(item.json) for item in items]


def _delete(operation: Operation, chain: tuple[StoredResponse, ...]) -> dict[str, Any]:
    return operation.form.deleted(operation.id)


def _cancel(operation: Operation, chain: tuple[StoredResponse, ...]) -> dict[str, Any]:
    form, stored = operation.form, chain[0]
    body = value_of(stored.body) if stored.body else {}
    background = form.background_fields
    # https://platform.openai.com/docs/guides/background (read 2026-11-27): cancelling twice is
    # idempotent, later calls return the final response.
    if background and all(body.get(name) == value for name, value in background.items()):
        return _retrieve(structs.replace(operation, query={}), chain)
    raise not_cancellable(form.noun)


def _list_input(operation: Operation, chain: tuple[StoredResponse, ...]) -> dict[str, Any]:
    """Return a page of the input items of a response and of the responses before it."""
    last, *before = chain
    items = [] if last.previous is None else history_of(tuple(before), last.previous)
    if items is None:
        # One that was deleted, or forgotten, had the first items of the list.
        raise response_not_found(_missing_in(chain, operation.id))
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
    page = [_format_item(item) for item in items[:limit]]
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


def _format_item(item: Item) -> dict[str, Any]:
    """Return an item as an entry of a list: with type and id, and with text in parts."""
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
