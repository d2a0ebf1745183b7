"""`cloze vocabulary adapt`: from files and stores, with and without a model; one paragraph for what is wrong."""

import gzip
import json
from pathlib import Path

import pytest
from small_corpus import put_corpus, row
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from corpora.errors import InputError
from corpora.store.places.place import Place
from flows.command.cli import run_command_line
from flows.command.vocabulary_adapt import count_domain
from tokenizers_train.vocabularies.vocabulary import Vocabulary, load_vocabulary

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LETTERS = "abcdefghijklmnopqrstuvwxyz."
GENES = "The gene encodes a protein. " * 20 + "Genes were sequenced, write to lee@genome.org or +1 (312) 867-5309. " * 9
COURTS = "The borrower shall repay the lender. " * 30


def command(*arguments: object) -> int:
    return run_command_line(["vocabulary", "adapt", *map(str, arguments)], Path())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A vocabulary with three slots, and texts of two kinds."""
    slots = [f"[unused{n}]" for n in range(3)]
    tokens = (*SPECIALS, *slots, *LETTERS, *(f"##{letter}" for letter in LETTERS), "the", "a", "shall")
    tokenizer = Tokenizer(models.WordPiece({t: n for n, t in enumerate(dict.fromkeys(tokens))}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    Vocabulary.from_files({"tokenizer.json": tokenizer.to_str().encode()}).save(tmp_path / "bert")
    (tmp_path / "genes").mkdir()
    with gzip.open(tmp_path / "genes" / "one.jsonl.gz", "wt") as file:
        file.write(json.dumps({"body": GENES}) + "\n{broken\n")
    (tmp_path / "courts.txt").write_text(COURTS)
    return tmp_path


def test_slots_are_filled_and_figures_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpora = ("--corpus", folder / "genes", "--corpus", folder / "courts.txt", "--text", "body")
    assert command(folder / "bert", *corpora, "--fill", "--output", folder / "new") == 0
    said = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert said[0].endswith("genes: 1 texts, 1 that cannot be read") and said[1].endswith("courts.txt: 1 texts")
    assert any(line.startswith("genes 192 ") for line in said) and any(line.startswith("all 402 ") for line in said)
    assert any(line.startswith("3 tokens added") and "3 in unused slots, 0 after" in line for line in said)
    old, new = load_vocabulary(folder / "bert"), load_vocabulary(folder / "new")
    assert [new.tokens[n] for n in range(5, 8)] == ["borrower", "lender", "encodes"]
    assert new.tokens[8:] == old.tokens[8:] and new.size == old.size
    with pytest.raises(InputError, match="no unused slots"):
        command(folder / "new", *corpora, "--fill", "--output", folder / "newer")


def test_more_tokens_than_slots_are_appended(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = ("--corpus", folder / "courts.txt", "--corpus", folder / "genes", "--text", "body")
    assert command(folder / "bert", *both, "--tokens", 5, "--output", folder / "new") == 0
    old, new = load_vocabulary(folder / "bert"), load_vocabulary(folder / "new")
    assert new.size == old.size + 2
    assert command(folder / "bert", *both, "--tokens", 5, "--append", "--output", folder / "left") == 0
    left = load_vocabulary(folder / "left")
    assert left.size == old.size + 5 and left.tokens[5:8] == old.tokens[5:8]
    said = capsys.readouterr().out
    assert "3 in unused slots, 2 after" in said and "0 in unused slots, 5 after" in said


def test_personal_data_is_not_counted(folder: Path) -> None:
    """Fails if a part of an address or number could become a token."""
    told: list[str] = []
    found = count_domain([str(folder / "genes")], load_vocabulary(folder / "bert"), "store", "body", told.append)
    assert told[0].endswith(": 1 texts, 1 that cannot be read")
    words = set(found.total["word"].to_pylist())
    assert {"gene", "sequenced", "write"} <= words
    assert not words & {"lee", "genome", "org", "312", "5309"}
    with pytest.raises(InputError, match="holds a word"):
        count_domain([str(folder / "genes")], load_vocabulary(folder / "bert"), "store", "text", print)


def test_counts_do_not_depend_on_how_texts_come(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a batch or a merge loses or doubles counts."""
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": f"lender {'ab'[n % 2]}"}) + "\n" for n in range(99)))
    for name, value in (("BATCH_CHARACTERS", 10), ("MAX_TABLES", 3)):
        monkeypatch.setattr(f"flows.command.vocabulary_adapt.{name}", value)
    found = count_domain([str(folder / "a.jsonl")], load_vocabulary(folder / "bert"), "store", "text", print)
    counts = {row["word"]: row["count"] for row in found.total.to_pylist()}
    assert counts == {"a": 50, "b": 49, "lender": 99}


def test_words_of_texts_act_on_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if markup of a text reaches the terminal."""
    (folder / "evil.txt").write_text("[red] lender [/red] \x1b[2J borrower\u202e " * 9)
    assert command(folder / "bert", "--corpus", folder / "evil.txt", "--tokens", 4, "--output", folder / "new") == 0
    said = capsys.readouterr().out
    assert "lender" in said and not {"\x1b", "\u202e"} & {*said}


def test_a_corpus_of_a_store_is_counted_by_source_without_what_is_held_out(tmp_path: Path, folder: Path) -> None:
    place = Place(str(tmp_path / "store"))
    rows = {
        "g001-a-00000": [row(1, "lender lender", source="a"), row(2, "borrower", held_out=True, source="a")],
        "g001-b-00000": [row(3, "gene", source="b"), row(4, "gone", source="b")],
    }
    put_corpus(place, rows, deleted=[row(4, "gone", source="b")])
    vocabulary = load_vocabulary(folder / "bert")
    for address in ("small", f"{place.address}/corpora/small"):
        found = count_domain([address], vocabulary, place.address, "text", print)
        assert {name: counts.to_pylist() for name, counts in found.sources.items()} == {
            "a": [{"word": "lender", "count": 2}],
            "b": [{"word": "gene", "count": 1}],
        }


def test_a_model_is_given_rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file
    from small_models import write_model

    model = write_model(folder / "model")
    given = ("--corpus", folder / "courts.txt", "--tokens", 2, "--checkpoint", model, "--output", folder / "new")
    assert command(model, *given) == 0
    old, new = load_vocabulary(model), load_vocabulary(folder / "new")
    name = "bert.embeddings.word_embeddings.weight"
    before, after = (load_file(path / "model.safetensors")[name] for path in (model, folder / "new"))
    pieces = [old.find_id(piece) for piece in ("l", "##e", "##n", "##d", "##e", "##r")]
    assert torch.equal(after[new.find_id("lender")], before[pieces].double().mean(dim=0).float())
    assert torch.equal(after[: old.size], before) and len(after) == new.size == old.size + 2
    assert f"The model has {new.size} rows" in capsys.readouterr().out
    assert sorted(path.name for path in (folder / "new").iterdir()) == sorted(
        {*old.to_files(), "config.json", "model.safetensors", "complete.json"}
    )


# What is refused.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--fill", "--tokens", 3), "--tokens N, or --fill"),
        ((), "--tokens N, or --fill"),
        (("--fill", "--output", "/proc/new"), "give another folder"),
        (("--tokens", 0), '"0" for --tokens'),
        (("--fill", "--append"), "give one of the two"),
        (("--fill", "--min-count", 0), '"0" for --min-count'),
        (("--fill", "--min-count", 1000), "occurs 1000 times"),
        (("--fill", "--corpus", "nowhere"), "--corpus nowhere: there is no such file or folder"),
        (("--fill", "--checkpoint", "nowhere"), "no folder nowhere"),
        (("--fill", "--output", "courts.txt"), "is not a folder"),
        (("--fill", "--output", "genes"), "is not empty"),
        (("--fill", "--output", "courts.txt/new"), "a file is where a folder is needed"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...], message: str
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    output = () if "--output" in arguments else ("--output", "new")
    with pytest.raises(InputError, match=message):
        command("bert", "--corpus", "courts.txt", *output, *arguments)
    assert sorted(folder.rglob("*")) == before


def test_a_model_of_another_vocabulary_stops_before_anything_is_read(folder: Path) -> None:
    pytest.importorskip("torch")
    from small_models import write_model

    model = write_model(folder / "model")
    with pytest.raises(InputError, match="was trained with another one"):
        command(folder / "bert", "--corpus", "nowhere", "--fill", "--checkpoint", model, "--output", folder / "new")
    assert not (folder / "new").exists()
