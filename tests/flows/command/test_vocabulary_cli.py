"""`cloze vocabulary show` and `compare`: right figures, names of every kind, inert output, errors in one paragraph."""

import json
from pathlib import Path

import pytest
from small_corpus import put_corpus, row, words

from corpora.errors import InputError
from corpora.store.places.place import Place
from corpora.store.stage import build_stage
from flows.command.cli import run_command_line
from flows.command.vocabulary import find_vocabulary, list_vocabulary_names
from tokenizers_train.build import plan_counts, plan_vocabulary
from tokenizers_train.measures.texts import cut_texts
from tokenizers_train.vocabularies.settings import VocabularySettings
from tokenizers_train.vocabularies.vocabulary import Vocabulary, build_bert_vocabulary

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SMALL = build_bert_vocabulary((*SPECIALS, "a", "b", ".", "##a", "##b", "ab", "abba"))
OTHER = build_bert_vocabulary((*SPECIALS, "a", "b", "##a", "##b", "ba", "Ab"), lowercase=False)
PIECES = VocabularySettings(size=60)
BYTES = VocabularySettings(algorithm="byte-bpe", size=290)
EVIL = "[red]ab[/red] \x1b[2J ab\u202e"


def command(*arguments: str) -> int:
    return run_command_line(["vocabulary", *arguments], Path())


def saved(folder: Path, vocabulary: Vocabulary) -> str:
    vocabulary.save(folder)
    return str(folder)


@pytest.fixture
def store(tmp_path: Path) -> Place:
    """A store with two vocabularies."""
    place = Place(str(tmp_path / "store"))
    corpus = put_corpus(place, {"g001-a-00000": [row(n, words(n)) for n in range(6)]})
    for name, settings in (("pieces", PIECES), ("bytes", BYTES)):
        counts = build_stage(place, plan_counts(corpus, settings.word_rule, name))
        build_stage(place, plan_vocabulary(name, counts, settings, {}))
    return place


def lines_of(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_show_says_what_a_vocabulary_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("show", saved(tmp_path / "small", SMALL)) == 0
    lines = lines_of(capsys.readouterr().out)
    assert lines[0].endswith("small")
    assert "tokens 12, of which 7 stand for text" in lines and "longest abba ab ##a ##b . a b" in lines
    assert "special [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4" in lines and "words lowercase true" in lines


def test_show_cuts_a_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if a piece or a figure of the text is missing."""
    assert command("show", saved(tmp_path / "small", SMALL), "Aba  abba x ab.") == 0
    lines = lines_of(capsys.readouterr().out)
    assert lines[-1] == "ab 10 ##a 8 abba 11 [UNK] 1 ab 10 . 7"
    assert {"words of the text 4", "tokens of the text 6", "unknown tokens 1"} <= {*lines}
    assert {"tokens a word 1.500", "bytes a token 2.500"} <= {*lines}


def test_text_acts_on_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = Vocabulary.from_files(build_bert_vocabulary((*SMALL.tokens, EVIL.split()[1] + "[red]")).to_files())
    assert command("show", saved(tmp_path / "evil", evil), EVIL) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text and "\u202e" not in text and "[red]" in text
    assert command("show", str(tmp_path / "evil"), "ab " * 5_000) == 0
    text = capsys.readouterr().out
    assert "4,488 more pieces" in text and len(text) < 20_000


def test_compare_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = saved(tmp_path / "small", SMALL), saved(tmp_path / "other", OTHER)
    assert command("compare", *names, "abba  ba abx") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "4 pieces in both, of 7 of " in said
    assert "tokens of the text 4 6" in said and "tokens a word 1.333 2.000" in said and "unknown tokens 1 1" in said
    assert "abba abba a · b · b · a" in said and "ba b · a ba" in said
    assert command("compare", *names, "abba  ba abx", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["overlap"] == {"shared": 4, "first": 7, "second": 6}
    assert [side["text"]["tokens"] for side in facts["vocabularies"]] == [4, 6]
    assert facts["cut_apart"][0] == {"word": "abba", "pieces": [["abba"], ["a", "b", "b", "a"]]}


def test_compare_reads_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = saved(tmp_path / "small", SMALL), saved(tmp_path / "other", OTHER)
    paragraphs = ["x " * 120, "abba " * 50, "ab a b " * 40]
    (tmp_path / "text.txt").write_text("\n".join(paragraphs) + "\n", encoding="utf-8")
    assert command("compare", *names, "--text", str(tmp_path / "text.txt"), "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["vocabularies"][0]["text"]["words"] == 290 and facts["vocabularies"][0]["text"]["lines"] == 3


@pytest.mark.parametrize("form", ["folder", "tokenizer.json", "vocab.txt", "lines"])
def test_a_vocabulary_by_every_name(tmp_path: Path, form: str) -> None:
    """Fails if one of the forms in which vocabularies lie about gives another one."""
    folder = tmp_path / "bert"
    SMALL.save(folder)
    if form in ("vocab.txt", "lines"):
        (folder / "tokenizer.json").unlink()
        (folder / "complete.json").unlink()
    address = {"folder": folder, "tokenizer.json": folder / "tokenizer.json", "vocab.txt": folder}
    assert find_vocabulary(str(address.get(form, folder / "vocab.txt"))) == SMALL
    if form == "lines":  # a cased list is known by its capitals
        (folder / "vocab.txt").write_bytes("\r\n".join(OTHER.tokens).encode() + b"\r\n")
        assert find_vocabulary(str(folder / "vocab.txt")) == OTHER


def test_names_in_a_store(store: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert list_vocabulary_names(store.address) == ["bytes", "pieces"]
    found = find_vocabulary("bytes", store.address)
    assert found.algorithm == "byte-bpe" and found == find_vocabulary(f"{store.address}/vocabularies/bytes")
    with pytest.raises(InputError, match=r"holds 2 vocabularies, bytes, pieces: name one"):
        find_vocabulary(store.address)
    with pytest.raises(InputError, match=r"no vocabulary 'letters' in the store .*, which has bytes, pieces\."):
        find_vocabulary("letters", store.address)
    assert command("compare", "pieces", "bytes", "--store", store.address) == 0
    assert "cut in other places" in capsys.readouterr().out, "there is a text to compare by"


@pytest.mark.parametrize(
    "name, file", [("gpt2", "gpt2-encoder.json"), ("bert-base-uncased", "bert-base-uncased-vocab.txt")]
)
def test_published_vocabularies_give_their_own_ids(shared: Path, name: str, file: str) -> None:
    """Fails if a file as it was published is read as another vocabulary."""
    vocabulary = find_vocabulary(str(shared / "data" / "gold" / "vocab" / file))
    lines = (shared / "data" / "gold" / "tokenization" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    cuts = cut_texts(vocabulary, [record["text"] for record in records])
    assert [[piece.id for piece in cut.pieces] for cut in cuts] == [record["ids"] for record in records]
    assert len(records) > 400


def test_what_is_no_vocabulary_is_refused_in_one_paragraph(tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("# A note")
    (tmp_path / "list.txt").write_text("a\nb\n")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    (tmp_path / "x-encoder.json").write_text("{}")
    for name, said in (
        ("note.md", "is no vocabulary"),
        ("list.txt", "lacks"),
        ("latin.txt", "is not UTF-8"),
        ("x-encoder.json", r"its merges are missing.*x-vocab\.bpe"),
        ("nowhere/at/all", "There is no vocabularies artifact"),
        (".", "There is no vocabularies artifact"),
    ):
        with pytest.raises(InputError, match=said) as caught:
            find_vocabulary(str(tmp_path / name))
        assert "\n" not in str(caught.value)


def test_a_text_is_given_once_and_can_be_read(tmp_path: Path) -> None:
    name = saved(tmp_path / "small", SMALL)
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 " * 90)
    with pytest.raises(InputError, match="one of the two"):
        command("compare", name, name, "ab", "--text", str(tmp_path / "latin.txt"))
    for file, said in (("latin.txt", "is not UTF-8"), ("missing.txt", "cannot be read"), (".", "cannot be read")):
        with pytest.raises(InputError, match=said):
            command("compare", name, name, "--text", str(tmp_path / file))
