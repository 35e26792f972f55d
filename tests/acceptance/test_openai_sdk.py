"""What we decode is what the official OpenAI SDK reads.

The SDK reads every real stream of the corpus through its own HTTP client, and its
accumulator adds the chunks up.  What the accumulator cannot take, or takes otherwise,
stands in `REPAIRS` and `EXPLAINED`, each with its reason; none may be out of use.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import openai
import pytest
from acceptance.readings import Call, Counts, Reading, our_reading, sdk_chunks, sdk_reading
from openai.types.chat import ChatCompletionChunk
from support.streams.corpus import CorpusStream, corpus, each_stream, needs_corpus, payloads

from streamnorm import StreamError
from streamnorm.codec import decoder

# Content in parts, and all else that the SDK keeps without a type for it.
pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")

Chunks = list[ChatCompletionChunk]


# What the SDK's accumulator cannot take


class Repair(NamedTuple):
    """What a server would have sent had it kept to the protocol."""

    error: type[Exception]
    words: str
    mend: Callable[[list[dict[str, Any]]], None]


def deltas(chunks: list[dict[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    for chunk in chunks:
        for choice in chunk.get("choices") or ():
            yield choice.get("index", 0), choice["delta"]


def drop_null_keys_of_calls(chunks: list[dict[str, Any]]) -> None:
    for _, delta in deltas(chunks):
        delta["tool_calls"] = [
            {key: value for key, value in call.items() if value not in (None, "")}
            for call in delta.get("tool_calls") or ()
        ]


def number_calls_from_zero(chunks: list[dict[str, Any]]) -> None:
    numbers: dict[object, int] = {}
    for choice, delta in deltas(chunks):
        for call in delta.get("tool_calls") or ():
            key = (choice, call.get("id") if call.get("index") is None else call["index"])
            call["index"] = numbers.setdefault(key, len(numbers))


def number_list_entries(chunks: list[dict[str, Any]]) -> None:
    numbers: dict[str, int] = {}
    for _, delta in deltas(chunks):
        for field in ("content", "reasoning_details", "annotations"):
            if isinstance(entries := delta.get(field), list):
                for entry in entries:
                    entry["index"] = numbers[field] = numbers.get(field, -1) + 1


def send_no_choices_as_an_empty_list(chunks: list[dict[str, Any]]) -> None:
    for chunk in chunks:
        chunk["choices"] = chunk.get("choices") or []


def begin_choices_in_order(chunks: list[dict[str, Any]]) -> None:
    numbers = sorted({number for number, _ in deltas(chunks)})
    begun = [{"index": number, "delta": {}, "finish_reason": None} for number in numbers]
    chunks.insert(0, {**chunks[0], "choices": begun})


REPAIRS = {
    "the SDK takes a type of null in later deltas for a change (protocol §6.2)": Repair(
        AssertionError, "", drop_null_keys_of_calls
    ),
    "the SDK needs the first call at index 0 (protocol T4)": Repair(
        IndexError, "list index out of range", number_calls_from_zero
    ),
    "the SDK needs an index for every call (protocol T1)": Repair(
        TypeError, "list indices must be integers", number_calls_from_zero
    ),
    "the SDK needs indexes in lists that grow (protocol §6.2)": Repair(
        RuntimeError, "to have an `index` key", number_list_entries
    ),
    "the SDK needs choices in every chunk, gpt-audio leaves them out": Repair(
        TypeError, "'NoneType' object is not iterable", send_no_choices_as_an_empty_list
    ),
    "the SDK needs choices to begin in order (protocol §6.2)": Repair(
        IndexError, "list assignment index out of range", begin_choices_in_order
    ),
}


def repaired(body: bytes, repair: Repair) -> bytes:
    chunks = [json.loads(data) for data in payloads(body) if not data.startswith("[DONE]")]
    repair.mend(chunks)
    return b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks)


# What the SDK's accumulator takes otherwise: each returns its reading without that


def ids_once(ours: Reading, theirs: Reading, _: Chunks) -> Reading:
    def once(their: Call, our: Call) -> Call:
        id, name = their.id or "", their.name
        if our.id and id == our.id * (len(id) // len(our.id)):
            their = their._replace(id=our.id)
        if name == our.name * (len(name) // len(our.name)):
            their = their._replace(name=our.name)
        return their

    return _with_calls(ours, theirs, once)


def ids_minted(ours: Reading, theirs: Reading, _: Chunks) -> Reading:
    def minted(their: Call, our: Call) -> Call:
        fits = their.id is None and re.fullmatch("call_[0-9a-f]{24}", our.id or "")
        return their._replace(id=our.id) if fits else their

    return _with_calls(ours, theirs, minted)


def _with_calls(ours: Reading, theirs: Reading, change: Callable[[Call, Call], Call]) -> Reading:
    answers = {
        number: answer._replace(calls=tuple(map(change, answer.calls, ours.answers[number].calls)))
        for number, answer in theirs.answers.items()
        if len(answer.calls) == len(ours.answers[number].calls)
    }
    return theirs._replace(answers={**theirs.answers, **answers})


def usage_before_null(_: Reading, theirs: Reading, chunks: Chunks) -> Reading:
    said = [chunk.usage for chunk in chunks if chunk.usage is not None]
    return theirs._replace(counts=Counts.of_wire(said[-1].to_dict() if said else {}))


def usage_of_groq(_: Reading, theirs: Reading, chunks: Chunks) -> Reading:
    said = [((chunk.model_extra or {}).get("x_groq") or {}).get("usage") for chunk in chunks]
    return theirs._replace(counts=Counts.of_wire(next(filter(None, reversed(said)), {})))


def reasoning_as_output(_: Reading, theirs: Reading, __: Chunks) -> Reading:
    counts = theirs.counts
    output = (counts.output or 0) + (counts.reasoning or 0)
    whole = (counts.input or 0) + output == counts.total
    return theirs._replace(counts=counts._replace(output=output)) if whole else theirs


def audio_as_input(_: Reading, theirs: Reading, chunks: Chunks) -> Reading:
    counts, usage = theirs.counts, chunks[-1].usage
    assert usage is not None
    assert "prompt_audio_seconds" in (usage.model_extra or {})
    prompt = (counts.total or 0) - (counts.output or 0)
    details = usage.prompt_tokens_details
    if details is not None and details.audio_tokens:
        assert prompt == (counts.input or 0) + details.audio_tokens
    return theirs._replace(counts=counts._replace(input=prompt))


def total_without_stop(ours: Reading, theirs: Reading, _: Chunks) -> Reading:
    total = (theirs.counts.input or 0) + (theirs.counts.output or 0)
    few = 0 < (theirs.counts.total or 0) - total < 8
    return theirs._replace(counts=theirs.counts._replace(total=total)) if few else theirs


def model_of_first_chunk(_: Reading, theirs: Reading, chunks: Chunks) -> Reading:
    return theirs._replace(model=chunks[0].model)


def reasoning_once(_ours: Reading, theirs: Reading, _: Chunks) -> Reading:
    order = {number: list(dict.fromkeys(kinds)) for number, kinds in theirs.order.items()}
    return theirs._replace(order=order)


Explanation = Callable[[Reading, Reading, Chunks], Reading]


# Why readings differ: in which streams, and the SDK's reading without that.
EXPLAINED: dict[str, tuple[str, Explanation]] = {
    "the SDK joins ids and names that every delta repeats (protocol T6, T11)": (
        r"baseten__.*|openrouter__.*kimi-k2_baseten|openrouter__simonw-llm__.*variant_a",
        ids_once,
    ),
    "the decoder mints an id where the server sends none (protocol T9)": (
        "huggingface__maruel-genai__huggingface-Qwen-Qwen3-4B_thinking-GenStream-Tools.*",
        ids_minted,
    ),
    "the SDK forgets usage when null follows (protocol §6.2)": (
        "openai__(maruel-genai__openaichat-gpt-audio|openai-dotnet__ChatTests-.*Audio).*",
        usage_before_null,
    ),
    "the SDK does not know x_groq.usage (protocol U4)": ("groq__.*", usage_of_groq),
    "xAI leaves reasoning out of completion_tokens (protocol U8)": (
        "xai__.*|azure__.*grok.*",
        reasoning_as_output,
    ),
    "Mistral leaves audio out of prompt_tokens (pydantic/genai-prices#591)": (
        "mistral__(maruel-genai__mistral-voxtral-small-latest-.*Audio|rig__.*sends_audio).*",
        audio_as_input,
    ),
    "Cerebras counts a matched stop sequence in the total alone": (
        "cerebras__maruel-genai__.*-GenStream-Stop",
        total_without_stop,
    ),
    "OpenRouter signs Claude's reasoning behind the calls": (
        "openrouter__fantasy__TestOpenRouterThinking-claude-sonnet-4-thinking-streaming",
        reasoning_once,
    ),
    "the recorder gave Azure's empty first chunk an id, though no model": (
        "azure__llama-stack__.*",
        model_of_first_chunk,
    ),
}


class Verdict(NamedTuple):
    """What came of one stream, and which repairs and explanations it took."""

    ours: Reading | StreamError
    theirs: Reading | openai.APIError
    used: frozenset[str] = frozenset()


@cache
def verdict(stream: CorpusStream) -> Verdict:
    source = decoder("openai_chat")
    events = source.feed(stream.body) + source.close()
    try:
        chunks = sdk_chunks(stream.body)
    except openai.APIError as error:
        assert isinstance(events[-1], StreamError)
        return Verdict(events[-1], error)
    used: set[str] = set()
    try:
        theirs = sdk_reading(chunks)
    except Exception as error:  # noqa: BLE001 - the accumulator raises whatever it meets
        reason, repair = fitting(error)
        used.add(reason)
        chunks = sdk_chunks(repaired(stream.body, repair))
        theirs = sdk_reading(chunks)
    ours = our_reading(events)
    theirs = agreed(ours, theirs)
    for reason, (pattern, explain) in EXPLAINED.items():
        if theirs != ours and re.fullmatch(pattern, stream.name):
            explained = agreed(ours, explain(ours, theirs, chunks))
            if explained != theirs:
                used.add(reason)
                theirs = explained
    return Verdict(ours, theirs, frozenset(used))


def fitting(error: Exception) -> tuple[str, Repair]:
    for reason, repair in REPAIRS.items():
        if type(error) is repair.error and repair.words in str(error):
            return reason, repair
    raise error


def agreed(ours: Reading, theirs: Reading) -> Reading:
    """Return the SDK's reading, with ours where it says the same twice or nothing at all."""
    answers = dict(theirs.answers)
    for number, answer in theirs.answers.items():
        our = ours.answers.get(number)
        if our is not None and our.reasoning and our.reasoning <= answer.reasoning:
            answers[number] = answer._replace(reasoning=our.reasoning)
    counts = theirs.counts
    if counts.input is not None:  # DeepSeek and others tell the rest elsewhere
        unsaid = {key: our for key, our in ours.counts._asdict().items() if our is not None}
        said = {key: their for key, their in counts._asdict().items() if their is not None}
        counts = Counts(**{**unsaid, **said})
    return theirs._replace(answers=answers, counts=counts)


@each_stream
def test_real_stream_reads_as_with_the_sdk(stream: CorpusStream) -> None:
    ours, theirs, _ = verdict(stream)
    if isinstance(ours, StreamError):
        assert ours.kind == "upstream"
        assert isinstance(theirs, openai.APIError)
        assert ours.message == theirs.message
        return
    assert ours == theirs


@needs_corpus
def test_every_repair_and_explanation_is_in_use() -> None:
    used = frozenset[str]().union(*(verdict(stream).used for stream in corpus()))
    assert used == {*REPAIRS, *EXPLAINED}


@needs_corpus
def test_nearly_all_real_streams_agree_without_an_explanation() -> None:
    explained = [stream.name for stream in corpus() if verdict(stream).used]
    assert len(explained) * 12 < len(corpus())
