"""Checks of JSON Schemas for request rules of all dialects, and schema traversal.

`at` has the paths of the schemas.  A finding has the path of a subschema or of a keyword in it,
the vendor's spelling of this path (`{context}`), the name of the schema (`{name}`) and the refused
keyword or value (`{value}`).
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import field

from streamnorm._core.bodies.fields import fields_at, parse_path
from streamnorm._core.codec import Finding, RequestFacts
from streamnorm._core.json import is_array, is_object
from streamnorm._core.schemas.simplify import MISSING, resolve_pointer
from streamnorm.profiles.rules.checks import CheckBase, Word, is_one_of

Steps: TypeAlias = tuple[str | int, ...]
"""The keys and positions that lead from a schema to one of its subschemas."""

PlaceWords: TypeAlias = Literal["path", "tuple", "payload", "message", "words", "type", "reference"]
"""A vendor's spelling of the path of a subschema."""

_ENTRIES = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "defs", "dependentSchemas"}
)
# Google's APIs also accept the names of protocol buffers, with underscores.
_LISTS = frozenset({"anyOf", "any_of", "oneOf", "allOf", "prefixItems", "prefix_items", "items"})
_SINGLE = frozenset(
    {"items", "additionalItems", "additionalProperties", "additional_properties", "contains"}
    | {"else", "if", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
)
_DEFINITIONS = frozenset({"$defs", "definitions", "defs"})
_UPPER = re.compile(r"(?<=[a-z])[A-Z]")

_Kind: TypeAlias = Literal["array", "boolean", "null", "number", "object", "string"]


class SchemaNode(NamedTuple):
    """A schema or subschema, with its path.

    Attributes:
        schema: The subschema.
        steps: Path from the schema to the subschema.
        objects: Number of objects with properties around it.
    """

    schema: dict[str, Any]
    steps: Steps = ()
    objects: int = 0

    @property
    def types(self) -> tuple[str, ...]:
        """The values of `type`, in lower case."""
        named = self.schema.get("type")
        names = named if is_array(named) else [named]
        # Google's types are in upper case.
        return tuple([name.lower() for name in names if isinstance(name, str)])

    @property
    def properties(self) -> dict[str, Any]:
        """The schema's properties; {} if there are none."""
        named = self.schema.get("properties")
        return named if is_object(named) else {}


def nodes_of(schema: dict[str, Any]) -> Iterator[SchemaNode]:
    """Yield a schema and its subschemas, outer ones first, in key order.

    References are not followed, so the size of the schema bounds the number of nodes.
    """
    waiting = [SchemaNode(schema)]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed([*_children(node)])


def _children(node: SchemaNode) -> Iterator[SchemaNode]:
    objects = node.objects + ("properties" in node.schema)
    for keyword, value in node.schema.items():
        steps = (*node.steps, keyword)
        if is_object(value):
            if keyword in _ENTRIES:
                # A definition counts as a schema of its own.
                depth = 0 if keyword in _DEFINITIONS else objects
                for name, item in value.items():
                    if is_object(item):
                        yield SchemaNode(item, (*steps, name), depth)
            elif keyword in _SINGLE:
                yield SchemaNode(value, steps, objects)
        elif is_array(value) and keyword in _LISTS:
            for position, item in enumerate(value):
                if is_object(item):
                    yield SchemaNode(item, (*steps, position), objects)


def is_within_definition(node: SchemaNode) -> bool:
    """Return whether a subschema is, or is inside, a definition."""
    return bool(node.steps) and node.steps[0] in _DEFINITIONS


def path_of(place: str, steps: Steps) -> str:
    """Return the path of a subschema in a request."""
    return place + "".join([f"[{at}]" if isinstance(at, int) else f".{at}" for at in steps])


def recursive_reference(root: dict[str, Any]) -> tuple[SchemaNode, str] | None:
    """Return the node and value of a recursive reference in a schema, or None.

    Definitions without references to others are removed, until only those remain that lead into
    a cycle.
    """
    references: list[tuple[SchemaNode, str, str, str]] = []
    leading: dict[str, set[str]] = {}  # definitions that refer to a definition
    counts: Counter[str] = Counter()  # number of definitions that a definition refers to
    for node in nodes_of(root):
        reference = node.schema.get("$ref")
        if not isinstance(reference, str):
            continue
        pointer = "/".join(["#", *map(str, node.steps)])
        if pointer.startswith(f"{reference}/"):
            return node, reference
        within, target = _definition(pointer) or "#", _definition(reference)
        if target is not None and within not in leading.setdefault(target, set()):
            leading[target].add(within)
            counts[within] += 1
            references.append((node, reference, within, target))
    ends = [target for target in leading if not counts[target]]
    while ends:
        for within in leading.get(ends.pop(), ()):
            counts[within] -= 1
            if not counts[within]:
                ends.append(within)
    for node, reference, within, target in references:
        if counts[within] and counts[target]:
            return node, reference
    return None


def _definition(pointer: str) -> str | None:
    """Return the pointer of the definition that `pointer` leads into; `#` for the root, or None."""
    parts = pointer.split("/")
    if len(parts) > 2 and parts[1] in _DEFINITIONS:
        return "/".join(parts[:3])
    return "#" if pointer == "#" else None


def _entry_number(entries: dict[str, Any], name: str) -> str:
    return f"[{[*entries].index(name)}].value"


def _entry_name(entries: dict[str, Any], name: str) -> str:
    return f"[{name}]"


def _protobuf(
    place: str, root: dict[str, Any], steps: Steps, entry: Callable[[dict[str, Any], str], str]
) -> str:
    """Return the path of a subschema, with the field names of protocol buffers."""
    text, value = _snake(place), root
    for at in steps:
        if isinstance(at, int):
            text += f"[{at}]"
        elif text.rpartition(".")[2] in _ENTRIES:
            text += entry(value, at)
        else:
            text += f".{_snake(at)}"
        value = value[at]  # type: ignore[index]  # the steps lead from the root to a subschema
    return text


def _snake(text: str) -> str:
    return _UPPER.sub(lambda upper: f"_{upper[0].lower()}", text)


PLACES: Mapping[PlaceWords, Callable[[str, dict[str, Any], SchemaNode], str]] = {
    "path": lambda place, root, node: path_of(place, node.steps),
    # OpenAI: ('properties', 'data')
    "tuple": lambda place, root, node: repr(node.steps),
    # Google's reader of JSON: tools[0].function_declarations[1].parameters.properties[8].value
    "payload": lambda place, root, node: _protobuf(place, root, node.steps, _entry_number),
    # Google's check of a message: tools[0].function_declarations[1].parameters.properties[name]
    "message": lambda place, root, node: _protobuf(place, root, node.steps, _entry_name),
    # Kimi: properties.skill
    "words": lambda place, root, node: path_of("", node.steps).removeprefix(".") or "root",
    # Google, for a reference: the definition that it leads to
    "reference": lambda place, root, node: str(node.schema.get("$ref")).rpartition("/")[2],
    # Anthropic: the type whose keyword is refused
    "type": lambda place, root, node: node.types[0] if node.types else "any",
}
"""Functions from the path and the root of a schema, and a subschema, to the vendor's spelling."""


class _Schema(NamedTuple):
    """A schema in a request, with its context.

    Attributes:
        root: The schema.
        place: Path of the schema.
        name: The vendor's name for the schema.
    """

    root: dict[str, Any]
    place: str
    name: str


class _SchemasCheck(CheckBase, frozen=True, kw_only=True):
    """Base of all checks of schemas.

    Attributes:
        at_strict: Paths of schemas that are checked if a true `strict` is beside them.
        names: The vendor's names for schemas, by the first name of their path: texts in which
            `{holder}` is the dotted path of the object around the schema, and `{name}` the
            `name` in that object.
        context: The vendor's spelling of the path of a subschema.
    """

    at_strict: tuple[str, ...] = ()
    names: dict[str, str] = field(default_factory=dict)
    context: PlaceWords = "path"

    def __post_init__(self) -> None:
        for at in (*self.at, *self.at_strict):
            if "." not in at:
                raise ValueError(f"{at!r}, expected the path of a field of an object")
        for text in self.names.values():
            try:
                text.format(holder="", name="")
            except (KeyError, IndexError, ValueError) as exc:
                raise ValueError(
                    f"names: {exc} in {text!r}, expected {{holder}} or {{name}}"
                ) from exc

    def schemas(self, body: dict[str, Any]) -> Iterator[tuple[_Schema, bool]]:
        """Yield the schemas to check, and whether each is at an `at_strict` path."""
        for at in self.at:
            for schema, _ in self._schemas(body, at):
                yield schema, False
        for at in self.at_strict:
            for schema, holder in self._schemas(body, at):
                if holder.get("strict") is True:
                    yield schema, True

    def _schemas(self, body: dict[str, Any], at: str) -> Iterator[tuple[_Schema, dict[str, Any]]]:
        """Yield the schemas at a path, each with its parent object."""
        holders, _, name = at.rpartition(".")
        for place, found in fields_at(body, parse_path(holders)):
            for position, holder in enumerate(found if is_array(found) else [found]):
                path = f"{place}[{position}]" if is_array(found) else place
                if is_object(holder) and is_object(root := holder.get(name)):
                    yield _Schema(root, f"{path}.{name}", self._name(path, holder)), holder

    def _name(self, path: str, holder: dict[str, Any]) -> str:
        name = holder.get("name")
        text = self.names.get(path.partition(".")[0].partition("[")[0], "{name}")
        dotted = path.replace("[", ".").replace("]", "")
        return text.format(holder=dotted, name=name if isinstance(name, str) else "")


class _SchemaCheck(_SchemasCheck, frozen=True, kw_only=True):
    """Base of checks that check one schema at a time."""

    def findings(self, facts: RequestFacts) -> Iterator[Finding]:
        """Yield the violations in all schemas."""
        if self.counts(facts):
            for schema, _ in self.schemas(facts.body):
                yield from self.check(schema)

    @abstractmethod
    def check(self, schema: _Schema) -> Iterator[Finding]:
        """Yield the violations in one schema."""

    def _finding(
        self, schema: _Schema, node: SchemaNode, keyword: str = "", **fields: Any
    ) -> Finding:
        """Return a finding for a subschema or one of its keywords."""
        path = path_of(schema.place, node.steps)
        context = PLACES[self.context](schema.place, schema.root, node)
        at = f"{path}.{keyword}" if keyword else path
        fields.setdefault("value", keyword)
        return Finding(at, name=schema.name, context=context, **fields)


class SchemaRoot(_SchemaCheck, frozen=True, kw_only=True, tag="schema_root"):
    """Checks that schema roots have a type, no forbidden keywords and legal properties.

    Attributes:
        types: Legal types of the root; empty = any, or no type.
        required: Keywords that the root must have.
        forbidden: Keywords that the root must not have.
        property_names: Regular expression that the names of the root's properties match as a
            whole; "" = any.
    """

    types: tuple[str | int, ...] = ()
    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    property_names: str = ""

    def check(self, schema: _Schema) -> Iterator[Finding]:
        root, node = schema.root, SchemaNode(schema.root)
        named = root.get("type")
        if self.types and named not in self.types:
            shown = f'"{named}"' if isinstance(named, str) else "null" if named is None else named
            yield self._finding(schema, node, "type", value=shown)
        for keyword in self.required:
            if keyword not in root:
                yield self._finding(schema, node, keyword)
        for keyword in self.forbidden:
            if keyword in root:
                yield self._finding(schema, node, keyword)
                return  # one error for the root
        if self.property_names and not all(
            re.fullmatch(self.property_names, name) for name in node.properties
        ):
            yield self._finding(schema, node, "properties")


class SchemaKeywords(_SchemaCheck, frozen=True, kw_only=True, tag="schema_keywords"):
    """Checks that subschemas have only known keywords.

    Attributes:
        of_type: Types of the subschemas that are checked; empty = all.
        allowed: Known keywords; empty = all but the forbidden ones.
        forbidden: Refused keywords.
    """

    of_type: tuple[str, ...] = ()
    allowed: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()

    def check(self, schema: _Schema) -> Iterator[Finding]:
        for node in nodes_of(schema.root):
            if self.of_type and not any(kind in self.of_type for kind in node.types):
                continue
            for keyword in node.schema:
                if keyword in self.forbidden or (self.allowed and keyword not in self.allowed):
                    yield self._finding(schema, node, keyword)


class SchemaKeyword(_SchemaCheck, frozen=True, kw_only=True, tag="schema_keyword"):
    """Checks that the values of one keyword are legal.

    Attributes:
        keyword: The keyword.
        of_type: Types of the subschemas that are checked; empty = all.
        required: Whether these subschemas must have the keyword.
        kinds: Legal JSON types of the value; empty = any.
        values: Legal values; empty = any.
        least: Least number of elements of the value.
        never: Texts that the value must not contain.
    """

    keyword: str
    of_type: tuple[str, ...] = ()
    required: bool = False
    kinds: frozenset[_Kind] = frozenset()
    values: tuple[Word, ...] = ()
    least: int = 0
    never: tuple[str, ...] = ()

    def check(self, schema: _Schema) -> Iterator[Finding]:
        for node in nodes_of(schema.root):
            if self.of_type and not any(kind in self.of_type for kind in node.types):
                continue
            if self.keyword not in node.schema:
                if self.required:
                    yield self._finding(schema, node, self.keyword)
            elif not self._is_legal(value := node.schema[self.keyword]):
                yield self._finding(schema, node, self.keyword, value=value)

    def _is_legal(self, value: object) -> bool:
        if self.kinds and _kind(value) not in self.kinds:
            return False
        if self.values and not is_one_of(value, self.values):
            return False
        if isinstance(value, str) and any(text in value for text in self.never):
            return False
        return not ((is_array(value) or is_object(value)) and len(value) < self.least)


class SchemaRequired(_SchemaCheck, frozen=True, kw_only=True, tag="schema_required"):
    """Checks that all properties of an object are required."""

    def check(self, schema: _Schema) -> Iterator[Finding]:
        for node in nodes_of(schema.root):
            required = node.schema.get("required")
            named = required if is_array(required) else []
            names = {name for name in named if isinstance(name, str)}
            for name in node.properties:
                if name not in names:
                    yield self._finding(schema, node, "required", value=name)
                    break  # the vendor names the first


class SchemaTyped(_SchemaCheck, frozen=True, kw_only=True, tag="schema_typed"):
    """Checks that every subschema has a type."""

    def check(self, schema: _Schema) -> Iterator[Finding]:
        for node in nodes_of(schema.root):
            if node.schema.keys().isdisjoint(_TYPED):
                yield self._finding(schema, node)


class SchemaBeside(_SchemaCheck, frozen=True, kw_only=True, tag="schema_beside"):
    """Checks that subschemas with a given keyword have only keywords that are allowed beside it.

    Attributes:
        keyword: The keyword.
        allowed: Keywords that may be beside it; empty = all but the forbidden ones.
        forbidden: Keywords that must not be beside it.
    """

    keyword: str
    allowed: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()

    def check(self, schema: _Schema) -> Iterator[Finding]:
        for node in nodes_of(schema.root):
            if self.keyword not in node.schema:
                continue
            for other in node.schema:
                is_known = not self.allowed or other in self.allowed or other == self.keyword
                if other in self.forbidden or not is_known:
                    yield self._finding(schema, node, other)
                    break


class SchemaReferences(_SchemaCheck, frozen=True, kw_only=True, tag="schema_references"):
    """Checks that references lead to definitions in the same schema.

    Attributes:
        keywords: Keywords with a reference.
        prefixes: Legal beginnings of a reference to a definition.
        resolves: Whether the definition must exist.
        root: Whether a reference to the root is legal.
    """

    keywords: tuple[str, ...] = ("$ref",)
    prefixes: tuple[str, ...] = ("#/$defs/", "#/definitions/")
    resolves: bool = True
    root: bool = True

    def check(self, schema: _Schema) -> Iterator[Finding]:
        for node in nodes_of(schema.root):
            for keyword in self.keywords:
                target = node.schema.get(keyword)
                if isinstance(target, str) and not self._is_legal(target, schema.root):
                    yield self._finding(schema, node, keyword, value=target)

    def _is_legal(self, target: str, root: dict[str, Any]) -> bool:
        if target == "#":
            return self.root
        if not target.startswith(self.prefixes):
            return False
        return not self.resolves or resolve_pointer(root, target) is not MISSING


class SchemaRecursion(_SchemaCheck, frozen=True, kw_only=True, tag="schema_recursion"):
    """Checks that no reference is recursive."""

    def check(self, schema: _Schema) -> Iterator[Finding]:
        found = recursive_reference(schema.root)
        if found is not None:
            node, reference = found
            yield self._finding(schema, node, "$ref", value=reference)


class SchemaSize(_SchemaCheck, frozen=True, kw_only=True, tag="schema_size"):
    """Checks that each schema is within size bounds.

    Attributes:
        most_properties: Bound on the properties of all objects.
        most_levels: Bound on the nesting of objects.
        most_chars: Bound on the characters of names and enumerated texts.
        most_values: Bound on the enumerated values.
    """

    most_properties: int
    most_levels: int
    most_chars: int
    most_values: int

    def check(self, schema: _Schema) -> Iterator[Finding]:
        properties = levels = chars = values = 0
        for node in nodes_of(schema.root):
            properties += len(node.properties)
            levels = max(levels, node.objects + bool(node.properties))
            enum = node.schema.get("enum")
            listed = enum if is_array(enum) else []
            values += len(listed)
            for text in (*node.properties, *listed):
                chars += len(text) if isinstance(text, str) else 0
        for count, limit in (
            (properties, self.most_properties),
            (levels, self.most_levels),
            (chars, self.most_chars),
            (values, self.most_values),
        ):
            if count > limit:
                yield self._finding(schema, SchemaNode(schema.root), count=count, limit=limit)


class SchemaTotals(_SchemasCheck, frozen=True, kw_only=True, tag="schema_totals"):
    """Checks that the totals over all schemas of a request are within bounds.

    Attributes:
        most_strict: Number of the strict ones.
        most_optional: Number of properties that are not required, outside definitions.
        most_unions: Number of properties with `anyOf` or several types, outside definitions.
    """

    most_strict: int | None = None
    most_optional: int | None = None
    most_unions: int | None = None

    def findings(self, facts: RequestFacts) -> Iterator[Finding]:
        """Yield each total that exceeds its bound."""
        if not self.counts(facts):
            return
        strict = optional = unions = 0
        for schema, is_strict in self.schemas(facts.body):
            strict += is_strict
            for node in nodes_of(schema.root):
                if not is_within_definition(node):
                    optional += _optional_count(node)
                    unions += sum(map(_is_union, node.properties.values()))
        for count, limit in (
            (strict, self.most_strict),
            (optional, self.most_optional),
            (unions, self.most_unions),
        ):
            if limit is not None and count > limit:
                yield Finding("tools", count=count, limit=limit)


def _optional_count(node: SchemaNode) -> int:
    required = node.schema.get("required")
    named = required if is_array(required) else []
    names = {name for name in named if isinstance(name, str)}
    return sum(name not in names for name in node.properties)


def _is_union(schema: object) -> bool:
    return is_object(schema) and ("anyOf" in schema or is_array(schema.get("type")))


_TYPED = frozenset({"$ref", "allOf", "anyOf", "oneOf", "type"})
_KINDS: dict[type, _Kind] = {
    bool: "boolean",
    dict: "object",
    float: "number",
    int: "number",
    list: "array",
    str: "string",
}


def _kind(value: object) -> _Kind:
    return _KINDS.get(type(value), "null")


SchemaCheck: TypeAlias = (
    SchemaRoot
    | SchemaKeywords
    | SchemaKeyword
    | SchemaRequired
    | SchemaTyped
    | SchemaBeside
    | SchemaReferences
    | SchemaRecursion
    | SchemaSize
    | SchemaTotals
)
"""What the `check` of a rule about schemas may be."""
