"""Compressed text in files: deflated with a preset dictionary, in base64."""

import base64
import binascii
import zlib
from pathlib import Path

from sknet.exceptions import LoadError
from sknet.persistence._words import WORDS

__all__ = ["compressed", "uncompressed"]


def compressed(text: str) -> str:
    """Return a text as base64 of what zlib makes of it."""
    code = zlib.compressobj(9, zdict=WORDS)
    return base64.b64encode(code.compress(text.encode()) + code.flush()).decode()


def uncompressed(path: Path, text: str, most: int) -> str:
    """Return a compressed text."""
    code = zlib.decompressobj(zdict=WORDS)
    try:
        found = code.decompress(binascii.a2b_base64(text, strict_mode=True), most + 1).decode("ascii")
    except (ValueError, zlib.error) as error:
        raise LoadError(f"{path} is damaged: its text cannot be uncompressed ({error})") from None
    if len(found) > most:
        raise LoadError(f"{path} is damaged: its compressed text is larger than {most} bytes")
    if not code.eof or code.unused_data:
        raise LoadError(f"{path} is damaged: its compressed text is incomplete, or more bytes follow")
    return found
