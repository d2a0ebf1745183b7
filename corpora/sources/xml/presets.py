"""XML formats that are known by name: what their records are, and where their fields are.

- "pubmed": PubMed and MEDLINE, baseline and update files of the National Library of Medicine
  (`pubmed24n0001.xml.gz`), and what `efetch` gives. Its DTD: PubmedArticleSet, DeleteCitation.
- "jats": articles of PubMed Central and of publishers (`.nxml`), JATS 1.0 to 1.4 and the NLM DTDs before it.
- "patent": grants of the United States Patent and Trademark Office from 2005 on, one to a file or a week's in one.
"""

from dataclasses import dataclass


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


CITATION = "MedlineCitation"
ARTICLE = f"{CITATION}/Article"
META = "front/article-meta"
PUBLISHED = "us-bibliographic-data-grant/publication-reference/document-id"

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
        file_order=r"pubmed(\d\d)n(\d{4})",
        skip=("math",),
        label="Label",
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
            "table-wrap table-wrap-group table fig fig-group ref-list ref fn fn-group disp-formula disp-formula-group "
            "math tex-math graphic inline-graphic media supplementary-material object-id label floats-group".split()
        ),
        marks=("xref[@ref-type='bibr']", "xref[@ref-type='fn']", "xref[@ref-type='table-fn']"),
    ),
    "patent": Preset(
        record="us-patent-grant",
        fields={
            "text": ("us-bibliographic-data-grant/invention-title", "abstract", "description", "claims"),
            "key": (f"{PUBLISHED}/doc-number",),
            "title": ("us-bibliographic-data-grant/invention-title",),
            "date": (f"{PUBLISHED}/date",),
        },
        blocks=tuple("abstract p heading claim claim-text ul ol li dl dt dd description-of-drawings".split()),
        skip=tuple("tables table maths math chemistry img".split()),
    ),
}
