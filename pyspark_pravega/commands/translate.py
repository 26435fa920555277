"""The command `pyspark-pravega translate`: translate a script of Flink SQL into one for `pyspark-pravega run`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pyspark_pravega.errors import describe_os_error, format_count

if TYPE_CHECKING:
    from pyspark_pravega.sql.flink.translation import Translation

_COLOURS = {"note": "cyan", "CHECK": "yellow", "NOT TRANSLATED": "red"}


@click.command()
@click.argument("script", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="File to write instead of the terminal."
)
@click.option("--catalog", metavar="NAME", default="pravega", show_default=True, help="Catalog's name in Spark SQL.")
@click.option("--checkpoint", metavar="DIRECTORY", help="Directory of the checkpoints of streaming statements.")
def translate(script: Path, output: Path | None, catalog: str, checkpoint: str | None) -> None:
    """Translate a SCRIPT of Flink SQL (- for standard input) into one for `pyspark-pravega run`.

    Differences are comments before their statements, and lines of a summary on standard error. Exit code: 0 when every
    statement keeps its meaning, 3 when something is not translated or has to be checked, 1 when the script cannot be
    read.
    """
    from pyspark_pravega.sql.flink.translation import translate as translated
    from pyspark_pravega.sql.identifiers import check_catalog_name

    try:
        check_catalog_name(catalog)
        text = sys.stdin.read() if str(script) == "-" else script.read_text(encoding="utf-8")
        translation = translated(text, catalog=catalog, checkpoint=checkpoint)
    except OSError as error:
        raise click.ClickException(f"{script} cannot be read: {describe_os_error(error)}.") from error
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{script} cannot be read, because it is not UTF-8 text: {error}.") from error
    if output is None:
        click.echo(translation.script, nl=False)
    else:
        output.write_text(translation.script, encoding="utf-8")
    _summarize(script, translation)
    sys.exit(translation.exit_code)


def _summarize(script: Path, translation: Translation) -> None:
    counts = dict.fromkeys(_COLOURS, 0)
    for finding in translation.findings:
        word = finding.severity.value
        counts[word] += 1
        click.echo(f"{script}:{finding.line}: {click.style(word, fg=_COLOURS[word])}: {finding.text}", err=True)
    click.echo(
        f"{script}: {format_count(translation.statements, 'statement')}; not translated: {counts['NOT TRANSLATED']}, "
        f"to check: {counts['CHECK']}, notes: {counts['note']}",
        err=True,
    )
