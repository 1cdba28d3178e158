"""The planning methods and their options, as the library describes them."""

from __future__ import annotations

from typing import NamedTuple

from ._library import Option as _COption
from ._library import lib

__all__ = ["Method", "Option", "methods"]


class Option(NamedTuple):
    """An option of a method: `neap.plan(graph, budget, options={name: value})`."""

    name: str
    meaning: str
    type: str  # "integer", "real", "choice", or "list" of whole numbers
    least: float | None  # for numbers, and for those of a list
    most: float | None
    default: float | str
    choices: tuple[str, ...]  # for choices


class Method(NamedTuple):
    """A planning method: `neap.plan(graph, budget, method=name)`."""

    name: str
    summary: str
    source: str  # the paper
    needs_link: bool  # it moves values to host memory: neap.plan(..., link=...)
    takes_constraints: bool  # objectives, pins and plans to start from
    options: tuple[Option, ...]


def methods() -> list[Method]:
    """All methods of the library, in the order of `neap methods`."""
    return [_method(lib.neap_methods_at(i)) for i in range(lib.neap_methods_count())]


def _method(handle: int) -> Method:
    count = lib.neap_method_option_count(handle)
    return Method(
        name=lib.neap_method_name(handle).decode(),
        summary=lib.neap_method_summary(handle).decode(),
        source=(lib.neap_method_source(handle) or b"").decode(),
        needs_link=lib.neap_method_needs_link(handle),
        takes_constraints=lib.neap_method_takes_constraints(handle),
        options=tuple(_option(lib.neap_method_option_at(handle, i)[0]) for i in range(count)),
    )


def _option(option: _COption) -> Option:
    kind = ("integer", "real", "choice", "list")[option.type]
    choices = tuple(option.choices.decode().split("|")) if kind == "choice" else ()
    return Option(
        name=option.name.decode(),
        meaning=option.meaning.decode(),
        type=kind,
        least=None if kind == "choice" else option.least,
        most=None if kind == "choice" else option.most,
        default=choices[0] if kind == "choice" else "" if kind == "list" else option.default_value,
        choices=choices,
    )
