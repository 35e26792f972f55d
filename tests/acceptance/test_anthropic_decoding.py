"""What we decode is what the official Anthropic SDK reads.

The SDK's beta client, which knows every block, adds up every written recording and every
real stream of the corpus.  What it cannot take, or takes otherwise, stands in the tables
below, each with its reason; none may be out of use.  And what we write anew of the same
streams it must read without any of that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import anthropic
import pytest
from acceptance.anthropic_readings import Told, our_message, sdk, written_message
from support.streams.corpus import corpus, needs_corpus, payloads, recordings

from streamnorm import Event, StreamError, Transcoder, accumulate, project
from streamnorm.codec import decoder

# Blocks and fields that the SDK keeps without a type for them.
pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")

Payloads = list[dict[str, Any]]


class Source(NamedTuple):
    """A stream of Anthropic's, or of its like."""

    name: str
    body: bytes
    server: str | None = None

    def __str__(self) -> str:
        return self.name


RECORDINGS = [Source(r.name, r.body, r.server) for r in recordings("anthropic")]


@cache
def real_streams() -> list[Source]:
    return [Source(stream.name, stream.body) for stream in corpus("anthropic")]


@cache
def decoded(source: Source) -> list[Event]:
    reader = decoder("anthropic", server=source.server)
    return reader.feed(source.body) + reader.close()


# What the SDK cannot take, and what a server that keeps to the protocol would have sent


def as_it_is(events: Payloads) -> None:
    """Change nothing: every event gets its name, and what is no event is left out."""


def send_content_and_usage(events: Payloads) -> None:
    usage = {"input_tokens": 0, "output_tokens": 0}
    events[0]["message"] = {"type": "message", "content": [], "usage": usage} | events[0]["message"]
    for event in events:
        if event["type"] == "message_delta":
            event.setdefault("usage", {"output_tokens": 0})


def send_no_null(events: Payloads) -> None:
    empty = {"text": "", "thinking": "", "partial_json": "", "input": {}}
    for event in events:
        for part in (event.get("content_block", {}), event.get("delta", {})):
            part.update({key: empty[key] for key in part if part[key] is None and key in empty})


def begin_text_empty(events: Payloads) -> None:
    for event in events:
        if "content_block" in event:
            event["content_block"]["text"] = ""


REPAIRS: dict[str, tuple[str, Callable[[Payloads], None]]] = {
    "the SDK drops events without a name (protocol §1)": (
        "proxy/crlf-without-event-lines",
        as_it_is,
    ),
    "[DONE] under a name is no JSON to the SDK (protocol §1)": (
        "openrouter/done-after-stop|anthropic__rig__anthropic-streaming-gateway_.*",
        as_it_is,
    ),
    "the SDK needs content and usage (protocol §6.1)": (
        "proxy/message-without-content-and-usage|anthropic__langchainrb__.*_empty_tool_input",
        send_content_and_usage,
    ),
    "the SDK cannot add null (protocol §6.1)": ("proxy/null-deltas", send_no_null),
    "the SDK takes text twice that is sent twice (protocol §4.4)": (
        "minimax/text-repeated",
        begin_text_empty,
    ),
}


def repaired(body: bytes, mend: Callable[[Payloads], None]) -> bytes:
    events = [json.loads(data) for data in payloads(body) if not data.startswith("[DONE]")]
    mend(events)
    pairs = ((event["type"], json.dumps(event)) for event in events)
    return b"".join(f"event: {kind}\ndata: {data}\n\n".encode() for kind, data in pairs)


# What the SDK takes otherwise: each returns its reading without that


def cut_arguments(ours: Told, theirs: Told) -> Told:
    """Take arguments that are no JSON as text: the SDK reads as much as it can."""

    def uncut(our: Told, their: Told) -> Told:
        cut = isinstance(our.get("input"), str) and isinstance(their.get("input"), dict)
        return {**their, "input": our["input"]} if cut else their

    blocks = map(uncut, ours["content"], theirs["content"])
    return {**theirs, "content": list(blocks)}


def halves_joined(_: Told, theirs: Told) -> Told:
    def joined(block: Told) -> Told:
        text = block.get("text", "").encode("utf-16", "surrogatepass").decode("utf-16")
        return {**block, "text": text} if text else block

    return {**theirs, "content": list(map(joined, theirs["content"]))}


def split_where_signed(ours: Told, theirs: Told) -> Told:
    """Take several signed blocks for the one that the SDK makes of them."""
    *signed, text = ours["content"]
    (thought, same) = theirs["content"]
    assert text == same
    assert "".join(block.get("thinking", "") for block in signed) == thought["thinking"]
    assert signed[-1]["signature"] == thought["signature"]
    return {**theirs, "content": ours["content"]}


def lost_deltas(ours: Told, theirs: Told) -> Told:
    """Fill in what the SDK leaves out; it has the blocks as they began."""
    seen = [(block["type"], block.get("id")) for block in theirs["content"]]
    assert seen == [(block["type"], block.get("id")) for block in ours["content"]][: len(seen)]
    return {**theirs, "content": ours["content"]}


def unescaped(_: Told, theirs: Told) -> Told:
    def plain(block: Told) -> Told:
        opened: Told = {
            key: re.sub(r"^sn1\.\w+\.", "", block[key])
            for key in ("signature", "data")
            if key in block
        }
        if block.get("id", "").startswith("snid_"):
            opened["id"] = re.sub(
                "_([0-9a-f]{2})", lambda m: chr(int(m[1], 16)), block["id"].removeprefix("snid_")
            )
        return {**block, **opened}

    return {**theirs, "content": list(map(plain, theirs["content"]))}


def first_model(ours: Told, theirs: Told) -> Told:
    (switch,) = [block for block in ours["content"] if block["type"] == "fallback"]
    assert (switch["from"]["model"], switch["to"]["model"]) == (ours["model"], theirs["model"])
    return {**theirs, "model": ours["model"]}


def counts_of_the_start(ours: Told, theirs: Told) -> Told:
    """Take the counts that later zeros replaced."""
    cached = {key: count for key, count in ours["usage"].items() if key.startswith("cache_")}
    assert all(theirs["usage"][key] == 0 for key in cached)
    return {**theirs, "usage": {**theirs["usage"], **cached}}


def with_bedrock_counts(ours: Told, theirs: Told) -> Told:
    counts = {key: value for key, value in ours.items() if key.startswith("amazon-bedrock-")}
    return {**theirs, **counts}


def with_fields(ours: Told, theirs: Told) -> Told:
    usage = {**ours["usage"], **theirs["usage"]}
    return {**ours, **theirs, "usage": usage}


EXPLAINED: dict[str, tuple[str, Callable[[Told, Told], Told]]] = {
    "the SDK reads nothing of message_stop, where Bedrock counts (protocol §2.1)": (
        r"bedrock(/|__).*",
        with_bedrock_counts,
    ),
    "the SDK takes the fields of the last events that it knows": (
        "anthropic/unknown-types|openrouter/.*|anthropic__rig__anthropic-streaming-gateway_.*",
        with_fields,
    ),
    "the SDK reads arguments that are cut as far as it can": (
        "anthropic/max-tokens-in-arguments|proxy/no-message-delta-in-arguments"
        "|anthropic__anthropic-sdk-.*incomplete_partial_json_response",
        cut_arguments,
    ),
    "the SDK leaves a character in halves (protocol J2)": ("proxy/half-a-character", halves_joined),
    "the SDK keeps the last signature of a block (protocol §6.1)": (
        "proxy/thinking-after-its-signature",
        split_where_signed,
    ),
    "the SDK drops deltas that do not fit the block at their index (protocol §6.1)": (
        "sglang/text-at-the-index-of-a-tool",
        lost_deltas,
    ),
    "ids and signatures that we had escaped": (
        "streamnorm/escaped-ids-and-tagged-signatures",
        unescaped,
    ),
    "the SDK names the model that took over, which we leave in its block": (
        "anthropic/fallback",
        first_model,
    ),
    "the SDK lets zeros replace counts, Claude Code does not (protocol §2.6)": (
        "proxy/zeros-in-message-delta",
        counts_of_the_start,
    ),
}

UNREADABLE: dict[str, tuple[str, type[Exception]]] = {
    "the SDK parses arguments at every delta (protocol §6.1)": (
        "anthropic/eager-input-is-no-json",
        ValueError,
    ),
    "the SDK needs a block for every delta (protocol §6.1)": (
        "proxy/deltas-of-closed-and-unknown-blocks",
        IndexError,
    ),
}
"""What it cannot read however it is sent."""

UNNOTICED = {
    "the SDK misses no message_stop (protocol §6.1)": (
        "anthropic/cut-after-.*|proxy/missing-message-stop-with-open-block"
    ),
    "the SDK reads on into another message (protocol §6.1)": "proxy/another-message-spliced-in",
    "the SDK drops deltas of a block whose index was used before (protocol §6.1)": (
        "proxy/index-reused"
    ),
    "the SDK adds to calls that have ended (protocol §6.1)": "proxy/arguments-of-a-closed-call",
    "an error without its event's name is nothing to the SDK (protocol §4.3)": (
        "proxy/error-in-the-shape-of-chat"
    ),
}
"""What the SDK takes for a whole message, and is none."""


class Verdict(NamedTuple):
    """What came of one stream, and which entries of the tables it took."""

    ours: Told | StreamError
    theirs: Told | Exception
    used: frozenset[str] = frozenset()


@cache
def verdict(source: Source) -> Verdict:
    events = decoded(source)
    last = events[-1]
    ours = last if isinstance(last, StreamError) else our_message(accumulate(events))
    mended = {reason: mend for reason, (_, mend) in fitting(REPAIRS, source)}
    body = source.body
    for mend in mended.values():
        body = repaired(body, mend)
    try:
        theirs = sdk().message(body)
    except Exception as error:  # noqa: BLE001 - the SDK raises whatever it meets
        fits = [why for why, (_, kind) in fitting(UNREADABLE, source) if isinstance(error, kind)]
        return Verdict(ours, error, frozenset([*mended, *fits]))
    if isinstance(ours, StreamError):
        found = [why for why, names in UNNOTICED.items() if re.fullmatch(names, source.name)]
        return Verdict(ours, theirs, frozenset(found))
    used = set(mended)
    for reason, (_, explain) in fitting(EXPLAINED, source):
        if theirs != ours:
            explained = explain(ours, theirs)
            used |= {reason} if explained != theirs else set()
            theirs = explained
    return Verdict(ours, theirs, frozenset(used))


def fitting(
    table: dict[str, tuple[str, Any]], source: Source
) -> Iterator[tuple[str, tuple[str, Any]]]:
    for reason, entry in table.items():
        if re.fullmatch(entry[0], source.name):
            yield reason, entry


def disagreement(source: Source) -> str:
    ours, theirs, used = verdict(source)
    if isinstance(ours, StreamError):
        if isinstance(theirs, anthropic.APIStatusError):
            return "" if ours.message in str(theirs) else f"{theirs}, expected {ours.message}"
        return "" if used or isinstance(theirs, Exception) else f"no error, expected {ours}"
    if isinstance(theirs, Exception):
        return "" if used & {*UNREADABLE} else f"{theirs!r}"
    return differences(ours, theirs)


def differences(ours: Told, theirs: Told) -> str:
    wrong = [
        f"{key}: {ours.get(key)} is {theirs.get(key)} to the SDK"
        for key in {**ours, **theirs}
        if ours.get(key) != theirs.get(key)
    ]
    return "; ".join(wrong)


def found(problems: dict[str, str]) -> dict[str, str]:
    return {name: problem for name, problem in problems.items() if problem}


@pytest.mark.parametrize("source", RECORDINGS, ids=str)
def test_recording_reads_as_with_the_sdk(source: Source) -> None:
    assert disagreement(source) == ""


@needs_corpus
def test_real_streams_read_as_with_the_sdk() -> None:
    assert found({source.name: disagreement(source) for source in real_streams()}) == {}


def test_every_entry_of_the_tables_is_in_use() -> None:
    used = frozenset[str]().union(*(verdict(source).used for source in RECORDINGS))
    assert used == {*REPAIRS, *EXPLAINED, *UNREADABLE, *UNNOTICED}


@needs_corpus
def test_nearly_all_real_streams_agree_without_an_explanation() -> None:
    genuine = [source for source in real_streams() if not source.name.startswith("bedrock__")]
    explained = [source.name for source in genuine if verdict(source).used]
    assert len(explained) * 20 < len(genuine)


# What we write anew


def misreading(source: Source) -> str:
    """Return what the SDK gets wrong of a stream that we wrote anew; nothing if all is well."""
    transcoder = Transcoder("anthropic", "anthropic", verbatim=False, server=source.server)
    body = b"".join(transcoder.feed(source.body) + transcoder.close())
    events = decoded(source)
    last = events[-1]
    try:
        theirs = sdk().message(body)
    except anthropic.APIStatusError as error:
        failed = isinstance(last, StreamError) and last.message in str(error)
        return "" if failed else repr(error)
    except ValueError as error:
        return "" if verdict(source).used & {*UNREADABLE} else repr(error)
    if isinstance(last, StreamError):
        return f"no error, expected {last}"
    ours = written_message(accumulate(project(events, "anthropic", extras=True)[0]))
    theirs = cut_arguments(ours, theirs)
    if any(block["type"] == "fallback" for block in ours["content"]):
        theirs = first_model(ours, theirs)
    if "cache_creation" not in theirs["usage"]:  # told at the end, where it does not look
        ours["usage"].pop("cache_creation", None)
    return differences(ours, theirs)


@pytest.mark.parametrize("source", RECORDINGS, ids=str)
def test_sdk_reads_a_recording_that_is_written_anew(source: Source) -> None:
    assert misreading(source) == ""


@needs_corpus
def test_sdk_reads_real_streams_that_are_written_anew() -> None:
    assert found({source.name: misreading(source) for source in real_streams()}) == {}
