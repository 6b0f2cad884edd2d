"""Editing the text of an XML file without touching anything that was not asked for.

`expat` tells where every element starts and ends; a small scanner finds the attributes inside a start tag. Changes are collected in
`Edits` and applied to the original bytes in one pass, so white space, comments, the order of attributes, quotes and line ends stay as
the author wrote them. Positions are those of the text in UTF-8; the file's own encoding and byte order mark are put back at the end.

An `<include file="..."/>` is a document of its own. It is left alone unless something in it must change; then its content takes the
place of the `<include>`, because a file that others may share must not be edited.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from calibody.errors import FormatError
from calibody.streams import refuse_stream

_ATTRIBUTE = re.compile(rb"\s+([^\s=/>]+)\s*=\s*(\"[^\"]*\"|'[^']*')")
_START_TAG = re.compile(rb"(?:[^>\"']|\"[^\"]*\"|'[^']*')*>")
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_DECLARED = re.compile(rb"""^\s*<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# Deeper trees than any mechanism; the compiler's own recursion would end the process long before Python's.
_DEEPEST = 400


@dataclass(eq=False)
class Element:
    """One XML element: its tag, attributes and place in the text. Compared by identity."""

    tag: str
    attributes: dict[str, str]
    line: int
    start: int
    document: Document
    parent: Element | None
    children: list[Element] = field(default_factory=list)
    open_end: int = 0
    """Just after the `>` of the start tag."""
    close_start: int = 0
    """At the `<` of the end tag; equal to `open_end` for `<a/>`."""
    end: int = 0
    included: Document | None = None
    """The document an `<include>` stands for."""

    @property
    def empty(self) -> bool:
        """True for `<a/>`, which has no end tag."""
        return self.document.data[self.open_end - 2 : self.open_end] == b"/>"

    def expanded(self) -> Iterator[Element]:
        """The children, with includes replaced by what they stand for."""
        for child in self.children:
            if child.included is not None:
                yield from child.included.root.expanded()
            else:
                yield child

    def included_documents(self) -> list[Document]:
        """All documents that are included below this element, those included by them too."""
        out: list[Document] = []
        for child in self.children:
            if child.included is not None:
                out += [child.included, *child.included.root.included_documents()]
            out += child.included_documents()
        return out

    def find(self, *tags: str) -> Element | None:
        """The last child with one of the tags (in these formats a repeated element overrides)."""
        found = [c for c in self.expanded() if c.tag in tags]
        return found[-1] if found else None

    def first(self, tag: str) -> Element | None:
        return next((c for c in self.expanded() if c.tag == tag), None)

    def descendants(self) -> Iterator[Element]:
        for child in self.expanded():
            yield child
            yield from child.descendants()

    @property
    def where(self) -> str:
        return f"{self.document.label}:{self.line}"

    @property
    def text(self) -> str:
        """What stands between its tags, without comments and surrounding white space; of use where it has no children."""
        from xml.sax.saxutils import unescape  # it imports the whole of the network, which reading other formats does not wait for

        return unescape(_COMMENT.sub(b"", self.document.data[self.open_end : self.close_start]).decode("utf-8"), {"&quot;": '"', "&apos;": "'"}).strip()


@dataclass(eq=False)
class Document:
    """The text of one file (UTF-8, without byte order mark) and its elements."""

    label: str
    """The file's name for messages."""
    data: bytes
    encoding: str
    mark: bytes
    root: Element = field(init=False)

    @property
    def newline(self) -> bytes:
        return b"\r\n" if b"\r\n" in self.data else b"\n"

    def encoded(self, data: bytes) -> bytes:
        """Edited text in the encoding of the file."""
        return self.mark + (data if self.encoding == "utf-8" else data.decode("utf-8").encode(self.encoding))


def read_bytes(path: Path) -> bytes:
    """The file's content, or a sentence why there is none."""
    refuse_stream(path, "The model")
    try:
        return path.read_bytes()
    except IsADirectoryError:
        raise FormatError(f"{path} is a folder; give the path of a model file (.xml, .mjcf, .urdf or .osim).") from None
    except FileNotFoundError:
        raise FormatError(f"{path} does not exist; check the path (a relative one starts in the current folder).") from None
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error}); check the path and its permissions.") from None


def parse(content: bytes, label: str) -> Document:
    """The elements of an XML text with their places, or a sentence with the line at which it stops being XML."""
    if not content.strip():
        raise FormatError(f"{label} is empty; give an MJCF, URDF or OpenSim model.")
    data, encoding, mark = _utf8(content, label)
    document = Document(label, data, encoding, mark)
    _Parser(document).run()
    return document


def _utf8(content: bytes, label: str) -> tuple[bytes, str, bytes]:
    encoding, mark = "utf-8", b""
    for candidate, name in _BYTE_ORDER_MARKS:
        if content.startswith(candidate):
            encoding, mark = name, candidate
            break
    else:
        declared = _DECLARED.match(content[:200])
        encoding = declared.group(1).decode("ascii").lower() if declared else encoding
    try:
        text = content[len(mark) :].decode(encoding)
        if text.encode(encoding) != content[len(mark) :]:
            raise ValueError
    except (LookupError, ValueError):
        raise FormatError(f"{label} is not text in the encoding {encoding}; give an XML file saved as UTF-8.") from None
    if "\0" in text:
        raise FormatError(f"{label} contains zero bytes, so it is no XML text; give an MJCF, URDF or OpenSim model.")
    return text.encode("utf-8"), "utf-8" if encoding in ("utf8", "ascii", "us-ascii") else encoding, mark


class _Parser:
    """Builds the tree of a document from expat's events."""

    def __init__(self, document: Document) -> None:
        self.document, self.stack = document, []
        self.expat = expat.ParserCreate("utf-8")
        self.expat.StartElementHandler, self.expat.EndElementHandler = self.start, self.end
        self.expat.EntityDeclHandler = self.entity

    def run(self) -> None:
        try:
            self.expat.Parse(self.document.data, True)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code) or "not well formed"
            raise FormatError(f"{self.document.label}:{error.lineno}: this is not well-formed XML ({reason}); correct the text there.") from None

    def entity(self, *_: object) -> None:
        raise FormatError(f"{self.document.label}:{self.expat.CurrentLineNumber}: the file declares XML entities; write their text out instead.")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        begin = self.expat.CurrentByteIndex
        parent: Element | None = self.stack[-1] if self.stack else None
        element = Element(tag, attributes, self.expat.CurrentLineNumber, begin, self.document, parent)
        element.open_end = _tag_end(self.document.data, begin)
        if len(self.stack) >= _DEEPEST:
            raise FormatError(f"{element.where}: elements are nested more than {_DEEPEST} deep; flatten the file.")
        if parent is None:
            self.document.root = element
        else:
            parent.children.append(element)
        self.stack.append(element)

    def end(self, _: str) -> None:
        element = self.stack.pop()
        if element.empty:
            element.close_start = element.end = element.open_end
        else:
            element.close_start = self.expat.CurrentByteIndex
            element.end = self.document.data.index(b">", element.close_start) + 1


def _tag_end(data: bytes, begin: int) -> int:
    """Just after the `>` that ends the start tag at `begin`; a `>` inside quotes does not count."""
    match = _START_TAG.match(data, begin)
    return match.end() if match else len(data)


@dataclass
class Edits:
    """Changes to collect: attributes to set (None removes), tags to rename, texts to write, children to insert."""

    attributes: dict[Element, dict[str, str | None]] = field(default_factory=dict)
    tags: dict[Element, str] = field(default_factory=dict)
    inserted: dict[Element, list[str]] = field(default_factory=dict)
    removed: set[Element] = field(default_factory=set)
    texts: dict[Element, str] = field(default_factory=dict)

    def set(self, element: Element, **values: str | None) -> None:
        """Set attributes (a trailing underscore in a name is dropped, for `class_`), or remove those given as None."""
        self.attributes.setdefault(element, {}).update({k.rstrip("_"): v for k, v in values.items()})

    def rename(self, element: Element, tag: str) -> None:
        self.tags[element] = tag

    def write(self, element: Element, text: str) -> None:
        """Put a text between the tags of an element without children."""
        self.texts[element] = text

    def insert(self, parent: Element, xml: str) -> None:
        """Insert a child as the first one of `parent`."""
        self.inserted.setdefault(parent, []).append(xml)

    def remove(self, element: Element) -> None:
        self.removed.add(element)

    @property
    def touched(self) -> set[Document]:
        return {e.document for table in (self.attributes, self.tags, self.inserted, self.removed, self.texts) for e in table}

    def get(self, element: Element, name: str) -> str | None:
        """The attribute as it will be."""
        return self.attributes.get(element, {}).get(name, element.attributes.get(name))


def render(document: Document, edits: Edits, inline: Callable[[Document], bool]) -> bytes:
    """The document's text with the edits; an include for which `inline` holds is replaced by the content of its document."""
    changes: list[tuple[int, int, bytes]] = []
    stack = [document.root]
    while stack:
        element = stack.pop()
        if element.included is not None and inline(element.included):
            changes.append((element.start, element.end, _inner(element.included, edits, inline)))
            continue
        if element in edits.removed:
            changes.append((element.start, element.end, b""))
            continue
        changes += _start_tag(element, edits)
        changes += _insertions(element, edits)
        changes += _written(element, edits)
        stack.extend(element.children)
    out, position = [], 0
    for start, end, text in sorted(changes, key=lambda c: (c[0], c[1])):
        out += [document.data[position:start], text]
        position = end
    return b"".join([*out, document.data[position:]])


def _inner(document: Document, edits: Edits, inline: Callable[[Document], bool]) -> bytes:
    """What is between the start and the end tag of an included document's root."""
    text = render(document, edits, inline)
    root = parse(text, document.label).root
    return b"" if root.empty else text[root.open_end : root.close_start].strip()


def _start_tag(element: Element, edits: Edits) -> list[tuple[int, int, bytes]]:
    changes: list[tuple[int, int, bytes]] = []
    data = element.document.data
    if element in edits.tags:
        old, new = element.tag.encode(), edits.tags[element].encode()
        changes.append((element.start + 1, element.start + 1 + len(old), new))
        if not element.empty:
            changes.append((element.close_start + 2, element.close_start + 2 + len(old), new))
    wanted = dict(edits.attributes.get(element, {}))
    last = element.start + 1 + len(element.tag.encode())
    for match in _ATTRIBUTE.finditer(data, last, element.open_end):
        name = match.group(1).decode()
        last = match.end()
        if name in wanted:
            value = wanted.pop(name)
            if value is None:
                changes.append((match.start(), match.end(), b""))
            elif value != element.attributes.get(name):
                changes.append((match.start(2) + 1, match.end(2) - 1, _quoted(_merged(element.attributes[name], value))))
    added = b"".join(b' %s="%s"' % (name.encode(), _quoted(value)) for name, value in wanted.items() if value is not None)
    if added:
        changes.append((last, last, added))
    return changes


def _merged(old: str, new: str) -> str:
    """A list of numbers in which those that did not change keep the author's words and spacing."""
    before, after = old.split(), new.split()
    if len(before) != len(after):
        return new
    words = iter([a if _equal(a, b) else b for a, b in zip(before, after, strict=True)])
    return re.sub(r"\S+", lambda _: next(words), old)


def _equal(a: str, b: str) -> bool:
    try:
        return float(a) == float(b)
    except ValueError:
        return a == b


def _quoted(value: str) -> bytes:
    from xml.sax.saxutils import escape  # it imports the whole of the network, which reading does not wait for

    return escape(value, {'"': "&quot;", "'": "&apos;"}).encode()


def _insertions(element: Element, edits: Edits) -> list[tuple[int, int, bytes]]:
    if element not in edits.inserted:
        return []
    newline = element.document.newline
    own = _indent(element)
    inner = _indent(element.children[0]) if element.children else own + b"  "
    text = b"".join(newline + inner + xml.encode() for xml in edits.inserted[element])
    if not element.empty:
        return [(element.open_end, element.open_end, text)]
    tag = edits.tags.get(element, element.tag).encode()
    return [(element.open_end - 2, element.open_end, b">" + text + newline + own + b"</" + tag + b">")]


def _written(element: Element, edits: Edits) -> list[tuple[int, int, bytes]]:
    if element not in edits.texts:
        return []
    from xml.sax.saxutils import escape  # as in `_quoted`

    tag = element.tag.encode()
    if element.empty:
        return [(element.open_end - 2, element.open_end, b">" + escape(edits.texts[element]).encode() + b"</" + tag + b">")]
    inside = element.document.data[element.open_end : element.close_start].decode("utf-8")
    return [(element.open_end, element.close_start, escape(_merged(inside, edits.texts[element])).encode())]


def _indent(element: Element) -> bytes:
    """The white space before an element on its line."""
    data = element.document.data
    line = data.rfind(b"\n", 0, element.start) + 1
    before = data[line : element.start]
    return before[: len(before) - len(before.lstrip())]
