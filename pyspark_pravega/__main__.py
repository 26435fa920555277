"""The program `pyspark-pravega`, and `python -m pyspark_pravega`, which is the same."""

from __future__ import annotations

from pyspark_pravega.interrupts import end_on_interrupt


def main() -> None:
    """Run the command that the arguments name. Ctrl-C is ours before the rest is loaded, which takes a while."""
    end_on_interrupt()
    from pyspark_pravega.commands.cli import main as commands

    commands(prog_name="pyspark-pravega")


if __name__ == "__main__":
    main()
