"""Training graphs: the ops of one training step, and the values they read and write."""

from __future__ import annotations

import ctypes
import json
import os
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

from . import _library as c
from . import errors
from ._library import NONE, call, lib, path_bytes, take_text
from ._networkx import graph_dict_of
from .text import format_bytes, format_seconds

__all__ = ["Floor", "Graph", "MemoryParts", "Op", "Value"]


class Value(NamedTuple):
    """A tensor of the graph."""

    id: int
    name: str
    kind: str  # "input", "parameter", "activation", "gradient" or another word
    bytes: int  # that it owns: 0 for a view
    view_of: int | None  # the value whose storage it shares


class Op(NamedTuple):
    """An operation of the graph. `inputs` and `outputs` are ids of values."""

    id: int
    name: str
    type: str
    is_backward: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    time: float  # seconds, of variant 0
    workspace: int  # bytes of scratch while it runs, of variant 0


class Floor(NamedTuple):
    """The memory below which there is no plan, and the op that needs it."""

    bytes: int
    op: str | None  # None: the outputs at the end need it


class MemoryParts(NamedTuple):
    """Bytes in memory at a peak, by kind; they add up to it."""

    parameters: int
    gradients: int  # of parameters
    state: int  # of the optimizer
    activations: int  # all other values that ops make
    workspace: int
    other: int  # other inputs, and the fixed bytes


class Graph:
    """One training step, forward and backward, as ops in an execution order.

    A graph is made from a file, from JSON, or from a networkx graph:

        graph = neap.Graph.read("graph.json")
        graph = neap.Graph.from_dict({"neap": "graph", "version": 1, "name": "tiny", ...})
        plan = neap.plan(graph, "50%")

    docs/formats.md describes the fields of the file. Ids are zero-based positions: op 0 runs first.
    A graph does not change after it was made, and several threads may use it.
    """

    def __init__(self, handle: int) -> None:
        """For the package itself: takes over a neap_graph."""
        self._handle: int | None = handle
        self._low_plans: dict[str, Any] = {}  # plans with the least known peak, for neap.plan

    def __del__(self) -> None:
        handle, self._handle = getattr(self, "_handle", None), None
        if handle and lib is not None:
            lib.neap_graph_destroy(handle)

    # ---- Making one ----

    @classmethod
    def from_json(cls, text: str | bytes, source: str = "graph") -> Graph:
        """Reads a graph from JSON text. Messages about errors name `source`."""
        data = text.encode(errors="surrogatepass") if isinstance(text, str) else bytes(text)
        handle = ctypes.c_void_p()
        name = source.encode(errors="replace").replace(b"\0", b"?")
        call(lib.neap_graph_read_text, None, data, len(data), name, ctypes.byref(handle))
        return cls(_owned(handle))

    @classmethod
    def from_dict(cls, graph: Mapping[str, Any]) -> Graph:
        """Makes a graph from a dict with the fields of a graph file."""
        try:
            text = json.dumps(graph, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise errors.InvalidError(f"this dict cannot be a graph: {error}") from None
        try:
            return cls.from_json(text)
        except errors.InvalidError as error:
            raise errors.InvalidError(_with_excerpt(str(error), text)) from None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Graph:
        """Reads a graph file, as `neap graph -o` and `neap.torch.capture` write them."""
        handle = ctypes.c_void_p()
        call(lib.neap_graph_read_file, None, path_bytes(path), ctypes.byref(handle))
        return cls(_owned(handle))

    @classmethod
    def from_networkx(cls, graph: Any, name: str = "networkx") -> Graph:
        """Makes a graph from a networkx DiGraph: a node is an op with one output.

        An edge u -> v means that v reads the output of u. Attributes of a node:

            bytes       size of its output; required
            time        seconds it takes; default 1
            workspace   bytes of scratch while it runs; default 0
            pass        "forward" (default) or "backward"
            kind        "input" or "parameter": not an op but a value that is always there;
                        such a node has no predecessors. Default: an op
            output      True: its output must be in memory at the end. Default: the nodes that
                        nothing reads
            type, random, flops, bytes_moved, variants: as in a graph file

        Other attributes are ignored. The natural order is the order of insertion where the edges
        allow it. Raises InvalidError for a cycle, an undirected graph or a wrong attribute.
        """
        return cls.from_dict(graph_dict_of(graph, name))

    # ---- Writing it ----

    def to_json(self) -> str:
        """The text of the graph file."""
        return take_text(lib.neap_graph_write_text, self._handle, None)

    def to_dict(self) -> dict[str, Any]:
        """The fields of the graph file. Changing the dict does not change the graph."""
        return json.loads(self.to_json())

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the graph file, which the command `neap` reads."""
        call(lib.neap_graph_write_file, self._handle, path_bytes(path))

    # ---- What it contains ----

    @property
    def name(self) -> str:
        """The name of the graph."""
        return lib.neap_graph_name(self._handle).decode()

    @property
    def op_count(self) -> int:
        """The number of ops."""
        return lib.neap_graph_op_count(self._handle)

    @property
    def value_count(self) -> int:
        """The number of values."""
        return lib.neap_graph_value_count(self._handle)

    @cached_property
    def ops(self) -> tuple[Op, ...]:
        """The ops in natural order."""
        return self._tables[0]

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """The values by id."""
        return self._tables[1]

    @cached_property
    def outputs(self) -> tuple[int, ...]:
        """The ids of the values that must be in memory at the end."""
        return self._tables[2]

    @cached_property
    def _tables(self) -> tuple[tuple[Op, ...], tuple[Value, ...], tuple[int, ...]]:
        fields = self.to_dict()
        ops = tuple(_op(i, op) for i, op in enumerate(fields["ops"]))
        values = tuple(_value(i, value) for i, value in enumerate(fields["values"]))
        return ops, values, tuple(fields["outputs"])

    def op_name(self, op: int) -> str:
        """The name of an op, by id."""
        if not 0 <= op < self.op_count:
            raise IndexError(f"op {op} of {self.op_count}")
        return lib.neap_graph_op(self._handle, op)[0].decode()

    @cached_property
    def out_of_place(self) -> Graph:
        """The graph without marks of ops that can run in place; itself if it has none."""
        marked = lib.neap_graph_can_run_in_place
        if not any(marked(self._handle, op) for op in range(self.op_count)):
            return self
        copy = Graph.from_json(self.to_json())
        lib.neap_graph_clear_in_place(copy._handle)
        return copy

    # ---- What it costs without a plan ----

    @cached_property
    def natural_peak(self) -> int:
        """Bytes of the step without a plan: every op once and out of place, updates last, all state on
        the device, each value freed after its last use.

        Budgets in percent are of this.
        """
        peak = ctypes.c_int64()
        call(lib.neap_natural_peak, None, self._handle, ctypes.byref(peak))
        return peak.value

    @cached_property
    def natural_peak_parts(self) -> MemoryParts:
        """What the natural peak is made of."""
        plan = self._natural_plan()
        try:
            return parts_of(self, plan)
        finally:
            lib.neap_plan_destroy(plan)

    def _natural_plan(self) -> int:
        handle = ctypes.c_void_p()
        call(lib.neap_natural_plan, None, self._handle, ctypes.byref(handle))
        return _owned(handle)

    def natural_arena(self, alignment: int = 1) -> int:
        """The same with every address a multiple of `alignment`."""
        if alignment == 1:
            return self.natural_peak
        options, plan = c.LayoutOptions(), self._natural_plan()
        try:
            lib.neap_layout_options_init(ctypes.byref(options))
            options.alignment = alignment
            call(lib.neap_layout_assign, None, self._handle, plan, ctypes.byref(options))
            return lib.neap_plan_arena_bytes(plan)
        finally:
            lib.neap_plan_destroy(plan)

    @cached_property
    def floor(self) -> Floor:
        """Proven: no plan with all state on the device needs less memory. With the op that needs it."""
        op = ctypes.c_uint32()
        size = lib.neap_graph_floor_bytes(self._handle, ctypes.byref(op))
        return Floor(size, None if op.value == NONE else self.op_name(op.value))

    @property
    def base_bytes(self) -> int:
        """Bytes in use before the first op runs: the inputs and the fixed bytes."""
        return lib.neap_graph_base_bytes(self._handle)

    @property
    def base_time(self) -> float:
        """Seconds of one run of every op with variant 0."""
        return lib.neap_graph_seconds(self._handle, lib.neap_graph_base_ticks(self._handle))

    def __repr__(self) -> str:
        return (
            f"<neap.Graph {self.name!r}: {self.op_count} ops, {self.value_count} values, "
            f"{format_bytes(self.natural_peak)} and {format_seconds(self.base_time)} "
            f"without a plan>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Graph.from_json, (self.to_json(),)


def parts_of(graph: Graph, plan: int | None) -> MemoryParts:
    """What the peak of a neap_plan is made of."""
    parts = c.MemoryParts()
    call(lib.neap_plan_peak_parts, None, graph._handle, plan, ctypes.byref(parts))
    return MemoryParts(*(getattr(parts, name) for name in MemoryParts._fields))


def _owned(handle: ctypes.c_void_p) -> int:
    if handle.value is None:
        raise errors.InternalError("the library returned no object")
    return handle.value


def _with_excerpt(message: str, text: str) -> str:
    """Says what stands at the column of a message, for a text that the user has not seen."""
    found = re.match(r"graph:1:(\d+): ", message)
    if not found:
        return message
    end = int(found.group(1)) + 20
    return f"graph: {message[found.end() :]}, at ...{text[max(0, end - 80) : end]}..."


def _op(index: int, fields: Mapping[str, Any]) -> Op:
    return Op(
        id=index,
        name=fields["name"],
        type=fields.get("type", "op"),
        is_backward=fields.get("pass") == "backward",
        inputs=tuple(fields["inputs"]),
        outputs=tuple(fields["outputs"]),
        time=fields["time"],
        workspace=fields["workspace"],
    )


def _value(index: int, fields: Mapping[str, Any]) -> Value:
    return Value(
        id=index,
        name=fields["name"],
        kind=fields.get("kind", "activation"),
        bytes=fields["bytes"],
        view_of=fields.get("view_of"),
    )
