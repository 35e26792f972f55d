"""Rules of a dialect for answers that the server stores and clients continue by id.

A client of such a dialect names a stored answer in its next request, and sends only what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct


def _no_references(items: list[dict[str, Any]]) -> Mapping[int, str]:
    return {}


class StoredAnswers(Struct, frozen=True, kw_only=True):
    """A dialect's ids, fields and statuses of stored answers.

    Attributes:
        noun: The vendor's word for an answer.  Events have the whole answer in a field of this
            name, and errors use it.
        id_prefix: Start of the ids of answers.
        output: Field of an answer with the items of its output.
        ends_with_output: Whether the last event of a stream has the output.
        ended: Statuses of answers that can be continued.
        unsupported: Fields of a request that ask for state of other kinds.
        input_items: Function from the body of a request to the items of its input, of which a
            text is one.
        references: Function from the items of an input to the ids of stored items that they
            refer to, by position.
        has_item_ids: Whether an item is found by its `id`.
        stored_fields: Fields of an answer that is stored, besides its id.
        unstored_fields: Fields of an answer that is not stored.
        states_null: Whether an answer that continues none says so by null.
        reasoning_include: Value of `include` that asks for reasoning which can be sent back;
            None where reasoning always can.
        deleted: Function from the id of an answer to the body that reports its deletion.
        include_input: Parameter of a query that asks for the input with the answer; None if
            there is none.
        created_fields: Function from a Unix time in seconds to the fields of an answer that was
            created then.
        background_fields: Further fields of an answer that is made in the background.
        queued_status: Status of an answer that no upstream has begun.
        cancelled_fields: Fields of an answer that was cancelled.
        cancelled_event: Fields of the last event of its stream, beside the answer; the first is
            the event's type.
        errors: Field with the errors of an answer that failed, where the last event of its
            stream has the error alone; None where the last event has the answer.
        after: Parameter of a query with the position of the last event that the client has.
        event_id: Field of an event with its position, which the encoder does not know; None
            where the encoder numbers the events.
    """

    noun: str
    id_prefix: str
    output: str
    ends_with_output: bool
    ended: frozenset[str]
    unsupported: tuple[str, ...]
    input_items: Callable[[dict[str, Any]], list[dict[str, Any]]]
    references: Callable[[list[dict[str, Any]]], Mapping[int, str]] = _no_references
    has_item_ids: bool = False
    stored_fields: dict[str, Any] = {}
    unstored_fields: dict[str, Any]
    states_null: bool = False
    reasoning_include: str | None = None
    deleted: Callable[[str], dict[str, Any]]
    include_input: str | None = None
    created_fields: Callable[[float], dict[str, Any]]
    background_fields: dict[str, Any] = {}
    queued_status: str
    cancelled_fields: dict[str, Any]
    cancelled_event: dict[str, Any]
    errors: str | None = None
    after: str
    event_id: str | None = None

    @property
    def previous_field(self) -> str:
        """Name of the field with the id of the answer to continue."""
        return f"previous_{self.noun}_id"

    def answer_fields(self, id: str | None, previous: str | None) -> dict[str, Any]:
        """Return the fields of an answer that depend on its storage.

        Args:
            id: Id under which it is stored; None if it is not stored.
            previous: Id of the answer that it continues; None if it continues none.
        """
        fields = {**self.unstored_fields} if id is None else {**self.stored_fields, "id": id}
        if previous is not None or self.states_null:
            fields[self.previous_field] = previous
        return fields
