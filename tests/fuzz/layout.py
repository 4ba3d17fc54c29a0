"""A safe file in parts, and together again, with the checksum that it should have."""

import base64
import hashlib
import json
import zlib
from typing import Any

from sknet.persistence._container import WORDS

BEGINS = b'{"__metadata__":{"sha256":"'
SUM = slice(8 + len(BEGINS), 8 + len(BEGINS) + 64)


def signed(raw: bytes) -> bytes:
    """Return a file with the checksum that it should have."""
    digest = hashlib.sha256(raw[: SUM.start] + raw[SUM.stop :]).hexdigest().encode()
    return raw[: SUM.start] + digest + raw[SUM.stop :]


def apart(raw: bytes) -> tuple[dict[str, Any], Any, bytes]:
    """Return the header, the document in it, and the arrays."""
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    metadata = header["__metadata__"]
    if "content" in metadata:
        return header, json.loads(metadata["content"]), raw[8 + length :]
    code = zlib.decompressobj(zdict=WORDS)
    return header, json.loads(code.decompress(base64.b64decode(metadata["compressed"]))), raw[8 + length :]


def deflated(text: bytes, words: bytes = WORDS) -> str:
    code = zlib.compressobj(9, zdict=words) if words else zlib.compressobj(9)
    return base64.b64encode(code.compress(text) + code.flush()).decode()


def together(header: Any, document: Any, arrays: bytes) -> bytes:
    """Return the file of these parts."""
    return with_text(header, json.dumps(document), arrays)


def with_text(header: Any, content: str, arrays: bytes) -> bytes:
    """Return the file with the text of a document, compressed if it was."""
    is_plain = "compressed" not in header["__metadata__"]
    written = {"content": content} if is_plain else {"compressed": deflated(content.encode())}
    return with_metadata(header, {**header["__metadata__"], **written}, arrays)


def with_metadata(header: Any, metadata: Any, arrays: bytes) -> bytes:
    places = {k: v for k, v in header.items() if k != "__metadata__"}
    return with_header(json.dumps({"__metadata__": metadata, **places}), arrays)


def with_header(text: str, arrays: bytes) -> bytes:
    text = text.replace('{"__metadata__": {"sha256": "', BEGINS.decode(), 1)
    text += " " * (-len(text) % 8)
    return signed(len(text).to_bytes(8, "little") + text.encode() + arrays)
