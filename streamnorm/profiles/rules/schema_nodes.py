"""Traversal of JSON schemas for request rules, and the vendors' spellings of paths in a schema."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from streamnorm._core.json import is_array, is_object

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


class SchemaNode(NamedTuple):
    """A subschema, or the schema itself.

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
        """The types in `type`, in lower case."""
        named = self.schema.get("type")
        names = named if is_array(named) else [named]
        # Google's types are in upper case.
        return tuple([name.lower() for name in names if isinstance(name, str)])

    @property
    def properties(self) -> dict[str, Any]:
        """The properties; {} if there are none."""
        named = self.schema.get("properties")
        return named if is_object(named) else {}


def nodes_of(schema: dict[str, Any]) -> Iterator[SchemaNode]:
    """Yield a schema and its subschemas, outer ones first, in the order of the keys.

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
    """Return whether a subschema is a definition, or within one."""
    return bool(node.steps) and node.steps[0] in _DEFINITIONS


def path_of(place: str, steps: Steps) -> str:
    """Return the path of a subschema in a request, from the path of the schema."""
    return place + "".join([f"[{at}]" if isinstance(at, int) else f".{at}" for at in steps])


def recursive_reference(root: dict[str, Any]) -> tuple[SchemaNode, str] | None:
    """Return a recursive reference of a schema and its value; None if there is none.

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
    """Return the definition that a pointer leads into, `#` for the root, or None."""
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
    """Return a path in the names of protocol buffers; `entry` spells the entries of maps."""
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
