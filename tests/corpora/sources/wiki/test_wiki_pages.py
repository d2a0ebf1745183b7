"""A page in the conventions of each of thirty wikis: nothing of a sentence is lost, and no code is left in one."""

import tomllib
from pathlib import Path

from corpora.sources.wiki.wikitext.prose import WikitextSettings, is_disambiguation, is_redirect, read_wikitext

CASES = Path(__file__).parents[2] / "cases" / "wiki_pages.toml"


def test_a_page_of_each_wiki_is_read_as_its_readers_see_it() -> None:
    """Fails if a template of a wiki loses its words, if its files, categories or sections of references are text, or if
    the names of its languages, its numbers or quotations are those of another. `**` stands for the marks of bold."""
    pages = tomllib.loads(CASES.read_text(encoding="utf-8"))
    wrong = []
    for wiki, case in pages.items():
        text = read_wikitext(case["page"].replace("**", "'''"), WikitextSettings(wiki=wiki)).text
        if text != case["text"]:
            wrong.append(f"{wiki} is\n{text}\n    and should be\n{case['text']}")
        if "redirect" in case and not is_redirect(case["redirect"]):
            wrong.append(f"{wiki}: {case['redirect']} is no redirect")
        if "disambiguation" in case and not is_disambiguation(case["disambiguation"], "A title", wiki):
            wrong.append(f"{wiki}: {case['disambiguation']} is an article")
    assert len(pages) == 30 and not wrong, "\n".join(wrong)
