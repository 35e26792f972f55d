"""Text buffers, byte and character offsets, and reversible ids and signatures.

A list of pieces, like `io.StringIO`, has some fifty bytes of overhead for each piece, and a long
answer arrives in tens of thousands of pieces.

What a client sends back is restored, and given to the provider as the provider wrote it.
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import lru_cache
from typing import Any, NamedTuple

from streamnorm._core.json import clean, dumps, is_object, string_of
from streamnorm._core.limits import StoredBytes, text_bytes

# A small batch holds little memory; a large one makes joining cheaper for each piece.
BATCH = 32
LONG_CHARS = 256
"""Pieces of one batch, and the length beyond which a piece ends its batch."""
MAX_FRESH = 64
"""Texts of a larger batch, to which the delta run appends directly."""
FULL_LIST: list[str] = [""] * MAX_FRESH
"""A list of texts that has room for no further one: nobody appends to it."""
# A growing `bytearray` reserves an eighth of its size, so long text is stored as `bytes`.
_CHUNK_BYTES = 4096

_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))
_STEP = 1024  # bytes between two stored character counts

_ESCAPED = "snid_"
# The digit is the version of the tag: histories outlive releases.
_TAGGED = "sn1."
_TAGGED_WITH_ID = "sn1-id."
_CARRIED = "sn1-of."
_SEALED = "sn1-redacted."
_SEALED_WITH_ID = "sn1-redacted-id."
_BASE64_TAGGED = base64.b64encode(_TAGGED[:3].encode()).decode()  # of all prefixes above
_PACKED_REDACTED = "redacted_thinking"  # id of such a part of pydantic-ai
# Anthropic's pattern for ids of calls.  Mistral's, nine letters and digits, has no room for an
# escape.
_SAFE = re.compile(r"[A-Za-z0-9_-]+")
_UNSAFE_BYTE = re.compile(rb"[^A-Za-z0-9-]")
_ESCAPED_BYTE = re.compile(rb"_([0-9a-f]{2})")


def common_prefix_size(one: str | list[str], other: str | list[str]) -> int:
    """Return the length of the common prefix of two texts, or of two lists of texts."""
    low, high = 0, min(len(one), len(other))
    # Slices compare at the speed of memory, elements do not.
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class TextBuffer:
    """A growing text, which may contain lone surrogates.

    Args:
        text: Initial text.
        stored: Counter of its bytes.  A batch is counted as a whole: `append`, `text`, `unread`
            and `pack` raise `LimitExceeded` if it exceeds the bound.

    Attributes:
        fresh: The last pieces.  A caller that appends to the list directly must call `pack`, and
            must not fill it beyond `BATCH`.
        counted: Bytes of the text that `stored` has counted.
    """

    __slots__ = ("_chunks", "_packed", "_read", "_size", "_stored", "counted", "fresh")

    def __init__(self, text: str = "", stored: StoredBytes | None = None) -> None:
        self._size = 0  # packed characters
        self._stored = stored
        self.counted = 0
        self.fresh: list[str] = []
        self._chunks: list[bytes] = []  # packed text, in chunks of `_CHUNK_BYTES` or more
        self._packed = bytearray()  # packed text after the chunks
        self._read = (0, 0)  # chunks, and bytes after them, that `unread` has returned
        if text:
            self.append(text)

    def append(self, text: str) -> None:
        """Append a piece of text."""
        fresh = self.fresh
        fresh.append(text)
        if len(fresh) >= BATCH or len(text) > LONG_CHARS:
            self.pack()

    @property
    def size(self) -> int:
        """Number of characters."""
        return self._size + sum(map(len, self.fresh))

    def text(self) -> str:
        """Return the whole text."""
        self.pack()
        return b"".join([*self._chunks, self._packed]).decode("utf-8", "surrogatepass")

    def json(self) -> bytes:
        """Return the whole text as a JSON string.

        Raises:
            UnicodeEncodeError: The text has a lone surrogate.
        """
        self.pack()
        parts = [dumps(part.decode("utf-8", "surrogatepass"))[1:-1] for part in self._chunks]
        parts.append(dumps(self._packed.decode("utf-8", "surrogatepass"))[1:-1])
        return b'"%b"' % b"".join(parts)

    def release(self) -> None:
        """Subtract the size of the text, which is no longer needed, from the counter `stored`."""
        if self._stored is not None:
            self._stored.release(self.counted)
            self.counted = 0

    def unread(self) -> str:
        """Return the text appended since the last `unread`."""
        self.pack()
        chunks, start = self._read
        self._read = len(self._chunks), len(self._packed)
        unread = b"".join([*self._chunks[chunks:], self._packed])[start:]
        return unread.decode("utf-8", "surrogatepass")

    def renew(self) -> None:
        """Begin another list of pieces, and fill the one before, which is empty, for its users."""
        self.fresh.extend(FULL_LIST)
        self.fresh = []

    def pack(self) -> int:
        """Join and store the last pieces; return their size in UTF-8 bytes."""
        fresh = self.fresh
        if not fresh:
            return 0
        text = "".join(fresh)
        fresh.clear()
        self._size += len(text)
        data = text.encode("utf-8", "surrogatepass")
        if self._stored is not None:
            self._stored.add(len(data))
            self.counted += len(data)
        self._packed += data
        if len(self._packed) >= _CHUNK_BYTES:
            self._chunks.append(bytes(self._packed))
            self._packed = bytearray()
        return len(data)


class FreshTexts:
    """Short texts of a block that the delta run appends to a list, and that are counted together.

    Args:
        stored: Counter of what the decoder stores.

    Attributes:
        texts: The texts that are not counted yet.
    """

    __slots__ = ("_stored", "texts")

    def __init__(self, stored: StoredBytes) -> None:
        self.texts: list[str] = []
        self._stored = stored

    @property
    def open(self) -> list[str] | None:
        """The list, for up to `MAX_FRESH` texts of at most `LONG_CHARS`; None near the bound."""
        return None if self._stored.is_near else self.texts

    def take(self) -> str:
        """Count, remove and return the texts; near the bound, `close`."""
        text = "".join(self.texts)
        self.texts.clear()
        self._stored.left -= text_bytes(text)
        if self._stored.is_near:
            self.close()
        return text

    def close(self) -> None:
        """Accept no more texts in the list, from which all were taken."""
        self.texts.extend(FULL_LIST)
        self.texts = []


class TextOffsets:
    """Converter of byte offsets to character offsets in a block's growing text.

    While all text of the first block is ASCII, it is counted but not stored.

    Args:
        base: Bytes of text in earlier blocks.
        room: Counter of the text that all blocks of the stream store; offsets in text beyond
            its bound are not found.

    Attributes:
        fresh: The last texts.  Up to `MAX_FRESH` of at most `LONG_CHARS` may be appended directly.
    """

    def __init__(self, base: int = 0, *, room: StoredBytes) -> None:
        self.fresh: list[str] = []
        self._size = 0
        self._base = base
        self._room = room
        self._ascii_bytes = 0  # size of the ASCII start
        self._text = bytearray()  # the text after that start
        self._counts = [0]  # characters before each step of `_STEP` bytes

    @property
    def size(self) -> int:
        """Size of the text in bytes."""
        self._count_fresh()
        return self._size

    def release(self) -> None:
        """Discard the stored text: the block has no further citations."""
        self._room.release(len(self._text))
        self._text.clear()

    def append(self, text: str) -> None:
        """Append text; short texts are counted in batches."""
        fresh = self.fresh
        fresh.append(text)
        if len(fresh) >= MAX_FRESH or len(text) > LONG_CHARS:
            self._count_fresh()

    def _count_fresh(self) -> None:
        text = "".join(self.fresh)
        self.fresh.clear()
        if not self._base and not self._text and text.isascii():
            self._ascii_bytes += len(text)
            self._size += len(text)
            return
        data = text.encode("utf-8", "replace")
        self._size += len(data)
        size = min(len(data), self._room.left)
        self._room.reserve(size)
        self._text += data[:size]

    def find(self, start: int, end: int, words: str | None) -> tuple[int, int] | None:
        """Return the character offsets of a byte range; None if the range is outside the text.

        Google counts bytes either within the part (this block) or within the whole text.  The
        quoted text decides; without it, offsets refer to the whole text.

        Args:
            start: Index of the first byte.
            end: Index after the last byte.
            words: Quoted text of the range; None if the vendor sent none.
        """
        self._count_fresh()
        # In the first block both ways of counting agree.
        if not self._base:
            return self._characters(start, end)
        # Grounding counts within the part.
        if words is not None and self._is_at(start, end, words):
            return self._characters(start, end)
        # Recitations count within the whole answer.
        start, end = start - self._base, end - self._base
        if words is not None and not self._is_at(start, end, words):
            return None
        return self._characters(start, end)

    def _is_at(self, start: int, end: int, words: str) -> bool:
        if not 0 <= start <= end <= len(self._text):
            return False
        return bytes(self._text[start:end]) == words.encode("utf-8", "replace")

    def _characters(self, start: int, end: int) -> tuple[int, int] | None:
        if not 0 <= start <= end <= self._ascii_bytes + len(self._text):
            return None
        return self._count(start), self._count(end)

    def _count(self, position: int) -> int:
        """Return the number of characters that begin before a byte offset."""
        if position <= self._ascii_bytes:
            return position
        position -= self._ascii_bytes
        step = position // _STEP
        counts = self._counts
        while len(counts) <= step:
            at = (len(counts) - 1) * _STEP
            counts.append(counts[-1] + _count_characters(self._text[at : at + _STEP]))
        within = _count_characters(self._text[step * _STEP : position])
        return self._ascii_bytes + counts[step] + within


def _count_characters(data: bytearray) -> int:
    return len(data.translate(None, _CONTINUATION_BYTES))


class ByteOffsets:
    """Converter of character offsets to UTF-8 byte offsets, fastest in ascending order.

    Args:
        text: The text.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._is_ascii = text.isascii()
        self._last = (0, 0)

    def at(self, character: int) -> int:
        """Return the UTF-8 size of the text before a character."""
        if self._is_ascii:
            return character
        known, size = self._last if self._last[0] <= character else (0, 0)
        size += len(self._text[known:character].encode("utf-8", "replace"))
        self._last = (character, size)
        return size


@lru_cache(maxsize=64)  # a call and its result have the same id, and are close to each other
def escape_id(id: str) -> str:
    """Return an id with only letters, digits, `_` and `-`.

    Ids without other characters stay as they are, so the ids of most providers never change.
    Kimi's `functions.get_weather:0` must come back verbatim.
    """
    if _SAFE.fullmatch(id) and not id.startswith(_ESCAPED):
        return id
    escaped = _UNSAFE_BYTE.sub(lambda m: b"_%02x" % m[0][0], id.encode("utf-8", "replace"))
    return _ESCAPED + escaped.decode()


def unescape_id(id: str) -> str:
    """Undo `escape_id`; an id that was not escaped is returned unchanged."""
    if not id.startswith(_ESCAPED):
        return id
    escaped = id[len(_ESCAPED) :].encode("utf-8", "replace")
    plain = _ESCAPED_BYTE.sub(lambda m: bytes([int(m[1], 16)]), escaped).decode("utf-8", "replace")
    # A vendor's id may begin like ours.
    return plain if escape_id(plain) == id else id


def mint_id(*parts: object) -> str:
    """Return an id for a call without an id; equal arguments give equal ids."""
    return f"call_{digest_id(*parts)}"


def digest_id(*parts: object) -> str:
    """Return 24 hexadecimal digits in place of an id; equal arguments give equal ones."""
    # Derived, not random: a stream decoded twice, or replayed, has equal ids.
    from hashlib import blake2b  # few streams need it, and OpenSSL takes milliseconds to load

    text = "\0".join(map(str, parts))
    return blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()


class Signed(NamedTuple):
    """A signature or redacted reasoning, with its issuer.

    Attributes:
        signature: The opaque value.
        issuer: Vendor that can verify or read it; None if unknown.
        id: Id of the item that it is bound to; None if it is bound to none.
    """

    signature: str
    issuer: str | None = None
    id: str | None = None


def tag_signature(signature: str, issuer: str | None, id: str | None = None) -> str:
    """Return a signature with a tag that names its issuer and item."""
    return _write_tag(Signed(signature, issuer, id), _TAGGED, _TAGGED_WITH_ID)


def untag_signature(value: str) -> Signed | None:
    """Undo `tag_signature`; None if the value has no such tag."""
    return _read_tag(value, _TAGGED, _TAGGED_WITH_ID)


class SignatureCarrier(NamedTuple):
    """A signature that an empty reasoning block carries for another block.

    Attributes:
        signature: The signature.
        issuer: Vendor that can verify it; None if unknown.
        id: Id of the tool call that it signs; "" for the text before the carrier.
    """

    signature: str
    issuer: str | None
    id: str = ""


def write_carrier(carried: SignatureCarrier) -> str:
    """Return the signature of the reasoning block that carries `carried` for another block."""
    signature, issuer, id = carried
    return f"{_CARRIED}{_quote(id)}.{_quote(issuer or '')}.{signature}"


def read_carrier(value: str) -> SignatureCarrier | None:
    """Undo `write_carrier`; None if the value has no such tag."""
    if not value.startswith(_CARRIED):
        return None
    id, _, rest = value[len(_CARRIED) :].partition(".")
    issuer, _, signature = rest.partition(".")
    return SignatureCarrier(signature, _unquote(issuer) or None, _unquote(id))


def tag_redacted_reasoning(data: str, issuer: str | None, id: str | None = None) -> str:
    """Return redacted reasoning with a tag that names its issuer and item."""
    return _write_tag(Signed(data, issuer, id), _SEALED, _SEALED_WITH_ID)


def untag_redacted_reasoning(value: str) -> Signed | None:
    """Undo `tag_redacted_reasoning`; None if the value has no such tag."""
    return _read_tag(value, _SEALED, _SEALED_WITH_ID)


def unpack_signature(fields: dict[str, Any]) -> Signed | None:
    """Return the signature in fields of a pydantic-ai part, or None.

    `pydantic_ai/ui` of pydantic-ai 2.68 (read 2026-11-27) packs `id`, `signature`,
    `provider_name` and `provider_details` of a part.
    """
    details = fields.get("provider_details")
    signature = string_of(fields, "signature")
    if not signature and is_object(details):  # as its `models/google.py` stores it
        signature = string_of(details, "thought_signature")
    return None if string_of(fields, "id") == _PACKED_REDACTED else _unpack(fields, signature)


def unpack_redacted_reasoning(fields: dict[str, Any]) -> Signed | None:
    """Return the redacted reasoning in fields of a pydantic-ai part, or None."""
    if string_of(fields, "id") != _PACKED_REDACTED:
        return None
    return _unpack(fields, string_of(fields, "signature"))


def unpack_item_id(fields: dict[str, Any]) -> str | None:
    """Return the item's id in fields of a pydantic-ai part, or None.

    Only the first summary of an item has its signature, all have its id.
    """
    id = clean(string_of(fields, "id"))
    return None if id in ("", _PACKED_REDACTED) else id


def _unpack(fields: dict[str, Any], signature: str) -> Signed | None:
    if not signature:
        return None
    # Of one vendor's two APIs, the name has the API behind a hyphen.
    issuer = clean(string_of(fields, "provider_name")).partition("-")[0]
    return Signed(clean(signature), issuer or None, unpack_item_id(fields))


def unwrap_base64(value: str) -> str:
    """Return a tagged value from Base64 text; "" if the text has no tag of this library."""
    if not value.startswith(_BASE64_TAGGED):
        return ""
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


def _write_tag(signed: Signed, prefix: str, prefix_with_id: str) -> str:
    signature, issuer, id = signed
    if id:  # a tag of its own: values without an id stay readable by earlier versions
        return f"{prefix_with_id}{_quote(issuer or '')}.{_quote(id)}.{signature}"
    return f"{prefix}{_quote(issuer or '')}.{signature}"


def _read_tag(value: str, prefix: str, prefix_with_id: str) -> Signed | None:
    if value.startswith(prefix):
        issuer, _, signature = value[len(prefix) :].partition(".")
        return Signed(signature, _unquote(issuer) or None)
    if not value.startswith(prefix_with_id):
        return None
    issuer, _, rest = value[len(prefix_with_id) :].partition(".")
    id, _, signature = rest.partition(".")
    return Signed(signature, _unquote(issuer) or None, _unquote(id) or None)


def _quote(name: str) -> str:
    return name.replace("%", "%25").replace(".", "%2e")


def _unquote(name: str) -> str:
    return name.replace("%2e", ".").replace("%25", "%")
