"""Folders of sentence-transformers: their vectors are the library's, and are kept by what is learnt, written and found.

CLOZE_SENTENCE_FOLDER names a folder with real weights, whose vectors are compared as well.
"""

import importlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from small_models import write_model
from small_tasks import new_job, run, write_json_rows, write_rows

from corpora.errors import InputError
from trainer.huggingface.checkpoints import import_checkpoint, load_pretrained
from trainer.huggingface.sentence_transformers import MODEL, MODULES, read_sentences
from trainer.tasks.folders import read_source
from trainer.tasks.onnx import INPUTS, export_onnx, open_graph
from trainer.tasks.settings import FinetuneJob
from trainer.tasks.vectors.embed import Embedder
from trainer.tasks.vectors.job import EmbedJob
from trainer.tasks.vectors.search import run_job
from trainer.tasks.vectors.settings import EmbedSettings

TEXTS = ("good film", "the plot was very long , and the actor was bad . " * 4, "a", " GOOD  Ünïted Films\n", "x" * 200)
LENGTH = 14  # tokens after which most folders cut
PROMPTS = {"query": "the plot : ", "passage": "a scene , ", "s2s": "short "}


@pytest.fixture(scope="module")
def library() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        module: ModuleType = pytest.importorskip("sentence_transformers")
    return module


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, library: ModuleType) -> Callable[[str], Path]:
    """What makes a folder by the name of its configuration, each once, with weights drawn at random."""
    root = tmp_path_factory.mktemp("folders")

    def folder(name: str) -> Path:
        if not (root / name).is_dir():
            family, make, kept = CONFIGURATIONS[name]
            if not (root / family).is_dir():
                write_model(root / family, family)
            torch.manual_seed(7)
            kinds = importlib.import_module("sentence_transformers.sentence_transformer.modules")
            modules = [kinds.Transformer(str(root / family), max_seq_length=LENGTH), *make(kinds)]
            for module in modules[1:]:
                for parameter in module.parameters():
                    torch.nn.init.normal_(parameter, std=0.3)
            library.SentenceTransformer(modules=modules, device="cpu", **kept).save(str(root / name))
            REWRITTEN.get(name, lambda path: None)(root / name)
        return root / name

    return folder


def older(folder: Path) -> None:
    """Rewrite a folder as versions before 5.4 wrote it: flags of poolings, and the length in a file of its own."""
    width = json.loads((folder / "1_Pooling" / "config.json").read_text())["embedding_dimension"]
    pooling = {"word_embedding_dimension": width, "pooling_mode_cls_token": True, "pooling_mode_max_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({**pooling, "pooling_mode_mean_tokens": False}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 9, "do_lower_case": False}))
    (folder / "config_sentence_transformers.json").write_text('{"__version__": {"sentence_transformers": "2.0.0"}}')
    modules = (folder / "modules.json").read_text()
    (folder / "modules.json").write_text(modules.replace("base.modules.dense", "models"))
    dense = folder / "2_Dense"
    torch.save(load_file(dense / "model.safetensors"), dense / "pytorch_model.bin")
    (dense / "model.safetensors").unlink()


def cased(folder: Path) -> None:
    """Let the tokenizer keep upper case, which no token of the vocabulary has, and the folder ask for lower case."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["normalizer"]["lowercase"] = False
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "do_lower_case": False}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 20, "do_lower_case": True}))


T = torch.nn
CONFIGURATIONS: dict[str, tuple[str, Callable[[Any], list[Any]], dict[str, Any]]] = {
    "mean": ("bert", lambda m: [m.Pooling(32), m.Normalize()], {}),
    "cls": ("bert", lambda m: [m.Pooling(32, "cls")], {"similarity_fn_name": "dot"}),
    "max": ("roberta", lambda m: [m.Pooling(32, "max")], {}),
    "root": ("distilbert", lambda m: [m.Pooling(32, "mean_sqrt_len_tokens"), m.LayerNorm(32)], {}),
    "weighted": ("albert", lambda m: [m.Pooling(32, "weightedmean"), m.Dense(32, 8, activation_function=T.Tanh())], {}),
    "last": (
        "modernbert",
        lambda m: [
            m.Pooling(32, "lasttoken"),
            m.Dense(32, 24, bias=False, activation_function=T.ReLU()),
            m.Dense(24, 8, activation_function=T.Identity()),
            m.Normalize(),
        ],
        {},
    ),
    "several": (
        "electra",
        lambda m: [m.Pooling(32, ("mean", "cls")), m.Dropout(0.5), m.Dense(64, 16, activation_function=T.GELU())],
        {"truncate_dim": 10},
    ),
    "prompted": (
        "bert",
        lambda m: [m.Pooling(32, "mean"), m.Dense(32, 16, activation_function=T.SiLU(), use_residual=True)],
        {"prompts": PROMPTS, "default_prompt_name": "s2s"},
    ),
    "unpooled": (
        "roberta",
        lambda m: [m.Pooling(32, ("weightedmean", "max", "cls", "mean", "lasttoken"), include_prompt=False)],
        {"prompts": PROMPTS, "default_prompt_name": "query"},
    ),
    "residual": ("albert", lambda m: [m.Pooling(32), m.Dense(32, 32, use_residual=True), m.LayerNorm(32)], {}),
    "cased": ("bert", lambda m: [m.Pooling(32)], {}),
    "older": ("distilbert", lambda m: [m.Pooling(32, ("cls", "max")), m.Dense(64, 12)], {}),
    "manhattan": ("modernbert", lambda m: [m.Pooling(32, "weightedmean")], {"similarity_fn_name": "manhattan"}),
}
REWRITTEN = {"older": older, "cased": cased}


def embedded(folder: Path, texts: Any = TEXTS, **settings: Any) -> Any:
    """The vectors that `embed` makes of texts."""
    embedder = Embedder.from_folder(folder, EmbedSettings(**settings), torch.device("cpu"))
    vectors = embedder.compute_vectors(embedder.texts.encode([embedder.texts.prompts[0] + text for text in texts]))
    assert vectors[0].shape == (1, embedder.width)
    return np.concatenate(vectors)


def reference(library: ModuleType, folder: Path, texts: Any = TEXTS, **asked: Any) -> Any:
    model = library.SentenceTransformer(str(folder), device="cpu")
    return model.encode(list(texts), show_progress_bar=False, **asked)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_vectors_are_those_of_the_library(library: ModuleType, folders: Callable[[str], Path], name: str) -> None:
    """Fails if a pooling, a module after it, a prompt, the case or the length of texts is not the authors'."""
    theirs = reference(library, folders(name))
    assert np.abs(embedded(folders(name)) - theirs).max() < 1e-5 < np.abs(theirs).mean()
    if name == "mean":  # a text that is cut differs from one that is not
        assert np.abs(embedded(folders(name), max_length=40)[1] - theirs[1]).max() > 1e-3


def test_a_prompt_is_named_or_goes_by_what_is_embedded(
    tmp_path: Path, library: ModuleType, folders: Callable[[str], Path]
) -> None:
    """Fails if queries and documents of a search have the default prompt, or each other's."""
    for name in ("prompted", "unpooled"):
        folder = folders(name)
        for prompt in PROMPTS:
            theirs = reference(library, folder, prompt_name=prompt)
            assert np.abs(embedded(folder, prompt=prompt) - theirs).max() < 1e-5
        assert np.array_equal(embedded(folder, prompt="document"), embedded(folder, prompt="passage"))
    corpus = write_json_rows(folders("prompted").parent / "corpus.jsonl", [{"id": "d", "text": "bad film"}])
    queries = write_json_rows(folders("prompted").parent / "queries.jsonl", [{"id": "q", "text": "a film"}])
    job = EmbedJob(
        model=str(folders("prompted")),
        file=corpus,
        output=str(tmp_path / "v.parquet"),
        settings=EmbedSettings(),
        queries=queries,
    )
    [result] = run_job(job, torch.device("cpu"))["results"]
    query = reference(library, folders("prompted"), ["a film"], prompt_name="query")[0]
    document = reference(library, folders("prompted"), ["bad film"], prompt_name="passage")[0]
    wanted = query @ document / np.linalg.norm(query) / np.linalg.norm(document)
    assert result["documents"][0]["score"] == pytest.approx(wanted, abs=1e-5)
    with pytest.raises(InputError, match="compared by manhattan, and a search compares by cosine or"):
        run_job(replace(job, model=str(folders("manhattan"))), torch.device("cpu"))
    with pytest.raises(InputError, match=r"no prompt named 'fragment': name one of its own .*passage"):
        embedded(folders("prompted"), prompt="fragment")
    with pytest.raises(InputError, match="has no prompts, of which one is named"):
        embedded(write_model(tmp_path), prompt="query")
    with pytest.raises(InputError, match="put before whole texts"):
        EmbedSettings(prompt="query", by="word")


def test_what_is_asked_for_otherwise_is_the_encoder_alone(folders: Callable[[str], Path]) -> None:
    """Fails if another pooling or layer goes through modules that were made for the folder's own."""
    assert embedded(folders("several")).shape[1] == 10
    assert embedded(folders("several"), pooling="mean+cls").shape[1] == 10
    assert embedded(folders("several"), pooling="max").shape[1] == 32
    assert embedded(folders("several"), layers=(0, 1)).shape[1] == 128


def pairs_job(folder: Path, model: Path, task: dict[str, Any], **settings: Any) -> FinetuneJob:
    rows = [
        (text, second, f"{score}") for text, second, score in zip(TEXTS[:3] * 8, TEXTS[1:4] * 8, range(24), strict=True)
    ]
    file = write_rows(folder / "pairs.tsv", [[*map(str.strip, row)] for row in rows], ("text", "second", "label"))
    job = new_job(folder, task={"kind": "similarity", **task}, learning_rate=1e-2, batch=8, **settings)
    changed: FinetuneJob = replace(job, model=str(model), training=file, evaluation=file)
    return changed


@pytest.mark.parametrize("name", ["prompted", "unpooled", "cased", "several"])
def test_a_fine_tuned_folder_keeps_it(
    tmp_path: Path, library: ModuleType, folders: Callable[[str], Path], name: str
) -> None:
    """Fails if training leaves out prompts or modules, which then do not learn, or the output says otherwise."""
    write_model(tmp_path / "model")
    before, out = folders(name), tmp_path / "out"
    record = run(pairs_job(tmp_path, before, {}))
    said, kept = read_sentences(out), read_sentences(before)
    assert said is not None and kept is not None
    assert (said.prompts, said.steps and said.steps[-1].config) == (kept.prompts, kept.steps and kept.steps[-1].config)
    assert record["task"]["pooling"] == kept.pooling and record["max_length"] == kept.max_length
    theirs = reference(library, out)
    assert np.abs(embedded(out) - theirs).max() < 1e-5
    assert np.abs(theirs - reference(library, before)).max() > 1e-3
    for path in before.glob("*_Dense/*.safetensors"):
        old, new = load_file(path)["linear.weight"], load_file(out / path.parent.name / path.name)["linear.weight"]
        assert f"{path.parent.name}/{path.name}" in record["weights"] and (old - new).abs().max() > 1e-3


def test_retrieval_goes_on_as_the_folder_compares(tmp_path: Path, folders: Callable[[str], Path]) -> None:
    """Fails if dot products become cosines, or two encoders lose what their folder has."""
    write_model(tmp_path / "model")
    rows = write_json_rows(tmp_path / "rows.jsonl", [{"query": text, "positive": text[::-1]} for text in TEXTS])
    job = new_job(tmp_path, task={"kind": "retrieval"}, batch=5)
    job = replace(job, model=str(folders("cls")), training=rows, evaluation=rows)
    assert {"similarity": "dot", "pooling": "cls"}.items() <= run(job)["task"].items()
    with pytest.raises(InputError, match="a model with two encoders keeps none"):
        run(
            replace(
                job, model=str(folders("prompted")), output=str(tmp_path / "two"), task={**job.task, "shared": False}
            )
        )


@pytest.mark.long
def test_an_onnx_folder_keeps_it(tmp_path: Path, library: ModuleType, folders: Callable[[str], Path]) -> None:
    """Fails if the file lacks a module, or prompts and case of texts are not read from the folder."""
    pytest.importorskip("onnxruntime")
    export_onnx(folders("prompted"), tmp_path / "onnx", False)
    source, answer = read_source(folders("prompted")), open_graph(tmp_path / "onnx" / "model.onnx")
    encoder = source.task.build_text_encoder(
        tmp_path / "onnx", source.inputs, source.max_length
    )  # reads the copied files
    examples = [source.task.make_example({"text": text, "second": "a"}, False) for text in TEXTS]
    firsts = [item.sequences[0] for item in source.task.make_items(examples, encoder, False)]
    rows = [dict(zip(INPUTS, (ids, np.ones_like(ids), segments), strict=True)) for ids, segments in firsts]
    answers = [answer({name: row[None].astype(np.int64) for name, row in each.items()})[0] for each in rows]
    assert np.abs(np.stack(answers) - reference(library, folders("prompted"))).max() < 1e-4
    with pytest.raises(InputError, match="does not pool the tokens of its prompts"):
        export_onnx(folders("unpooled"), tmp_path / "none", False)


def test_an_old_layout_is_imported(tmp_path: Path, library: ModuleType, folders: Callable[[str], Path]) -> None:
    """Fails if the encoder below the folder, or pickled weights of a module, are not brought along."""
    old = tmp_path / "old"
    shutil.copytree(folders("older"), old)
    (old / "0_Transformer").mkdir()
    for path in [path for path in old.iterdir() if path.is_file() and path.name not in (MODULES, MODEL)]:
        path.rename(old / "0_Transformer" / path.name)
    modules = json.loads((old / MODULES).read_text())
    (old / MODULES).write_text(json.dumps([{**modules[0], "path": "0_Transformer"}, *modules[1:]]))
    with pytest.raises(
        InputError, match=r"keeps its encoder in 0_Transformer.*save it again with sentence-transformers"
    ):
        embedded(old)
    import_checkpoint(old, tmp_path / "new")
    assert np.abs(embedded(tmp_path / "new") - reference(library, old)).max() < 1e-5


def modules(*types: str) -> list[dict[str, Any]]:
    """A `modules.json` with the encoder and what is named."""
    kinds = ["sentence_transformers.models.Transformer", *(f"sentence_transformers.models.{each}" for each in types)]
    return [{"idx": n, "name": f"{n}", "path": f"{n}_X" if n else "", "type": kind} for n, kind in enumerate(kinds)]


STATIC = [{"idx": 0, "name": "0", "path": "0_StaticEmbedding", "type": "sentence_transformers.models.StaticEmbedding"}]
OWN = [{"idx": 0, "name": "0", "path": "", "type": "modeling.Own"}]
REFUSED: dict[str, tuple[str, Any, str]] = {
    "code": ("own.py", "import os", r"own\.py is code, which is not run here"),
    "own class": ("modules.json", OWN, "modeling.Own, whose code would be its own"),
    "tokenizer": ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": "own.T"}}, "`auto_map` names classes"),
    "config": ("config.json", {"auto_map": {"AutoModel": "own.M"}}, "`auto_map` names classes"),
    "mpnet": ("config.json", {"model_type": "mpnet"}, "model_type is 'mpnet'"),
    "clip": ("modules.json", [{**STATIC[0], "type": "sentence_transformers.models.CLIPModel"}], "has CLIPModel. What"),
    "static": ("modules.json", STATIC, "has StaticEmbedding. What is read is a Transformer, a Pooling"),
    "router": ("modules.json", modules("Router"), "has Transformer, Router"),
    "layers": ("modules.json", modules("WeightedLayerPooling", "Pooling"), "WeightedLayerPooling"),
    "outside": ("modules.json", [*modules("Pooling"), {"type": "sentence_transformers.models.Dense", "path": "../.."}],
                "below the folder"),
    "no list": ("modules.json", {"type": "x"}, "is no list of modules"),
    "newer": ("config_sentence_transformers.json", {"__version__": {"sentence_transformers": "7.1.0.dev0"}},
              "sentence-transformers 7.1.0.dev0 wrote it, and versions up to 6 are read"),
    "sparse": ("config_sentence_transformers.json", {"model_type": "SparseEncoder"}, "'SparseEncoder'; a Sentence"),
    "default": ("config_sentence_transformers.json", {"default_prompt_name": "x"}, "by default 'x'"),
    "pooling": ("1_Pooling/config.json", {"pooling_mode": "attention"}, "the pooling .*'attention'.* is none of cls"),
    "key": ("1_Pooling/config.json", {"pooling_mode": "cls", "power": 2}, "power is 2, which is not read here"),
    "task": ("sentence_bert_config.json", {"transformer_task": "fill-mask"}, "transformer_task is 'fill-mask'"),
    "query length": ("sentence_bert_config.json", {"query_length": 8}, "query_length is 8"),
    "activation": ("2_Dense/config.json", {"activation_function": "os.system"}, "activation_function is 'os.system'"),
    "no sizes": ("2_Dense/config.json", {"in_features": 32}, "has no 'out_features'"),
    "wide": ("2_Dense/config.json", {"in_features": 32, "out_features": 32}, r"linear.weight is 16 x 32|differ in"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_read_is_refused_by_name(tmp_path: Path, folders: Callable[[str], Path], name: str) -> None:
    """Fails if a folder is opened without what its authors put there, or an error is no paragraph."""
    shutil.copytree(folders("prompted"), tmp_path / name)
    file, content, reason = REFUSED[name]
    path = tmp_path / name / file
    before = json.loads(path.read_text()) if name in ("config", "mpnet", "tokenizer") else {}
    path.write_text(json.dumps({**before, **content} if isinstance(content, dict) else content))
    if name == "static":
        (tmp_path / name / "config.json").unlink()
    with pytest.raises(InputError, match=reason):
        embedded(tmp_path / name)


@pytest.mark.parametrize("file", ["tf_model.h5", "flax_model.msgpack", "model.safetensors"])
def test_weights_of_other_libraries_are_refused(tmp_path: Path, file: str) -> None:
    """Fails if they end in a missing tensor, or in advice that does not help."""
    state = load_file(write_model(tmp_path) / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    save_file(state, tmp_path / file, metadata={"format": "tf"})
    with pytest.raises(InputError, match=r"as (tf|flax) lays them out, .*from_(tf|flax)=True"):
        load_pretrained(tmp_path)
    with pytest.raises(InputError, match="lays them out"):
        import_checkpoint(tmp_path, tmp_path / "out")


@pytest.mark.skipif("CLOZE_SENTENCE_FOLDER" not in os.environ, reason="CLOZE_SENTENCE_FOLDER names no folder")
def test_vectors_of_real_weights_are_those_of_the_library(library: ModuleType) -> None:
    """Fails if a published folder is read otherwise: texts of many words, of none that it knows, and long ones."""
    folder = Path(os.environ["CLOZE_SENTENCE_FOLDER"])
    texts = [*TEXTS, "Where is my parcel?", "Ça va? 你好", "word " * 2000]
    theirs = reference(library, folder, texts)
    assert np.abs(embedded(folder, texts) - theirs).max() < 1e-5 * max(1.0, float(np.abs(theirs).max()))
