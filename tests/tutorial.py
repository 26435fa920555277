"""The tutorial as a program: its commands, its Python, and the output that it promises for each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "tutorial.md"
_ONLY_NOTEBOOK = re.compile(r"^<!-- notebook\n.*?^-->$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """A block of code (`language` is `sh` or `python`) and the text that the page shows after it, "" for none."""

    language: str
    code: str
    output: str


def steps() -> Iterator[Step]:
    """Yield the blocks of the page in order."""
    yield from steps_of(_ONLY_NOTEBOOK.sub("", PAGE.read_text()))


def notebook_text() -> str:
    """Return the text of the notebook: in places it says in other words what the page says."""
    return re.sub(r"<!-- page -->\n.*?<!-- notebook\n(.*?)-->\n", r"\1", PAGE.read_text(), flags=re.DOTALL)


def steps_of(text: str) -> Iterator[Step]:
    """Yield the blocks of a text in order."""
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for number, (language, code) in enumerate(blocks):
        if language == "text":
            continue
        after = blocks[number + 1] if number + 1 < len(blocks) else ("", "")
        yield Step(language, code, after[1] if after[0] == "text" else "")


def needs_lake(step: Step) -> bool:
    """Whether a step is for a session with a catalog of lakes."""
    return "'lake'" in step.code


def commands() -> list[Step]:
    """The shell's steps."""
    return [step for step in steps() if step.language == "sh"]


def program() -> list[Step]:
    """The steps in Python."""
    return [step for step in steps() if step.language == "python"]
