"""HTML and SVG as strings, escaped unless already markup: a value can never become a tag."""

from __future__ import annotations

from html import escape
from typing import Any

__all__ = ["Markup", "element", "join"]

VOID = frozenset({"br", "circle", "col", "hr", "line", "link", "meta", "path", "rect"})


class Markup(str):
    """Text that is markup already and is not escaped again."""

    __slots__ = ()


def join(*children: Any) -> Markup:
    """The children one after the other; whatever is not markup is escaped, None is left out.

    Examples
    --------
    >>> join("a < b", Markup("<br>"), None)
    'a &lt; b<br>'
    """
    return Markup("".join(c if isinstance(c, Markup) else escape(str(c)) for c in children if c is not None))


def element(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """An element. A trailing underscore of an attribute is dropped, others become hyphens; None and False leave it out.

    Examples
    --------
    >>> element("td", "<script>", class_="name")
    '<td class="name">&lt;script&gt;</td>'
    >>> element("line", x1=0, stroke_width=2)
    '<line x1="0" stroke-width="2"/>'
    """
    head = name
    for key, value in attributes.items():
        if value is not None and value is not False:
            head += f' {key.rstrip("_").replace("_", "-")}="{escape("" if value is True else str(value), quote=True)}"'
    if name in VOID:
        return Markup(f"<{head}/>" if not children else f"<{head}>{join(*children)}</{name}>")
    return Markup(f"<{head}>{join(*children)}</{name}>")
