"""A vocabulary fitted to a domain: measured, given tokens, measured again, and written with its model.

    words of the domain ─► tokens chosen ─► vocabulary ─► (rows for a model) ─► a folder

Promise: nothing is written if anything is wrong. The figures come from the vocabularies' own encoding of the
counted words, not from the estimates by which tokens were chosen.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from glob import has_magic
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Group, RenderableType
from rich.text import Text

from corpora.build import Corpus
from corpora.errors import InputError
from corpora.generic_types import Tell
from corpora.judging.steps.privacy import PersonalDataSettings, mask_private
from corpora.sources.bytes.unchanged import hold_unchanged, read_states
from corpora.sources.contract import RawFile, Tally, split_glob
from corpora.sources.files.source import FilesSource
from corpora.store.places.place import Place
from flows.command.terminal import build_table
from flows.recipes.privacy import to_one_line
from flows.recipes.store_folders import refuse_store
from flows.run.addresses import find_artifacts, pick_newest, split_address
from flows.run.record.releases import parse_release_address
from tokenizers_train.adapting import (
    APPEND,
    FILL,
    AdaptSettings,
    Choice,
    choose_tokens,
    find_old_pieces,
    list_slot_ids,
    require_word_rule,
    with_added_tokens,
)
from tokenizers_train.encoding.encoder import Encoder
from tokenizers_train.measures.measure import (
    Measures,
    encode_counted_words,
    find_unknown_id,
    measure_sources,
    measure_words,
)
from tokenizers_train.vocabularies.vocabulary import Vocabulary
from tokenizers_train.words.counts import count_words, merge_counts
from tokenizers_train.words.table import WordCounts

Facts = dict[str, Any]
CORPORA = "corpora"
NAME_WIDTH, MAX_TOKENS_SHOWN = 40, 12  # characters of a name, and tokens, that are shown
BATCH_CHARACTERS = 8_000_000
MAX_TABLES = 32  # of counts that wait to be merged
ALL_PERSONAL_DATA = PersonalDataSettings(
    email=True, ip=True, phone=True, email_replacement="", ip_replacement="", phone_replacement=""
)

Texts = Iterable[tuple[str, pa.Array]]  # of a source of this name


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainCounts:
    """Word counts of a domain (a collection of texts on one subject).

    Attributes:
        sources: The word counts by source name.
    """

    sources: dict[str, WordCounts]

    @property
    def total(self) -> WordCounts:
        """The sum of the word counts of all sources."""
        return merge_counts([*self.sources.values()])


def count_domain(addresses: Sequence[str], vocabulary: Vocabulary, store: str, text: str, tell: Tell) -> DomainCounts:
    """Count the words of files and corpora.

    Args:
        addresses: Files, folders or globs, or corpora, given by name or address (STORE/corpora/NAME).
        vocabulary: The vocabulary. Its rule splits text into words.
        store: The store in which corpus names are looked up.
        text: The field or column that holds the text in JSON lines and tables.
        tell: Called with a line for each address.

    Raises:
        InputError: If an address cannot be read, no text has a word, or the vocabulary's rule for words is unknown.
    """
    rule = require_word_rule(vocabulary)
    parts: dict[str, list[WordCounts]] = {}
    texts, unread = 0, Counter[str]()
    for address in addresses:
        before, unread_before = texts, unread["records"]
        for name, column in _iter_texts(address, store, text, unread):
            waiting = parts.setdefault(name, [])
            waiting.append(count_words(rule, mask_private(column, ALL_PERSONAL_DATA)[0]))
            texts += len(column)
            if len(waiting) >= MAX_TABLES:
                parts[name] = [merge_counts(waiting)]
        number = unread["records"] - unread_before
        tell(f"{address}: {texts - before:,} texts{f', {number:,} that cannot be read' if number else ''}")
    sources = {name: merge_counts(tables) for name, tables in parts.items()}
    if not any(counts.num_rows for counts in sources.values()):
        raise InputError(
            f"No text of {', '.join(addresses)} holds a word. Give files with text; of JSON lines and tables --text "
            "names the field that holds it."
        )
    return DomainCounts(sources=sources)


def _iter_texts(address: str, store: str, text: str, unread: Counter[str]) -> Texts:
    """Yield the documents at an address in batches of a few megabytes, as (source name, string array) tuples.

    Args:
        address: A file, folder, glob, or corpus.
        store: The store in which corpus names are looked up.
        text: The field or column that holds the text.
        unread: A counter; its count "records" is incremented for each record of a file that cannot be read.

    Raises:
        InputError: If there is nothing at the address.
    """
    if (
        "://" in address
        or parse_release_address(address) is not None
        or (Path(address).exists() and split_address(address)[1].split("/")[0] == CORPORA)
    ):
        return _iter_corpus_texts(address)
    if Path(address).exists() or has_magic(address):
        return _iter_file_texts(address, text, unread)
    if address not in {path.split("/")[1] for path in Place(store).list_files(CORPORA)}:
        raise InputError(
            f"--corpus {address}: there is no such file or folder, and no corpus of that name in the store {store!r} "
            "(--store names another store). Give files, a folder, or a corpus that `cloze run` has built."
        )
    return _iter_corpus_texts(Place(store).to_address(f"{CORPORA}/{address}"))


def _iter_corpus_texts(address: str) -> Texts:
    """Yield the training documents of the newest corpus at an address, as (source name, string array) tuples.

    Args:
        address: The address of a corpus, a store or a release.

    Raises:
        InputError: If there is no corpus.
    """
    artifact = pick_newest(find_artifacts(address, CORPORA))
    for batch in Corpus(artifact.place, artifact.manifest).iter_batches():
        train = batch.filter(pc.invert(batch.column("held_out")))
        names = train.column("source")
        for name in pc.unique(names).to_pylist():
            yield name, train.filter(pc.equal(names, name)).column("text")


def _iter_file_texts(address: str, text: str, unread: Counter[str]) -> Texts:
    """Yield the documents in files as (name, string array) tuples, in batches of about BATCH_CHARACTERS characters.

    The name is that of the file or folder, or the glob. The last batch may be empty.

    Args:
        address: A file, folder or glob.
        text: The field or column that contains the text.
        unread: A counter; its count "records" is incremented for each record that cannot be read.

    Raises:
        InputError: If the folder is a store, or a file cannot be read.
    """
    refuse_store(split_glob(address)[0])
    name = address if has_magic(address) else Path(address).resolve().name
    source = FilesSource(name=name, path=address, fields={"text": text}, encoding="auto")
    waiting: list[str] = []
    size = 0
    for record_text in _iter_record_texts(source, unread):
        waiting.append(record_text)
        size += len(record_text)
        if size >= BATCH_CHARACTERS:
            yield source.name, pa.array(waiting, pa.large_string())
            waiting, size = [], 0
    yield source.name, pa.array(waiting, pa.large_string())


def _iter_record_texts(source: FilesSource, unread: Counter[str]) -> Iterator[str]:
    """Yield the text of each readable record of a source.

    Unreadable records are added to the count "records" in `unread`.
    """
    for name, path in source.files():
        with hold_unchanged(read_states([str(path)])):
            file = RawFile(name=name, sha256="", size_bytes=path.stat().st_size, path=str(path))
            for piece in source.slices(file):
                for record in source.records(piece, Tally()):
                    unread["records"] += record.drop is not None
                    if record.drop is None:
                        yield record.text


def resolve_token_count(vocabulary: Vocabulary, tokens: int | None, fill: bool) -> int:
    """Determine how many tokens to add to a vocabulary.

    Args:
        vocabulary: The vocabulary.
        tokens: The number of tokens, or None.
        fill: True to add as many tokens as there are unused slots.

    Raises:
        InputError: If both or neither of `tokens` and `fill` are given, the number is below 1, or there are no unused
            slots.
    """
    if (tokens is None) == (not fill):
        raise InputError(
            "Set how many tokens to add: --tokens N, or --fill for as many as there are slots (one of the two)."
        )
    if tokens is not None:
        if tokens < 1:
            raise InputError(f"--tokens {tokens}: ask for one token or more.")
        return tokens
    slots = len(list_slot_ids(vocabulary))
    if not slots:
        raise InputError(
            "--fill: the vocabulary has no unused slots ([unused0], ...) left to fill. Give --tokens N: then tokens "
            "are added after the last one, and the model gets rows for them."
        )
    return slots


def adapt_vocabulary(
    vocabulary: Vocabulary, domain: DomainCounts, wanted: int, settings: AdaptSettings, append: bool = False
) -> tuple[Vocabulary, dict[str, Any]]:
    """Choose the new tokens that most reduce the number of tokens in a domain, and add them to a vocabulary.

    Args:
        vocabulary: The vocabulary to extend.
        domain: The words of the domain.
        wanted: The maximum number of new tokens.
        settings: Which words may become tokens.
        append: True to append all tokens at the end; otherwise, unused slots are filled first.

    Returns:
        The new vocabulary, and a JSON object with the keys "size" ("before" and "after"), "wanted", "filled" and
        "appended" (numbers of tokens), "model_rows" (None), "before" and "after" (the statistics of the domain), and
        "tokens" (the added ones).

    Raises:
        InputError: If no word is worth a token.
    """
    choices = choose_tokens(vocabulary, domain.total, wanted, settings)
    if not choices:
        raise InputError(
            f"No word of the corpus that the vocabulary cuts occurs {settings.min_count} times and is of "
            f"{settings.min_length} to {settings.max_length} {settings.characters}: it fits as it is. Lower "
            "--min-count, or give more text."
        )
    new = with_added_tokens(vocabulary, choices, APPEND if append else FILL)
    appended = new.size - vocabulary.size
    return new, {
        "size": {"before": vocabulary.size, "after": new.size},
        "wanted": wanted,
        "filled": len(choices) - appended,
        "appended": appended,
        "model_rows": None,
        "before": _measure_fit(vocabulary, domain),
        "after": _measure_fit(new, domain),
        "tokens": _list_added_tokens(vocabulary, new, choices),
    }


def _list_added_tokens(old: Vocabulary, new: Vocabulary, choices: Sequence[Choice]) -> list[dict[str, Any]]:
    """List the added tokens as dicts, in the order in which they were chosen.

    The keys are "token", "id", "count" (of the word), "saved" (the number of tokens that it saves in the domain) and
    "pieces" (the tokens into which the old vocabulary splits it).

    Args:
        old: The vocabulary before tokens were added.
        new: The vocabulary with the added tokens.
        choices: The words that became tokens.
    """
    pieces = find_old_pieces(old, new)
    return [
        {
            "token": new.format_token(number),
            "id": number,
            "count": choice.count,
            "saved": choice.saved_tokens,
            "pieces": [*map(old.format_token, pieces[number])],
        }
        for choice in choices
        for number in [new.find_id(choice.token)]
    ]


def _measure_fit(vocabulary: Vocabulary, domain: DomainCounts) -> dict[str, Any]:
    """Measure how a vocabulary splits the words of a domain.

    Returns:
        A dict with the fields of `Measures`, the ratios "fertility" (tokens per word), "unknown_rate" and "whole_share"
        (words of one token) and, under "sources", a dict with the same keys for each source by name.
    """
    pieces = encode_counted_words(Encoder(vocabulary), domain.total)
    unknown, size = find_unknown_id(vocabulary), vocabulary.size
    sources = measure_sources(pieces, unknown, size, sorted(domain.sources.items()))
    return {
        **_measure_facts(measure_words(pieces, unknown, size)),
        "sources": {name: _measure_facts(measures) for name, measures in sources.items()},
    }


def _measure_facts(measures: Measures) -> dict[str, Any]:
    unknown_rate = measures.unknown_words / measures.words if measures.words else None
    shares = {"fertility": measures.fertility, "unknown_rate": unknown_rate, "whole_share": measures.whole_share}
    return {**asdict(measures), **shares}


def render_adaptation(name: str, facts: Facts, output: Path) -> RenderableType:
    """Render the effect of an adaptation: the tokens it saves, the first new tokens, and the vocabulary's growth.

    Args:
        name: The name of the old vocabulary.
        facts: The JSON object from `adapt_vocabulary`. Its "model_rows" is the number of rows of the adapted model;
            None if there is no model.
        output: The folder that was written.
    """
    table = build_table("source", "words", "tokens a word", "words of one token", "words unknown")
    before, after = facts["before"], facts["after"]
    sources = before["sources"] if len(before["sources"]) > 1 else {}
    for source in sources:
        table.add_row(
            Text(to_one_line(source, NAME_WIDTH)),
            *_format_gains(before["sources"][source], after["sources"][source]),
        )
    table.add_row("all", *_format_gains(before, after))
    added = build_table("token added", "saves", "was", texts=["token added", "was"])
    for token in facts["tokens"][:MAX_TOKENS_SHOWN]:
        was = Text(to_one_line(" ".join(token["pieces"]), 2 * NAME_WIDTH))
        added.add_row(Text(to_one_line(token["token"], NAME_WIDTH)), f"{token['saved']:,}", was)
    return Group(table, Text(), added, Text(), *map(Text, _iter_outcome_lines(name, facts)), Text(str(output)))


def _format_gains(before: Facts, after: Facts) -> list[str]:
    shown = {"fertility": ".3f", "whole_share": ".2%", "unknown_rate": ".3%"}
    return [f"{before['words']:,}", *(f"{before[k] or 0:{form}} → {after[k] or 0:{form}}" for k, form in shown.items())]


def _iter_outcome_lines(name: str, facts: Facts) -> Iterator[str]:
    size, number = facts["size"], len(facts["tokens"])
    yield (
        f"{number:,} tokens added to {to_one_line(name, NAME_WIDTH)}: {facts['filled']:,} in unused slots, "
        f"{facts['appended']:,} after the last one ({size['before']:,} → {size['after']:,} tokens)"
    )
    if number < facts["wanted"]:
        yield f"{facts['wanted']:,} were asked for: no more words occur often enough and are cut."
    if facts["model_rows"] is not None:
        yield f"The model has {facts['model_rows']:,} rows; those of the new tokens are means of their old pieces'."
