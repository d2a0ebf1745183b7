"""`onnx`: exports a model as an ONNX file for programs without torch, with its tokenizer and labels.

    model.onnx         float32; a model with a second encoder for passages also has `second.onnx`
    model.int8.onnx    on request: the same with 8-bit integer weights
    config.json, tokenizer.json, finetune.json, ...    copies, including the prompts of sentence-transformers

    input     input_ids, attention_mask and, if the model has segments, token_type_ids: int64 [batch, length], for any
              batch size and length, padded on the right
    output    `logits` of texts [batch, ...], or of tokens [batch, length, ...] (tags, starts and ends);
              `sentence_embedding` for similarity and retrieval, and `normalized_embedding` if vectors are compared by
              cosine; `last_hidden_state` for an encoder without a task

A task model can read padded rows like concatenated sequences, because padded rows are also stored one after another.
Only attention, token positions and pooling differ. So each module with a `TransformerEncoder` is exported unchanged.

Promise: the output folder only appears if its float32 files, given texts of several lengths that are padded to the
longest, return the outputs of the model without padding. A model with predictions that do not fit into the outputs of a
file is refused. Integer weights use seven of the eight bits, with one scale per row of a matrix: CPUs without an
instruction for sums of such products add them in 16 bits, which would overflow (onnxruntime: `reduce_range`).

Cost: torch takes some 5 s per file, and attention needs memory for tokens x tokens.
"""

import argparse
import copy
import importlib.util
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from corpora.errors import InputError
from corpora.kernels.arrays import Int64s
from corpora.store.checked_folder import mark_complete
from trainer.complete_folders import open_new_folder
from trainer.huggingface.config import CONFIG
from trainer.huggingface.sentence_transformers import list_sentence_files
from trainer.model.attention import rotate, to_sight
from trainer.model.batches import Batch
from trainer.model.encoder import Layer, SelfAttention, TransformerEncoder
from trainer.tasks.folders import RECORD, LoadedFolder, StatesModel, read_source
from trainer.tasks.heads.next_word import NextModel
from trainer.tasks.heads.tags import TagModel
from trainer.tasks.heads.task_model import batch_items
from trainer.tasks.heads.vectors import VectorModel, pool_rows, pool_tokens
from trainer.tasks.kinds.texts import TextTask
from trainer.tasks.task import TaskItem, Tokens
from trainer.tasks.text_encoder import TOKENIZER_FILES

Answer = Callable[[Mapping[str, Int64s]], npt.NDArray[Any]]  # the first output for inputs by name

# Shapes in the names of tensors: B rows, S tokens of each, T = B * S, A heads, D size of a head, H hidden size.

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
COPIED_FILES = (*TOKENIZER_FILES, "tokenizer_config.json", CONFIG, RECORD)
INPUTS = IDS, MASK, SEGMENTS = ("input_ids", "attention_mask", "token_type_ids")
TEST_LENGTHS = (4, 8, 16, 32, 64, 128)  # of the texts by which a file is compared with the model
MAX_DIFFERENCE = 1e-3  # as a share of the largest number in the model's answers


class Graph(NamedTuple):
    """One ONNX file to write.

    name:    name of the file without extension
    module:  module to export
    outputs: function that computes the outputs of the module for a batch
    names:   names of the outputs, in order
    """

    name: str
    module: nn.Module
    outputs: Callable[[Any, Batch], tuple[Tensor, ...]]
    names: tuple[str, ...]


def main(arguments: list[str]) -> int:
    """Run `onnx MODEL OUTPUT [--int8]`: export a model to ONNX, and return 0.

    Raises InputError if the model cannot be exported (see `export_onnx`).
    """
    parser = argparse.ArgumentParser(prog="onnx", description="A model as an ONNX file.")
    parser.add_argument("model", type=Path, help="folder of a model")
    parser.add_argument("output", type=Path, help="the folder to write; it must not hold anything yet")
    parser.add_argument("--int8", action="store_true", help="also write the weights as eight-bit integers")
    asked = parser.parse_args(arguments)
    export_onnx(asked.model, asked.output, asked.int8)
    return 0


def export_onnx(folder: Path, output: Path, int8: bool) -> None:
    """Export the model of a folder to ONNX, with its tokenizer and labels.

    Args:
        folder: The folder of a model.
        output: The folder to write, which must be empty or not exist. It is removed if the export fails.
        int8: True to write smaller files with 8-bit weights as well.

    Raises:
        InputError: If the packages of the extra `onnx` are missing, the model cannot be exported, or the outputs of an
            exported file differ from those of the model.
    """
    for package in PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise InputError(
                f"ONNX needs the package {package}, which is not installed here: install the extra `onnx` (pip install "
                "'cloze-pipeline[onnx]')."
            )
    with open_new_folder(output) as new:
        write_files(read_source(folder), new, int8)
        for name in (*COPIED_FILES, *(name for name in list_sentence_files(folder) if name.endswith(".json"))):
            if (folder / name).is_file():
                (new / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(folder / name, new / name)
        mark_complete(new)


def write_files(loaded: LoadedFolder, new: Path, int8: bool) -> None:
    """Write the ONNX files of a model, and compare their outputs with those of the model.

    Args:
        loaded: The model.
        new: The folder to write to.
        int8: True to write files with 8-bit weights as well.

    Raises:
        InputError: If the model cannot be exported, or outputs differ by more than MAX_DIFFERENCE.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    for graph in list_graphs(loaded):
        whole = new / f"{graph.name}.onnx"
        write_graph(loaded, graph, whole)
        if (away := measure_difference(loaded, graph, open_graph(whole))) > MAX_DIFFERENCE:
            raise InputError(
                f"The ONNX file answers differently from the model: by {away:.2g} of the largest answer. It is not "
                "kept."
            )
        if int8:
            small = new / f"{graph.name}.int8.onnx"
            quantize_dynamic(whole, small, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)


def list_graphs(loaded: LoadedFolder) -> tuple[Graph, ...]:
    """List the ONNX files that a model needs: one, or two if it has a second encoder.

    The model is put into evaluation mode.

    Raises:
        InputError: If predictions need more than the outputs of a file, or if the model needs inputs other than token
            ids.
    """
    model = loaded.model.eval()
    searched = isinstance(model, TagModel) and model.chain is not None
    if searched or isinstance(model, NextModel) or (isinstance(model, VectorModel) and model.pair_head is not None):
        raise InputError(
            f"A model of the task {loaded.task.kind!r} with a chain (crf), classes of a pair, or of the next "
            "words cannot be written as ONNX: its answers are more than a file's outputs."
        )
    if isinstance(loaded.task, TextTask) and loaded.task.num_columns:
        raise InputError(
            "A model that reads further columns with its texts cannot be written as ONNX: a file is given ids alone."
        )
    if not isinstance(model, VectorModel):
        name = "last_hidden_state" if isinstance(model, StatesModel) else "logits"
        return (Graph("model", model, lambda model, batch: (model.compute_outputs(batch),), (name,)),)
    if model.sentences is not None and model.sentences.skips_prompts:
        raise InputError(
            "A model that does not pool the tokens of its prompts (`include_prompt`) cannot be written as ONNX: a file "
            "is given ids, and does not see where a prompt ends."
        )
    task, pooling = model.task, model.pooling

    def vectors(modules: nn.ModuleList, batch: Batch) -> tuple[Tensor, ...]:
        encoder, after = modules
        hidden_TH = encoder(batch)
        padded = batch.pool(hidden_TH, pooling) if isinstance(batch, PaddedBatch) else None
        vectors_BH = after(pool_tokens(hidden_TH, batch, pooling) if padded is None else padded)
        return (vectors_BH, F.normalize(vectors_BH, dim=-1)) if task.resolved_similarity == "cosine" else (vectors_BH,)

    names = (
        ("sentence_embedding", "normalized_embedding")
        if task.resolved_similarity == "cosine"
        else ("sentence_embedding",)
    )
    encoders = zip(("model", "second"), model.list_encoders(), strict=False)
    return tuple(Graph(name, nn.ModuleList([encoder, model.after]), vectors, names) for name, encoder in encoders)


def write_graph(loaded: LoadedFolder, graph: Graph, path: Path) -> None:
    """Export a module of a loaded model to an ONNX file that reads padded rows.

    Args:
        loaded: The model.
        graph: The module, and the names of its outputs.
        path: The file to write.

    Raises:
        InputError: If torch cannot export it.
    """
    names = (IDS, MASK, *([SEGMENTS] if loaded.model.encoder.shape.segment_types > 1 else []))
    free = dict.fromkeys((0, 1), torch.export.Dim.DYNAMIC)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about itself
        try:
            torch.onnx.export(
                PaddedModel(graph, loaded.task.unit != "sequence"),
                kwargs={name: torch.ones(2, min(5, loaded.max_length), dtype=torch.int64) for name in names},
                f=str(path),
                input_names=names,
                output_names=graph.names,
                dynamic_shapes=dict.fromkeys(names, free),
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        except torch.onnx.OnnxExporterError as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"A model of {loaded.task.kind!r} cannot be written as ONNX: {reason}") from error


def open_graph(path: Path) -> Answer:
    """Open an ONNX file, and return a function that computes its first output for padded rows.

    The function is called with int64 arrays [rows, length] by the name of the input.
    """
    from onnxruntime import InferenceSession

    session = InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    return lambda rows: session.run(None, {name: rows[name] for name in names})[0]


@torch.inference_mode()
def measure_difference(loaded: LoadedFolder, graph: Graph, answer: Answer) -> float:
    """Measure how much the outputs of an ONNX file for padded rows differ from those of the model without padding.

    The token ids are random but always the same. The second half of each row has segment id 1.

    Args:
        loaded: The model.
        graph: The module that was exported.
        answer: Computes the first output of the file, as `open_graph` returns it.

    Returns:
        The largest absolute difference, divided by the largest absolute value in the model's outputs.
    """
    lengths = sorted({min(length, loaded.max_length) for length in TEST_LENGTHS})
    places, counts = np.arange(lengths[-1]), np.array(lengths)[:, None]
    ids = np.random.default_rng(0).integers(0, loaded.inputs.vocab_size, (len(lengths), len(places)))
    rows = {IDS: ids, MASK: (places < counts).astype(np.int64), SEGMENTS: (places > counts // 2).astype(np.int64)}
    most, away = 1e-9, 0.0
    for row, (length, found) in enumerate(zip(lengths, answer(rows), strict=True)):
        sequence = Tokens(*(rows[name][row, :length].astype(np.int32) for name in (IDS, SEGMENTS)))
        item = TaskItem(sequences=(sequence,), example=0, points=np.arange(length))
        wanted = graph.outputs(graph.module, batch_items([item]))[0].float().numpy()
        answered = found[None] if loaded.task.unit == "sequence" else found[:length]
        most, away = max(most, np.abs(wanted).max()), max(away, np.abs(wanted - answered).max())
    return float(away / most)


# The model on padded rows: the same weights, plain attention.


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedBatch(Batch):
    """Rows that are padded to the same length and stored one after another.

    Unlike in `Batch`, `boundaries` is bool [B, S], True for tokens that are not padding.
    """

    def compute_positions(self) -> Tensor:
        """Compute the zero-based position of each token in its padded row: int64 [T]."""
        rows, length = self.boundaries.shape
        return torch.arange(length).expand(rows, length).flatten()

    def locate_first_tokens(self) -> Tensor:
        """Compute the index, among all T tokens, of each padded row's first token: int64 [B]."""
        rows, length = self.boundaries.shape
        return torch.arange(rows) * length

    def compute_means(self, values_TH: Tensor) -> Tensor:
        """Compute the mean of each row's token values, without padding: float32 [B, H]."""
        return self.pool(values_TH, "mean")

    def pool(self, values_TH: Tensor, pooling: str) -> Tensor:
        """Pool the hidden states of each padded row as `pool_rows` does: float32 [B, H * modes]."""
        return pool_rows(values_TH.view(*self.boundaries.shape, -1), self.boundaries, pooling)


class PaddedAttention(nn.Module):
    """The self-attention of a layer, for padded rows."""

    def __init__(self, attention: SelfAttention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, hidden_TH: Tensor, present_BS: Tensor, longest: int, turns: Tensor | None = None) -> Tensor:
        """Compute the output of self-attention over padded rows for each token: [T, H].

        Args:
            hidden_TH: The vectors of all tokens.
            present_BS: bool, True for tokens that are not padding.
            longest: Not used.
            turns: The rotary embedding of each token, as in `SelfAttention`; None without rotary embeddings.
        """
        ours, (rows, length) = self.attention, present_BS.shape
        heads, size = ours.heads, hidden_TH.shape[-1] // ours.heads
        qkv_T3AD = ours.query_key_value(hidden_TH).view(rows * length, 3, heads, size)
        if turns is not None:
            qkv_T3AD = rotate(qkv_T3AD, turns)
        q_BASD, k_BASD, v_BASD = qkv_T3AD.view(rows, length, 3, heads, size).permute(2, 0, 3, 1, 4).unbind(0)
        scores_BASS = q_BASD @ k_BASD.transpose(-1, -2) * size**-0.5
        steps_SS = torch.arange(length) - torch.arange(length)[:, None]
        left, right = to_sight(length if ours.window is None else ours.window // 2, ours.causal)
        seen_BSS = present_BS[:, None, :] & (steps_SS >= -left) & (steps_SS <= right)
        lowest = torch.finfo(scores_BASS.dtype).min  # not -inf: a row of padding has a softmax too
        weights_BASS = scores_BASS.masked_fill(~seen_BSS[:, None], lowest).softmax(-1)
        mixed_TH: Tensor = ours.output((weights_BASS @ v_BASD).transpose(1, 2).reshape(rows * length, heads * size))
        return mixed_TH


class PaddedModel(nn.Module):
    """A copy of a module that takes padded rows instead of a `Batch`.

    `per_token` is True if each token has its own outputs.
    """

    def __init__(self, graph: Graph, per_token: bool) -> None:
        super().__init__()
        self.module, self.outputs, self.per_token = copy.deepcopy(graph.module), graph.outputs, per_token
        for encoder in [module for module in self.module.modules() if isinstance(module, TransformerEncoder)]:
            for layer in encoder.layers:
                assert isinstance(layer, Layer), "layers of an encoder"
                layer.attention = PaddedAttention(layer.attention)  # type: ignore[assignment]

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Compute the outputs for padded rows: [B, ...], or [B, S, ...] if each token has its own outputs.

        Args:
            input_ids: int64 [B, S], the token ids.
            attention_mask: int64 [B, S], 1 for tokens and 0 for padding.
            token_type_ids: int64 [B, S], the segment ids; None for zeros.
        """
        rows, length = input_ids.shape
        ids_T = input_ids.reshape(-1)
        batch = PaddedBatch(
            ids=ids_T,
            segment_ids=torch.zeros_like(ids_T) if token_type_ids is None else token_type_ids.reshape(-1),
            boundaries=attention_mask.bool(),
            longest=0,
            points=torch.arange(rows * length),
            targets={},
        )
        outputs = self.outputs(self.module, batch)
        return tuple(each.view(rows, length, *each.shape[1:]) for each in outputs) if self.per_token else outputs
