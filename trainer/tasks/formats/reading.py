"""The page that all formats go through: a file's records as examples, each record accounted for.

Promise: the records given and those counted as unusable add up to those of the file.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from corpora.errors import InputError
from corpora.sources.bytes.unchanged import states_of, unchanged
from corpora.store.places.pipes import check_not_pipe
from corpora.store.settings import check_choice, suggest
from trainer.tasks.formats.question_layouts import (
    CHOICE_ROLES,
    GROUP_ROLES,
    MARKED_ROLES,
    QUESTION_ROLES,
    copa_records,
    multirc_records,
    race_records,
    record_records,
    squad_records,
    swag_records,
    wic_records,
    wsc_records,
)
from trainer.tasks.formats.records import (
    ID,
    NOT_UTF_8,
    FileSettings,
    Found,
    RowCounts,
    Unusable,
    Values,
    Wanted,
    checked,
    opened,
    unpacked_ending,
)
from trainer.tasks.formats.retrieval import TEXT_ROLES, beir_records, msmarco_records
from trainer.tasks.formats.tables import (
    comma_records,
    json_line_records,
    json_list_records,
    line_records,
    parquet_records,
    sheet_records,
    tab_records,
)
from trainer.tasks.formats.tag_layouts import (
    MENTION_ROLES,
    SENTENCE_ROLES,
    conll_records,
    conllu_records,
    iob1_records,
    looks_like_conll,
    ncbi_records,
    pubtator_records,
)

Example = TypeVar("Example")


class ReadFormat(NamedTuple):
    """The reader of a format. unit: what its records are; roles: those it gives, if they are not columns."""

    records: Callable[[FileSettings, Wanted], Iterator[Found]]
    unit: str = "rows"
    roles: tuple[str, ...] = ()


FORMATS: Mapping[str, ReadFormat] = MappingProxyType(
    {
        "tsv": ReadFormat(tab_records),
        "csv": ReadFormat(comma_records),
        "jsonl": ReadFormat(json_line_records),
        "json": ReadFormat(json_list_records),
        "parquet": ReadFormat(parquet_records),
        "xlsx": ReadFormat(sheet_records),
        "lines": ReadFormat(line_records, "lines", ("text",)),
        "beir": ReadFormat(beir_records, "texts", TEXT_ROLES),
        "msmarco": ReadFormat(msmarco_records, "texts", TEXT_ROLES),
        "conll": ReadFormat(conll_records, "sentences", SENTENCE_ROLES),
        "conllu": ReadFormat(conllu_records, "sentences", SENTENCE_ROLES),
        "iob1": ReadFormat(iob1_records, "sentences", SENTENCE_ROLES),
        "squad": ReadFormat(squad_records, "questions", QUESTION_ROLES),
        "copa": ReadFormat(copa_records, "questions", CHOICE_ROLES),
        "race": ReadFormat(race_records, "questions", CHOICE_ROLES),
        "swag": ReadFormat(swag_records, "questions", CHOICE_ROLES),
        "multirc": ReadFormat(multirc_records, "answers", GROUP_ROLES),
        "record": ReadFormat(record_records, "candidates", GROUP_ROLES),
        "wic": ReadFormat(wic_records, "pairs", MARKED_ROLES),
        "wsc": ReadFormat(wsc_records, "texts", MARKED_ROLES),
        "pubtator": ReadFormat(pubtator_records, "sentences", MENTION_ROLES),
        "ncbi": ReadFormat(ncbi_records, "sentences", MENTION_ROLES),
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
    made: Callable[[Values], Example],
    optional: Sequence[str] = (),
) -> Iterator[tuple[int, Example]]:
    """Yield what is made of each record of a file, in its order, with the line where the record begins.

    roles:    without which a record cannot be used: it has no such value, or an empty one
    made:     makes an example of a record's values, or raises Unusable with the reason to count it under
    optional: roles that are read where they are present; a file whose settings name a column for one must have it
    Columns that are kept are given as they are.
    Raises InputError if the file cannot be read or changes meanwhile, and at its end where too many records could
    not be used.
    """
    wanted, names = Wanted(tuple(roles), (*optional, *settings.kept)), (ID, *settings.kept)
    kind = format_of(settings, wanted)
    if kind.records in (parquet_records, sheet_records):
        check_not_pipe(Path(settings.path))
    missing = [role for role in (*wanted.needed, *settings.kept) if kind.roles and role not in kind.roles]
    if missing:
        raise InputError(
            f"{settings.path}: its format gives {', '.join(kind.roles)}, and {', '.join(missing)} is needed: name "
            "another format, or choose another task."
        )
    counts.unit = kind.unit
    with unchanged(states_of([settings.path])):
        for line, record in kind.records(settings, wanted):
            counts.rows += 1
            try:
                if isinstance(record, Unusable):
                    raise record
                kept = {role: value for role, value in record.items() if role in settings.kept}
                example = made({**checked({role: record[role] for role in record if role not in kept}, wanted), **kept})
            except Unusable as error:
                values = {} if isinstance(record, Unusable) else record
                counts.drop(str(error), line, error.where, {role: values[role] for role in names if role in values})
                continue
            counts.given += 1
            yield line, example
    counts.check(settings.path, settings.max_unusable, _remedy(settings, kind, wanted, counts))


def format_of(settings: FileSettings, wanted: Wanted) -> ReadFormat:
    """The format that is named, or that of the file's ending. Raises InputError.

    A folder of choices is RACE's, and a `.json` of questions on contexts that is an object, no list, is SQuAD's. A
    `.txt` of which texts alone are wanted has one a line; a `.tsv` of words with blank lines and without a head is
    CoNLL's.
    """
    if settings.format:
        check_choice(f"{settings.path}: format", settings.format, FORMATS)
        return FORMATS[settings.format]
    if "choices" in wanted.needed and Path(settings.path).is_dir():
        return FORMATS["race"]
    ending = unpacked_ending(settings.path)
    if ending == ".txt" and wanted.needed == ("text",):
        return FORMATS["lines"]
    if ending == ".tsv" and "words" in wanted.needed and looks_like_conll(settings):
        return FORMATS["conll"]
    if ending not in ENDINGS:
        raise InputError(
            f"{settings.path} is none of {', '.join(ENDINGS)}: name its format ({', '.join(FORMATS)}), or convert it."
        )
    if ending == ".json" and {"question", "context"} <= {*wanted.needed} and begins_object(settings.path):
        return FORMATS["squad"]
    return FORMATS[ENDINGS[ending]]


def begins_object(path: str) -> bool:
    """Tells whether a file begins with an object of JSON."""
    with opened(path) as stream:
        return stream.read(1 << 10).lstrip().startswith("{")


def check_columns(settings: FileSettings, roles: Sequence[str], reader: str) -> None:
    """Raise InputError if a column is named for what is not read. reader: who reads these roles"""
    unknown = [role for role in settings.columns if role not in (*roles, *settings.kept)]
    if unknown:
        raise InputError(
            f"{settings.path}: a column is named for {unknown[0]!r}, which {reader} does not read: "
            f"{suggest(unknown[0], roles)}"
        )


def _remedy(settings: FileSettings, kind: ReadFormat, wanted: Wanted, counts: RowCounts) -> str:
    if 2 * counts.unusable.get(NOT_UTF_8, 0) > sum(counts.unusable.values()):
        return "convert the file to UTF-8, for instance with iconv"
    if kind.roles:
        return "fix them"
    columns = ", ".join(f"{role} = {settings.column(role)!r}" for role in wanted.needed)
    return f"fix the rows or name other columns than {columns}"
