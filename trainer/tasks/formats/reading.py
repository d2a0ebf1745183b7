"""The page that all formats go through: a file's records as examples, each record accounted for.

Promise: the records given and those counted as unusable add up to those of the file.
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
    NumberedRecord,
    RowCounts,
    Unusable,
    Values,
    WantedRoles,
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
    """The reader of a format. unit: what its records are; roles: those it gives, if they are not columns."""

    read_records: Callable[[FileSettings, WantedRoles], Iterator[NumberedRecord]]
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
    """Yield what is made of each record of a file, in its order, with the line where the record begins.

    roles:    without which a record cannot be used: it has no such value, or an empty one
    made:     makes an example of a record's values, or raises Unusable with the reason to count it under
    optional: roles that are read where they are present; a file whose settings name a column for one must have it
    Columns that are kept are given as they are.
    Raises InputError if the file cannot be read or changes meanwhile, and at its end where too many records could
    not be used.
    """
    wanted, names = WantedRoles(tuple(roles), (*optional, *settings.kept_roles)), (ID, *settings.kept_roles)
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


def choose_format(settings: FileSettings, wanted: WantedRoles) -> FormatReader:
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
    """Tells whether a file begins with an object of JSON."""
    with open_text(path) as stream:
        return stream.read(1 << 10).lstrip().startswith("{")


def check_columns(settings: FileSettings, roles: Sequence[str], reader: str) -> None:
    """Raise InputError if a column is named for what is not read. reader: who reads these roles"""
    unknown = [role for role in settings.columns if role not in (*roles, *settings.kept_roles)]
    if unknown:
        raise InputError(
            f"{settings.path}: a column is named for {unknown[0]!r}, which {reader} does not read: "
            f"{suggest(unknown[0], roles)}"
        )


def _suggest_remedy(settings: FileSettings, kind: FormatReader, wanted: WantedRoles, counts: RowCounts) -> str:
    if 2 * counts.unusable.get(NOT_UTF_8, 0) > sum(counts.unusable.values()):
        return "convert the file to UTF-8, for instance with iconv"
    if kind.roles:
        return "fix them"
    columns = ", ".join(f"{role} = {settings.get_column(role)!r}" for role in wanted.needed)
    return f"fix the rows or name other columns than {columns}"
