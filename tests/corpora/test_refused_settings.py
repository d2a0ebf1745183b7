"""Settings that cannot be meant: each is refused when it is made, with the key that is wrong."""

from typing import Any

import pytest

from corpora.duplicates.bands import BandSettings
from corpora.duplicates.candidates import SplitSettings
from corpora.duplicates.signatures import SignatureSettings
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
REFUSED: list[tuple[type, dict[str, Any], str]] = [
    (BandSettings, {"bands": 0}, "bands"),
    (BandSettings, {"rows": 0}, "rows"),
    (SignatureSettings, {"permutations": 0}, "permutations"),
    (SignatureSettings, {"permutations": 5000}, "permutations"),
    (SignatureSettings, {"shingle_words": 0}, "shingle_words"),
    (SignatureSettings, {"seed": -1}, "seed"),
    (DuplicateSettings, {"threshold": 0}, "threshold"),
    (DuplicateSettings, {"threshold": 0.12345678}, "decimals"),
    (DuplicateSettings, {"bands": 19}, "permutations"),
    (DuplicateSettings, {"permutations": 100}, "bands"),
    (DuplicateSettings, {"max_bucket_comparisons": 0}, "max_bucket_comparisons"),
    (SplitSettings, {"share": 0.6}, "held_out.share = .* is out of range"),
    (SplitSettings, {"share": -0.1}, "held_out.share"),
    (SplitSettings, {"seed": -1}, "held_out.seed"),
    (SplitSettings, {"seed": 1 << 64}, "held_out.seed"),
    (DocumentsSettings, {"part_bytes": 0}, "documents.part_bytes = 0 is out of range"),
    (DocumentsSettings, {"max_document_bytes": 0}, "documents.max_document_bytes"),
    (DocumentsSettings, {"max_damaged_share": 1.5}, "documents.max_damaged_share"),
    (DocumentsSettings, {"max_damaged_share": -0.1}, "documents.max_damaged_share"),
    (ContaminationSettings, {"n": 1}, r"contamination\."),
    (ContaminationSettings, {"min_words": 14}, r"contamination\."),
    (ContaminationSettings, {"max_items": -1}, r"contamination\."),
    (ContaminationSettings, {"sets": TWICE}, r"two sets are called 'dev\.tsv'"),
    (LanguageSettings, {"keep": ("english",)}, r"language\.keep"),
    (LanguageSettings, {"keep": ("un",)}, r"language\.keep"),
    (LanguageSettings, {"min_confidence": 50}, r"language\.min_confidence"),
    (LanguageSettings, {"min_confidence": -0.1}, r"language\.min_confidence"),
    (LanguageSettings, {"sample_bytes": 59}, r"language\.sample_bytes"),
    (LineSettings, {"min_words": -1}, r"lines\.min_words is -1"),
    (LineSettings, {"max_word_characters": -1}, r"lines\.max_word_characters is -1"),
    (PersonalDataSettings, {"email_replacement": "a\nb"}, r"personal_data\.email_replacement"),
    (PersonalDataSettings, {"ip_replacement": "a\nb"}, r"personal_data\.ip_replacement"),
    (PersonalDataSettings, {"phone_replacement": "a\nb"}, r"personal_data\.phone_replacement"),
    (GopherRules, {"min_words": 10, "max_words": 9}, r"rules\.gopher\.min_words is 10"),
    (GopherRules, {"min_mean_word_length": -1}, r"rules\.gopher\.min_mean_word_length is -1"),
    (GopherRules, {"max_bullet_lines": 90}, r"rules\.gopher\.max_bullet_lines is 90"),
    (GopherRules, {"min_stop_words": 9}, r"rules\.gopher\.min_stop_words is 9"),
    (GopherRules, {"max_symbol_ratio": 2.0}, r"rules\.gopher\.max_symbol_ratio.*for each word, from 0 to 1\.$"),
    (RepetitionRules, {"max_repeated_lines": -0.1}, r"rules\.repetition\.max_repeated_lines is -0\.1"),
    (RepetitionRules, {"max_top_2gram_characters": 2}, r"rules\.repetition\.max_top_2gram_characters is 2"),
    (C4Rules, {"min_sentences": -1}, r"rules\.c4\.min_sentences is -1"),
    (C4Rules, {"min_long_lines": -3}, r"rules\.c4\.min_long_lines is -3"),
    (FineWebRules, {"max_newlines": 2.0}, r"rules\.fineweb\.max_newlines.*for each word, from 0 to 1\.$"),
    (StoriesScoreSettings, {"share": 0.0}, r"selection\.share"),
    (StoriesScoreSettings, {"share": 1.5}, r"selection\.share"),
    (WikipediaSource, {"path": "x", "max_page_bytes": 0}, "max_page_bytes"),
    (WikipediaSource, {"path": "x", "namespaces": ()}, "namespaces"),
    (WikipediaSource, {"path": "x", "drop": ("stubs",)}, "drop"),
    (WikipediaSource, {"path": "x", "lists": "keep"}, "lists"),
    (WikipediaSource, {"path": "x", "math": "latex"}, "math"),
    (BookCorpusSource, {"path": "x", "max_record_bytes": 0}, "max_record_bytes"),
    (OpenWebTextSource, {"path": "x", "max_record_bytes": 0}, "max_record_bytes"),
    (StoriesSource, {"path": "x", "form": "lines"}, "form = 'lines' is not known: .*'blank-line'"),
    (StoriesSource, {"path": "x", "max_record_bytes": 0}, "max_record_bytes"),
    (CcNewsSource, {"path": "x", "last_day": "2024-02-30"}, "last_day = '2024-02-30' is no day"),
    (CcNewsSource, {"path": "x", "hosts": ("https://a.org",)}, r"'https://a\.org' in `hosts`"),
    (FilesSource, {**OWN, "fields": {"txt": "body"}}, "Did you mean 'text'"),
    (FilesSource, {**OWN, "fields": {"text": ""}}, "empty"),
    (FilesSource, {**OWN, "encoding": "utf-9"}, "no encoding 'utf-9'"),
    (FilesSource, {**OWN, "encoding": "utf-16"}, "utf-16"),
    (FilesSource, {**OWN, "encoding": "idna"}, "no encoding 'idna' of texts"),
    (FilesSource, {**OWN, "max_record_bytes": 0}, "max_record_bytes"),
    (FilesSource, {**OWN, "delimiter": "ab"}, "`delimiter` = 'ab'"),
    (FilesSource, {**OWN, "delimiter": "\n"}, "no line end"),
    (FilesSource, {**OWN, "quote": "“"}, "one ASCII character"),
    (FilesSource, {**OWN, "delimiter": '"'}, "both"),
]


@pytest.mark.parametrize(("settings", "values", "says"), REFUSED)
def test_what_cannot_be_meant_is_refused_with_its_key(settings: type, values: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        settings(**values)
