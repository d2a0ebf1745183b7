"""A tag for each word of a sentence: named entities and other spans, or parts of speech.

A word is represented by its first token (Devlin et al. 2018, section 5.3). Nothing is truncated: a sentence that is too
long for the model is read in overlapping windows, and a word is tagged in the window with the most context around it.
Words without a token (only control characters) get the most frequent tag of training, or O for spans. Tags of spans are
converted to one scheme for training, which leaves the spans unchanged. Spans are scored as in conlleval, and all other
tags by the fraction of correct words.

**Tags.** A tag is a letter, a hyphen and a type (`B-PER`); `O`, which belongs to no span; or only a type, which is read
as `I-TYPE`, so that files with only the type of a token (IO) can be read. A single letter has the type "". `B` starts a
span and `I` continues it. `E` or `L` is its last token, and `S` or `U` its only one (BIOES is the same as BILOU).

Sequences that are not valid in their scheme are read as in conlleval (the script of CoNLL-2000, Tjong Kim Sang and
Buchholz). A span starts at a tag that is not O if the tag is B or S, or if the previous tag is O, E or S or has another
type. It ends before the next such tag or O. So `O I-PER` is one span, and `B-PER I-LOC` are two.

A span is correct if sentence, first token, last token and type are the same. Cost: 0.4 s for a million tokens.

**Schemes** of tags for spans, which are recognized and converted:

    BIO1    B- only if a span directly follows another of its type (CoNLL-2003's files), otherwise I-
    BIO2    every span starts with B-
    BIOES   the last word of several has E-, a single word S-; with L- and U- instead, it is called BILOU
    IO      starts are not marked: adjacent spans of the same type become one
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, pairwise
from operator import eq
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from corpora.errors import InputError
from corpora.kernels.arrays import Bools, Int64s
from corpora.store.settings import check_choice, check_range
from trainer.objectives.contract import Term
from trainer.tasks.formats.records import Unusable, as_label, as_words
from trainer.tasks.kinds.texts import compute_rates
from trainer.tasks.long_texts import Pieces, iter_parts, split_into_pieces
from trainer.tasks.task import Answers, Items, Misfit, OldKeys, Task, TaskItem, parse_labels, to_label_keys, with_first
from trainer.tasks.text_encoder import TextEncoder

_O, _B, _I, _E, _S = range(5)
_CODES = {"B": _B, "I": _I, "E": _E, "L": _E, "S": _S, "U": _S}

# Shapes: T tokens of all sentences, each sentence with one O before it; S spans; K types.


class TaggedSpan(NamedTuple):
    """A span of a sentence: its type, and the zero-based indices of its first and last token."""

    type: str
    first: int
    last: int


class _Spans(NamedTuple):
    """The spans of several sentences as arrays over tokens, with one O token before each sentence.

    last_T: for tokens that start a span, the index of the span's last token; for others -1
    type_T: the index of the tag's type
    """

    last_T: Int64s
    type_T: Int64s


def compute_span_scores(gold: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]) -> dict[str, float]:
    """Compute `precision`, `recall` and `f1` of spans, and `token_accuracy`, the fraction of correctly tagged tokens.

    A rate is 0 if its denominator is 0.

    Args:
        gold: The correct tags of each sentence.
        answers: The predicted tags of each sentence, as many as in `gold`.

    >>> compute_span_scores([["B-PER", "I-PER", "O"]], [["B-PER", "I-PER", "B-LOC"]])["precision"]
    0.5
    """
    right, answered, wanted = count_spans(gold, answers).sum(0).tolist()
    return {**compute_rates(right, answered, wanted)._asdict(), "token_accuracy": compute_token_accuracy(gold, answers)}


def compute_token_accuracy(gold: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]) -> float:
    """Compute the fraction of tokens with the correct tag, over all sentences. Tags may be any strings.

    There must be at least one token.

    >>> compute_token_accuracy([["DET", "NOUN"], ["VERB"], []], [["DET", "VERB"], ["VERB"], []])
    0.6666666666666666
    """
    pairs = zip(chain.from_iterable(gold), chain.from_iterable(answers), strict=True)
    return sum(tag == other for tag, other in pairs) / sum(map(len, gold))


def count_spans(gold: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]) -> Int64s:
    """Count the correct, predicted and gold spans of each sentence, in this order: int64 [sentences, 3].

    Args:
        gold: The correct tags of each sentence.
        answers: The predicted tags of each sentence, as many as in `gold`.
    """
    types: dict[str, int] = {}
    wanted, answered = _encode_spans(gold, types), _encode_spans(answers, types)
    sentence_T = np.repeat(np.arange(len(gold)), [len(tags) + 1 for tags in gold])
    begins_T, same_T = answered.last_T >= 0, (wanted.last_T == answered.last_T) & (wanted.type_T == answered.type_T)
    begins_3 = (begins_T & same_T, begins_T, wanted.last_T >= 0)
    counts: Int64s = np.stack([np.bincount(sentence_T[begin], minlength=len(gold)) for begin in begins_3], axis=1)
    return counts


def find_spans(tags: Sequence[str]) -> list[TaggedSpan]:
    """Find the spans marked by the tags of a sentence, in order.

    >>> find_spans(["I-PER", "B-LOC"])
    [TaggedSpan(type='PER', first=0, last=0), TaggedSpan(type='LOC', first=1, last=1)]
    """
    types: dict[str, int] = {}
    spans = _encode_spans([tags], types)
    names = list(types)
    return [
        TaggedSpan(names[spans.type_T[at]], int(at) - 1, int(spans.last_T[at]) - 1)
        for at in np.flatnonzero(spans.last_T >= 0)
    ]


def _encode_spans(sentences: Sequence[Sequence[str]], types: dict[str, int]) -> _Spans:
    """Convert the tags of sentences to arrays that show where spans begin and end.

    `types` maps the names of types to numbers. Missing types are added to it, each with the next number.
    """
    codes: dict[str, int] = {"O": _O}  # of each tag: 5 x type + letter
    flat: list[int] = []
    for tags in sentences:
        for tag in tags:
            if tag not in codes:
                codes[tag] = _encode_tag(tag, types)
        flat += [_O, *(codes[tag] for tag in tags)]
    code_T = np.array(flat, np.int64)
    letter_T, type_T = code_T % 5, code_T // 5
    begin_T = _mark_begins(letter_T, type_T)
    inside_T = letter_T != _O
    first_S = np.flatnonzero(begin_T)
    edges = np.append(np.flatnonzero(begin_T | ~inside_T), len(code_T))  # a span ends before the next of these
    last_S = edges[np.searchsorted(edges, first_S, side="right")] - 1
    last_T = np.full(len(code_T), -1)
    last_T[first_S] = last_S
    return _Spans(last_T, type_T)


def _mark_begins(letter_T: Int64s, type_T: Int64s) -> Bools:
    """Mark the tokens at which spans begin: bool [T].

    The arguments are the code of each tag's letter and the index of its type. The very first token must be an O.
    """
    before_T, type_before_T = np.roll(letter_T, 1), np.roll(type_T, 1)
    own = np.isin(letter_T, (_B, _S))
    apart = np.isin(before_T, (_O, _E, _S)) | (type_T != type_before_T)
    begins: Bools = (letter_T != _O) & (own | apart)
    return begins


def _encode_tag(tag: str, types: dict[str, int]) -> int:
    """Encode a tag other than O as 5 times the number of its type, plus the code of its letter.

    `types` maps the names of types to numbers. A missing type is added to it.
    """
    letter, _, name = tag.partition("-")
    if letter not in _CODES:
        letter, name = "I", tag
    return 5 * types.setdefault(name, len(types)) + _CODES[letter]


OUTSIDE = "O"
SCHEME_LETTERS: Mapping[str, str] = MappingProxyType({"bio2": "BI", "bioes": "BIES"})  # of the schemes that are learnt
_SPAN = re.compile(r"[BIESLU]-.+")


def are_spans(tags: Collection[str]) -> bool:
    """Return True if tags mark spans, that is, if each tag except O begins or continues a span.

    >>> are_spans({"O", "B-PER", "I-PER"}), are_spans({"B", "I", "O"}), are_spans({"NOUN", "X"}), are_spans({"O"})
    (True, True, False, False)
    """
    inside = {*tags} - {OUTSIDE}
    letters_alone = inside <= {*"BIESLU"} and bool(inside & {"B", "I"})
    return bool(inside) and (letters_alone or all(map(is_span_tag, inside)))


def is_span_tag(tag: str) -> bool:
    """Return True if a tag begins or continues a span that has a type.

    >>> [is_span_tag(tag) for tag in ("B-PER", "X-PER", "B", "b-PER")]
    [True, False, False, False]
    """
    return _SPAN.fullmatch(tag) is not None


def guess_scheme(sentences: Iterable[Sequence[str]]) -> str:
    """Guess the tagging scheme of sentences from their tags: "BIO1", "BIO2", "BIOES" or "IO".

    >>> guess_scheme([["I-PER", "I-PER", "B-PER"]]), guess_scheme([["B-PER", "I-PER"]]), guess_scheme([["S-PER"]])
    ('BIO1', 'BIO2', 'BIOES')
    >>> guess_scheme([["I-PER", "O"]])
    'IO'
    """
    letters, all_begin = set[str](), True
    for tags in sentences:
        for before, tag in pairwise([OUTSIDE, *tags]):
            letter, _, name = tag.partition("-")
            goes_on = before[:1] in ("B", "I") and before.partition("-")[2] == name
            all_begin &= letter != "I" or goes_on
            letters.add(letter)
    if letters & {*"ESLU"}:
        return "BIOES"
    if "B" not in letters:
        return "IO"
    return "BIO2" if all_begin else "BIO1"


def to_scheme(tags: Sequence[str], scheme: str) -> list[str]:
    """Convert the tags of a sentence to the scheme "bio2" or "bioes". The spans stay the same.

    >>> to_scheme(["I-PER", "I-PER", "B-PER", "O", "I-LOC"], "bio2")
    ['B-PER', 'I-PER', 'B-PER', 'O', 'B-LOC']
    >>> to_scheme(["I-PER", "I-PER", "B-PER", "O", "I-LOC"], "bioes")
    ['B-PER', 'E-PER', 'S-PER', 'O', 'S-LOC']
    """
    converted = [OUTSIDE] * len(tags)
    for kind, first, last in find_spans(tags):
        letters = ["B", *"I" * (last - first)]
        if scheme == "bioes":
            letters[-1] = "S" if first == last else "E"
        converted[first : last + 1] = [format_tag(letter, kind) for letter in letters]
    return converted


def format_tag(letter: str, kind: str) -> str:
    """Join a letter and a type with a hyphen, as in "B-PER". If the type is "", return only the letter."""
    return f"{letter}-{kind}" if kind else letter


def may_follow(before: str | None, after: str | None, scheme: str) -> bool:
    """Return True if one tag may follow another in a well-formed sentence.

    Args:
        before: The first tag, or None for the start of the sentence.
        after: The second tag, or None for the end of the sentence.
        scheme: "bio2" or "bioes".

    >>> [may_follow(before, "I-PER", "bio2") for before in ("B-PER", "I-PER", "B-LOC", "O", None)]
    [True, True, False, False, False]
    >>> [may_follow("B-PER", after, "bioes") for after in ("E-PER", "E-LOC", "O", None)]
    [True, False, False, False]
    """
    letter, _, kind = (before or OUTSIDE).partition("-")
    following, _, of = (after or OUTSIDE).partition("-")
    if following in ("I", "E"):
        return letter in ("B", "I") and kind == of
    return scheme != "bioes" or letter not in ("B", "I")


TAG, SENTENCE_TAGS = Term("tag"), Term("tag", has_rights=False)  # of each word, and of a sentence together
CHAINS = "chains"  # int64 [S], among the targets: of each sentence of an item its points, in their order
INNER = "inner"  # bool [S, 2], among the targets: whether a sentence continues before its first point, after its last
SPAN_METRICS = ("f1", "precision", "recall", "token_accuracy")
WORD_METRICS = ("token_accuracy",)
MAX_WORD_CHARACTERS = 10_000  # of a word, of which the first piece is read
MAX_TAGS = 1_000  # more are taken for a column that holds no tags


class TaggedSentence(NamedTuple):
    """The words of a sentence, their tags as written in the file, and the id of its document.

    `tags` is None if the file has no labels, and `document` is None if the file does not name documents.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None
    document: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TagsTask(Task):
    """The task of predicting a tag for each word.

    units:   what is scored: "spans" (tags such as B-PER) or "words" (each word individually, such as parts of speech);
             "": determined by the tags of the training rows
    scheme:  tagging scheme used for training: "bio2" or "bioes"
    context: text that is read with a sentence: none ("sentence"), or as much of its document before and after it as
             fits ("document", Devlin et al. 2018, section 5.3)
    overlap: number of tokens that two windows of a long sentence share; at most half of a window
    crf:     score and predict the tags of a sentence jointly, with a linear-chain conditional random field
    constrained: with `crf`, only predict tag sequences that are valid in the scheme
    metric:  metric that is used to choose the best epoch
    labels, usual, written: the tags, the tag of words without tokens, and the scheme of the training rows; set by
             `fit`, not by the user
    """

    units: str = ""
    scheme: str = "bio2"
    context: str = "sentence"
    overlap: int = 128
    crf: bool = False
    constrained: bool = False
    metric: str = ""
    labels: tuple[str, ...] = ()
    usual: str = ""
    written: str = ""

    kind: ClassVar[str] = "tags"
    builder: ClassVar[str] = "trainer.tasks.heads.tags:TagModel"
    format: ClassVar[str] = "conll"
    unit: ClassVar[str] = "point"
    architecture: ClassVar[str] = "tags"
    roles: ClassVar[tuple[str, ...]] = ("words", "tags", "document")
    optional_roles: ClassVar[frozenset[str]] = frozenset({"document"})
    label_roles: ClassVar[frozenset[str]] = frozenset({"tags"})
    old_keys: ClassVar[OldKeys] = {
        "constrained": {"features": "", "lstm_layers": None, "lstm_size": 768},
        "written": {"encoders": 1},
    }

    def __post_init__(self) -> None:
        check_choice("units", self.units, ("", "spans", "words"))
        check_choice("scheme", self.scheme, tuple(SCHEME_LETTERS))
        check_choice("context", self.context, ("sentence", "document"))
        check_range("overlap", self.overlap, 0, 1 << 20)
        if self.constrained and not (self.crf and self.units != "words"):
            raise InputError(
                "constrained = true limits which tags of spans may follow each other where a sentence is tagged as a "
                'whole: set crf = true with it, and not units = "words".'
            )
        _ = self.metrics

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics of spans or of words that can be used to choose the best epoch, with the requested one first."""
        return with_first(self.metric, WORD_METRICS if self.units == "words" else SPAN_METRICS)

    @property
    def export_architecture(self) -> str:
        """The key of Hugging Face's class for tagged tokens, or "encoder" if the model has a CRF.

        Hugging Face has no class with a CRF.
        """
        return "encoder" if self.crf else self.architecture

    @property
    def num_outputs(self) -> int:
        """The number of outputs for a word, one logit for each tag."""
        return len(self.labels)

    @property
    def term(self) -> Term:
        """The loss term of the tags: of single words, or with `crf` of all tags of a sentence."""
        return SENTENCE_TAGS if self.crf else TAG

    def make_example(self, values: Mapping[str, Any], labelled: bool) -> TaggedSentence:
        """Build an example from the values of a sentence.

        Raises:
            Unusable: If there are no words, a word is too long, or the numbers of words and tags differ.
        """
        words = tuple(as_words(values["words"], "words"))
        if not words:
            raise Unusable("no words")
        if max(map(len, words)) > MAX_WORD_CHARACTERS:
            raise Unusable(f"a word of more than {MAX_WORD_CHARACTERS:,} characters")
        tags = _parse_tags(values["tags"]) if labelled else None
        if tags is not None and len(tags) != len(words):
            raise Unusable("uneven words and tags", f"{len(words)} words, {len(tags)} tags")
        document = values.get("document")
        return TaggedSentence(words, tags, None if document is None else as_label(document, "document"))

    def find_source(self, example: TaggedSentence) -> str:
        """Return the document of a sentence, or the words joined by spaces if there is no document."""
        return example.document or " ".join(example.words)

    def find_unknown_label(self, example: TaggedSentence) -> Unusable | None:
        """Return a reason if a sentence has a tag that did not occur in training, otherwise None.

        Before `fit`, every tag is known.
        """
        if example.tags is None or not self.labels:
            return None
        tags = enumerate(self.convert_tags(example), 1)
        reasons = (
            Unusable("unknown tag", f"{tag!r} of word {number}") for number, tag in tags if tag not in self.labels
        )
        return next(reasons, None)

    def convert_tags(self, example: TaggedSentence) -> Sequence[str]:
        """Convert a labeled sentence's tags to the scheme used for training, if they mark spans."""
        assert example.tags is not None
        return to_scheme(example.tags, self.scheme) if self.units == "spans" else example.tags

    def fit(self, examples: Sequence[TaggedSentence], where: str) -> Self:
        """Return a copy of the task with the tags of the training examples, their unit and their scheme.

        Args:
            examples: The training examples.
            where: The name of their file, for messages.

        Raises:
            InputError: If there are too few or too many different tags, or if `context` is "document" and no example
                has a document, or if `constrained` is set and the tags are not those of spans.
            Misfit: If some tags mark spans and others do not.
        """
        met = Counter(tag for example in examples for tag in example.tags or ())
        if self.context == "document" and not any(example.document for example in examples):
            raise InputError(
                f"{where} does not mark where documents begin (lines `-DOCSTART-` or `# newdoc`, or a column "
                '`document`), but context = "document" needs them: give a file that does, or leave `context` out.'
            )
        units = self.units or _guess_units(met, examples)
        if units == "spans":
            kinds = sorted({span.type for tag in met for span in find_spans([tag])})
            labels = (OUTSIDE, *(format_tag(letter, kind) for kind in kinds for letter in SCHEME_LETTERS[self.scheme]))
            written = guess_scheme(example.tags or () for example in examples)
        else:
            labels, written = tuple(sorted(met)), ""
        if not 2 <= len(labels) <= MAX_TAGS:
            raise InputError(
                f"{where} has {len(labels)} different tags, and a tagger knows 2 to {MAX_TAGS}: is it the column of "
                "the tags?"
            )
        usual = OUTSIDE if units == "spans" else min(met, key=lambda tag: (-met[tag], tag))
        if self.constrained and units == "words":
            raise InputError(
                f"{where} has tags that are not spans, but constrained = true applies to spans: leave it out."
            )
        return replace(self, units=units, labels=labels, usual=usual, written=written)

    def make_items(self, examples: Sequence[TaggedSentence], encoder: TextEncoder, labelled: bool) -> list[TaskItem]:
        """Build the items of sentences.

        An item holds one sentence or, with `context` set to "document", as many sentences as fill half a window. Longer
        sentences are split into overlapping windows.

        Args:
            examples: The sentences.
            encoder: Turns texts into tokens. Its maximum length is the length of a window.
            labelled: True to add the tags as targets.
        """
        pieces = split_into_pieces(encoder, [example.words for example in examples])
        numbers = [self._to_tag_numbers(*each) for each in zip(examples, pieces, strict=True)] if labelled else None
        return [
            item
            for text in self.iter_groups(examples)
            for run in self._iter_runs(text, pieces, encoder.max_length - 2)
            for item in self._iter_items(text, run, pieces, numbers, encoder)
        ]

    def _to_tag_numbers(self, example: TaggedSentence, pieces: Pieces) -> Int64s:
        """Convert the tags of a sentence to indices, for the words that have tokens: int64 [W].

        A span remains a span even if some of its words have no token. Unknown tags are replaced by `usual`, the task's
        default tag.
        """
        assert example.tags is not None
        tags = self.convert_tags(example._replace(tags=tuple(example.tags[word] for word in pieces.words)))
        return np.array([self.labels.index(tag if tag in self.labels else self.usual) for tag in tags], np.int64)

    def iter_groups(self, examples: Sequence[TaggedSentence]) -> Iterator[range]:
        """Yield ranges of sentence indices that are read as one text: a document's sentences, or a single sentence."""

        def text(number: int) -> tuple[str | None, int]:
            document = examples[number].document if self.context == "document" else None
            return document, -1 if document else number

        for _, group in groupby(range(len(examples)), key=text):
            numbers = [*group]
            yield range(numbers[0], numbers[-1] + 1)

    def _iter_runs(self, text: range, pieces: Sequence[Pieces], room: int) -> Iterator[range]:
        """Yield ranges of sentences that fill at most half a window, so that each range has context on both sides.

        Args:
            text: The indices of the sentences of the whole text.
            pieces: The tokens of each sentence.
            room: The number of tokens of a window.
        """
        begin, size = text.start, 0
        for number in text:
            length = len(pieces[number].ids)
            if number > begin and size + length > room // 2:
                yield range(begin, number)
                begin, size = number, 0
            size += length
        yield range(begin, text.stop)

    def _iter_items(
        self, text: range, run: range, pieces: Sequence[Pieces], numbers: Sequence[Int64s] | None, encoder: TextEncoder
    ) -> Iterator[TaskItem]:
        """Yield the items of a range of sentences. If none of their words has a token, nothing is yielded.

        Args:
            text: The indices of the sentences of the whole text.
            run: The indices of the sentences to tag.
            pieces: The tokens of each example.
            numbers: The tag indices of each example; None to build items without labels.
            encoder: The encoder. Its maximum length is the length of a window.
        """
        starts = np.cumsum([0, *(len(pieces[number].ids) for number in text)])
        offsets = dict(zip(text, starts.tolist(), strict=False))
        places = np.concatenate([pieces[number].firsts + offsets[number] for number in run])
        if not len(places):
            return
        words = np.concatenate([pieces[number].words for number in run])
        of = np.repeat(np.arange(len(run)), [len(pieces[number].words) for number in run])
        begin, end = offsets[run.start], offsets[run[-1]] + len(pieces[run[-1]].ids)
        ids = np.concatenate([pieces[number].ids for number in text])
        for part in iter_parts(places, begin, end, int(starts[-1]), encoder.max_length - 2, self.overlap):
            mine = np.isin(places, part.places)
            targets = _make_chain_targets(of, np.flatnonzero(mine))
            if numbers is not None:
                targets[TAG.name] = np.concatenate([numbers[number] for number in run])[mine]
            yield TaskItem(
                sequences=part.build_sequences(ids, encoder.inputs.special_ids),
                example=run.start,
                points=part.locate_points(),
                targets=targets,
                origin=np.stack([of[mine], words[mine]], 1),
            )

    def make_predictions(self, examples: Sequence[TaggedSentence], items: Items, answers: Answers) -> list[list[str]]:
        """Return the predicted tags of each sentence, one for each word.

        Words without tokens get the task's default tag, `usual`. `answers` has the logits of each item's words, [P, C],
        or the indices of their tags, [P].
        """
        tagged = [[self.usual] * len(example.words) for example in examples]
        for item, answer in zip(items, answers, strict=True):
            tags = answer.argmax(-1) if answer.ndim > 1 else answer
            for (place, word), tag in zip(item.origin.tolist(), tags.tolist(), strict=True):
                tagged[item.example + place][word] = self.labels[tag]
        return tagged

    def compute_scores(self, examples: Sequence[TaggedSentence], predictions: Sequence[list[str]]) -> dict[str, float]:
        """Compute the scores of predicted tags: those in SPAN_METRICS, or only `token_accuracy` if words are scored."""
        gold = [list(self.convert_tags(example)) for example in examples]
        if self.units == "spans":
            scores = compute_span_scores(gold, predictions)
            return {name: scores[name] for name in SPAN_METRICS}
        return {"token_accuracy": compute_token_accuracy(gold, predictions)}

    def to_row(self, example: TaggedSentence, prediction: list[str]) -> dict[str, Any]:
        """Build a row for output from predicted tags, with `words` and `tags`.

        If spans are tagged, `spans` lists their `type`, `first` and `last` (zero-based word indices), and `text`.
        """
        row: dict[str, Any] = {"words": list(example.words), "tags": prediction}
        if self.units != "spans":
            return row
        spans = [
            {**span._asdict(), "text": " ".join(example.words[span.first : span.last + 1])}
            for span in find_spans(prediction)
        ]
        return {**row, "spans": spans}

    def judge(self, example: TaggedSentence, prediction: list[str]) -> dict[str, Any]:
        """Compare predicted tags with the correct ones.

        The keys are `gold`, a list of the correct tags, and `score`, a dictionary with three counts of spans or words:
        `right` (correctly predicted), `answered` (predicted) and `labelled` (gold).
        """
        gold = list(self.convert_tags(example))
        if self.units == "spans":
            counts = count_spans([gold], [prediction])[0].tolist()
        else:
            counts = [sum(map(eq, gold, prediction)), len(prediction), len(gold)]
        return {"gold": gold, "score": dict(zip(("right", "answered", "labelled"), counts, strict=True))}

    def to_config(self) -> Mapping[str, Any]:
        """Return the keys of `config.json` that name the tags, `id2label` and `label2id`."""
        return to_label_keys(self.labels)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Build the task from the `config.json` of a model trained elsewhere.

        The names of its tags determine unit and scheme.
        """
        labels = parse_labels(config)
        return cls(
            units="spans" if are_spans(labels) else "words",
            scheme="bioes" if guess_scheme([labels]) == "BIOES" else "bio2",
            labels=labels,
            usual=OUTSIDE if OUTSIDE in labels else labels[0],
        )


def _make_chain_targets(of: Int64s, points: Int64s) -> dict[str, npt.NDArray[Any]]:
    """Build the targets CHAINS (words per sentence) and INNER (whether sentences continue outside the item), by name.

    Args:
        of: int64, the index of the sentence of each word in a range of sentences.
        points: int64, the indices into `of` of the words that the item tags, without a gap.
    """
    ends = np.flatnonzero(np.append(np.diff(of[points]), 1))
    begins = np.append(0, ends[:-1] + 1)
    outside = np.concatenate([[-1], of, [-1]])  # what is before a point is at its own number
    inner = [outside[points[begins]] == of[points[begins]], outside[points[ends] + 2] == of[points[ends]]]
    return {CHAINS: ends + 1 - begins, INNER: np.stack(inner, 1)}


def _guess_units(met: Mapping[str, int], examples: Sequence[TaggedSentence]) -> str:
    """Guess whether tags mark "spans" or "words".

    `met` has the tags as keys. Raises Misfit if both kinds occur, which may be a mistake in the file.
    """
    if are_spans(met):
        return "spans"
    if not any(map(is_span_tag, met)):
        return "words"
    odd = {tag for tag in met if tag != OUTSIDE and not is_span_tag(tag)}
    number, word, tag = next(
        (number, word, tag)
        for number, example in enumerate(examples)
        for word, tag in enumerate(example.tags or (), 1)
        if tag in odd
    )
    raise Misfit(
        number,
        f"the tag {tag!r} of word {word} is not one of a span (B-, I- and the like, or O), and others are: fix it. If "
        'each word is judged by itself, as parts of speech are, say so (`--set units="words"`); if it is a span all '
        'the same, `--set units="spans"`.',
    )


def _parse_tags(value: Any) -> tuple[str, ...]:
    """Convert the tags of a record, a list or a string with spaces, to strings.

    Raises Unusable if they are neither strings nor whole numbers.
    """
    if isinstance(value, list) and all(isinstance(item, str | int) for item in value):
        return tuple(as_label(item, "tags") for item in value)
    return tuple(as_words(value, "tags"))
