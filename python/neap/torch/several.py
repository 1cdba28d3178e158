"""Steps of several graphs: a graph break, or several compiled modules in one step.

Each graph has a plan of its own, and all plans of a step share the budget: what one graph keeps for its backward pass is
resident while the next ones run. The first step shows which graphs there are; one that is alone then has the budget for
itself. From the second step on every graph keeps the same share of what it would keep without a plan: the largest share
with which all fit. If none does, each needs as little as it can; a step that exceeds its budget even so is refused when it
comes again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from .. import errors
from ..plans import Plan
from ..text import format_bytes
from .memory import trained_sizes
from .plans import need

log = logging.getLogger("neap")

MOST_OPEN = 4096  # forward passes without a backward pass; then they are taken to have been given up
SHARES = (1.0, 0.7, 0.5, 0.35, 0.2, 0.1, 0.0)


@dataclass(frozen=True)
class Room:
    """What a graph finds in a step, besides its own values."""

    resident: int  # bytes in memory when it runs
    later: int  # bytes of gradients that the graphs after it have made when its backward pass runs
    kept: int | None = None  # the most that it may keep for its backward pass


@dataclass
class Member:
    """A graph of a step, at one set of sizes: `key` tells both. `plan_with` plans it in the room that the others
    leave it; `may_fit` tells quickly, and may say yes wrongly."""

    key: Any
    resident: int  # when it was called in the first step
    kept: int  # for the backward pass in the first step
    free_plan: Callable[[str], tuple[Plan, int]]  # for "time" or "peak", without a budget, and what it keeps
    natural_peak: int  # with `resident`
    set_budget: Callable[[int], int | None]  # given what the step needs without plans; gives the budget in bytes
    may_fit: Callable[["Room"], bool]
    plan_with: Callable[["Room"], Plan]
    place: str = ""  # of the graph break that ends it

    @cached_property
    def kept_naturally(self) -> int:
        return self.free_plan("time")[1]

    @cached_property
    def lowest(self) -> tuple[Plan, int]:
        """The plan that needs least, and what it keeps."""
        return self.free_plan("peak")

    def share(self, share: float) -> int:
        """Bytes of this share of what it would keep without a plan."""
        return int(share * self.kept_naturally)


@dataclass
class Assignment:
    """The plan of a graph that shares its budget, and what it takes to be resident."""

    plan: Plan
    resident: int


@dataclass(eq=False)
class Call:
    """A forward pass of a graph."""

    key: Any
    returning: bool = False  # its backward pass runs


@dataclass
class Steps:
    """The training graphs in use, in the order of their forward passes. A graph may occur several times."""

    open: list[Call] = field(default_factory=list)  # whose backward pass is to come
    calls: list[Call] = field(default_factory=list)
    order: list[Any] = field(default_factory=list)  # the keys of `calls`
    members: dict[Any, Member] = field(default_factory=dict)
    assigned: dict[Any, Assignment] = field(default_factory=dict)
    known: set[tuple] = field(default_factory=set)
    alone: set[Any] = field(default_factory=set)  # graphs that were a step by themselves
    watching: bool = True  # whether calls are to be recorded
    parameters: dict[int, int] = field(default_factory=dict)  # of the last call: their gradients' bytes by identity
    trained: list[dict[int, int]] = field(default_factory=list)  # the same for each entry of `order`
    refused: dict[Any, Callable[[], errors.InfeasibleError]] = field(default_factory=dict)

    def called(self, inputs: Sequence[Any]) -> None:
        """A graph is about to run with these inputs."""
        self.parameters = trained_sizes(inputs)

    def entered(self, key: Any) -> Call:
        """A forward pass runs."""
        if not self.open or len(self.open) > MOST_OPEN:
            self.open, self.calls, self.order, self.trained = [], [], [], []
        call = Call(key)
        self.open.append(call)
        self.calls.append(call)
        self.order.append(key)
        if self.watching:
            self.trained.append(self.parameters)
        return call

    def returns(self, key: Any) -> None:
        """A backward pass begins: that of the last forward pass, if there are several."""
        call = next((c for c in reversed(self.open) if c.key == key and not c.returning), None)
        if call is not None:
            call.returning = True

    def given_up(self, call: Call) -> None:
        """What a forward pass saved is gone; unless its backward pass has begun, it will not come."""
        if call not in self.open or call.returning:
            return
        self.open.remove(call)
        position = self.calls.index(call)
        for parallel in (self.calls, self.order, self.trained):
            del parallel[position: position + 1]

    def left(self, key: Any) -> None:
        """A backward pass has run."""
        call = next((c for c in reversed(self.open) if c.key == key and c.returning), None)
        if call is not None:
            self.open.remove(call)
        if self.open or not self.order:
            return
        order = tuple(self.order)
        if len(order) == 1:
            self.alone.add(order[0])
        elif order not in self.known and all(key in self.members for key in order):
            if len(self.trained) < len(order):  # the step began before it was watched
                self.watching = True
                return
            self._share(order)
        self.watching = False

    @property
    def amid(self) -> bool:
        """Whether other graphs of the step have run already."""
        return bool(self.open)

    def could_free(self) -> int:
        """Bytes that the graphs that wait for their backward pass would not keep with the plans that need least."""
        waiting = [self.members[call.key] for call in self.open if call.key in self.members]
        return sum(max(0, member.kept - member.lowest[1]) for member in waiting)

    def check(self, key: Any) -> None:
        """Refuses a step whose graphs do not fit its budget together."""
        if key in self.refused:
            raise self.refused[key]()

    def _share(self, order: tuple) -> None:
        self.known.add(order)
        members = [self.members[key] for key in order]
        places = "; ".join(dict.fromkeys(m.place for m in members if m.place))
        log.warning("neap: a step has %d graphs, which share the budget%s", len(members),
                    f"; graph breaks at {places}" if places else "")
        step = Step(members, self.trained)
        natural = max(m.natural_peak + room.resident - m.resident + room.later
                      for m, room in step.rooms(lambda m: m.share(1.0)))
        budget = min(member.set_budget(natural) for member in members)
        plans = _shared_plans(step) or _lowest_plans(step, budget)
        if plans:
            self.assigned.update(plans)
        else:
            refusal = _refusal(step, budget, places)
            self.refused.update((member.key, refusal) for member in members)


@dataclass
class Step:
    """The graphs of a step in the order of their forward passes, and the parameters that each call trains."""

    members: list[Member]
    trained: list[dict[int, int]]

    def rooms(self, kept: Callable[[Member], int]) -> list[tuple[Member, Room]]:
        """For each graph, the room of its calls if every graph keeps this much: enough for the forward pass of its last
        call and for the backward pass of any."""
        result = []
        for member in {id(m): m for m in self.members}.values():
            calls = [position for position, m in enumerate(self.members) if m is member]
            resident = [self._resident(position, calls[0], kept) for position in calls]
            most = max(r + self._gradients_after(position) for r, position in zip(resident, calls))
            result.append((member, Room(resident[-1], max(0, most - resident[-1]))))
        return result

    def _resident(self, position: int, first: int, kept: Callable[[Member], int]) -> int:
        """What is resident in a call of the graph whose first call is at `first`."""
        before = self.members[:position]
        at_first = self.members[first].resident + sum(m.kept for m in before[first:])
        return max(0, at_first + sum(kept(m) - m.kept for m in before))

    def _gradients_after(self, position: int) -> int:
        """Bytes of gradients of the parameters that only later calls train: its own are values of the graph."""
        later = {name: size for call in self.trained[position + 1:] for name, size in call.items()}
        return sum(size for name, size in later.items() if name not in self.trained[position])

    def is_last(self, member: Member) -> bool:
        """Whether nothing runs after it, so that it may keep what it likes."""
        return member is self.members[-1] and self.members.count(member) == 1


def _shared_plans(step: Step) -> dict[Any, Assignment]:
    """Plans with the largest share that fits; none if no share does."""
    for share in SHARES:
        rooms = [(member, replace(room, kept=None if step.is_last(member) else member.share(share)))
                 for member, room in step.rooms(lambda m: m.share(share))]
        refused = next((member for member, room in rooms if not member.may_fit(room)), None)
        found: dict[Any, Assignment] = {}
        for member, room in rooms if refused is None else ():
            try:
                found[member.key] = Assignment(member.plan_with(room), room.resident)
            except (errors.InfeasibleError, errors.Interrupted) as error:
                log.info("neap: share %.2f: %s", share, error)
                refused = member
                break
        if refused is None:
            log.info("neap: each of %d graphs keeps at most %.0f%% of its activations", len(step.members), 100 * share)
            return found
        if refused is step.members[0] and step.members.count(refused) == 1:
            break  # nothing runs before it: with a smaller share it has as much memory and may keep less
    return {}


def _lowest_plans(step: Step, budget: int) -> dict[Any, Assignment]:
    """The plans that need least, if they are within the budget."""
    if _lowest_need(step) > budget:
        return {}
    return {m.key: Assignment(m.lowest[0], room.resident) for m, room in step.rooms(lambda m: m.lowest[1])}


def _lowest_need(step: Step) -> int:
    """A budget that the plans that need least fit together."""
    return max(need(m.lowest[0]) + room.resident - m.resident + room.later
               for m, room in step.rooms(lambda m: m.lowest[1]))


def _refusal(step: Step, budget: int, places: str) -> Callable[[], errors.InfeasibleError]:
    least = _lowest_need(step)
    message = (f"the {len(step.members)} graphs of a step do not fit in {format_bytes(budget)} together; the least known "
               f"to work is {least} bytes, {format_bytes(least)}. One graph may need less: "
               f"{f'the graph breaks are at {places}' if places else 'compile the whole step, with the loss'}")
    return lambda: errors.InfeasibleError(message, budget=budget, least_budget=least, is_proven=False)
