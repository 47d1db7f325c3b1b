"""LIBSVM/svmlight text: a line is a label and then ``index:value`` pairs, indices from 1 and ascending.

Blocks of whole lines are checked by one regular expression and parsed at once; only a line that is wrong is taken apart token
by token, to say what is wrong with it. Comments (``#``) and ``qid:`` tokens are skipped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np
import scipy.sparse as sp

from saddlery.data.base import Data, data_name, open_bytes, whole_numbers
from saddlery.errors import InputError

__all__ = ["SUFFIXES", "open_source", "read"]

SUFFIXES = (".svm", ".svmlight", ".libsvm")
BLOCK = 8 * 2**20
MARK = b"\xef\xbb\xbf"  # a byte order mark, as some editors write
PARSED = 40  # bytes that a byte of text may take while it is parsed

# Possessive quantifiers (*+, ++) never look back, so the check takes time linear in the block.
_NUMBER = rb"[+-]?+(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?+[0-9]++)?+"
_LINES = re.compile(rb"(?:[ \t]*+(?:" + _NUMBER + rb"(?:[ \t]++[0-9]{1,15}+:" + _NUMBER + rb")*+[ \t]*+)?+\r?+\n)*+")
_BLANK = re.compile(rb"^[ \t\r]*\n", re.MULTILINE)
_SPACES = bytes.maketrans(b":\n", b"  ")


class _Rows(NamedTuple):
    labels: np.ndarray
    counts: np.ndarray
    indices: np.ndarray
    values: np.ndarray


class _Numbers(dict[bytes, float]):
    """Tokens to numbers, each parsed once: indices and many values come again and again."""

    def __missing__(self, token: bytes) -> float:
        self[token] = number = float(token)
        return number


def read(path: Path, *, target: str | bool | None = None, n_features: int | None = None) -> Data:
    """Read svmlight text; see :func:`saddlery.read_data`."""
    _refuse_target(target)
    parts, line = [], 1
    with open_bytes(path) as handle:
        for block in _blocks(handle):
            rows = _parse_block(path, block, line, n_features)
            parts.append(rows)
            line += block.count(b"\n")
    if not sum(part.labels.size for part in parts):
        raise InputError(f"{path} holds no rows: give a file with at least one line")
    rows = _Rows(*(np.concatenate(pieces) for pieces in zip(*parts, strict=True)))
    return Data(_as_csr(rows, n_features), whole_numbers(rows.labels), None, data_name(path, SUFFIXES))


def _refuse_target(target: Any) -> None:
    if target:
        raise InputError(f"svmlight text has no named columns: leave out the target {target!r}, the label of each line is used")


def _as_csr(rows: _Rows, n_features: int | None) -> sp.csr_array:
    """The rows as CSR, with as many columns as the largest index says if their number is not given."""
    d = int(rows.indices.max(initial=0)) if n_features is None else n_features
    kind = np.int32 if max(d, rows.indices.size) < 2**31 else np.int64
    indptr = np.concatenate([[0], np.cumsum(rows.counts)]).astype(kind)
    X = sp.csr_array((rows.values, (rows.indices - 1).astype(kind), indptr), shape=(rows.labels.size, d))
    X.eliminate_zeros()
    return X


def open_source(path: Path, *, target: Any = None, n_features: int | None = None, room: int = 0) -> Any:
    """The file in chunks; see :mod:`saddlery.data.chunks`. A position is [bytes of text, lines] that were read."""
    from saddlery.data.chunks import Chunk, Source

    _refuse_target(target)
    size = max(path.stat().st_size, 1)

    def chunks(position: Any, room: int, rows: int | None) -> Iterator[Chunk]:
        at, line = position or (0, 0)
        with path.open("rb") as raw, open_bytes(path, raw) as handle:
            handle.seek(at)
            if at == 0 and handle.read(3) == MARK:
                at = 3
            handle.seek(at)
            for block in _blocks(handle, max(4096, min(BLOCK, room // PARSED)), False):
                first = 0
                while first < len(block):
                    last = _end_of_lines(block, first, rows)
                    piece = block[first:last]
                    parsed = _parse_block(path, piece, line + 1, n_features)
                    at, line, first = at + len(piece), line + piece.count(b"\n"), last
                    if parsed.labels.size:
                        yield Chunk(_as_csr(parsed, n_features), parsed.labels, [at, line], min(1.0, raw.tell() / size))

    return Source(data_name(path, SUFFIXES), True, chunks, None, "whole", n_features)


def _end_of_lines(block: bytes, first: int, lines: int | None) -> int:
    """Where so many lines from byte `first` on end; at the end of the block if None."""
    last = first if lines is not None else len(block)
    for _ in range(lines or 0):
        last = block.find(b"\n", last) + 1
        if last == 0 or last == len(block):
            return len(block)
    return last


def _blocks(handle: IO[bytes], size: int = BLOCK, marked: bool = True) -> Iterator[bytes]:
    """The file in blocks of whole lines, each with a line end."""
    rest = handle.read(3).removeprefix(MARK) if marked else b""
    while piece := handle.read(size):
        cut = piece.rfind(b"\n") + 1
        if cut:
            yield rest + piece[:cut]
            rest = piece[cut:]
        else:
            rest += piece
    if rest:
        yield rest + b"\n" * (not rest.endswith(b"\n"))


def _parse_block(path: Path, block: bytes, line: int, n_features: int | None) -> _Rows:
    """The rows of a block whose first line has the number `line`."""
    if b"#" in block:
        block = re.sub(rb"#[^\n]*", b"", block)
    if b"qid:" in block:
        block = re.sub(rb"(?<=[ \t])qid:[0-9]+(?=\s)", b"", block)
    good = _LINES.match(block).end()  # type: ignore[union-attr]  # it matches the empty string too
    rows = _parse_lines(path, block[:good], line, n_features)
    if good < len(block):
        _refuse(path, block, line, block.count(b"\n", 0, good), n_features)
    return rows


def _parse_lines(path: Path, block: bytes, line: int, n_features: int | None) -> _Rows:
    """The rows of a block whose syntax is right; checks what syntax cannot say."""
    tokens = block.translate(_SPACES).split()
    numbers = np.fromiter(map(_Numbers().__getitem__, tokens), np.float64, len(tokens))
    codes = np.frombuffer(_BLANK.sub(b"", block), np.uint8)
    colons = np.searchsorted(np.flatnonzero(codes == ord(":")), np.flatnonzero(codes == ord("\n")))
    counts = np.diff(colons, prepend=0)
    at = np.cumsum(1 + 2 * counts) - (1 + 2 * counts)  # the label's place among the numbers
    pairs = np.delete(numbers, at).reshape(-1, 2)
    rows = _Rows(numbers[at], counts, pairs[:, 0].astype(np.int64), pairs[:, 1].copy())
    falls = np.diff(rows.indices, prepend=0) <= 0
    falls[(colons - counts)[counts > 0]] = False  # the first index of a row has none before it
    wrong = falls | ~np.isfinite(rows.values) | (rows.indices < 1)
    if n_features is not None:
        wrong |= rows.indices > n_features
    bad = [np.searchsorted(colons, np.flatnonzero(wrong)[:1], side="right"), np.flatnonzero(~np.isfinite(rows.labels))[:1]]
    if any(part.size for part in bad):
        row = min(int(part[0]) for part in bad if part.size)
        filled = [number for number, text in enumerate(block.split(b"\n")) if text.strip()]
        _refuse(path, block, line, filled[row], n_features)
    return rows


def _refuse(path: Path, block: bytes, line: int, number: int, n_features: int | None) -> NoReturn:
    """Raise the error for line `number` (from 0) of a block whose first line is `line`."""
    text = block.split(b"\n", number + 1)[number]
    raise InputError(f"{path}:{line + number}: {explain(text, n_features)}")


def explain(text: bytes, n_features: int | None = None) -> str:
    """What is wrong with a line, in a sentence.

    Examples
    --------
    >>> explain(b"1 3:0.5 2:1")
    'index 2 comes after 3: sort the indices of the line'
    """
    label, *pairs = text.decode("utf-8", errors="replace").split()
    if not _is_number(label):
        return f"the label {_short(label)} is not a finite number: svmlight labels are numbers, encode others"
    last = 0
    for pair in pairs:
        index, colon, value = pair.partition(":")
        if not (colon and index.isascii() and index.removeprefix("-").isdigit()):
            return f"{_short(pair)} is not of the form index:value"
        if not _is_number(value):
            return f"the value {_short(value)} of index {index} is not a finite number: impute or remove it"
        if int(index) < 1:
            return f"index {index} is less than 1: svmlight indices start at 1"
        if len(index) > 15:
            return f"index {index} is too large"
        if int(index) == last:
            return f"index {index} comes twice: give each index once"
        if int(index) < last:
            return f"index {index} comes after {last}: sort the indices of the line"
        if n_features is not None and int(index) > n_features:
            return f"index {index} is larger than n_features = {n_features}"
        last = int(index)
    return "the line holds characters that are not svmlight text"


def _is_number(text: str) -> bool:
    return re.fullmatch(_NUMBER.decode(), text) is not None and math.isfinite(float(text))


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
