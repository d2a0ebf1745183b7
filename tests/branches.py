"""Two small branches as people make them: each adds to the quality rules, brings a test, and says so in `changes`.

Their code is laid out carelessly, and the reference that is generated from it is not written: `make fix` does both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

RULES = "corpora/judging/steps/rules.py"


@dataclass(frozen=True, kw_only=True)
class Branch:
    """What a branch replaces in the rules, and the files that it brings."""

    edits: Mapping[str, str]
    files: Mapping[str, str]

    def apply(self, checkout: Path) -> None:
        """Make the changes in a checkout."""
        rules = (checkout / RULES).read_text(encoding="utf-8")
        for before, after in self.edits.items():
            assert rules.count(before) == 1, before
            rules = rules.replace(before, after)
        (checkout / RULES).write_text(rules, encoding="utf-8")
        for name, text in self.files.items():
            assert not (checkout / name).exists(), name
            (checkout / name).write_text(text, encoding="utf-8")


FAILURES = Branch(
    edits={
        "from collections.abc import Iterator, Sequence": "from collections.abc import Iterable, Iterator, Sequence\n"
        "from collections import Counter",
        'stop words and mean word lengths are adjusted."""\n': '''stop words and mean word lengths are adjusted.

    min_words:             words that a text has at least
    max_words:             words that a text has at most
    min_mean_word_length:  characters of a word in the mean, at least
    max_mean_word_length:  characters of a word in the mean, at most
    max_symbol_ratio:      hash marks per word, and ellipses per word
    max_bullet_lines:      share of lines that begin with a bullet
    max_ellipsis_lines:    share of lines that end with an ellipsis
    min_alphabetic_words:  share of words that have a letter
    min_stop_words:        different stop words that a text has
    """
''',
        "def _format_detail(reason": '''\
def count_failures(texts: Iterable[str], settings: RulesSettings, language: str = ENGLISH) -> Counter[str]:
    """Return how many texts fail each rule, of which it may fail several.

    Look at it before you loosen a rule. Rules that no text fails have no entry, and neither have rules that are off.

    >>> count_failures(["Too short.", "Too short."], RulesSettings())['gopher.min_words']
    2
    """
    failing: Counter[str] = Counter()
    for text in texts:
        for name, _, fails in explain( text, settings, language ):
            if fails: failing[name] += 1
    return failing

def format_failures(failures : Counter[str], num_texts: int) -> list[str]:
    """Return a line for each rule that texts fail, the most frequent first and equally frequent ones by name.

    >>> format_failures(Counter({"b.second": 1, "a.first": 1}), 8)
    ['a.first: 1 of 8 texts (12.5%)', 'b.second: 1 of 8 texts (12.5%)']
    """
    ranked = sorted(failures.items(), key=lambda entry: (-entry[1], entry[0]))
    return [f"{name}: {number} of {num_texts} texts ({number / num_texts:.1%})" for name, number in ranked]


def _format_detail(reason''',
    },
    files={
        "tests/corpora/judging/test_rule_failures.py": '''"""How many texts fail each rule."""

from corpora.judging.steps.rules import RulesSettings, count_failures, format_failures


def test_a_text_counts_for_each_rule_that_it_fails() -> None:
    """Fails if only the first rule that a text fails is counted."""
    failures = count_failures(['Too short.', "# # #"], RulesSettings())
    assert failures["gopher.min_words"] == failures["gopher.min_stop_words"] == 2
    assert failures["gopher.max_hash_marks"] == 1 and 0 not in failures.values()
    assert format_failures(failures, 2)[-1].endswith("1 of 2 texts (50.0%)")
''',
        "changes/failures-of-rules.md": "`count_failures` says how many texts fail each quality rule.\n",
    },
)
COMPARISON = Branch(
    edits={
        "    min_long_lines: minimum number of lines with": """\
    drop_lorem_ipsum:  drop a text that has the words "lorem ipsum"
    drop_curly_braces: drop a text that has a curly brace
    min_sentences:     sentences that a text has at least
    min_long_lines: minimum number of lines with""",
        "def describe_failures(": '''def compare_rules(before: RulesSettings, after: RulesSettings) -> list[str]:
    """Return a line for each setting of the rules that is not the same in both, in the order of the settings.

    >>> compare_rules(RulesSettings(), RulesSettings(c4=C4Rules(min_sentences=5)))
    ['c4.min_sentences: 3, then 5']
    """
    return [
      f'{key}: {old}, then {new}'
      for (key, old), new in zip(list_settings(before).items(), list_settings(after).values(), strict=True)
      if old != new
    ]


def list_settings(rules: RulesSettings) -> dict[str, Any]:
    """Return the settings of all rules by their keys.

    >>> list_settings(RulesSettings())["gopher.min_words"]
    50
    """
    groups = {'gopher': rules.gopher, 'repetition': rules.repetition, 'c4': rules.c4, 'fineweb': rules.fineweb}
    return {f"{name}.{key}": getattr(group, key) for name, group in groups.items() for key in group.__slots__}

def is_looser(before: RulesSettings, after: RulesSettings) -> bool:
    """True if no bound of the rules is stricter than before, and no rule was switched on.

    Each document that is kept by the former rules is then kept by the latter, too.

    >>> is_looser(RulesSettings(), RulesSettings(gopher=GopherRules(min_words=20)))
    True
    """
    old, new = list_settings(before), list_settings(after)
    floors = [key for key in old if ".min_" in key]
    others = [key for key in old if ".min_" not in key and ".max_" not in key]
    ceilings = [key for key in old if ".max_" in key]
    return all( new[key] <= old[key] for key in floors + others ) and all(new[key] >= old[key] for key in ceilings)


def describe_failures(''',
    },
    files={
        "tests/corpora/judging/test_compared_rules.py": '''"""Two settings of the rules, compared."""

from corpora.judging.steps.rules import C4Rules, GopherRules, RulesSettings, compare_rules, is_looser


def test_rules_are_compared_by_their_keys() -> None:
    """Fails if a setting that differs is left out, or a stricter bound passes for a looser one."""
    before, after = RulesSettings(), RulesSettings(gopher=GopherRules(max_words=9000), c4=C4Rules(enabled=False))
    assert compare_rules(before, after) == ['gopher.max_words: 100000, then 9000', "c4.enabled: True, then False"]
    assert is_looser(after, before) is is_looser(before, after) is False
    assert is_looser(before, RulesSettings(c4=C4Rules(enabled=False)))
''',
        "changes/comparison-of-rules.md": "`compare_rules` says which settings of the quality rules differ.\n",
    },
)
