"""XML formats that are known by name: what their records are, and where their fields are.

- "pubmed": PubMed and MEDLINE, baseline and update files of the National Library of Medicine
  (`pubmed24n0001.xml.gz`), and what `efetch` gives, books and chapters included. Its DTD: PubmedArticleSet,
  PubmedBookArticle, DeleteCitation.
- "jats": articles of PubMed Central and of publishers (`.nxml`), JATS 1.0 to 1.4 and the NLM DTDs before it.
- "patent": grants and applications of the United States Patent and Trademark Office, one to a file or a week's in one:
  of 2001 to 2004 (ST.32, `PATDOC`; `patent-application-publication`) and from 2005 on. Those before 2001 are no XML,
  and are read by the kind "files".
"""

from dataclasses import dataclass
from pathlib import Path

from corpora.sources.bytes.faults import refusing_damage
from corpora.sources.xml.cut import root_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """The settings of `XmlSource` that a format fills in."""

    record: str
    fields: dict[str, tuple[str, ...]]
    deleted: str = ""
    file_order: str = ""
    blocks: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    label: str = ""
    others: tuple["Preset", ...] = ()


CITATION = "MedlineCitation"
ARTICLE = f"{CITATION}/Article"
META = "front/article-meta"
FILE_ORDER = r"pubmed(\d\d)n(\d{4})"
OTHER_ROOT = "XML of no preset"
ROOT_BYTES = 1 << 16


def _patent(kind: str, others: tuple[Preset, ...] = ()) -> Preset:
    """The form of grants or applications from 2005 on."""
    published = f"us-bibliographic-data-{kind}/publication-reference/document-id"
    return Preset(
        record=f"us-patent-{kind}",
        fields={
            "text": (f"us-bibliographic-data-{kind}/invention-title", "abstract", "description", "claims"),
            "key": (f"{published}/doc-number",),
            "title": (f"us-bibliographic-data-{kind}/invention-title",),
            "date": (f"{published}/date",),
        },
        blocks=tuple("abstract p heading claim claim-text ul ol li dl dt dd description-of-drawings".split()),
        skip=tuple("tables table img".split()),
        others=others,
    )


PATDOC = Preset(  # grants of 2001 to 2004
    record="PATDOC",
    fields={
        "text": ("SDOBI/B500/B540", "SDOAB", "SDODE", "SDOCL"),
        "key": ("SDOBI/B100/B110/DNUM",),
        "title": ("SDOBI/B500/B540",),
        "date": ("SDOBI/B100/B140/DATE",),
    },
    blocks=tuple("STEXT BTEXT PARA H CL CLM CLMSTEP LI".split()),
    skip=tuple("TABLE-US TABLE-CWU EMI EMR".split()),
)
PUBLICATION = Preset(  # applications of 2001 to 2004
    record="patent-application-publication",
    fields={
        "text": (
            "subdoc-bibliographic-information/technical-information/title-of-invention",
            "subdoc-abstract",
            "subdoc-description",
            "subdoc-claims",
        ),
        "key": ("subdoc-bibliographic-information/document-id/doc-number",),
        "title": ("subdoc-bibliographic-information/technical-information/title-of-invention",),
        "date": ("subdoc-bibliographic-information/document-id/document-date",),
    },
    blocks=tuple("section heading paragraph claim claim-text list unordered-list-item ordered-list-item".split()),
    skip=tuple("number table table-cwu table-us image".split()),
)

BOOK = Preset(  # books and their chapters among PubMed's citations
    record="PubmedBookArticle",
    fields={
        "text": ("BookDocument/ArticleTitle", "BookDocument/Abstract/AbstractText"),
        "key": ("BookDocument/PMID",),
        "version": ("BookDocument/PMID/@Version",),
        "revision": ("BookDocument/DateRevised", "BookDocument/ContributionDate"),
        "title": ("BookDocument/ArticleTitle", "BookDocument/Book/BookTitle"),
        "date": ("BookDocument/ContributionDate", "BookDocument/Book/PubDate"),
        "license": ("BookDocument/Abstract/CopyrightInformation",),
    },
    deleted="DeleteCitation/PMID",
    file_order=FILE_ORDER,
    label="Label",
)

PRESETS = {
    "pubmed": Preset(
        record="PubmedArticle",
        fields={
            "text": (f"{ARTICLE}/ArticleTitle", f"{ARTICLE}/Abstract/AbstractText"),
            "key": (f"{CITATION}/PMID",),
            "version": (f"{CITATION}/PMID/@Version",),
            "revision": (f"{CITATION}/DateRevised", f"{CITATION}/DateCompleted"),
            "title": (f"{ARTICLE}/ArticleTitle",),
            "date": (
                f"{ARTICLE}/ArticleDate",
                f"{ARTICLE}/Journal/JournalIssue/PubDate",
                f"{ARTICLE}/Journal/JournalIssue/PubDate/MedlineDate",
            ),
            "license": (f"{ARTICLE}/Abstract/CopyrightInformation",),
        },
        deleted="DeleteCitation/PMID",
        file_order=FILE_ORDER,
        label="Label",
        others=(BOOK,),
    ),
    "jats": Preset(
        record="article",
        fields={
            "text": (f"{META}/title-group/article-title", f"{META}/abstract", "body"),
            "key": (f"{META}/article-id[@pub-id-type='pmc']", f"{META}/article-id[@pub-id-type='doi']"),
            "title": (f"{META}/title-group/article-title",),
            "date": (
                f"{META}/pub-date[@pub-type='epub']",
                f"{META}/pub-date[@date-type='pub']",
                f"{META}/pub-date",
            ),
            "license": (f"{META}/permissions/license/@href", f"{META}/permissions//license-p"),
        },
        blocks=tuple(
            "abstract p title subtitle sec list list-item def-list def-item disp-quote boxed-text statement speech "
            "verse-group verse-line break".split()
        ),
        skip=tuple(
            "table-wrap table-wrap-group table fig fig-group ref-list ref fn fn-group "
            "graphic inline-graphic media supplementary-material object-id label floats-group".split()
        ),
        marks=("xref[@ref-type='bibr']", "xref[@ref-type='fn']", "xref[@ref-type='table-fn']"),
    ),
    "patent": _patent("grant", (_patent("application"), PATDOC, PUBLICATION)),
}

# The preset that reads a file, by its root element.
ROOTS = {
    **dict.fromkeys(("PubmedArticleSet", "PubmedArticle", "PubmedBookArticleSet", BOOK.record), "pubmed"),
    **dict.fromkeys(("article", "pmc-articleset"), "jats"),
    **{form.record: "patent" for form in (PRESETS["patent"], *PRESETS["patent"].others)},
}


def preset_of(path: Path) -> str:
    """Return the preset that reads a file; "" for none. Raises InputError for a file that cannot be read."""
    from corpora.sources.bytes.raw_files import open_raw  # here: the command's help asks for endings, not for pyarrow

    with open_raw(path) as stream, refusing_damage(path):
        name = root_name(stream.read(ROOT_BYTES)).rpartition(b":")[2]
    return ROOTS.get(name.decode(errors="replace"), "")


def of_preset(preset: str) -> str:
    """Return what files of a preset are called where another reads them."""
    return f"XML of preset {preset}"
