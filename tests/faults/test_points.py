"""The points of the fault matrix are functions of the package."""

from __future__ import annotations

import importlib
import operator

import pytest

from tests.faults.points import OTHER_POINTS, POINTS, POINTS_OF_LARGE_TASKS, POINTS_OF_STATEMENTS, Point

ALL = (*POINTS, *OTHER_POINTS, *POINTS_OF_LARGE_TASKS, *POINTS_OF_STATEMENTS)


def test_names_are_given_once() -> None:
    assert len({point.name for point in ALL}) == len({point.place for point in ALL}) == len(ALL)


@pytest.mark.parametrize("point", ALL, ids=lambda point: point.name)
def test_a_point_is_a_function(point: Point) -> None:
    module, function, moment = point.place.split(":")
    assert callable(operator.attrgetter(function)(importlib.import_module(f"pyspark_pravega.{module}")))
    assert moment in ("before", "after")
    assert point.process in ("service", "worker")
