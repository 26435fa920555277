"""Which faults are done in which order, and how they are carried out over several drivers."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.faults.counts import CountsReader
from tests.faults.director import Director, Driver
from tests.faults.oracle import Feeder, Reader
from tests.faults.points import POINTS, Point

OF_THE_DRIVER = ("driver", "zombie")
AHEAD = 24
"""So many faults before it is needed a driver is started: it takes seconds to be ready."""

Harm = tuple[Point, str]


@dataclass
class Campaign:
    """Faults by driver, and what ends each driver but the last."""

    stages: list[list[Harm]]
    ends: list[Harm] = field(default_factory=list)

    @classmethod
    def planned(
        cls, chance: random.Random, often: dict[str, int], drivers: int, points: Sequence[Point] = POINTS
    ) -> Campaign:
        """Choose what is done to each driver, as much at each point; `often` says how often each harm is done.

        The first driver has executors of its own if executors are harmed; the others run their tasks themselves.
        """
        kinds = [kind for kind, count in often.items() for _ in range(count)]
        chance.shuffle(kinds)
        plan = [(points[number % len(points)], kind) for number, kind in enumerate(kinds)]
        chance.shuffle(plan)
        of_any = [harm for harm in plan if harm[1] != "executor"]
        late = of_any[: len(plan) // 3]
        first = [harm for harm in plan if harm[1] == "executor"] + of_any[len(late) :]
        chance.shuffle(first)
        ends = [(point, OF_THE_DRIVER[number % 2]) for number, point in enumerate(chance.sample(points, drivers))]
        return cls([first, *(late[number::drivers] for number in range(drivers))], ends)

    def one_after_another(self) -> None:
        """Sort faults into rounds through the points, in the order of a micro-batch: one micro-batch takes several."""
        for number, stage in enumerate(self.stages):
            rounds: Counter[Point] = Counter()
            placed: list[tuple[int, int, Harm]] = []
            for harm in stage:
                placed.append((rounds[harm[0]], POINTS.index(harm[0]), harm))
                rounds[harm[0]] += 1
            self.stages[number] = [harm for _, _, harm in sorted(placed, key=lambda each: each[:2])]

    def carry_out(self, director: Director, new_driver: Callable[[], Driver], passes: int = 1) -> Driver:
        """Do all faults, each after up to so many passes of its point; return the driver that runs at the end."""
        driver, successor = new_driver(), None
        driver.go()
        for number, stage in enumerate(self.stages):
            for left, (point, kind) in zip(reversed(range(len(stage))), stage, strict=True):
                if left < AHEAD and number < len(self.ends) and successor is None:
                    successor = new_driver()
                director.strike(driver, point, kind, director.chance.randrange(passes + 1))
            if number == len(self.ends):
                break
            (point, kind), successor = self.ends[number], successor or new_driver()
            successor.wait_until_ready()
            if kind == "driver":
                director.strike(driver, point, kind)
                successor.go()
            else:
                director.outlive(driver, point, successor)
            driver, successor = successor, None
        return driver

    def check_done(self, director: Director) -> None:
        """Compare what was done with the plan."""
        planned = [harm for stage in (*self.stages, self.ends) for harm in stage]
        assert Counter((fault.point, fault.kind) for fault in director.done) == Counter(
            (point.name, kind) for point, kind in planned
        )


def report(director: Director, drivers: Sequence[Driver], feeder: Feeder, reader: Reader | CountsReader) -> None:
    """Print what was done, for whoever asks pytest for it."""
    kinds = Counter(fault.kind for fault in director.done)
    print(f"\n{kinds.total()} faults: {dict(kinds)}; {feeder.written} events, {feeder.scaled} scale events,")
    print(f"{len(reader.seen)} reads; failures of queries:")
    failures = [re.findall(r"^\w+:|\[(?:PRAVEGA_\w+|[A-Z]+_\w+)", line) for one in drivers for line in one.failures()]
    for conditions, count in Counter(tuple(dict.fromkeys(found)) for found in failures).most_common():
        print(f"  {count} × {', '.join(conditions).replace('[', '')}")
