"""Tokenizers at random: models of three families, with normalizers, pre-tokenizers, added tokens and flags of any kind.

Each is the text of a tokenizer.json, as anyone may have made one; most can be used, and few have all their parts from
one family. The same number gives the same one.
"""

from random import Random
from typing import Any

from strange_text import MARKS, ODD, WORDS
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from tokenizers_train.vocabularies.roberta import BYTE_LETTERS
from tokenizers_train.words.sentencepiece import build_albert_normalizer, build_metaspace

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>", "<pad>", "<mask>", "[E1]", "unk", "mask")
STRINGS = (
    "covid",
    "cov",
    "##abc",
    "abc",
    "Covid",
    "co-operate",
    "the",
    " the",
    "a",
    "é",
    "É",
    "ing",
    "x x",
    "<x>",
    "中",
)
SPACES_JOINED = normalizers.Replace(Regex(" +"), " ")
LETTERS = "abcdeghinorstvxABÉé.-'中कß0 "


def random_tokenizer(number: int) -> str:
    """The tokenizer.json of a number."""
    draw = Random(number)
    family = draw.choice(("wordpiece", "bytes", "unigram"))
    tokenizer = Tokenizer({"wordpiece": _wordpiece, "bytes": _bytes, "unigram": _unigram}[family](draw))
    tokenizer.normalizer, tokenizer.pre_tokenizer = _rules(draw, family)
    if draw.random() < 0.2:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=draw.random() < 0.5)
    for _ in range(draw.choice((0, 0, 1, 2, 5))):
        _add(draw, tokenizer)
    return tokenizer.to_str()


def random_text(draw: Random) -> str:
    """A text of words, odd characters, and whatever the tokenizers may have as tokens of their own."""
    return "".join(
        draw.choice(
            (
                draw.choice(WORDS),
                draw.choice(STRINGS),
                draw.choice(STRINGS) + draw.choice(LETTERS),
                draw.choice(SPECIAL) if draw.random() < 0.3 else " ",
                "".join(draw.choices(ODD + MARKS, k=draw.randrange(1, 6))),
                "".join(draw.choices(LETTERS, k=draw.randrange(1, 9))),
                draw.choice((" ", "  ", "\n", " \u2581", "``", "''", "<0x0A>", "")),
            )
        )
        for _ in range(draw.randrange(12))
    )


def _pieces(draw: Random, most: int) -> list[str]:
    """Strings of the letters that texts have, some of them words."""
    made = {"".join(draw.choices(LETTERS.strip(), k=draw.randrange(1, 5))) for _ in range(draw.randrange(most))}
    return sorted(made | {*draw.sample(LETTERS, draw.randrange(5, len(LETTERS)))} | {*draw.sample(STRINGS, 3)})


def _numbered(draw: Random, tokens: set[str]) -> dict[str, int]:
    order = sorted(tokens)
    draw.shuffle(order)
    return {token: number for number, token in enumerate(order)}


def _wordpiece(draw: Random) -> models.Model:
    prefix, unknown = draw.choice(("##", "##", "##", "@@", "")), draw.choice(("[UNK]", "[UNK]", "unk", "a"))
    tokens = {*_pieces(draw, 40), *(prefix + piece for piece in _pieces(draw, 40)), *draw.sample(SPECIAL, 4), unknown}
    longest = draw.choice((100, 100, 100, 5, 1, 0))
    ids = _numbered(draw, tokens)
    return models.WordPiece(ids, unk_token=unknown, max_input_chars_per_word=longest, continuing_subword_prefix=prefix)


def _bytes(draw: Random) -> models.Model:
    letters = draw.choice((BYTE_LETTERS, BYTE_LETTERS, [*draw.sample(BYTE_LETTERS, 200)], [*"abcdeĠ"]))
    known, merges = [*letters], []
    for _ in range(draw.randrange(60)):
        left, right = draw.choice(known[-80:] + known[64:100]), draw.choice(known[-40:] + known[64:100])
        merges.append((left, right))
        known.append(left + right)
    unknown = draw.choice((None, "<unk>", known[0], "abc"))
    tokens = {*known, *draw.sample(SPECIAL, 4), *([unknown] if unknown else [])}
    tokens |= {"<0x0A>", "<0xC3>"} if draw.random() < 0.2 else set()
    return models.BPE(
        _numbered(draw, tokens),
        merges,
        unk_token=unknown,
        fuse_unk=draw.random() < 0.5,
        byte_fallback=draw.random() < 0.1,
        ignore_merges=draw.random() < 0.1,
    )


def _unigram(draw: Random) -> models.Model:
    pieces = {
        *_pieces(draw, 60),
        *("\u2581" + piece for piece in _pieces(draw, 60)),
        "\u2581",
        *draw.sample(SPECIAL, 5),
    }
    equal, digits = draw.random() < 0.3, draw.choice((4, 17))
    scores = [round(draw.choice((-1.5, -2.0, -20.0)) if equal else draw.uniform(-20, 0), digits) for _ in pieces]
    scored = list(zip(_numbered(draw, pieces), scores, strict=True))
    return models.Unigram(scored, draw.randrange(len(scored)), draw.random() < 0.1)


def _rules(draw: Random, family: str) -> tuple[Any, Any]:
    """A normalizer and a pre-tokenizer, mostly those that go with a model."""
    usual = {
        "wordpiece": (_bert(draw), pre_tokenizers.BertPreTokenizer()),
        "bytes": (None, pre_tokenizers.ByteLevel(add_prefix_space=draw.random() < 0.5)),
        "unigram": (build_albert_normalizer(draw.random() < 0.5, draw.random() < 0.5), build_metaspace()),
    }[family]
    normalizer = draw.choice(
        (
            None,
            normalizers.Lowercase(),
            normalizers.NFKC(),
            normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), SPACES_JOINED]),
            normalizers.Prepend("\u2581"),
            normalizers.Strip(),
        )
    )
    before = draw.choice(
        (
            None,
            pre_tokenizers.Whitespace(),
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Metaspace(prepend_scheme=draw.choice(("always", "never", "first"))),
            pre_tokenizers.Split(Regex(r"\w+|[^\w\s]+"), draw.choice(("removed", "isolated", "merged_with_previous"))),
            pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(False, use_regex=False)]),
        )
    )
    return (normalizer if draw.random() < 0.2 else usual[0]), (before if draw.random() < 0.2 else usual[1])


def _bert(draw: Random) -> normalizers.Normalizer:
    return normalizers.BertNormalizer(
        clean_text=draw.random() < 0.8,
        handle_chinese_chars=draw.random() < 0.8,
        strip_accents=draw.choice((None, None, True, False)),
        lowercase=draw.random() < 0.6,
    )


def _add(draw: Random, tokenizer: Tokenizer) -> None:
    """A token next to the model, or a piece of it that becomes an added one."""
    known = sorted(tokenizer.get_vocab())
    content = draw.choice((draw.choice(STRINGS), draw.choice(SPECIAL), draw.choice(known)))
    flags = {flag: draw.random() < 0.3 for flag in ("single_word", "lstrip", "rstrip", "normalized")}
    special = draw.random() < 0.5
    token = AddedToken(content, special=special, **flags)
    (tokenizer.add_special_tokens if special else tokenizer.add_tokens)([token])
