"""Reads a file of labeled data in any format, builds examples from its records, and accounts for each record.

Promise: the records yielded and those counted as unusable add up to the records of the file.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from corpora.errors import InputError
from corpora.sources.bytes.unchanged import hold_unchanged, read_states
from corpora.store.places.pipes import check_not_pipe
from corpora.store.settings import check_choice, suggest
from trainer.tasks.formats.question_layouts import (
    CHOICE_ROLES,
    GROUP_ROLES,
    MARKED_ROLES,
    QUESTION_ROLES,
    read_copa,
    read_multirc,
    read_race,
    read_squad,
    read_superglue_record,
    read_swag,
    read_wic,
    read_wsc,
)
from trainer.tasks.formats.records import (
    ID,
    NOT_UTF_8,
    FileSettings,
    LineRecord,
    Roles,
    RowCounts,
    Unusable,
    Values,
    check_values,
    find_unpacked_ending,
    open_text,
)
from trainer.tasks.formats.retrieval import TEXT_ROLES, read_beir, read_msmarco
from trainer.tasks.formats.tables import (
    read_csv,
    read_json_lines,
    read_json_list,
    read_parquet,
    read_text_lines,
    read_tsv,
    read_workbook,
)
from trainer.tasks.formats.tag_layouts import (
    MENTION_ROLES,
    SENTENCE_ROLES,
    is_like_conll,
    read_conll,
    read_conllu,
    read_iob1,
    read_ncbi,
    read_pubtator,
)

Example = TypeVar("Example")


class FormatReader(NamedTuple):
    """How to read one file format.

    read_records: function that yields the records of a file, given its settings and the roles to read
    unit:         plural noun for the records, for messages
    roles:        the roles that the format provides; () if roles are read from columns named in the settings
    """

    read_records: Callable[[FileSettings, Roles], Iterator[LineRecord]]
    unit: str = "rows"
    roles: tuple[str, ...] = ()


FORMATS: Mapping[str, FormatReader] = MappingProxyType(
    {
        "tsv": FormatReader(read_tsv),
        "csv": FormatReader(read_csv),
        "jsonl": FormatReader(read_json_lines),
        "json": FormatReader(read_json_list),
        "parquet": FormatReader(read_parquet),
        "xlsx": FormatReader(read_workbook),
        "lines": FormatReader(read_text_lines, "lines", ("text",)),
        "beir": FormatReader(read_beir, "texts", TEXT_ROLES),
        "msmarco": FormatReader(read_msmarco, "texts", TEXT_ROLES),
        "conll": FormatReader(read_conll, "sentences", SENTENCE_ROLES),
        "conllu": FormatReader(read_conllu, "sentences", SENTENCE_ROLES),
        "iob1": FormatReader(read_iob1, "sentences", SENTENCE_ROLES),
        "squad": FormatReader(read_squad, "questions", QUESTION_ROLES),
        "copa": FormatReader(read_copa, "questions", CHOICE_ROLES),
        "race": FormatReader(read_race, "questions", CHOICE_ROLES),
        "swag": FormatReader(read_swag, "questions", CHOICE_ROLES),
        "multirc": FormatReader(read_multirc, "answers", GROUP_ROLES),
        "record": FormatReader(read_superglue_record, "candidates", GROUP_ROLES),
        "wic": FormatReader(read_wic, "pairs", MARKED_ROLES),
        "wsc": FormatReader(read_wsc, "texts", MARKED_ROLES),
        "pubtator": FormatReader(read_pubtator, "sentences", MENTION_ROLES),
        "ncbi": FormatReader(read_ncbi, "sentences", MENTION_ROLES),
    }
)
ENDINGS: Mapping[str, str] = MappingProxyType(
    {f".{name}": name for name in ("tsv", "csv", "jsonl", "json", "parquet", "xlsx", "conll", "conllu")}
    | {".ndjson": "jsonl", ".xml": "copa", ".xlsm": "xlsx"}
    | dict.fromkeys((".bio", ".iob", ".annotated"), "conll")
)


def read_examples(
    settings: FileSettings,
    counts: RowCounts,
    roles: Sequence[str],
    make: Callable[[Values], Example],
    optional: Sequence[str] = (),
) -> Iterator[tuple[int, Example]]:
    """Read the records of a file in order, and yield an example for each usable record.

    The values of `keep:` columns are passed to `make` unchanged and may be empty.

    Args:
        settings: The file and how to read it.
        counts: Counts of records, usable ones, and unusable ones by reason; updated in place.
        roles: The roles (meanings of values, such as `text` and `label`) that a record must have. Must not be empty.
        make: Function that builds an example from a record's values by role, or raises `Unusable` with the reason.
        optional: Roles that are read if present. If the settings name a column for one, the file must have that column.

    Yields:
        Pairs of line number (of the record's first line, counted from 1) and example.

    Raises:
        InputError: At the first iteration, if the file cannot be read or lacks a column; at the end, if the file
            has changed while it was read, has no records, or has more unusable ones than the settings allow.
    """
    wanted, names = Roles(tuple(roles), (*optional, *settings.kept_roles)), (ID, *settings.kept_roles)
    kind = choose_format(settings, wanted)
    if kind.read_records in (read_parquet, read_workbook):
        check_not_pipe(Path(settings.path))
    missing = [role for role in (*wanted.needed, *settings.kept_roles) if kind.roles and role not in kind.roles]
    if missing:
        raise InputError(
            f"{settings.path}: its format gives {', '.join(kind.roles)}, and {', '.join(missing)} is needed: name "
            "another format, or choose another task."
        )
    counts.unit = kind.unit
    with hold_unchanged(read_states([settings.path])):
        for line, record in kind.read_records(settings, wanted):
            counts.rows += 1
            try:
                if isinstance(record, Unusable):
                    raise record
                kept = {role: value for role, value in record.items() if role in settings.kept_roles}
                example = make(
                    {**check_values({role: record[role] for role in record if role not in kept}, wanted), **kept}
                )
            except Unusable as error:
                values = {} if isinstance(record, Unusable) else record
                counts.drop(str(error), line, error.where, {role: values[role] for role in names if role in values})
                continue
            counts.given += 1
            yield line, example
    counts.check(settings.path, settings.max_unusable, _suggest_remedy(settings, kind, wanted, counts))


def choose_format(settings: FileSettings, wanted: Roles) -> FormatReader:
    """Choose the reader of a file by the format in its settings, or else by its file extension and content.

    A folder of choices is read as RACE. A `.json` file of questions that is a single object is read as SQuAD. A `.txt`
    file is read as one text per line if only texts are needed. A `.tsv` file of words with blank lines and without
    header is read as CoNLL.

    Args:
        settings: The file and how to read it. Its `format` is a key of FORMATS or "".
        wanted: The roles to read.

    Raises:
        InputError: If the format is unknown, or if none is named and the file extension is not recognized.
    """
    if settings.format:
        check_choice(f"{settings.path}: format", settings.format, FORMATS)
        return FORMATS[settings.format]
    if "choices" in wanted.needed and Path(settings.path).is_dir():
        return FORMATS["race"]
    ending = find_unpacked_ending(settings.path)
    if ending == ".txt" and wanted.needed == ("text",):
        return FORMATS["lines"]
    if ending == ".tsv" and "words" in wanted.needed and is_like_conll(settings):
        return FORMATS["conll"]
    if ending not in ENDINGS:
        raise InputError(
            f"{settings.path} is none of {', '.join(ENDINGS)}: name its format ({', '.join(FORMATS)}), or convert it."
        )
    if ending == ".json" and {"question", "context"} <= {*wanted.needed} and is_json_object(settings.path):
        return FORMATS["squad"]
    return FORMATS[ENDINGS[ending]]


def is_json_object(path: str) -> bool:
    """Return True if a file begins with a JSON object. Raises InputError if it cannot be read."""
    with open_text(path) as stream:
        return stream.read(1 << 10).lstrip().startswith("{")


def check_columns(settings: FileSettings, roles: Sequence[str], reader: str) -> None:
    """Raise InputError if the settings name a column for a role that is not read.

    Args:
        settings: The settings of the file.
        roles: The roles that are read.
        reader: The name of the reader, for the error message.
    """
    unknown = [role for role in settings.columns if role not in (*roles, *settings.kept_roles)]
    if unknown:
        raise InputError(
            f"{settings.path}: a column is named for {unknown[0]!r}, which {reader} does not read: "
            f"{suggest(unknown[0], roles)}"
        )


def _suggest_remedy(settings: FileSettings, kind: FormatReader, wanted: Roles, counts: RowCounts) -> str:
    """Return what the user can do about unusable records, as the end of an error message."""
    if 2 * counts.unusable.get(NOT_UTF_8, 0) > sum(counts.unusable.values()):
        return "convert the file to UTF-8, for instance with iconv"
    if kind.roles:
        return "fix them"
    columns = ", ".join(f"{role} = {settings.get_column(role)!r}" for role in wanted.needed)
    return f"fix the rows or name other columns than {columns}"
