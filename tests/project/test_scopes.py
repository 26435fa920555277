"""What the process that drops scopes says reaches the tests."""

from __future__ import annotations

from pathlib import Path

from tests.scopes import Sweeper


def test_no_failure_is_lost(tmp_path: Path) -> None:
    """Each is told once, even if more is said while it is."""
    sweeper = Sweeper(tmp_path / "failures")
    assert sweeper.failure() is None
    with (tmp_path / "failures").open("a", buffering=1) as file:
        for name in ("first", "größe"):
            file.write(f"{name}: gone\n")
            assert (told := sweeper.failure()) is not None and told.endswith(f"dropped: {name}: gone\n")
            assert sweeper.failure() is None
