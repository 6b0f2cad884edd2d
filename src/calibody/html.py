"""Tables for notebooks: what models, recordings, motions and results show of themselves there. Plain HTML that takes the notebook's own colours and fonts; every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

NUMBER = "text-align: right; font-variant-numeric: tabular-nums"
TEXT = "text-align: left"


def block(title: str, *parts: str) -> str:
    return f'<div class="calibody"><p><strong>{escape(title)}</strong></p>{"".join(parts)}</div>'


def sentences(words: Iterable[str]) -> str:
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in words)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Text on the left, the columns `numbers` on the right; empty where there are no rows."""
    style = [NUMBER if i in numbers else TEXT for i in range(len(headings))]
    head = "".join(f'<th style="{s}">{escape(h)}</th>' for h, s in zip(headings, style, strict=True))
    body = ["".join(f'<td style="{s}">{escape(cell)}</td>' for cell, s in zip(row, style, strict=True)) for row in rows]
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(f'<tr>{row}</tr>' for row in body)}</tbody></table>" if body else ""
