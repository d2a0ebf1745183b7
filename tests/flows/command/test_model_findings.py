"""`cloze doctor FOLDER` on folders of models that are made here, whole and damaged: no torch, no network."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.errors import InputError
from flows.command.cli import run_command_line
from flows.command.machine.doctor import Finding
from flows.command.training.model_findings import model_findings, names_model
from tokenizers_train.vocabularies.vocabulary import bert_vocabulary
from trainer.auto_settings import Hardware
from trainer.families.contract import ModelInputs, SpecialIds
from trainer.huggingface.config import config_json
from trainer.huggingface.embeddings import NUMPY_TYPES, Stored, header_bytes, laid_out
from trainer.settings.model import FAMILIES, ModelSettings, encoder_shape

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TOKENS = [*SPECIAL, *(f"word{number}" for number in range(123))]  # 128
IDS = SpecialIds(pad=0, unk=1, cls=2, sep=3, mask=4)
CARD = Hardware(device="cuda", name="A100", capability=(8, 0))


def write_weights(folder: Path, tensors: Mapping[str, np.ndarray[Any, Any]]) -> None:
    kinds = {np.dtype(kind): name for name, kind in NUMPY_TYPES.items()}
    rows = [Stored(name, kinds[each.dtype], each.shape, 0, each.nbytes) for name, each in tensors.items()]
    numbers = b"".join(each.tobytes() for each in tensors.values())
    (folder / "model.safetensors").write_bytes(header_bytes({"format": "pt"}, laid_out(rows)) + numbers)


def weights(model: ModelSettings, inputs: ModelInputs) -> dict[str, np.ndarray[Any, Any]]:
    """A tensor for each module of an encoder and of its masked head; only the words have their real shape."""
    shape, names = encoder_shape(model, inputs), model.of_family.names
    modules = [
        theirs.replace("{}", str(number))
        for ours, table in names.encoder.items()
        for theirs in table
        for number in (range(shape.layer_groups) if "{}" in theirs else (0,))
        if not (model.family == "modernbert" and ours == "layers.{}.attention_norm" and number == 0)
    ]
    tensors: dict[str, np.ndarray[Any, Any]] = {f"{module}.weight": np.ones(4, np.float32) for module in modules}
    tensors[f"{names.encoder['embeddings.word'][0]}.weight"] = np.ones((128, shape.embedding_size), np.float32)
    return tensors | {f"{names.heads['masked_head']['dense']}.weight": np.ones(4, np.float32)}


def model_folder(folder: Path, family: str = "bert") -> Path:
    """The folder of a small model with nothing wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    model = ModelSettings(family=family, layers=2, hidden_size=32, heads=2, feed_forward_size=64, max_length=64)
    inputs = ModelInputs(vocab_size=len(TOKENS), special_ids=IDS, pair_labels=False)
    bert_vocabulary(TOKENS).save(folder)
    change_json(folder / "tokenizer_config.json", model_max_length=64)
    (folder / "config.json").write_text(json.dumps(config_json(model, inputs, "masked")))
    write_weights(folder, weights(model, inputs))
    return folder


def change_json(path: Path, **values: Any) -> None:
    content = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({key: value for key, value in content.items() if value != "gone"}))


def named(findings: list[Finding], name: str) -> list[Finding]:
    return [finding for finding in findings if finding.name == name]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_whole_folder_of_each_family_has_nothing_to_fix(tmp_path: Path, family: str) -> None:
    """Fails where a family's tensors, positions or special ids are looked for where it does not have them."""
    findings = model_findings(model_folder(tmp_path / "model", family), CARD)
    assert [finding for finding in findings if finding.ok == "fail"] == []
    assert findings[0].ok == "ok" and findings[0].fact.startswith(f"{family}: 2 layers of 32, 2 heads, 128 tokens, 64 ")
    assert all(finding.remedy and "\n" not in finding.fact for finding in findings if finding.ok != "ok")
    assert {"vocabulary", "step", "float32", "padding"} <= {finding.name for finding in findings}
    assert len(named(findings, "head")) == (family != "electra")  # its vocabulary head is the generator's


def test_costs_are_those_of_the_sizes(tmp_path: Path) -> None:
    """Fails where a share or a size is not what one computes by hand for BERT-base and 32 x 512 tokens."""
    folder = model_folder(tmp_path)
    sizes = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
    change_json(folder / "config.json", **sizes, vocab_size=30_522, max_position_embeddings=512)
    (folder / "model.safetensors").unlink()
    findings = model_findings(folder, CARD)
    tokens = 32 * 512
    body = 12 * tokens * (4 * 768**2 + 2 * 768 * 3072 + 2 * 512 * 768)
    head, masked = (places * 768 * (768 + 30_522) for places in (tokens, round(0.15 * tokens)))
    [step], [told] = named(findings, "step"), named(findings, "head")
    assert f"{6 * (body + masked) / 1e12:,.1f} TFLOPs" in step.fact
    assert f"{head / (body + head):.0%} of a step's FLOPs, {(body + head) / (body + masked):.2f} times" in told.fact
    assert (
        f"{4 * tokens * 30_522 / 1e9:.1f} GB of logits instead of {4 * masked // 768 // 31_290 * 30_522 / 1e6:.1f} MB"
        in told.fact
    )
    [precision] = named(findings, "float32")
    assert f"{1000 * 6 * (body + masked) / 312e12:,.1f} in bfloat16" in precision.fact
    [padding], [dropout] = named(findings, "padding"), named(findings, "dropout")
    assert "texts of 32 to 512 tokens that is padded to the longest is 47% padding" in padding.fact
    assert "attention_dropout = 0.1" in padding.fact and f"{tokens * 768 * 25 / 1e6:.1f} MB" in dropout.fact
    [multiple] = named(findings, "multiple")
    assert "30,528 rows are 18.4 kB more" in multiple.remedy and "16 bytes" in multiple.fact


def put_nan(folder: Path) -> None:
    write_weights(folder, {"bert.embeddings.word_embeddings.weight": np.array([[1, np.nan]] * 128, np.float32)})


def cut_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-8])


def lie_in_header(folder: Path) -> None:
    header = header_bytes(None, [Stored("a", "F32", (3,), 0, 8)])
    (folder / "model.safetensors").write_bytes(header + bytes(8))


def name_missing_file(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "part-1.safetensors")
    index = {"weight_map": {"a": "part-1.safetensors", "b": "part-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def name_file_outside(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../other.safetensors"}}))


def put(**tensors: np.ndarray[Any, Any]) -> Callable[[Path], None]:
    return lambda folder: write_weights(folder, tensors)


def config(**values: Any) -> Callable[[Path], None]:
    return lambda folder: change_json(folder / "config.json", **values)


def tokenizer(**values: Any) -> Callable[[Path], None]:
    return lambda folder: change_json(folder / "tokenizer_config.json", **values)


def vocabulary(tokens: list[str]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / "tokenizer.json").write_bytes(bert_vocabulary(tokens).files()["tokenizer.json"])
        (folder / "vocab.txt").unlink()

    return change


def remove(*names: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for name in names:
            (folder / name).unlink(missing_ok=True)

    return change


DAMAGES: Mapping[str, tuple[Callable[[Path], Any], str, str, str]] = {
    "nan": (put_nan, "numbers", "fail", "word_embeddings.weight (128)"),
    "infinity": (put(a=np.array([0x3F80, 0xFF80], np.uint16)), "numbers", "fail", "a (1)"),
    "cut": (cut_weights, "weights", "fail", "incomplete"),
    "no header": (lambda folder: (folder / "model.safetensors").write_bytes(b"x"), "weights", "fail", "not a safe"),
    "lie": (lie_in_header, "weights", "fail", "a has bytes 0 to 8 for F32 [3]"),
    "layer": (config(num_hidden_layers=3), "tensors", "fail", "bert.encoder.layer.2.attention.self.query and 7 more"),
    "types": (put(a=np.ones(3, np.float32), b=np.ones(5, np.float16)), "types", "warn", "5 F16, 3 F32"),
    "pickled": (
        lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
        "weights",
        "warn",
        "pickled",
    ),
    "no weights": (remove("model.safetensors"), "weights", "fail", "no model.safetensors"),
    "part": (name_missing_file, "weights", "fail", "part-2.safetensors is missing"),
    "outside": (name_file_outside, "weights", "fail", "names no files next to it"),
    "rows": (config(vocab_size=120), "vocabulary", "fail", "gives 120 tokens, and the embedding has 128 rows"),
    "more tokens": (vocabulary([*TOKENS, "more"]), "vocabulary", "fail", "129 tokens, and the embedding 128 rows"),
    "fewer tokens": (vocabulary(TOKENS[:60]), "vocabulary", "warn", "68 never occur, 34.8 kB with AdamW, 53.1% of"),
    "pad": (config(pad_token_id=3), "special ids", "fail", "pad_token_id = 3, and the tokenizer pad = 0"),
    "mask": (config(mask_token_id=7), "special ids", "fail", "shown as another word"),
    "cased": (
        tokenizer(do_lower_case=False),
        "case",
        "fail",
        "do_lower_case = false, and tokenizer.json is lower-case",
    ),
    "capitals": (vocabulary([*SPECIAL, *(f"W{n}" for n in range(123))]), "case", "fail", "123 of 128 tokens (96.1%)"),
    "length": (tokenizer(model_max_length=512), "length", "fail", "has 512 (model_max_length), and the model 64"),
    "no length": (tokenizer(model_max_length=int(1e30)), "length", "warn", "no length"),
    "slow": (remove("tokenizer.json"), "tokenizer", "warn", "no tokenizer.json"),
    "no tokenizer": (remove("tokenizer.json", "vocab.txt"), "tokenizer", "fail", "there is none of"),
    "not JSON": (lambda folder: (folder / "tokenizer.json").write_text("{"), "tokenizer", "fail", "tokenizer.json"),
    "dtype": (config(torch_dtype="float16"), "types", "warn", "says float16, and the weights are"),
    "eager": (config(attn_implementation="eager"), "attention", "warn", "2.1 MB of scores"),
    "untied": (config(tie_word_embeddings=False), "model", "warn", "tie_word_embeddings is False"),
    "many layers": (config(num_hidden_layers=10**9), "model", "fail", "1,000,000,000 layers"),
    "no type": (config(model_type="gone"), "model", "warn", "no model_type"),
    "a type of text": (config(model_type=["bert"]), "model", "warn", "['bert']"),
    "no sizes": (config(model_type="other", hidden_size="wide"), "model", "fail", "'other'"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_fault_is_named_with_its_cost_and_remedy(tmp_path: Path, damage: str) -> None:
    """Fails where a folder that is damaged in one way is not told so, or ends the command."""
    break_it, name, verdict, text = DAMAGES[damage]
    folder = model_folder(tmp_path / "a model")
    break_it(folder)
    findings = model_findings(folder, CARD)
    matching = [finding for finding in named(findings, name) if text in finding.fact]
    assert [finding.ok for finding in matching] == [verdict], findings
    assert matching[0].remedy


def test_a_model_of_another_kind_is_told_of_by_its_sizes(tmp_path: Path) -> None:
    """Fails where sizes under other keys are not read, or a model that guesses every next token is told of masks."""
    folder = model_folder(tmp_path)
    sizes = {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128, "vocab_size": 128, "attn_pdrop": 0.1}
    (folder / "config.json").write_text(
        json.dumps({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], **sizes})
    )
    findings = model_findings(folder, CARD)
    assert "gpt2: 3 layers of 64, 4 heads, 128 tokens, 128 positions" in findings[0].fact and findings[0].ok == "warn"
    assert not named(findings, "head") and named(findings, "step") and named(findings, "padding")


def test_an_old_card_is_told_of(tmp_path: Path) -> None:
    findings = model_findings(model_folder(tmp_path), Hardware(device="cuda", name="T4", capability=(7, 5)))
    assert "T4 of this machine has no bfloat16" in named(findings, "float32")[0].remedy
    assert "older than Ampere" in model_findings(model_folder(tmp_path, "modernbert"), Hardware(
        device="cuda", name="T4", capability=(7, 5)))[-1].fact  # fmt: skip


def test_the_command_exits_as_its_findings_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = model_folder(tmp_path / "model")
    assert run_command_line(["doctor", str(folder), "--json"], tmp_path) == 0
    assert json.loads(capsys.readouterr().out)[0]["fact"].startswith("bert: 2 layers")
    put_nan(folder)
    assert run_command_line(["doctor", str(folder)], tmp_path) == 1
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"has no config\.json\. Looked for: config\.json, model\.safetensors"):
        run_command_line(["doctor", str(tmp_path / "empty")], tmp_path)


def test_a_folder_is_no_recipe_that_comes_with_cloze(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where a folder `demo`, which the demo leaves behind, hides the recipe, or a model's folder is a recipe."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    assert not names_model("demo") and not names_model("other.toml")
    model_folder(tmp_path / "demo")
    assert names_model("demo")


def test_torch_is_not_needed(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from flows.command.training.model_findings import model_findings; "
        f"model_findings(Path({str(model_folder(tmp_path))!r})); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**13), 10**13) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(st.data())
def test_no_configuration_ends_the_command_but_in_words(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Fails where a value that no model has raises anything but what a user can read, or takes forever."""
    folder = tmp_path_factory.mktemp("fuzzed")
    bert_vocabulary(TOKENS).save(folder)
    family = data.draw(st.sampled_from([*FAMILIES, "gpt2"]))
    usual = {"vocab_size": 128, **(dict(FAMILIES[family].names.usual) if family in FAMILIES else {"n_layer": 2})}
    keys = [*usual, "model_type", "architectures", "dtype", "tie_word_embeddings", "embedding_size", "bos_token_id"]
    changed = data.draw(st.dictionaries(st.sampled_from(keys), VALUES, max_size=4))
    (folder / "config.json").write_text(json.dumps({"model_type": family, **usual, **changed}))
    change_json(folder / "tokenizer_config.json", model_max_length=data.draw(VALUES))
    assert all(finding.fact for finding in model_findings(folder, CARD))


@given(cut=st.integers(0, 400), byte=st.integers(0, 255))
def test_no_header_ends_the_command(tmp_path_factory: pytest.TempPathFactory, cut: int, byte: int) -> None:
    folder = tmp_path_factory.mktemp("cut")
    write_weights(folder, {"bert.embeddings.word_embeddings.weight": np.ones((8, 4), np.float32)})
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[min(cut, len(content) - 1)] = byte
    path.write_bytes(content)
    (folder / "config.json").write_text('{"model_type": "bert", "vocab_size": 8}')
    assert all(finding.fact for finding in model_findings(folder, CARD))
