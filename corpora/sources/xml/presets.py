"""XML formats that are known by name: what their records are, and where their fields are, as `presets.toml` says.

- "pubmed": PubMed and MEDLINE, baseline and update files of the National Library of Medicine
  (`pubmed24n0001.xml.gz`), and what `efetch` gives, books and chapters included. Its DTD: PubmedArticleSet,
  PubmedBookArticle, DeleteCitation.
- "jats": articles of PubMed Central and of publishers (`.nxml`), JATS 1.0 to 1.4 and the NLM DTDs before it.
- "patent": grants and applications of the United States Patent and Trademark Office, one to a file or a week's in one:
  of 2001 to 2004 (ST.32, `PATDOC`; `patent-application-publication`) and from 2005 on. Those before 2001 are no XML,
  and are read by the kind "files".
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from corpora.sources.bytes.faults import explain_damage
from corpora.sources.xml.cut import find_root_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Settings of `XmlSource` for a known file format. The fields are described there.

    Attributes:
        others: Settings for records of other kinds in the same files, such as books among articles.
    """

    record: str
    fields: dict[str, tuple[str, ...]]
    deleted: str = ""
    file_order: str = ""
    blocks: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    label: str = ""
    others: tuple["Preset", ...] = ()


OTHER_ROOT = "XML of no preset"
MAX_ROOT_BYTES = 1 << 16


def _build_preset(
    record: str, fields: dict[str, list[str]], others: Sequence[dict[str, Any]] = (), **more: Any
) -> Preset:
    """Build a preset from its table in `presets.toml`.

    Args:
        record: Name of the element that is a record.
        fields: The paths to the content of each field of a record.
        others: Tables for records of other kinds in the same files.
        more: The table's other keys, which are fields of `Preset`.
    """
    settings: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in more.items()
    }
    paths = {name: tuple(each) for name, each in fields.items()}
    return Preset(record=record, fields=paths, others=tuple(_build_preset(**other) for other in others), **settings)


_TABLES = tomllib.loads(files("corpora").joinpath("sources", "xml", "presets.toml").read_text(encoding="utf-8"))
PRESETS = {name: _build_preset(**table) for name, table in _TABLES.items()}

# The preset that reads a file, by its root element.
PRESETS_BY_ROOT = {
    **dict.fromkeys(("PubmedArticleSet", "PubmedArticle", "PubmedBookArticleSet", "PubmedBookArticle"), "pubmed"),
    **dict.fromkeys(("article", "pmc-articleset"), "jats"),
    **{form.record: "patent" for form in (PRESETS["patent"], *PRESETS["patent"].others)},
}


def find_preset(path: Path) -> str:
    """Return the name of the preset that matches a file's root element, such as "pubmed"; "" if there is none.

    Raises:
        InputError: If the file cannot be read.
    """
    from corpora.sources.bytes.raw_files import open_raw  # here: the command's help asks for endings, not for pyarrow

    with open_raw(path) as stream, explain_damage(path):
        name = find_root_name(stream.read(MAX_ROOT_BYTES)).rpartition(b":")[2]
    return PRESETS_BY_ROOT.get(name.decode(errors="replace"), "")


def describe_preset(preset: str) -> str:
    """Return the kind under which unread files of a preset are reported, such as "XML of preset pubmed"."""
    return f"XML of preset {preset}"
