"""Field tables: rows that read and write the fields of a JSON object.

A table lists the fields of one object of the wire, in the order in which they are written.  Its
rows are a `Field`, one value that is one unified field; a `Nested` object with a table of its
own; and a `Group` of fields that are read and written together:

    REQUEST = RequestTable(
        DIALECT,
        Field("model", get_str),
        Field("messages", read=messages_from_wire, write=messages_to_wire, required="an array"),
        Field("max_tokens", get_int, wire=("max_completion_tokens", "max_tokens")),
        Field("output", wire="response_format", read=output_from_wire, write=output_to_wire),
        Nested("text", Table(Field("verbosity", get_str))),
        Group(("tool_choice",), ("tool_choice", "function_call"), read_choice, write_choice),
    )
    request = REQUEST.read_request(body, context)
    body = REQUEST.write_request(request, context)

What no row reads is an unknown field, kept in `extra` under the dialect: a field without a row,
a null (the unified field of a null is that of an absent field), and a value whose reader returns
None.  A reader of a `Field` gets no null, and its errors start at its value (`$`).

On writing, unknown fields are added last.  Where a field of the same name is written, the written
value stays, since it may have been set after the unknown one was read.  Objects are merged: an
unknown one is the rest of one that is unified in part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct, structs

from streamnorm._core.blocks import ToolCall
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.fields import (
    get_bool,
    get_int,
    get_number,
    get_object,
    get_str,
    prefix_path,
)
from streamnorm._core.bodies.memo import EncodingMemo
from streamnorm._core.bodies.request import InputMessage, Request, Source, is_same_dialect
from streamnorm._core.bodies.tool_calls import ArgumentsPolicy, arguments_object
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import is_object
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Losses

T = TypeVar("T")

JSONObject: TypeAlias = dict[str, Any]

Getter: TypeAlias = Callable[[JSONObject, str], Any]

NO_CONTEXT: Any = None
"""Context of tables whose readers and writers need none."""


class ReadContext(Struct, frozen=True):
    """Context of the readers of bodies: path, headers, server and limits.

    Attributes:
        path: Path of the request's URL; "" if unknown.
        headers: Headers of the request, names in lower case.
        server: Name of the server that answered; None if unknown.
        limits: Bounds.
    """

    path: str = ""
    headers: Mapping[str, str] = {}
    server: str | None = None
    limits: Limits = Limits()


class WriteContext(Struct, eq=False):
    """Context of the writers of a request: target, losses, and message cache.

    Attributes:
        capabilities: Capabilities of the target, narrowed by its profile.
        losses: Counter of what the body cannot carry.
        arguments: Policy for tool arguments that are no JSON object.
        memo: Cache of a growing history; None if the request is written once.
        named: Whether the target is a named server with profiles, whose rules also apply to
            requests in its own dialect.
        same_target: Whether the request is in the target's dialect and no profile narrows the
            target: the client is then expected to obey the rules itself.
    """

    capabilities: BodyCapabilities
    losses: Losses
    arguments: ArgumentsPolicy = "error"
    memo: EncodingMemo | None = None
    named: bool = False
    same_target: bool = False

    def arguments_of(self, call: ToolCall, path: str) -> dict[str, Any]:
        """Return the arguments of a call as an object.

        Raises:
            EncodeError: The arguments are no JSON object, and the policy is `error`.
        """
        value: dict[str, Any] = arguments_object(call, self.arguments, self.losses, path)
        return value

    def memoize(self, write: Callable[[InputMessage, int], T]) -> Callable[[InputMessage, int], T]:
        """Return `write` with a cache: unchanged messages are not written again.

        The value must not be changed: later bodies of the same history share it.

        Args:
            write: Function that returns the JSON of a message, from the message and its position.
        """
        memo = self.memo
        if memo is None:
            return write

        def get(message: InputMessage, number: int) -> T:
            work = partial(write, message, number)
            return memo.result("written", number, message, self.losses, work)

        return get


class Reading(Struct):
    """A JSON object while it is read, and the unified fields found so far.

    Attributes:
        body: The object.
        context: Context of the reader.
        fields: Unified fields by name.
        unknown: Unknown fields by name.
    """

    body: JSONObject
    context: ReadContext
    fields: JSONObject
    unknown: JSONObject


class Writing(Struct):
    """A unified value while it is written, and the JSON fields written so far.

    Attributes:
        part: The request, or the part of one, whose fields are written.
        context: Context of the writer.
        body: The fields written so far.
        unknown: Unknown fields, which are added last; a writer that merges one itself pops it.
    """

    part: Any
    context: WriteContext
    body: JSONObject
    unknown: JSONObject


class WithRest(NamedTuple):
    """A unified value, and the rest of the wire's value, which the unified value cannot hold.

    Attributes:
        value: The unified value.
        rest: The unknown field to keep beside it; nothing is kept if it is empty.
    """

    value: Any
    rest: Any


def leave_out(value: Any, writing: Writing) -> None:
    """Write nothing; used as the writer of fields that are only read."""


def _get_value(body: JSONObject, name: str) -> Any:
    return body[name]


class Field(Struct, frozen=True):
    """Table row that maps one field on the wire to one unified field.

    Attributes:
        name: Name of the unified field.
        get: Typed getter such as `get_int`, called with the object and the name of the field;
            without it any value is read.
        wire: Names on the wire; "" = the name of the unified field.  The first one with a value
            counts.  The first one is written, or the one that the original body has.
        read: Function from the wire's value to the unified value, `WithRest`, or None for an
            unknown field; it replaces `get`.
        write: Function from the unified value to the wire's, or None to leave the field out;
            without it the value is written as it is, a tuple as an array.
        required: The expected value, for the error if the field is missing; "" if it is optional.
        always: Whether an empty value is written, too.
    """

    name: str
    get: Getter = _get_value
    wire: str | tuple[str, ...] = ""
    read: Callable[[Any], Any] | None = None
    write: Callable[[Any, Writing], Any] | None = None
    required: str = ""
    always: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the unified fields that the row writes."""
        return (self.name,)

    @property
    def wire_names(self) -> tuple[str, ...]:
        """Names of the wire fields that the row reads."""
        return (self.wire or self.name,) if isinstance(self.wire, str) else self.wire


class Group(Struct, frozen=True):
    """Table row of several fields that are read or written together.

    Attributes:
        fields: Names of the unified fields.
        wire_names: Names on the wire.
        read: Function that returns the unified fields; called if a wire field has a value.  A
            value that they cannot hold is kept in `Reading.unknown`.
        write: Function that returns the fields of the object; not called if the row has a single
            unified field, and that is empty.
        needs: Names of other unified fields that the writer reads.
        required: The expected value, for the error if the first field is missing.
        always: Whether `write` is called for an empty value, too.
        is_path: Whether unknown fields within the wire's fields are kept by path.
    """

    fields: tuple[str, ...]
    wire_names: tuple[str, ...]
    read: Callable[[Reading], JSONObject]
    write: Callable[[Writing], JSONObject]
    needs: tuple[str, ...] = ()
    required: str = ""
    always: bool = False
    is_path: bool = False

    def read_into(self, reading: Reading) -> None:
        """Read the row's fields into `reading`."""
        reading.fields |= self.read(reading)

    def write_into(self, writing: Writing) -> None:
        """Write the row's fields to `writing.body`."""
        if self.always or len(self.fields) != 1 or _is_set(getattr(writing.part, self.fields[0])):
            writing.body |= self.write(writing)


def constant(name: str, value: Any) -> Group:
    """Return the row of a field with a fixed value, such as `type`."""
    return Group((), (name,), lambda _: {}, lambda _: {name: value})


class Nested(Struct, frozen=True):
    """Table row of a field whose value is an object with a table of its own.

    Attributes:
        name: Name on the wire.
        table: The fields of the object.
        is_path: Whether its unknown fields are kept by path, such as `generationConfig.seed`,
            and not in an object under `name`.
    """

    name: str
    table: Table
    is_path: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the unified fields that the row writes."""
        return tuple(name for row in self.table.rows for name in row.fields)

    @property
    def wire_names(self) -> tuple[str, ...]:
        """Names of the wire fields that the row reads."""
        return (self.name,)

    def read_into(self, reading: Reading) -> None:
        """Read the row's object into `reading`, by the table of that object."""
        fields, unknown = self.table.read_field(reading.body, self.name, reading.context)
        reading.fields |= fields
        if self.is_path:
            reading.unknown |= {f"{self.name}.{name}": it for name, it in unknown.items()}
        elif unknown or not fields:  # an empty object holds neither
            reading.unknown[self.name] = unknown

    def write_into(self, writing: Writing) -> None:
        """Write the row's object to `writing.body`, unless the object would be empty."""
        if inner := self.table.write(writing.part, writing.context):
            writing.body[self.name] = inner


Row: TypeAlias = Field | Group | Nested

# A value of this very type is what the getter returns; calling it costs more than the check.
_EXACT: dict[Getter | None, type] = {
    get_str: str,
    get_bool: bool,
    get_int: int,
    get_number: float,
    get_object: dict,
}


class Table:
    """Field table of one JSON object.

    Args:
        rows: The rows, in the order in which they are written.
        normalize: Function from the object as clients spell it to one with the names of the
            rows.
    """

    def __init__(
        self, *rows: Row, normalize: Callable[[JSONObject], JSONObject] | None = None
    ) -> None:
        self.names = frozenset(name for row in rows for name in row.fields)
        self.rows = rows
        self._columns = [_column_of(row, row.wire_names[0]) for row in rows]
        self._normalize = normalize
        self._readers: dict[str, tuple[str, type | None, Getter | None, bool]] = {}
        self._others: list[tuple[tuple[str, ...], Group | Nested]] = []
        self._required: list[tuple[str, str]] = []
        for row in rows:
            first = row.wire_names[0]
            if not isinstance(row, Field):
                self._others.append((row.wire_names, row))
            if not isinstance(row, Nested) and row.required:
                self._required.append((first, row.required))
            for name in row.wire_names:
                if isinstance(row, Field):
                    get, is_first = _getter_of(row), name == first
                    exact = _EXACT.get(get) if is_first else None
                    self._readers[name] = (row.name, exact, get, is_first)
                else:
                    self._readers[name] = ("", None, None, False)

    def read(
        self, body: JSONObject, context: ReadContext = NO_CONTEXT
    ) -> tuple[JSONObject, JSONObject]:
        """Return an object's unified fields by name, and its unknown fields.

        Raises:
            DecodeError: A field has another type than the vendor's, or a required one is missing.
        """
        if self._normalize is not None:
            body = self._normalize(body)
        fields: JSONObject = {}
        unknown: JSONObject = {}
        readers = self._readers
        for name, value in body.items():
            reader = readers.get(name)
            if reader is None or value is None:
                unknown[name] = value
                continue
            field, exact, get, is_first = reader
            if type(value) is exact:
                fields[field] = value
                continue
            if get is None:
                continue
            found = get(body, name)
            if found is None:
                unknown[name] = value
                continue
            if type(found) is WithRest:
                found, rest = found
                if rest:
                    unknown[name] = rest
            if is_first or field not in fields:
                fields[field] = found
        for name, expected in self._required:
            if body.get(name) is None:
                raise DecodeError(f"missing, expected {expected}", path=f"$.{name}")
        if self._others:
            reading = Reading(body, context, fields, unknown)
            for names, row in self._others:
                for name in names:
                    if body.get(name) is not None:
                        row.read_into(reading)
                        break
        return fields, unknown

    def read_field(
        self, body: JSONObject, name: str, context: ReadContext = NO_CONTEXT
    ) -> tuple[JSONObject, JSONObject]:
        """Read the object in one field of `body` with this table.

        An absent field is an empty object, unless a row is required.
        """
        value = get_object(body, name)
        if value is None and self._required:
            raise DecodeError("missing, expected an object", path=f"$.{name}")
        try:
            return self.read(value or {}, context)
        except DecodeError as exc:
            raise prefix_path(exc, f"$.{name}") from None

    def write(self, part: object, context: WriteContext = NO_CONTEXT) -> JSONObject:
        """Return the JSON object of a part, without unknown fields."""
        writing = Writing(part, context, {}, {})
        _write_rows(self._columns, writing)
        return writing.body


class RequestTable(Table):
    """Field table of a request.

    Args:
        dialect: Name of the dialect.
        rows: The rows, in the order in which they are written.
        normalize: Function from a body as clients spell it to one with the names of the rows,
            in the same order.
        add: Function that adds unknown fields to a body and returns it.
    """

    def __init__(
        self,
        dialect: str,
        *rows: Row,
        normalize: Callable[[JSONObject], JSONObject] | None = None,
        add: Callable[[JSONObject, JSONObject], JSONObject] | None = None,
    ) -> None:
        super().__init__(*rows, normalize=normalize)
        self._dialect = dialect
        self._add = add or add_unknown

    def read_request(self, body: JSONObject, context: ReadContext, **fields: Any) -> Request:
        """Decode a body to a request.

        Args:
            body: The body.
            context: Metadata of the body.
            fields: Unified fields that do not stand in the body, or not in it alone.

        Raises:
            DecodeError: The body is no request of the dialect.
        """
        found, unknown = self.read(body, context)
        extra = {self._dialect: unknown} if unknown else None
        request = Request(**found | fields, extra=extra)
        return structs.replace(request, source=Source(self._dialect, body, request))

    def write_request(self, request: Request, context: WriteContext) -> JSONObject:
        """Encode a request as a body.

        Of a request of the same dialect, a row whose fields were not replaced since is written
        as it was read, and the fields stand in the order of the original body.

        Raises:
            EncodeError: A part of the request has no field.
        """
        unknown = {**unknown_of(request.extra, self._dialect)}
        writing = Writing(request, context, {}, unknown)
        if not is_same_dialect(request, self._dialect):
            _write_rows(self._columns, writing)
            return self._add(writing.body, unknown)
        source: Source = request.source
        original: JSONObject = source.value
        spelt: dict[str, str] = {}  # names in the original body, of what stays as it was read
        if self._normalize is not None:
            spelt = dict(zip(self._normalize(original), original, strict=True))
            original = {name: original[before] for name, before in spelt.items()}
        unknown_before = unknown_of(source.part.extra, self._dialect)
        changed: list[_Column] = []
        for row in self.rows:
            used = row.fields + (row.needs if isinstance(row, Group) else ())
            beside = _unknown_beside(row, unknown)
            if beside != _unknown_beside(row, unknown_before) or not all(
                getattr(request, name) is getattr(source.part, name) for name in used
            ):
                first = row.wire_names[0]
                name = next((name for name in row.wire_names if name in original), first)
                changed.append(_column_of(row, name))
                for name in row.wire_names:
                    spelt.pop(name, None)
                continue
            for name in row.wire_names:
                # A null is an unknown field, which may have been dropped.
                if name in original and (original[name] is not None or name in unknown):
                    writing.body[name] = original[name]
            for name in beside:
                del unknown[name]
        _write_rows(changed, writing)
        body = self._add(writing.body, unknown)
        body = {name: body[name] for name in original if name in body} | body
        return {spelt.get(name, name): value for name, value in body.items()} if spelt else body


_Column: TypeAlias = tuple[str, str, Callable[[Any, Writing], Any] | None, bool, Any]


def _column_of(row: Row, name: str) -> _Column:
    """Return a row as a tuple for `write`: tuple items are read faster than attributes."""
    if isinstance(row, Field):
        return row.name, name, row.write, row.always, None
    return "", name, None, False, row


def _write_rows(columns: list[_Column], writing: Writing) -> None:
    part, body = writing.part, writing.body
    for field, name, write, is_always, row in columns:
        if row is not None:
            row.write_into(writing)
            continue
        value = getattr(part, field)
        if (value is None or value == ()) and not is_always:
            continue
        if write is not None:
            value = write(value, writing)
            if value is None:
                continue
        body[name] = [*value] if type(value) is tuple else value


def _is_set(value: object) -> bool:
    return value is not None and value != ()


def add_unknown(written: JSONObject, unknown: JSONObject) -> JSONObject:
    """Add unknown fields to a written object; return the object.

    A written value stays; objects of one name are merged.
    """
    for name, value in unknown.items():
        if name not in written:
            written[name] = value
        elif is_object(value) and is_object(mapped := written[name]):
            written[name] = {**value, **mapped}
    return written


def unknown_of(extra: dict[str, JSONObject] | None, dialect: str) -> JSONObject:
    """Return a part's unknown fields of one dialect."""
    return extra.get(dialect, {}) if extra else {}


def _unknown_beside(row: Row, unknown: JSONObject) -> JSONObject:
    """Return the unknown fields with a row's wire names, or with paths below the row's path."""
    if not isinstance(row, Field) and row.is_path:
        name = f"{row.wire_names[0]}."
        return {path: unknown[path] for path in unknown if path.startswith(name)}
    return {name: unknown[name] for name in row.wire_names if unknown.get(name) is not None}


def _getter_of(row: Field) -> Getter:
    """Return the getter of a row; its errors have the path of the field."""
    read = row.read
    if read is None:
        return row.get

    def get(body: JSONObject, name: str) -> Any:
        try:
            return read(body[name])
        except DecodeError as exc:
            raise prefix_path(exc, f"$.{name}") from None

    return get
