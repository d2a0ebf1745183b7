"""Settings that cannot be meant: each is refused when it is made, with the key that is wrong."""

import re
from typing import Any

import pytest

from corpora.duplicates.candidates import SplitSettings
from corpora.duplicates.signatures import BandSettings, SignatureSettings
from corpora.duplicates.survivors import DuplicateSettings
from corpora.errors import InputError
from corpora.judging.settings import DocumentsSettings
from corpora.judging.steps.contamination import ContaminationSettings, EvaluationSet
from corpora.judging.steps.language import LanguageSettings
from corpora.judging.steps.lines import LineSettings
from corpora.judging.steps.privacy import PersonalDataSettings
from corpora.judging.steps.rules import C4Rules, FineWebRules, GopherRules, RepetitionRules
from corpora.judging.steps.selection import StoriesScoreSettings
from corpora.sources.books.source import BookCorpusSource
from corpora.sources.files.source import FilesSource
from corpora.sources.openwebtext import OpenWebTextSource
from corpora.sources.stories import StoriesSource
from corpora.sources.web.source import CcNewsSource
from corpora.sources.wiki.source import WikipediaSource

OWN = {"name": "own", "path": "x"}
TWICE = (EvaluationSet(path="a/dev.tsv"), EvaluationSet(path="b/dev.tsv"))
BY_KEY: list[tuple[type, str, dict[str, list[Any]]]] = [
    (BandSettings, "", {"bands": [0], "rows": [0]}),
    (SignatureSettings, "", {"permutations": [0, 5000], "shingle_words": [0], "seed": [-1]}),
    (DuplicateSettings, "", {"threshold": [0], "max_bucket_comparisons": [0]}),
    (SplitSettings, "held_out.", {"share": [0.6, -0.1], "seed": [-1, 1 << 64]}),
    (DocumentsSettings, "documents.", {"part_bytes": [0], "max_document_bytes": [0], "max_damaged_share": [1.5, -0.1]}),
    (LanguageSettings, "language.", {"keep": [("english",), ("un",)], "min_confidence": [50, -0.1]}),
    (LanguageSettings, "language.", {"sample_bytes": [59]}),
    (LineSettings, "lines.", {"min_words": [-1], "max_word_characters": [-1]}),
    (PersonalDataSettings, "personal_data.", {f"{kind}_replacement": ["a\nb"] for kind in ("email", "ip", "phone")}),
    (GopherRules, "rules.gopher.", {"min_mean_word_length": [-1], "max_bullet_lines": [90], "min_stop_words": [9]}),
    (RepetitionRules, "rules.repetition.", {"max_repeated_lines": [-0.1], "max_top_2gram_characters": [2]}),
    (C4Rules, "rules.c4.", {"min_sentences": [-1], "min_long_lines": [-3]}),
    (StoriesScoreSettings, "selection.", {"share": [0.0, 1.5]}),
    (WikipediaSource, "", {"max_page_bytes": [0], "namespaces": [()], "drop": [("stubs",)]}),
    (WikipediaSource, "", {"lists": ["keep"], "math": ["latex"]}),
    *((source, "", {"max_record_bytes": [0]}) for source in (BookCorpusSource, OpenWebTextSource, StoriesSource)),
]
REFUSED: list[tuple[type, dict[str, Any], str]] = [
    *(
        (settings, {key: value}, re.escape(before + key))
        for settings, before, keys in BY_KEY
        for key, values in keys.items()
        for value in values
    ),
    (DuplicateSettings, {"threshold": 0.12345678}, "decimals"),
    (DuplicateSettings, {"bands": 19}, "permutations"),
    (DuplicateSettings, {"permutations": 100}, "bands"),
    (SplitSettings, {"share": 0.6}, "held_out.share = .* is out of range"),
    (DocumentsSettings, {"part_bytes": 0}, "documents.part_bytes = 0 is out of range"),
    (ContaminationSettings, {"n": 1}, r"contamination\."),
    (ContaminationSettings, {"min_words": 14}, r"contamination\."),
    (ContaminationSettings, {"max_items": -1}, r"contamination\."),
    (ContaminationSettings, {"sets": TWICE}, r"two sets are called 'dev\.tsv'"),
    (GopherRules, {"min_words": 10, "max_words": 9}, r"rules\.gopher\.min_words is 10"),
    (GopherRules, {"max_symbol_ratio": 2.0}, r"rules\.gopher\.max_symbol_ratio.*for each word, from 0 to 1\.$"),
    (FineWebRules, {"max_newlines": 2.0}, r"rules\.fineweb\.max_newlines.*for each word, from 0 to 1\.$"),
    (StoriesSource, {"form": "lines"}, "form = 'lines' is not known: .*'blank-line'"),
    (CcNewsSource, {"last_day": "2024-02-30"}, "last_day = '2024-02-30' is no day"),
    (CcNewsSource, {"hosts": ("https://a.org",)}, r"'https://a\.org' in `hosts`"),
    (FilesSource, {"fields": {"txt": "body"}}, "did you mean 'text'"),
    (FilesSource, {"fields": {"text": ""}}, "empty"),
    (FilesSource, {"encoding": "utf-9"}, "no encoding 'utf-9'"),
    (FilesSource, {"encoding": "utf-16"}, "utf-16"),
    (FilesSource, {"encoding": "idna"}, "no encoding 'idna' of texts"),
    (FilesSource, {"max_record_bytes": 0}, "max_record_bytes"),
    (FilesSource, {"delimiter": "ab"}, "`delimiter` = 'ab'"),
    (FilesSource, {"delimiter": "\n"}, "no line end"),
    (FilesSource, {"quote": "“"}, "one ASCII character"),
    (FilesSource, {"delimiter": '"'}, "both"),
]


@pytest.mark.parametrize(("settings", "values", "says"), REFUSED)
def test_what_cannot_be_meant_is_refused_with_its_key(settings: type, values: dict[str, Any], says: str) -> None:
    given = OWN if issubclass(settings, FilesSource) else {"path": "x"} if hasattr(settings, "files") else {}
    with pytest.raises(InputError, match=says):
        settings(**given, **values)
