"""The areas that are mutated, all modules of the layers 1 to 5, and the tests of their modules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

__all__ = [
    "AREAS",
    "ROOT",
    "modules_by_area",
    "modules_of",
    "name_of",
    "nearest_tests",
    "tests_of",
]

ROOT = Path(__file__).parents[2]
_PACKAGE = ROOT / "streamnorm"

AREAS: dict[str, tuple[str, ...]] = {
    "events": (
        *("_core/blocks.py", "_core/events.py", "_core/limits.py", "_core/messages.py"),
        "_core/open_calls.py",
        *("_core/text.py", "_core/tools.py", "_core/mcp.py", "_core/shapes.py"),
    ),
    "json": ("_core/json.py", "_core/stepwise_json.py", "partial_json.py"),
    "grammar": ("_core/grammar.py",),
    "framings": (
        *("sse.py", "eventstream.py", "_core/codec/framing.py", "_core/codec/invoke_chunks.py"),
        *("_core/codec/event_messages.py", "_core/codec/message_layout.py"),
        *("_core/codec/websocket_messages.py", "_core/codec/socket_events.py"),
    ),
    "codec": ("_core/codec", "codec.py"),
    "failures": (
        *("_core/errors.py", "_core/failures.py", "_core/context_overflow.py"),
        *("_core/rpc_errors.py", "_core/gate.py", "_core/source_failures.py"),
    ),
    "losses": ("_core/losses",),
    "schemas": ("_core/schemas",),
    "bodies": ("_core/bodies",),
    "projection": ("_core/bodies/projection",),
    "anthropic": ("dialects/anthropic",),
    "openai_chat": ("dialects/openai_chat",),
    "openai_responses": ("dialects/openai_responses",),
    "gemini": ("dialects/gemini",),
    "gemini_interactions": ("dialects/gemini_interactions",),
    "bedrock_converse": ("dialects/bedrock_converse",),
    "ui_message_stream": ("dialects/ui_message_stream",),
    "ag_ui": ("dialects/ag_ui",),
    "transcoder": ("_transcoder.py", "_projection.py", "_registry.py", "validation.py"),
    "requests": ("_answers.py", "_bodies.py", "_auxiliary.py", "_conversation", "tools.py"),
    "profiles": ("profiles",),
    "http": ("http",),
    "upstream": ("_upstream", "_exchange.py"),
}
"""Modules and packages of each area, below `streamnorm/`; of two the one that says more holds."""

# The layers above, what names public things alone or builds the package, and modules without a
# statement to change.
_NOT_MUTATED = (
    "_core/codec/kernel_source",
    *("aio", "asgi", "aws.py", "cli", "frontend", "gateway", "inspect", "log", "recording"),
    *("state", "testing", "transports", "__init__.py", "__main__.py", "_public.py"),
    *("_core/__init__.py", "dialects/__init__.py"),
)
# Neither rooms nor laws import it.
_EXCHANGE = "_exchange.py"
# Of the modules that join dialects.
_JOINING = (
    *("tests/test_bodies.py", "tests/test_codec.py", "tests/test_detection.py"),
    *("tests/test_projection.py", "tests/test_registry.py", "tests/transcoder"),
    *("tests/test_counting.py", "tests/test_models.py", "tests/test_tools.py"),
    *("tests/test_validation.py", "tests/test_request_validation.py"),
)
_LAWS = (
    *("tests/test_capabilities.py", "tests/test_endpoints.py", "tests/test_keep_message.py"),
    *("tests/test_codec.py", "tests/test_detection.py", "tests/test_registry.py"),
    *("tests/test_counting.py", "tests/test_models.py"),
    *("tests/transcoder", "tests/test_adversarial.py", "tests/test_cost.py", "tests/laws"),
)


def modules_of(place: str) -> list[Path]:
    """Return the modules of a module or a package, relative to the root."""
    path = ROOT / place
    return [each.relative_to(ROOT) for each in sorted(path.rglob("*.py"))] or [Path(place)]


def modules_by_area() -> dict[str, list[Path]]:
    """Return the modules of each area; those of none stand under ""."""
    areas = {place: area for area, places in AREAS.items() for place in places}
    areas |= dict.fromkeys(_NOT_MUTATED, "not mutated")
    found: dict[str, list[Path]] = {area: [] for area in (*AREAS, "")}
    for module in modules_of("streamnorm"):
        name = module.relative_to("streamnorm")
        places = [str(each) for each in (name, *name.parents) if str(each) in areas]
        found.setdefault(areas[places[0]] if places else "", []).append(module)
    return found


def name_of(module: Path) -> str:
    """Return the name by which a module is imported."""
    names = module.with_suffix("").parts
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


def tests_of(module: Path, *, own: bool) -> tuple[str, ...]:
    """Return the test files of a module: those of its folder, then those of what is above it.

    Args:
        module: The module.
        own: Whether only those of its folder, and of the rooms if they use it.
    """
    rooms = ("tests/dialects",) if module.parts[1] == "_core" else ()
    found = dict.fromkeys(
        str(file.relative_to(ROOT))
        for place in (*_own_tests(module), *(rooms if own else _tests_above(module)))
        for file in ([ROOT / place] if place.endswith(".py") else _test_files(ROOT / place))
    )
    return tuple(found)


def _own_tests(module: Path) -> tuple[str, ...]:
    layer, *inner = module.parts[1:]
    if layer == "dialects":
        return (f"tests/dialects/{inner[0]}",)
    if layer == "_core":
        return ("tests/core",)
    folder = Path("tests", layer.lstrip("_"))
    if (ROOT / folder).is_dir():
        own = Path(folder, *inner[:-1])
        return (str(own),) if (ROOT / own).is_dir() else (str(folder),)
    return tuple(_top_level_tests(module)) or _JOINING


def _tests_above(module: Path) -> tuple[str, ...]:
    layer = module.parts[1]
    if layer == "dialects":
        return ("tests/dialects/test_recordings.py", *_LAWS)
    if layer == "_core":
        return ("tests/dialects", *_LAWS)
    # Neither rooms nor laws import the layers that have a folder of tests.
    if layer == _EXCHANGE or (ROOT / "tests" / layer.lstrip("_")).is_dir():
        return ()
    return (*_JOINING, *_LAWS)


def _test_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("test_*.py"))


def nearest_tests(module: Path) -> tuple[str, ...]:
    """Return the test files that have a module's name in theirs, or stand in a folder like its."""
    patterns = [f"test_{module.stem}.py", f"test_{module.stem}_*.py"]
    folder = Path(*module.parts[2:-1])  # in its layer
    if folder.name:
        patterns.append(f"{folder.name}/test_*.py")
    found = dict.fromkeys(
        str(file.relative_to(ROOT))
        for place in _own_tests(module)
        for pattern in patterns
        for file in sorted((ROOT / place).rglob(pattern))
    )
    return tuple(found)


def _top_level_tests(module: Path) -> Iterator[str]:
    name = module.parts[1].removesuffix(".py").lstrip("_")
    for pattern in (f"test_{name}.py", f"test_{name}_*.py"):
        for file in sorted((ROOT / "tests").glob(pattern)):
            yield str(file.relative_to(ROOT))
