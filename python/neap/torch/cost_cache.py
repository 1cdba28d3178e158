"""Measured costs on disk: one JSON file for each device and set of library versions.

Several processes may use one file. Each reads it once, and when it writes it first takes in what others added
meanwhile, under a lock, and replaces the file in one step. A file that cannot be read is reported once and
rewritten.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
import warnings
from typing import Any, Iterator

FORMAT = 2
MOST_ENTRIES = 50_000  # about 15 MB; the oldest go first


def cache_folder() -> str | None:
    """Where caches live: $NEAP_CACHE_DIR, else neap in $XDG_CACHE_HOME, else ~/.cache/neap. None where none of
    them is set.
    """
    own, base, home = (os.environ.get(name) for name in ("NEAP_CACHE_DIR", "XDG_CACHE_HOME", "HOME"))
    if own:
        return None if own == "none" else own
    if base:
        return os.path.join(base, "neap")
    return os.path.join(home, ".cache", "neap") if home else None


class CostCache:
    """The entries of one file: settings -> signature -> entry (a list that JSON can hold)."""

    def __init__(self, folder: str | None, key: str):
        self.path: str | None = None
        self._key = key
        self._entries: dict[str, dict[str, list[Any]]] = {}
        self._fresh: dict[str, dict[str, list[Any]]] = {}
        self._warned = False
        if folder:
            name = re.sub(r"[^A-Za-z0-9]+", "-", key.split(";")[0]).strip("-")[:40]
            digest = hashlib.sha256(key.encode()).hexdigest()[:12]
            self.path = os.path.join(folder, f"torch-costs-{name}-{digest}.json")
            self._entries = self._read()

    def get(self, settings: str, signature: str) -> list[Any] | None:
        """The entry of a signature under the given settings, or None."""
        return self._entries.get(settings, {}).get(signature)

    def put(self, settings: str, signature: str, entry: list[Any]) -> None:
        """Adds an entry; it reaches the disk with the next flush."""
        self._entries.setdefault(settings, {})[signature] = entry
        self._fresh.setdefault(settings, {})[signature] = entry

    def flush(self) -> None:
        """Writes new entries to the disk, together with those that other processes wrote since."""
        if not self.path or not self._fresh:
            return
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            with _locked(self.path + ".lock"):
                entries = self._read()
                for settings, fresh in self._fresh.items():
                    entries.setdefault(settings, {}).update(fresh)
                self._write(_pruned(entries))
            self._entries, self._fresh = entries, {}
        except OSError as error:
            self._warn(f"costs are not cached: {error}")

    def _write(self, entries: dict[str, dict[str, list[Any]]]) -> None:
        assert self.path
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(self.path), prefix=".torch-costs-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"format": FORMAT, "device": self._key, "costs": entries}, file)
            os.replace(temporary, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def _read(self) -> dict[str, dict[str, list[Any]]]:
        assert self.path
        try:
            with open(self.path, encoding="utf-8") as file:
                content = json.load(file)
            if content["format"] != FORMAT:
                return {}
            entries = content["costs"]
            if not all(isinstance(entry, list) for table in entries.values() for entry in table.values()):
                raise ValueError("an entry is not a list")
            return entries
        except FileNotFoundError:
            return {}
        except OSError as error:
            self._warn(f"cannot read the cache of costs: {error}")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            self._warn(f"{self.path} is damaged ({error}); it is ignored and will be rewritten")
        return {}

    def _warn(self, message: str) -> None:
        if not self._warned:
            warnings.warn(f"neap: {message}", RuntimeWarning, stacklevel=2)
            self._warned = True


def _pruned(entries: dict[str, dict[str, list[Any]]]) -> dict[str, dict[str, list[Any]]]:
    """Drops the oldest entries of the largest tables until few enough are left."""
    excess = sum(map(len, entries.values())) - MOST_ENTRIES
    while excess > 0:
        table = max(entries.values(), key=len)
        for signature in list(table)[:excess]:
            del table[signature]
        excess = sum(map(len, entries.values())) - MOST_ENTRIES
    return entries


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """Holds an advisory lock; systems without one rely on the atomic replacement alone."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(path, "w", encoding="utf-8") as file:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
