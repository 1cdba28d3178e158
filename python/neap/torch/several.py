"""Steps of several graphs: a graph break, or several compiled modules in one step.

Each graph has a plan of its own, and all plans of a step share the budget: what one graph keeps for its backward pass is
resident while the next ones run. The first step shows which graphs there are. From the second on every graph
keeps the same share of what it would keep without a plan: the largest share with which all fit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .. import errors
from ..plans import Plan

log = logging.getLogger("neap")

MOST_OPEN = 4096  # forward passes without a backward pass; then they are taken to have been given up
SHARES = (1.0, 0.7, 0.5, 0.35, 0.2, 0.1, 0.0)


@dataclass
class Member:
    """A graph of a step. `plan_with(resident, kept)` plans it with that much resident besides its own values, so
    that it keeps at most `kept` bytes for its backward pass (None: no limit)."""

    runner: Any
    resident: int  # when it was called in the first step
    kept_bytes: Callable[[bool], int]  # for its backward pass: without a plan, or in the first step
    natural_peak: int  # with `resident`
    set_budget: Callable[[int], None]  # given what the step needs without plans
    plan_with: Callable[[int, int | None], Plan]
    place: str = ""  # of the graph break that ends it

    @cached_property
    def kept(self) -> int:
        return self.kept_bytes(False)

    @cached_property
    def kept_naturally(self) -> int:
        return self.kept_bytes(True)


@dataclass
class Assignment:
    """The plan of a graph that shares its budget, and what it takes to be resident."""

    plan: Plan
    resident: int


@dataclass
class Steps:
    """The training graphs in use, in the order of their forward passes. A graph may occur several times."""

    open: list[Any] = field(default_factory=list)  # runners whose backward pass is to come
    order: list[Any] = field(default_factory=list)
    members: dict[Any, Member] = field(default_factory=dict)
    assigned: dict[Any, Assignment] = field(default_factory=dict)
    known: set[tuple] = field(default_factory=set)

    def entered(self, runner: Any) -> None:
        """A forward pass runs."""
        if not self.open or len(self.open) > MOST_OPEN:
            self.open, self.order = [], []
        self.open.append(runner)
        self.order.append(runner)

    def left(self, runner: Any) -> None:
        """A backward pass has run."""
        if runner in self.open:
            self.open.remove(runner)
        if not self.open and len(self.order) > 1:
            self._share(tuple(self.order))

    @property
    def amid(self) -> bool:
        """Whether other graphs of the step have run already."""
        return bool(self.open)

    def _share(self, order: tuple) -> None:
        if order in self.known or any(runner not in self.members for runner in order):
            return
        self.known.add(order)
        members = [self.members[runner] for runner in order]
        places = "; ".join(dict.fromkeys(m.place for m in members if m.place))
        log.warning("neap: a step has %d graphs, which share the budget%s", len(members),
                    f"; graph breaks at {places}" if places else "")
        natural = max(m.natural_peak + r - m.resident for m, r in _residents(members, 1.0))
        for member in members:
            member.set_budget(natural)
        for share in SHARES:
            plans = self._try(members, share)
            if plans is not None:
                self.assigned.update(plans)
                return
        log.warning("neap: no plans of the %d graphs fit together; the step may exceed its budget. Remove graph breaks "
                    "(torch.compile(..., fullgraph=True) names them) or raise the budget", len(members))

    def _try(self, members: list[Member], share: float) -> dict[Any, Assignment] | None:
        found: dict[Any, Assignment] = {}
        for member, resident in _residents(members, share):
            alone = member is members[-1] and members.count(member) == 1
            try:
                plan = member.plan_with(resident, None if alone else int(share * member.kept_naturally))
            except (errors.InfeasibleError, errors.Interrupted) as error:
                log.info("neap: share %.2f: %s", share, error)
                return None
            found[member.runner] = Assignment(plan, resident)
        log.info("neap: each of %d graphs keeps at most %.0f%% of its activations", len(members), 100 * share)
        return found


def _residents(members: list[Member], share: float) -> list[tuple[Member, int]]:
    """For each graph, what is resident when it runs for the last time in a step and every graph keeps this share."""
    last = {id(member): position for position, member in enumerate(members)}
    first = {id(member): position for position, member in reversed(list(enumerate(members)))}
    result = []
    for member in {id(m): m for m in members}.values():
        before = members[: last[id(member)]]
        resident = member.resident + sum(m.kept for m in before[first[id(member)]:])
        resident += sum(int(share * m.kept_naturally) - m.kept for m in before)
        result.append((member, max(0, resident)))
    return result
