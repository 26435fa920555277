"""Count the product: lines by hand, modules, rooms, imports between them, favourite names, file names that repeat.

    python tools/count.py

Generated code, tests, benchmarks, tools and examples are left out. A room is a folder with modules; an edge is an
import from a module of one room by a module of another. A name counts each time that it is bound or used.
"""

from __future__ import annotations

import ast
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = ("tests/", "bench/", "tools/", "examples/", "docs/")
LANGUAGES = {".py": "Python", ".java": "Java", ".rs": "Rust"}
# Names that say how a value came rather than what it is.
VAGUE = ("found", "known", "place", "there", "wanted", "given", "asked", "made")


def list_files() -> list[Path]:
    """Return the files of the product that people wrote."""
    shown = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [
        ROOT / name
        for name in shown.splitlines()
        if Path(name).suffix in LANGUAGES and not name.startswith(LEFT_OUT) and "_pb2" not in name
    ]


def find_names(tree: ast.Module) -> Iterator[str]:
    """Yield the name of each variable and parameter, each time that it is bound or used."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def find_imported_rooms(path: Path, tree: ast.Module) -> Iterator[str]:
    """Yield the folder of each module of the product that a module imports."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level:
            folder = path.parents[node.level - 1] / Path(*(node.module or "").split("."))
        elif (node.module or "").startswith("pyspark_pravega."):
            folder = ROOT / Path(*str(node.module).split(".")[1:])
        else:
            continue
        yield str((folder if folder.is_dir() else folder.parent).relative_to(ROOT))


def main() -> None:
    """Print the counts."""
    files = list_files()
    lines: Counter[str] = Counter()
    for path in files:
        lines[LANGUAGES[path.suffix]] += len(path.read_text().splitlines())
    modules = [path for path in files if path.suffix == ".py" and path.name != "__init__.py"]
    rooms = {path.parent for path in modules}
    names: Counter[str] = Counter()
    edges: Counter[tuple[str, str]] = Counter()
    for path in modules:
        tree, room = ast.parse(path.read_text()), str(path.parent.relative_to(ROOT))
        names.update(find_names(tree))
        edges.update((room, other) for other in find_imported_rooms(path, tree) if other != room)
    repeated = {name: count for name, count in Counter(path.name for path in modules).items() if count > 1}
    print(f"lines by hand   {lines.total():,} ({', '.join(f'{name} {count:,}' for name, count in lines.items())})")
    print(f"modules, rooms  {len(modules)}, {len(rooms)}")
    print(f"edges           {len(edges)} between rooms, {edges.total():,} imports")
    print(f"vague names     {', '.join(f'{name} {names[name]}' for name in VAGUE)}")
    print(f"file names that repeat  {len(repeated)}: {', '.join(f'{n} {c}' for n, c in sorted(repeated.items()))}")


if __name__ == "__main__":
    main()
