"""Render the pages' tables and command outputs in place: `python docs/render.py`.

A table stands between `<!-- rendered: NAME -->` and `<!-- end -->`.  Output stands below a command
that is alone in its `console` block.  A test compares the pages with what this program renders.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Literal, get_args, get_origin

import render_gateway
import render_requests
import render_rules
from msgspec import structs

import streamnorm
from streamnorm import Limits
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.events import ErrorKind
from streamnorm._core.failures import error_outcome
from streamnorm._registry import DIALECTS, FRAMINGS, capabilities
from streamnorm.profiles import shipped_profiles
from streamnorm.recording import Recording

DOCS = Path(__file__).parent
RECORDINGS = DOCS.parent / "recordings"

_RENDERED = re.compile(r"(<!-- rendered: (\w+) -->\n)(?s:.*?)(?=<!-- end -->)")

_WITH_OUTPUT = re.compile(r"(```console\n\$ streamnorm (.*)\n)(?:(?!\$ |```).*\n)+(?=```)")

# The wording of the rows of the loss table, for somebody who chooses a target.
FEATURES = {
    "choices": "several answers (`n > 1`)",
    "identity": "the id and the model of the message",
    "boundaries": "the boundary between two text blocks",
    "joined": "blocks that are joined to a neighbour of their type, without a boundary",
    "overlapping": "blocks that may overlap",
    "blank_text": "text blocks that hold only white space",
    "refusal": "a refusal that is not text",
    "reasoning": "reasoning",
    "reasoning_parts": "numbered summaries of reasoning",
    "redacted_reasoning": "reasoning that only its issuer can read",
    "signed": "signatures of blocks",
    "custom_tools": "tool calls with free text",
    "namespaces": "namespaces of tool calls",
    "unfinished_calls": "a mark of free text that ended too early",
    "null_arguments": "tool arguments that are `null`",
    "broken_arguments": "tool arguments that are no JSON object",
    "server_tools": "calls that the provider executed, and their results, of kinds that end in",
    "media": "images, documents, and blocks of its own",
    "file_urls": "images and documents by their URL",
    "citations": "kinds of citations",
    "url_citation": "other citations with a URL, written as",
    "cited_texts": "kinds of citations with the cited text",
    "citation_fields": "other fields of citations, whichever vendor's they are",
    "not_round_tripped": "its own data that it cannot write back",
    "block_events": "its own unknown events that are written within a block alone",
    "stop_reasons": "stop reasons",
    "native_stop_reasons": "vendor finish reasons kept where the unified one is `other`",
    "unnamed_stop_sequence": "a stop by a sequence that is not named",
    "service_tiers": "service tiers",
    "usage": "token counts are written",
    "cache_write": "tokens written to a cache",
    "reasoning_tokens": "the count of reasoning tokens",
    "excess_reasoning": "more reasoning tokens than output tokens",
}

TARGETS = {
    "Anthropic": capabilities("anthropic"),
    "Chat": capabilities("openai_chat"),
    "Chat, `reasoning_details`": capabilities("openai_chat", reasoning="reasoning_details"),
    "Responses": capabilities("openai_responses"),
    "Gemini": capabilities("gemini"),
    "Interactions": capabilities("gemini_interactions"),
    "Converse": capabilities("bedrock_converse"),
    "UI message stream": capabilities("ui_message_stream"),
    "AG-UI": capabilities("ag_ui"),
}

LOSSES = {
    "boundaries": ("neighbouring blocks of a type", "written as one block"),
    "broken_arguments": ("arguments that are no JSON object", "the call is dropped"),
    "choices": ("a choice other than the first", "dropped"),
    "citations": (
        "a citation of a kind that the target lacks, or its cited text",
        "rewritten or dropped",
    ),
    "custom_tool": ("a call with free text", "written as a function of one string"),
    "custom_tool_members": ("members beside the text that a custom call wraps", "dropped"),
    "duplicate_id": (
        "a call with the id of another one, in the answer or in the request's history",
        "written with an id of its own",
    ),
    "empty_block": ("a text block without text", "dropped"),
    "executed_call": ("a call that an agent or provider has executed, or its result", "dropped"),
    "extra": ("a field of the answer that only its vendor knows", "dropped"),
    "half_character": ("half a surrogate pair in a whole answer", "written as U+FFFD"),
    "identity": ("the id and the model of the message", "dropped"),
    "held": ("what waited behind an open block when the stream failed", "dropped"),
    "is_error": ("the mark of an MCP server's failed result", "dropped"),
    "media": ("an image or a document", "dropped"),
    "namespace": ("the namespace of a call", "dropped"),
    "null_arguments": ("arguments that are `null`", "written as `{}`"),
    "opaque": ("an event that only its dialect knows", "dropped"),
    "opaque_block": ("a block that only its dialect knows", "dropped"),
    "reasoning": ("a reasoning block", "dropped"),
    "reasoning_parts": ("numbered summaries of reasoning", "joined by a blank line"),
    "redacted_reasoning": ("reasoning that only its issuer can read", "dropped"),
    "refusal": ("a refusal", "written as text"),
    "server_tool": ("a call that the provider executed, or its result", "dropped"),
    "service_tier": ("a service tier that the target lacks", "dropped"),
    "signature": ("a signature", "dropped"),
    "stop_reason": ("a stop reason that the target lacks", "written as `end_turn`"),
    "unapproved_call": ("a call that a person has to approve at the page", "dropped"),
    "unfinished_call": ("the mark of free text that ended too early", "dropped"),
    "usage": ("a token count", "dropped, or written as part of another"),
    "usage_unknown": ("a token count that the provider did not report", "written as 0"),
    "whitespace_text": ("a text block that holds only white space", "dropped"),
}

ERRORS = {
    "upstream": ("the provider reported an error", "UpstreamError"),
    "malformed": ("the peer broke the protocol", "RemoteProtocolError"),
    "too_large": ("the peer passed a bound of `Limits`", "LimitExceeded"),
    "truncated": ("the source ended before the message did", "TruncatedStream"),
    "transport": ("the connection broke, or the source failed", "TruncatedStream"),
    "stalled": ("a read of the source timed out", "TruncatedStream"),
}

NOTES = {
    "cached_input": "a count of input that includes the cache, by its total",
    "changed_arguments": "complete arguments other than those in fragments, which count",
    "completed_by_whole": "a complete value continued what deltas had sent; the rest was added",
    "cumulative_arguments": "each fragment repeated all arguments before it",
    "deprecated_event": "an event under a name that the protocol has given up",
    "extra_block_stop": "a stop of a block that was closed",
    "extra_call_end": "an end of a call that was closed",
    "gap": "a sequence number was skipped",
    "id_changed": "the id of a message, item or call changed",
    "index_drift": "the index of a call changed within its arguments",
    "joined_frames": "two events without a blank line between them",
    "late_citation": "a citation of a part that was complete",
    "late_delta": "a repeated delta of a step that was closed",
    "late_name": "the name of a call arrived after its arguments",
    "late_signature": "a signature of a message or call that had ended",
    "minted_id": "no id; one was minted",
    "misplaced_delta": "a delta for no open block, where exactly one block could continue",
    "missing_block_stop": "a block without its stop",
    "missing_call_end": "a call in fragments without its end",
    "missing_id": "a run without the id of its thread, or its own",
    "missing_item": "a delta of an item that was not announced",
    "missing_item_done": "an item without its `done`",
    "missing_response": "a terminal event without its response",
    "missing_role": "a reasoning message without its role",
    "missing_start": "the message began without its first event",
    "mixed_block": "readable and redacted reasoning in one block",
    "no_event_line": "no `event:` line, where the dialect has one",
    "no_metadata": "the message ended without its tokens",
    "not_stored": "a log does not have the stream, which nobody can resume",
    "not_wrapped": "a custom call was no object with its text, and is passed on unchanged",
    "placeholder_arguments": "`{}` was sent before the real arguments",
    "repeated_block_start": "a block was started twice, unchanged",
    "repeated_message_start": "the message was started twice, unchanged",
    "repeated_start": "a response, interaction or step was started twice, unchanged",
    "resent_arguments": "arguments were sent again, unchanged",
    "resent_call": "a call was sent again, unchanged",
    "resent_delta": "a delta of a closed block repeated what it holds",
    "resent_event": "an event with a sequence number that was used came again, unchanged",
    "resent_item": "an item or a part was sent again, unchanged",
    "resent_result": "a tool result was sent again, unchanged",
    "resent_signature": "a signature was sent again, unchanged",
    "resent_text": "text was sent again, unchanged",
    "reused_index": "the index of an item was used again for another one",
    "stray_done": "`[DONE]` in a dialect that has none",
    "stray_line": "a line that is no field of an event",
    "unfinished_arguments": "the message ended with arguments that are no whole JSON",
    "unstable_ids": "the ids of items change from event to event",
    "unterminated": "no blank line after the last event",
    "unusual_json": "JSON that a strict parser refuses: lone surrogates, `NaN`",
    "wrong_event_line": "the `event:` line contradicts the payload",
}


def pages() -> dict[Path, str]:
    """Return the rendered text of each page."""
    found = [path for folder in ("", "gateway/", "rules/") for path in DOCS.glob(f"{folder}*.md")]
    return {path: _page(path.read_text(encoding="utf-8")) for path in sorted(found)}


def _page(text: str) -> str:
    text = _RENDERED.sub(lambda match: f"{match[1]}{TABLES[match[2]]()}\n", text)
    return _WITH_OUTPUT.sub(lambda match: match[1] + _output(match[2]), text)


def _output(arguments: str) -> str:
    """Return what a command prints; a pipe may lead to another one."""
    scripts = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    env = {**os.environ, "PATH": scripts, "PYTHONPATH": str(DOCS.parent)}
    command = ["sh", "-c", f"streamnorm {arguments}"]
    done = subprocess.run(command, cwd=DOCS.parent, env=env, capture_output=True, check=True)  # noqa: S603 - commands of the pages
    return done.stdout.decode()


def losses() -> str:
    """Return the table of features that each target carries."""
    return _table(["", *TARGETS], [[words, *cells] for words, cells in _rows(short=True)])


def kinds() -> str:
    """Return, for features with several kinds, the kinds that each target carries."""
    rows = []
    for words, cells in _rows(short=False):
        alike: dict[str, list[str]] = defaultdict(list)
        for target, cell in zip(TARGETS, cells, strict=True):
            alike[cell].append(target)
        for number, (cell, targets) in enumerate(alike.items()):
            rows.append(["" if number else words, "; ".join(targets), cell])
    return _table(["", "target", "carries"], rows)


def names() -> str:
    """Return the table of loss names and their consequences."""
    rows = [[f"`{name}`", lost, result] for name, (lost, result) in LOSSES.items()]
    return _table(["`feature`", "what is lost", "result"], rows)


def _rows(*, short: bool) -> Iterable[tuple[str, list[str]]]:
    for field, words in FEATURES.items():
        values = [
            () if field == "joined" and target.boundaries else getattr(target, field)
            for target in TARGETS.values()
        ]
        names_many = any(isinstance(value, tuple | frozenset | dict) for value in values)
        if names_many is not short:
            yield words, [_cell(field, value) for value in values]


def _cell(field: str, value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "loss"
        case None:
            return "loss"
        case str():
            return f"`{value}`" if field == "url_citation" else f"if {value}".replace("if a", "a")
        case dict():
            names = sorted(set(value.values()))
        case tuple() | frozenset():
            names = sorted(item if isinstance(item, str) else item.__name__ for item in value)
        case _:
            raise AssertionError(field)
    nothing = {"overlapping": "none", "joined": "none", "block_events": "none"}
    none = {**nothing, "not_round_tripped": "nothing"}.get(field, "loss")
    # Every kind ends in the empty text.
    return ", ".join(f"`{name}`" if name else "all" for name in names) or none


def events() -> str:
    """Return the events, with their fields in order."""
    return _structs(get_args(streamnorm.Event), "event")


def blocks() -> str:
    """Return the blocks, with their fields in order."""
    return _structs(get_args(streamnorm.Block), "block")


def outcomes() -> str:
    """Return the outcomes, with their fields in order."""
    return _structs(get_args(streamnorm.Outcome), "outcome")


def _structs(types: Iterable[type], title: str) -> str:
    rows = [
        [f"`{one.__name__}({', '.join(one.__struct_fields__)})`", _summary(one)]  # type: ignore[attr-defined]  # a struct
        for one in types
    ]
    return _table([title, "meaning"], rows)


def _summary(one: type) -> str:
    """Return the first sentence or paragraph of a docstring, for a table."""
    return " ".join(inspect.getdoc(one).partition("\n\n")[0].split()).rstrip(".")  # type: ignore[union-attr]  # it has one


def errors() -> str:
    """Return the kinds of `StreamError`, their outcomes and exceptions."""
    rows = []
    for kind in get_args(ErrorKind):
        meaning, exception = ERRORS[kind]
        outcome = type(error_outcome(streamnorm.StreamError(kind, ""))).__name__
        rows.append([f"`{kind}`", meaning, f"`{outcome}`", f"`{exception}`"])
    return _table(["kind", "meaning", "outcome", "exception"], rows)


def limits() -> str:
    """Return the bounds in `Limits`, with their defaults."""
    text = inspect.getdoc(Limits) or ""
    meanings = dict(re.findall(r"^    (\w+): (.*)$", text, re.MULTILINE))
    defaults = Limits()
    rows = [
        [f"`{name}`", _amount(name, getattr(defaults, name)), meanings[name].rstrip(".")]
        for name in Limits.__struct_fields__
    ]
    return _table(["bound", "default", "of what"], rows)


def _amount(name: str, value: int) -> str:
    if not name.endswith("_bytes"):
        return f"{value:,}"
    for unit, shift in (("GiB", 30), ("MiB", 20)):
        if value >= 1 << shift:
            return f"{value >> shift} {unit}"
    return f"{value >> 10} KiB"


def dialects() -> str:
    """Return the dialects with their names and supported operations."""
    rows = [
        [
            f"`{name}`",
            ", ".join(f"`{alias}`" for alias in known.aliases) or "–",
            "yes" if known.decoder else "no",
            "yes" if known.encoder else "no",
            "yes" if known.checker else "no",
        ]
        for name, known in DIALECTS.items()
    ]
    return _table(["dialect", "aliases", "decoded", "encoded", "validated"], rows)


def _recorded_streams() -> list[Path]:
    suffixes = {framing.suffix for framing in FRAMINGS.values()}
    return sorted(p for suffix in suffixes for p in RECORDINGS.glob(f"*/*/*{suffix}"))


def servers() -> str:
    """Return the servers with recorded streams, and the notes of their decoders."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in _recorded_streams():
        dialect, server, name = path.parts[-3], path.parts[-2], path.stem
        found[dialect, server].append(name.replace("-", " "))
    rows = [
        [f"`{dialect}`", f"`{server}`", "; ".join(names)]
        for (dialect, server), names in found.items()
    ]
    return _table(["dialect", "server", "recorded"], rows)


def known_servers() -> str:
    """Return the servers that have profiles, and their dialects."""
    profiles = shipped_profiles()
    rows = [
        [f"`{server}`", ", ".join(f"`{name}`" for name in DIALECTS if profiles.knows(server, name))]
        for server in sorted(profiles.servers)
    ]
    return _table(["`server=`", "dialects"], rows)


def profile_keys() -> str:
    """Return the capabilities that a profile can change, with their types."""
    text = (inspect.getdoc(BodyCapabilities) or "").partition("Attributes:")[2]
    meanings = dict(re.findall(r"^    (\w+): ((?:.+\n?(?:        .+\n?)*))", text, re.MULTILINE))
    rows = [
        [f"`{field.name}`", _kind(field.type), " ".join(meanings[field.name].split()).rstrip(".")]
        for field in structs.fields(BodyCapabilities)
        if field.name != "dialect"
    ]
    return _table(["capability", "value", "meaning"], rows)


def _kind(kind: object) -> str:
    """Return the TOML type of a capability."""
    origin = get_origin(kind)
    if origin is Literal:
        return ", ".join(f'`"{word}"`' for word in get_args(kind))
    if origin is frozenset:
        return "set"
    if origin is tuple:
        return "array"
    if origin is dict:
        return "table"
    if origin is not None:
        kinds = ", ".join(_kind(one) for one in get_args(kind) if one is not NoneType)
        return f"{kinds}; can be unset" if NoneType in get_args(kind) else kinds
    return {bool: "boolean", str: "string"}.get(kind, "number")


def notes() -> str:
    """Return the kinds of notes, and the recordings that cause each."""
    shown: dict[str, list[str]] = defaultdict(list)
    for path in _recorded_streams():
        recording = Recording.load(path)
        decoder = streamnorm.codec.decoder(
            recording.dialect, server=recording.server, framing=recording.framing
        )
        decoder.feed(recording.body)
        decoder.close()
        for note in decoder.notes:
            shown[note.kind].append(f"`{'/'.join(path.parts[-3:-1])}/{path.stem}`")
    rows = [
        [f"`{kind}`", meaning, shown[kind][0] if kind in shown else ""]
        for kind, meaning in NOTES.items()
    ]
    return _table(["note", "what was accepted", "for example"], rows)


def _rendered(head: list[str], rows: Callable[[], Iterable[list[str]]]) -> str:
    return _table(head, rows())


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


TABLES: dict[str, Callable[[], str]] = {
    one.__name__: one
    for one in (
        *(blocks, dialects, errors, events, kinds, known_servers),
        *(limits, losses, names, notes, outcomes, profile_keys, servers),
    )
} | {
    name: partial(_rendered, *table)
    for module in (render_gateway, render_requests, render_rules)
    for name, table in module.TABLES.items()
}

if __name__ == "__main__":
    for page, rendered in pages().items():
        page.write_text(rendered, encoding="utf-8")
