"""Chat messages of web pages (AG-UI, AI SDK): the code that both dialects share.

A page stores the messages of a chat in the form in which it sends them.  It shows them and sends
them back, so that they hold all blocks, and their signatures.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, TypeVar

from msgspec import structs

from streamnorm._core.blocks import (
    Citation,
    InputBlock,
    Reasoning,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.bodies.request import InputMessage, Role, drop_foreign_fields
from streamnorm._core.errors import EncodeError
from streamnorm._core.json import (
    clean_tree,
    compact,
    lone_surrogate_path,
)
from streamnorm._core.losses import Losses
from streamnorm._core.losses.call_results import add_results
from streamnorm._core.messages import Message
from streamnorm._core.tools import qualified_name

HistoryItem: TypeAlias = InputMessage | Message
"""A message of a history: one of a request, or an answer as it was received."""

B = TypeVar("B", bound=InputBlock)


class ChatMessage(NamedTuple):
    """One message of the chat on a web page, reduced to the blocks that the page can show.

    Attributes:
        role: Role of the speaker.
        blocks: The blocks: no refusals, no cache marks, no fields of other dialects.
        name: Name of the participant.
        answer: The answer that the message is; None for a message of a request.
    """

    role: Role
    blocks: tuple[InputBlock, ...]
    name: str | None
    answer: Message | None


def read_history(
    history: Iterable[HistoryItem], dialect: str, losses: Losses
) -> Iterator[ChatMessage]:
    """Yield the messages of a history, reduced to what the chat of a web page can show.

    Args:
        history: The messages, oldest first.
        dialect: Name of the page's dialect.
        losses: Counter of what no message of a page holds.

    Raises:
        EncodeError: A call has no name, without which a page shows no call.
    """
    ids = CallIds()
    for position, item in enumerate(history):
        _check_names(item, f"messages[{position}]")
        if isinstance(item, Message) or item.role == "assistant":
            ids.begin_answer()
        named = [_name_call(block, ids, losses) for block in item.blocks]
        blocks = tuple([_reduce(block, dialect, losses) for block in add_results(named)])
        for before, block in pairwise(blocks):
            if _is_of_item(before, block):
                losses.add("reasoning_merged", "messages", "read as one")
        if isinstance(item, Message):
            yield ChatMessage("assistant", blocks, None, item)
            continue
        if item.extra is not None:
            drop_foreign_fields(item, dialect, losses, "messages")
        yield ChatMessage(item.role, blocks, item.name, None)


def _check_names(item: HistoryItem, path: str) -> None:
    for position, block in enumerate(item.blocks):
        if isinstance(block, ToolCall | ServerToolCall) and not block.name:
            problem = "a call without a name, expected one"
            raise EncodeError(problem, path=f"{path}.blocks[{position}]")


def _name_call(block: InputBlock, ids: CallIds, losses: Losses) -> InputBlock:
    """Return a block with a call id that is unique on the page; count a changed id as a loss."""
    named = ids.rename(block)
    if named is not block and isinstance(block, ToolCall | ServerToolCall):
        losses.add("call_id", "messages", "written with an id of its own")
    return named


def _reduce(block: InputBlock, dialect: str, losses: Losses) -> InputBlock:
    if block.cache is not None:
        losses.add("cache_mark_dropped", "messages", "dropped")
        block = structs.replace(block, cache=None)
    if block.extra is not None:
        block = drop_foreign_fields(block, dialect, losses, "messages")
    if isinstance(block, Refusal):
        losses.add("refusal_as_text", "messages", "written as text")
        return Text(block.text)
    if isinstance(block, ToolCall) and block.namespace is not None:
        losses.add("namespace_flattened", "messages", "written before the name")
        name = qualified_name(block.name, block.namespace)
        return structs.replace(block, name=name, namespace=None)
    return block


def client_calls_of(messages: Sequence[InputMessage]) -> dict[str, ToolCall]:
    """Map the ids of the calls in a chat that no provider executes to the calls."""
    blocks = (block for message in messages for block in message.blocks)
    return {block.id: block for block in blocks if isinstance(block, ToolCall)}


class CallIds:
    """The tool call ids in a conversation of the client, each assigned to only one call.

    Providers number the calls of each answer from 0, as Kimi K2 does those of a tool.  AG-UI's
    clients append to the call of an id that comes again, and `useChat` gives a result to all
    calls of its id.  Claude Code leaves a call out of its history whose id is there, with its
    result: the model, which never sees it, calls again without end
    (NVIDIA-NeMo/Switchyard#502; Kimi K3 at Fireworks and vLLM, vllm-project/vllm#50295).

    Args:
        used: Ids of the calls before.
        losses: Counter of `duplicate_id`; None counts none.
    """

    def __init__(self, used: Iterable[str] = (), losses: Losses | None = None) -> None:
        self._used = set(used)
        self._losses = losses
        self._numbers: dict[str, int] = {}  # the last that was added to an id
        self._answer: set[str] = set()  # ids that calls of the current answer came with
        self._unanswered: dict[str, deque[str]] = {}  # ids given, by the id that calls came with

    def begin_answer(self) -> None:
        """Begin the next answer: a repeated id from now on refers to calls of this answer."""
        self._answer.clear()

    def rename(self, block: B) -> B:
        """Return a call or result with the id that the call has on the page."""
        if isinstance(block, ToolCall | ServerToolCall):
            given = self._give(block.id)
            if given == block.id:
                return block
            if self._losses is not None:
                self._losses.add("duplicate_id", "tool call", "written with an id of its own")
            return structs.replace(block, id=given)
        if isinstance(block, ToolResult | ServerToolResult):
            given = self._find_given_id(block.tool_call_id)
            same = given == block.tool_call_id
            return block if same else structs.replace(block, tool_call_id=given)
        return block

    def _give(self, id: str) -> str:
        # Neither client finds a call without an id again.
        stem = id or "call"
        given, number = stem, self._numbers.get(stem, 1)
        while given in self._used:
            number += 1
            given = f"{stem}-{number}"
        self._used.add(given)
        self._numbers[stem] = number
        if id not in self._answer:
            self._answer.add(id)
            self._unanswered[id] = deque()
        self._unanswered[id].append(given)
        return given

    def _find_given_id(self, id: str) -> str:
        """Return the page's id of the first unanswered call whose original id is `id`."""
        given = self._unanswered.get(id)
        if given is None:
            # A page is shown a call of its id before it.
            self._used.add(id)
            return id or self._give(id)
        return given.popleft() if len(given) > 1 else given[0]


class AnswerBlocks:
    """The blocks of one answer, collected from a message that a web page sent.

    Citations and summaries are joined at the end, so that any number takes linear time.
    """

    def __init__(self) -> None:
        self._blocks: list[InputBlock] = []
        self._last_text: tuple[int, Text] | None = None  # with its position
        self._citations: dict[int, list[Citation]] = {}  # of a text and behind it, by its position
        self._summaries: dict[int, list[str]] = {}  # by the position of their reasoning
        self._is_continued = False  # whether the last reasoning has a further part

    def append(self, block: InputBlock) -> None:
        """Append a block."""
        if isinstance(block, Text):
            self._last_text = len(self._blocks), block
        self._blocks.append(block)

    def cite(self, citation: Citation) -> bool:
        """Add a citation to the last text block; return False if there is no text block."""
        if self._last_text is None:
            return False
        position, text = self._last_text
        self._citations.setdefault(position, [*text.citations]).append(citation)
        return True

    def append_reasoning(
        self,
        block: Reasoning,
        *,
        is_continued: bool = False,
        is_part: bool = False,
        may_join_unnamed: bool = False,
    ) -> None:
        """Append reasoning, or merge it into the preceding reasoning of the same reasoning item.

        pydantic-ai signs the first summary of an item, `@ai-sdk/openai` all, and our own stream,
        which learns the signature and the id last, the last one.

        Args:
            block: The reasoning.
            is_continued: Whether its page marks the reasoning behind it as a further part.
            is_part: Whether its page shows it to be a further part of the reasoning before it.
            may_join_unnamed: Whether reasoning without signature and id before it is a part of
                its item.
        """
        last = len(self._blocks) - 1
        before = self._blocks[last] if self._blocks else None
        is_part, self._is_continued = is_part or self._is_continued, is_continued
        if isinstance(before, Reasoning):
            is_part = is_part or (may_join_unnamed and _is_unnamed(before))
            is_part = (is_part and _share_signature(before, block)) or _is_of_item(before, block)
        if not isinstance(before, Reasoning) or not is_part:
            self._blocks.append(block)
            return
        self._summaries.setdefault(last, [*before.parts]).extend(block.parts)
        if block.signature is None:
            signature, issuer, id = before.signature, before.issuer, block.id or before.id
            block = structs.replace(block, signature=signature, issuer=issuer, id=id)
        self._blocks[last] = block

    def finish(self) -> tuple[InputBlock, ...]:
        """Return all blocks of the answer, with their citations and reasoning summaries."""
        blocks = [*self._blocks]
        for position, citations in self._citations.items():
            blocks[position] = structs.replace(blocks[position], citations=tuple(citations))
        for position, parts in self._summaries.items():
            blocks[position] = structs.replace(blocks[position], parts=tuple(parts))
        return tuple(blocks)


def _is_of_item(before: InputBlock, summary: InputBlock) -> bool:
    """Return whether a reasoning block belongs to the item of the reasoning block before it."""
    if not isinstance(before, Reasoning) or not isinstance(summary, Reasoning):
        return False
    if summary.id is None or summary.id != before.id or before.extra is not None:
        return False
    return _share_signature(before, summary)


def _share_signature(before: Reasoning, summary: Reasoning) -> bool:
    # A block has one signature, and neither of two may be lost.
    return before.signature is None or summary.signature in (None, before.signature)


def _is_unnamed(reasoning: Reasoning) -> bool:
    """Return whether no field of a reasoning block shows where it is from."""
    named = reasoning.signature, reasoning.id, reasoning.extra
    return all(each is None for each in named)


def clean_messages(messages: list[dict[str, Any]], losses: Losses) -> list[dict[str, Any]]:
    """Return the messages of a web page with U+FFFD in place of lone surrogates.

    Args:
        messages: The messages.
        losses: Counter of what they lose.
    """
    if lone_surrogate_path(messages) is None:
        return messages
    losses.add("half_character", "messages", "written as U+FFFD")
    cleaned: list[dict[str, Any]] = clean_tree(messages)
    return cleaned


def result_text(result: ToolResult, losses: Losses) -> str:
    """Return the text of a result; count all other content as lost."""
    texts = [block.text for block in result.content if isinstance(block, Text)]
    for block in result.content:
        if not isinstance(block, Text):
            losses.add("result_media", str(block.__struct_config__.tag), "dropped")
    return "".join(texts)


def wrap_arguments(call: ToolCall, losses: Losses) -> str:
    """Return the arguments of a call as JSON; wrap the free text of a custom tool."""
    if call.kind == "function":
        return call.arguments
    losses.add("custom_tool_wrapped", "messages", "written as a function of one string")
    return compact({"input": call.arguments})
