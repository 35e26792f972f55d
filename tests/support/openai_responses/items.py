"""Random items of Responses streams: their events, and the expected unified blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamnorm import Block, Citation, Reasoning, Refusal, Text
from streamnorm._core.text import tag_signature
from support.draws import Draws
from support.openai_responses.calls import (
    make_custom,
    make_function,
    make_result,
    make_served,
    make_unknown,
)
from support.openai_responses.steps import (
    GeneratedItem,
    ItemStyle,
    Payload,
    Step,
    added,
    deltas,
    done,
    extra_of,
    id_of,
    opaque,
)

__all__ = ["make_item"]


def make_item(d: Draws, number: int, style: ItemStyle) -> GeneratedItem:
    """Return a random item."""
    makers: tuple[Callable[[Draws, int, ItemStyle], GeneratedItem], ...] = (
        *(_message, _message, make_function, make_function, _reasoning, _reasoning),
        *(make_custom, make_served, make_result, make_unknown),
    )
    return d.pick(makers)(d, number, style)


def _says(step: Step) -> bool:
    """Return whether an event starts its part implicitly."""
    return any(
        step.payload.get(key)
        for key in ("part", "annotation", "delta", "logprobs", "text", "refusal")
    )


# Messages


def _annotation(d: Draws, text: str) -> tuple[Payload, Citation]:
    start = d.below(len(text) + 1)
    end = start + d.below(len(text) - start + 1)
    url: Payload = {"url": "https://u", "title": "é"}
    file = {"file_id": "file_1", "filename": "f", "index": start}
    held = {"container_id": "cntr_1", "file_id": "file_1", "filename": "f"}
    place = {"start_index": start, "end_index": end}
    return d.pick(
        (
            (
                {"type": "url_citation", **url, **place},
                Citation("url_citation", "https://u", "é", start=start, end=end),
            ),
            ({"type": "file_citation", **file}, Citation("file_citation", extra=file)),
            (
                {"type": "container_file_citation", **held, **place},
                Citation("container_file_citation", start=start, end=end, extra=held),
            ),
        )
    )


def _message(d: Draws, number: int, style: ItemStyle) -> GeneratedItem:
    phase = {"phase": d.pick(("commentary", "final_answer"))} if d.flag(4) else {}
    whole: Payload = {"type": "message", "role": "assistant", "content": [], "status": "completed"}
    whole = {**id_of(style, "msg", number), **whole, **phase}
    steps, last, blocks = [added(whole, content=[])], done(whole), list[Block]()
    for place in range(d.pick((1, 1, 1, 2, 3, 0))):
        part, block, run = _part(d, style, {"content_index": place})
        whole["content"].append(part)
        next((step for step in run if _says(step)), last).begins.append((block, None))
        blocks.append(block)
        steps += run
    steps.append(last)
    extras = [extra_of(whole, **phase), *(extra_of(whole) for _ in blocks)]
    rest = iter(extras)
    for step in steps:  # the first that begins tells of the item
        step.begins = [(block, next(rest)) for block, _ in step.begins]
    return GeneratedItem(steps, whole, list(zip(blocks, extras, strict=False)))


def _part(d: Draws, style: ItemStyle, place: Payload) -> tuple[Payload, Block, list[Step]]:
    """Return a complete part, its block and its events."""
    kind = d.pick(("output_text", "output_text", "output_text", "refusal", "sketch"))
    if kind == "sketch":
        part: Payload = {"type": "sketch", "lines": [1, {"é": None}]}
        ends = [Step({"type": "response.content_part.done", **place, "part": part})]
        return part, opaque(part), ends if style.parts else []
    text = d.text(0, 8)
    steps = deltas(d, style, kind, text, place)
    told: Payload
    if kind == "refusal":
        empty: Payload = {"type": "refusal", "refusal": ""}
        part, told = {**empty, "refusal": text}, {"refusal": text}
        block: Block = Refusal(text)
    else:
        sources = d.some(2, lambda: _annotation(d, text))
        cited = [wire for wire, _ in sources]
        empty = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        probable = _probable(steps) if d.flag(6) else []
        part = {**empty, "text": text, "annotations": cited, "logprobs": probable}
        told = {"text": text, "logprobs": probable}
        steps += _sources(cited[: d.below(len(cited) + 1)] if style.gaps else cited, place)
        block = Text(text, tuple(source for _, source in sources))
    if style.dones:
        steps.append(Step({"type": f"response.{kind}.done", **place, **told}))
    if style.parts:
        begins = Step({"type": "response.content_part.added", **place, "part": empty})
        ends = [Step({"type": "response.content_part.done", **place, "part": part})]
        steps = [begins, *steps, *ends]
    return part, block, steps


def _probable(steps: list[Step]) -> list[Payload]:
    """Add log probabilities to a text's deltas; return all of them."""
    for number, step in enumerate(steps):
        step.payload["logprobs"] = [{"token": "a", "logprob": -0.5 * number}]
    return [logprob for step in steps for logprob in step.payload["logprobs"]]


def _sources(cited: list[Payload], place: Payload) -> list[Step]:
    type = "response.output_text.annotation.added"
    return [
        Step({"type": type, **place, "annotation_index": number, "annotation": wire})
        for number, wire in enumerate(cited)
    ]


# Reasoning


def _reasoning(d: Draws, number: int, style: ItemStyle) -> GeneratedItem:
    summaries, thoughts = [d.text(1, 6) for _ in range(d.below(4))], list[str]()
    if d.flag(4):
        thoughts = [d.text(1, 6)]
        summaries = d.pick(([], summaries))
    if summaries and style.parts and d.flag(5):
        summaries.append("")
    whole: Payload = {**id_of(style, "rs", number), "type": "reasoning", "summary": []}
    sealed, wire, issuer = _seal(d)
    steps = [added(whole, **({"encrypted_content": "begun"} if sealed and d.flag() else {}))]
    whole |= {"summary": [{"type": "summary_text", "text": text} for text in summaries]}
    if thoughts:
        whole["content"] = [{"type": "reasoning_text", "text": text} for text in thoughts]
    whole |= wire
    signed: dict[str, Any] = {"signature": sealed, "issuer": issuer} if sealed else {}
    if issuer == "openai":  # which binds it to the item, unless a tag says to which one
        signed["id"] = "rs_far" if "sn1-id" in wire["encrypted_content"] else whole.get("id")
    for place, text in enumerate(summaries):
        steps += _summary(d, style, {"summary_index": place}, text)
    at = len(steps)
    for place, text in enumerate(thoughts):
        steps += _thought(d, style, {"content_index": place}, text)
    steps.append(done(whole))
    first = Reasoning(_parts(summaries or thoughts), **signed)
    steps[0].begins.append((first, extra_of(whole)))
    if summaries and thoughts:  # which have a block of their own
        nth = next(step for step in steps[at:] if _says(step))
        nth.begins.append((Reasoning(_parts(thoughts)), None))
    return GeneratedItem(steps, whole, [begun for step in steps for begun in step.begins])


def _parts(texts: list[str]) -> tuple[str, ...]:
    """Return the texts without trailing empty ones, which no event shows."""
    while texts and not texts[-1]:
        texts = texts[:-1]
    return tuple(texts)


def _seal(d: Draws) -> tuple[str | None, Payload, str | None]:
    """Return a signature, the item's fields with it, and its issuer."""
    tagged = {"encrypted_content": tag_signature("c2ln", "google")}
    bound = {"encrypted_content": "sn1-id.openai.rs_far.gAAAAAy"}
    routed = {"encrypted_content": "c2ln", "format": "anthropic-claude-v1"}
    return d.pick(
        (
            (None, {}, None),
            ("gAAAAAx", {"encrypted_content": "gAAAAAx"}, "openai"),
            ("gAAAAAy", bound, "openai"),
            ("c2ln", tagged, "google"),
            ("c2ln", routed, "anthropic"),
        )
    )


def _summary(d: Draws, style: ItemStyle, place: Payload, text: str) -> list[Step]:
    kind, part = "response.reasoning_summary", {"type": "summary_text", "text": text}
    steps = deltas(d, style, "reasoning_summary_text", text, place, 1)
    if style.dones:
        steps.append(Step({"type": f"{kind}_text.done", **place, "text": text}))
    if style.parts:
        first = Step({"type": f"{kind}_part.added", **place, "part": {**part, "text": ""}})
        steps = [first, *steps, Step({"type": f"{kind}_part.done", **place, "part": part})]
    return steps


def _thought(d: Draws, style: ItemStyle, place: Payload, text: str) -> list[Step]:
    kind = d.pick(("reasoning_text", "reasoning_text", "reasoning"))
    part = {"type": "reasoning_text", "text": text}
    steps = deltas(d, style, kind, text, place, 1)
    if style.dones:
        steps.append(Step({"type": f"response.{kind}.done", **place, "text": text}))
    if style.parts:
        name = d.pick(("content_part", "reasoning_part"))
        first = Step({"type": f"response.{name}.added", **place, "part": {**part, "text": ""}})
        steps = [first, *steps, Step({"type": f"response.{name}.done", **place, "part": part})]
    return steps
