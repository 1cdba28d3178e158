"""Finds libneap and declares the functions of its C API that the package calls.

The declarations follow include/neap/*.h, where each call is documented. Handles are `c_void_p`,
structs have the fields of their C namesakes in the same order.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from collections.abc import Iterator
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_bool,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path

from . import errors

NONE = 0xFFFFFFFF  # NEAP_NONE: no op, no value
SERIES = "0.1."  # the interface may change with the minor number before 1.0


class Diag(Structure):
    _fields_ = [("status", c_int), ("message", c_char * 1024)]


class Link(Structure):
    _fields_ = [
        ("out_bandwidth", c_double),
        ("in_bandwidth", c_double),
        ("latency", c_double),
        ("duplex", c_bool),
        ("host_memory", c_int64),
    ]


class OptionSetting(Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


class Option(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("meaning", c_char_p),
        ("type", c_int),
        ("least", c_double),
        ("most", c_double),
        ("default_value", c_double),
        ("choices", c_char_p),
    ]


class Pin(Structure):
    _fields_ = [("kind", c_int), ("pattern", c_char_p)]


class ProgressEvent(Structure):
    _fields_ = [
        ("part", c_char_p),
        ("phase", c_char_p),
        ("fraction", c_double),
        ("seconds", c_double),
        ("best_time", c_double),
        ("bound_time", c_double),
    ]


ReportFunction = ctypes.CFUNCTYPE(None, c_void_p, POINTER(ProgressEvent))
CancelledFunction = ctypes.CFUNCTYPE(c_bool, c_void_p)


class Progress(Structure):
    _fields_ = [("report", ReportFunction), ("cancelled", CancelledFunction)]


class StopFlag(Structure):
    _fields_ = [("base", Progress), ("raised", c_int)]


class Request(Structure):
    _fields_ = [
        ("graph", c_void_p),
        ("method", c_char_p),
        ("budget", c_int64),
        ("link", Link),
        ("time_limit", c_double),
        ("target_time", c_double),
        ("threads", c_int),
        ("seed", c_uint64),
        ("alignment", c_int64),
        ("n_options", c_uint32),
        ("options", POINTER(OptionSetting)),
        ("progress", POINTER(Progress)),
        ("gap", c_double),
        ("objective", c_int),
        ("n_pins", c_uint32),
        ("pins", POINTER(Pin)),
        ("start", c_void_p),
        ("state", c_int),
    ]


class Figures(Structure):
    _fields_ = [
        ("outcome", c_int),
        ("budget_bytes", c_int64),
        ("peak_bytes", c_int64),
        ("arena_bytes", c_int64),
        ("time", c_double),
        ("base_time", c_double),
        ("overhead", c_double),
        ("bound_time", c_double),
        ("bound_scope", c_int),
        ("gap", c_double),
        ("solve_seconds", c_double),
        ("recomputed_ops", c_uint64),
        ("offloaded_bytes", c_int64),
        ("floor_bytes", c_int64),
        ("floor_op", c_uint32),
        ("least_budget", c_int64),
        ("blocking_op", c_uint32),
    ]


class Verdict(Structure):
    _fields_ = [
        ("accepted", c_bool),
        ("reason", c_char * 512),
        ("step", c_size_t),
        ("peak_bytes", c_int64),
        ("peak_step", c_size_t),
        ("ticks", c_int64),
        ("time", c_double),
        ("compute_ticks", c_int64),
        ("recomputed_ops", c_uint64),
        ("offloaded_bytes", c_int64),
        ("host_bytes", c_int64),
        ("has_arena", c_bool),
        ("arena_bytes", c_int64),
    ]


class CheckOptions(Structure):
    _fields_ = [("budget", c_int64), ("link", POINTER(Link))]


class LayoutOptions(Structure):
    _fields_ = [
        ("alignment", c_int64),
        ("target", c_int64),
        ("seconds", c_double),
        ("threads", c_int),
        ("progress", POINTER(Progress)),
    ]


class Step(Structure):
    _fields_ = [
        ("kind", c_int),
        ("id", c_uint32),
        ("variant", c_uint32),
        ("in_place", c_bool),
    ]


class MemoryParts(Structure):
    _fields_ = [
        ("parameters", c_int64),
        ("gradients", c_int64),
        ("state", c_int64),
        ("activations", c_int64),
        ("workspace", c_int64),
        ("other", c_int64),
    ]


class TimelineStep(Structure):
    _fields_ = [
        ("begin", c_int64),
        ("end", c_int64),
        ("live_bytes", c_int64),
        ("after_bytes", c_int64),
    ]


class Timeline(Structure):
    _fields_ = [
        ("n_steps", c_size_t),
        ("steps", POINTER(TimelineStep)),
        ("peak_bytes", c_int64),
        ("peak_step", c_size_t),
        ("compute_ticks", c_int64),
        ("idle_ticks", c_int64),
        ("out_ticks", c_int64),
        ("in_ticks", c_int64),
        ("makespan_ticks", c_int64),
        ("allocator", c_void_p),
    ]


class ChartOptions(Structure):
    _fields_ = [
        ("width", c_int),
        ("height", c_int),
        ("color", c_bool),
        ("unicode", c_bool),
        ("budget", c_int64),
        ("natural_peak", c_int64),
    ]


class ReportPlan(Structure):
    _fields_ = [
        ("plan", c_void_p),
        ("status", c_char_p),
        ("message", c_char_p),
        ("bound_time", c_double),
        ("bound_scope", c_char_p),
    ]


class Report(Structure):
    _fields_ = [
        ("graph", c_void_p),
        ("link", POINTER(Link)),
        ("title", c_char_p),
        ("device", c_char_p),
        ("command", c_char_p),
        ("batch", c_int64),
        ("natural_peak", c_int64),
        ("floor_bytes", c_int64),
        ("floor_op", c_uint32),
        ("n_plans", c_size_t),
        ("plans", POINTER(ReportPlan)),
        ("n_points", c_size_t),
        ("points", c_void_p),
        ("training", c_void_p),
    ]


_TEXT = [POINTER(c_void_p), POINTER(c_size_t), POINTER(Diag)]
_NEW = [POINTER(c_void_p), POINTER(Diag)]

# name: (result, arguments)
_FUNCTIONS: dict[str, tuple[object, list[object]]] = {
    "neap_version": (c_char_p, []),
    "neap_release": (None, [c_void_p, c_void_p, c_size_t]),
    "neap_bytes_parse": (c_int, [c_char_p, POINTER(c_int64), POINTER(Diag)]),
    "neap_bytes_format": (c_char_p, [c_int64, c_char_p, c_size_t]),
    "neap_seconds_format": (c_char_p, [c_double, c_char_p, c_size_t]),
    "neap_graph_read_file": (c_int, [c_void_p, c_char_p, *_NEW]),
    "neap_graph_read_text": (c_int, [c_void_p, c_char_p, c_size_t, c_char_p, *_NEW]),
    "neap_graph_write_file": (c_int, [c_void_p, c_char_p, POINTER(Diag)]),
    "neap_graph_write_text": (c_int, [c_void_p, c_void_p, *_TEXT]),
    "neap_graph_clear_in_place": (None, [c_void_p]),
    "neap_graph_destroy": (None, [c_void_p]),
    "neap_graph_name": (c_char_p, [c_void_p]),
    "neap_graph_op_count": (c_uint32, [c_void_p]),
    "neap_graph_value_count": (c_uint32, [c_void_p]),
    "neap_graph_op": (POINTER(c_char_p), [c_void_p, c_uint32]),  # its first field is the name
    "neap_graph_can_run_in_place": (c_bool, [c_void_p, c_uint32]),
    "neap_graph_base_bytes": (c_int64, [c_void_p]),
    "neap_graph_fixed_bytes": (c_int64, [c_void_p]),
    "neap_graph_floor_bytes": (c_int64, [c_void_p, POINTER(c_uint32)]),
    "neap_graph_base_ticks": (c_int64, [c_void_p]),
    "neap_graph_least_ticks": (c_int64, [c_void_p]),
    "neap_graph_seconds": (c_double, [c_void_p, c_int64]),
    "neap_natural_plan": (c_int, [c_void_p, c_void_p, *_NEW]),
    "neap_natural_peak": (c_int, [c_void_p, c_void_p, POINTER(c_int64), POINTER(Diag)]),
    "neap_plan_read_file": (c_int, [c_void_p, c_char_p, *_NEW]),
    "neap_plan_read_text": (c_int, [c_void_p, c_char_p, c_size_t, c_char_p, *_NEW]),
    "neap_plan_write_file": (c_int, [c_void_p, c_char_p, POINTER(Diag)]),
    "neap_plan_write_text": (c_int, [c_void_p, c_void_p, *_TEXT]),
    "neap_plan_destroy": (None, [c_void_p]),
    "neap_plan_graph_name": (c_char_p, [c_void_p]),
    "neap_plan_method": (c_char_p, [c_void_p]),
    "neap_plan_budget": (c_int64, [c_void_p]),
    "neap_plan_step_count": (c_size_t, [c_void_p]),
    "neap_plan_steps": (POINTER(Step), [c_void_p]),
    "neap_plan_host_at_start": (POINTER(c_uint32), [c_void_p, POINTER(c_size_t)]),
    "neap_plan_peak_parts": (
        c_int,
        [c_void_p, c_void_p, c_void_p, POINTER(MemoryParts), POINTER(Diag)],
    ),
    "neap_plan_offsets": (c_void_p, [c_void_p, POINTER(c_size_t)]),
    "neap_plan_arena_bytes": (c_int64, [c_void_p]),
    "neap_step_kind_name": (c_char_p, [c_int]),
    "neap_timeline_build": (
        c_int,
        [c_void_p, c_void_p, c_void_p, POINTER(Link), POINTER(Timeline), POINTER(Diag)],
    ),
    "neap_timeline_clear": (None, [POINTER(Timeline)]),
    "neap_chart_options_init": (None, [POINTER(ChartOptions)]),
    "neap_report_memory_chart": (
        c_int,
        [c_void_p, c_void_p, c_void_p, POINTER(Timeline), POINTER(ChartOptions), *_TEXT],
    ),
    "neap_report_html": (c_int, [c_void_p, POINTER(Report), *_TEXT]),
    "neap_file_replace": (c_int, [c_char_p, c_char_p, c_size_t, POINTER(Diag)]),
    "neap_check_options_init": (None, [POINTER(CheckOptions)]),
    "neap_check": (
        c_int,
        [c_void_p, c_void_p, c_void_p, POINTER(CheckOptions), POINTER(Verdict), POINTER(Diag)],
    ),
    "neap_layout_options_init": (None, [POINTER(LayoutOptions)]),
    "neap_layout_assign": (
        c_int,
        [c_void_p, c_void_p, c_void_p, POINTER(LayoutOptions), POINTER(Diag)],
    ),
    "neap_methods_count": (c_uint32, []),
    "neap_methods_at": (c_void_p, [c_uint32]),
    "neap_methods_find": (c_void_p, [c_char_p]),
    "neap_method_name": (c_char_p, [c_void_p]),
    "neap_method_summary": (c_char_p, [c_void_p]),
    "neap_method_source": (c_char_p, [c_void_p]),
    "neap_method_needs_link": (c_bool, [c_void_p]),
    "neap_method_takes_constraints": (c_bool, [c_void_p]),
    "neap_method_option_count": (c_uint32, [c_void_p]),
    "neap_method_option_at": (POINTER(Option), [c_void_p, c_uint32]),
    "neap_stop_flag_init": (None, [POINTER(StopFlag)]),
    "neap_stop_flag_raise": (None, [POINTER(StopFlag)]),
    "neap_request_init": (None, [POINTER(Request), c_void_p, c_char_p]),
    "neap_solve": (c_int, [c_void_p, POINTER(Request), *_NEW]),
    "neap_curve_solve": (
        c_int,
        [c_void_p, POINTER(Request), POINTER(c_int64), c_size_t, POINTER(c_void_p), POINTER(Diag)],
    ),
    "neap_solution_destroy": (None, [c_void_p]),
    "neap_solution_figures": (POINTER(Figures), [c_void_p]),
    "neap_solution_plan": (c_void_p, [c_void_p]),
    "neap_solution_message": (c_char_p, [c_void_p]),
    "neap_outcome_name": (c_char_p, [c_int]),
    "neap_scope_name": (c_char_p, [c_int]),
}


# ---- Finding it ----


def _candidates() -> Iterator[str]:
    """Where libneap may be, in the order of the search."""
    here = Path(__file__).resolve().parent
    yield from (str(path) for path in sorted((here / "_lib").glob("libneap.so*")))
    checkout = here.parents[1]
    if (checkout / "include" / "neap" / "neap.h").is_file():
        yield str(checkout / "build" / "release" / "libneap.so")
    system = ctypes.util.find_library("neap")
    if system:
        yield system


def _open() -> tuple[ctypes.CDLL, str]:
    chosen = os.environ.get("NEAP_LIBRARY")
    if chosen:
        try:
            return ctypes.CDLL(chosen), chosen
        except OSError as error:
            raise errors.LibraryError(f"NEAP_LIBRARY names {chosen}: {error}") from None
    failed = []
    for path in _candidates():
        if os.sep in path and not os.path.exists(path):
            continue
        try:
            return ctypes.CDLL(path), path
        except OSError as error:
            failed.append(str(error))
    raise errors.LibraryError(
        "cannot load libneap"
        + (f" ({'; '.join(failed)})" if failed else "")
        + "; install the package with pip, build it with make in a checkout, "
        "or set NEAP_LIBRARY to the path of libneap.so"
    )


def _load() -> tuple[ctypes.CDLL, str]:
    library, path = _open()
    try:
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except AttributeError as error:
        raise errors.LibraryError(f"{path} is not the libneap of this package: {error}") from None
    version = library.neap_version().decode()
    if not version.startswith(SERIES):
        raise errors.LibraryError(
            f"{path} is libneap {version}; this package needs {SERIES}x: rebuild or reinstall it"
        )
    return library, path


lib, path = _load()


# ---- Calling it ----

_ERRORS: dict[int, type[Exception]] = {
    1: errors.InvalidError,
    2: MemoryError,
    3: errors.FileError,
    4: errors.UnsupportedError,
    5: errors.InternalError,
}


def raise_status(status: int, diag: Diag) -> None:
    """Raises the exception of a failed call, with the library's message."""
    if status != 0:
        message = diag.message.decode(errors="replace")
        raise _ERRORS.get(status, errors.InternalError)(message)


def call(function: object, *arguments: object) -> None:
    """Calls a function whose last parameter is a neap_diag; raises if it fails."""
    diag = Diag()
    raise_status(function(*arguments, byref(diag)), diag)  # type: ignore[operator]


def take_text(function: object, *arguments: object) -> str:
    """Calls a function that returns a text in memory, and releases it."""
    text, length = c_void_p(), c_size_t()
    call(function, *arguments, byref(text), byref(length))
    try:
        return ctypes.string_at(text.value or 0, length.value).decode()
    finally:
        lib.neap_release(None, text, length.value + 1)


def path_bytes(path: str | os.PathLike[str]) -> bytes:
    """A path for the library; refuses what C would cut off."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise errors.InvalidError("a path may not contain a NUL character")
    return name


def text_bytes(text: object, what: str) -> bytes:
    """A string for the library; `what` names it in errors."""
    if not isinstance(text, str):
        raise errors.InvalidError(f"{what} is {type(text).__name__}; it must be a string")
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise errors.InvalidError(f"{what} has characters that UTF-8 cannot write") from None
    if b"\0" in encoded:
        raise errors.InvalidError(f"{what} may not contain a NUL character")
    return encoded
