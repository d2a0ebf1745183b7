"""Does each family learn, with the settings proposed for its width? Held-out loss over the tokens of a training.

    python -m benchmarks.curves --text FOLDER                         six families, three seeds, 600,000 tokens each
    python -m benchmarks.curves --text FOLDER --tokens 3000000        the same after 3 million
    python -m benchmarks.curves --families bert --seeds 1             one of them, on the documentation of this Python

Each family has 2 layers of 128 and reads the same documents: a tenth held out, rows of 64 tokens, 16 rows a step. BERT,
ALBERT, ELECTRA and DistilBERT read WordPiece, RoBERTa and ModernBERT byte-level BPE, 4,000 tokens each; BERT reads
segment pairs, ALBERT pairs to be put in order, the others full sentences. DistilBERT learns from the BERT of its seed.

Printed are nats per masked token below two scores: that of guessing by the frequencies of the training text, and the
unigram entropy, which is the score of somebody who knows the frequencies of the masked tokens themselves. For ELECTRA
they are those of its generator; next to them is the area under its discriminator's ROC curve. The models are kept in
`--store`, in which an interrupted call resumes and a repeated one trains nothing.
"""

import argparse
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloze
from benchmarks.measuring import load_texts

LENGTH, BATCH = 64, 16
SIZE: Mapping[str, Any] = {"size": "tiny", "layers": 2, "hidden_size": 128, "heads": 4}
INPUTS = {"bert": "segment-pair", "albert": "sentence-order"}
BYTE_LEVEL = ("roberta", "modernbert")
FAMILIES = ("bert", "roberta", "albert", "electra", "distilbert", "modernbert")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """An evaluation of a model.

    tokens:         tokens read so far, padding included
    below_guessing: nats per masked token below guessing by the frequencies of the training text
    below_entropy:  the same below the unigram entropy
    area:           area under the ROC curve of ELECTRA's discriminator; None for other families
    """

    tokens: int
    below_guessing: float
    below_entropy: float
    area: float | None


def build_all_shards(text: Path | None, store: Path) -> dict[str, cloze.Shards]:
    """Build the shards that each family reads, from the files in a folder or, if None, the documentation of Python."""
    texts = text or load_texts(None, 2.0)
    documents = cloze.deduplicate(cloze.read(texts, store=store, progress=False), held_out=0.1)
    vocabularies = {name: cloze.train_vocabulary(documents, name, 4_000) for name in ("wordpiece", "byte-bpe")}
    return {
        family: cloze.build_shards(
            documents,
            vocabularies["byte-bpe" if family in BYTE_LEVEL else "wordpiece"],
            LENGTH,
            input=INPUTS.get(family, "full-sentences"),
        )
        for family in FAMILIES
    }


def train_family(family: str, shards: Mapping[str, cloze.Shards], seed: int, tokens: int) -> cloze.Model:
    """Train a family on the shards that it reads, with the settings that `cloze.train` takes for its width."""
    table: dict[str, Any] = {"family": family, **SIZE}
    if family == "distilbert":
        teacher = train_family("bert", shards, seed, tokens)
        table["objective"] = {"kind": "distillation", "teacher": str(teacher.address)}
    steps = tokens // (BATCH * LENGTH)
    return cloze.train(
        shards[family], table, steps=steps, batch=BATCH, name=f"{family}-{seed}-{tokens}", progress=False, seed=seed,
        device="cpu", evaluate_every=max(1, steps // 5), evaluate_examples=1_500, log_every=10,
    )  # fmt: skip


def read_points(model: cloze.Model) -> Iterator[Point]:
    """Yield the evaluations of a training, in order."""
    for event in model.history:
        if event["event"] == "evaluation":
            yield Point(
                tokens=event["step"] * BATCH * LENGTH,
                below_guessing=event["unigram_loss"] - event["masked_loss"],
                below_entropy=event["unigram_entropy"] - event["masked_loss"],
                area=event.get("replaced_auc"),
            )


def format_points(points: tuple[Point, ...]) -> str:
    """Format the medians over the seeds at one number of tokens, and in brackets those of each seed below guessing."""
    guessing, entropy = [point.below_guessing for point in points], [point.below_entropy for point in points]
    areas = [point.area for point in points if point.area is not None]
    area = f"  area {statistics.median(areas):.3f}" if areas else ""
    each = ", ".join(f"{value:.3f}" for value in guessing)
    return (
        f"{points[0].tokens:>10,} tokens: {statistics.median(guessing):6.3f} below guessing ({each}), "
        f"{statistics.median(entropy):6.3f} below the entropy{area}"
    )


def main() -> None:
    """Train each family with each seed, and print their curves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, help="a folder of text files, in place of the documentation of Python")
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=FAMILIES)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds (default: 3)")
    parser.add_argument("--tokens", type=int, default=600_000, help="tokens to read (default: 600,000)")
    parser.add_argument("--store", type=Path, help="where models are kept (default: a temporary folder)")
    asked = parser.parse_args()
    shards = build_all_shards(asked.text, asked.store or Path(tempfile.mkdtemp()))
    for family in asked.families:
        print(family)
        seeds = range(1, asked.seeds + 1)
        curves = [[*read_points(train_family(family, shards, seed, asked.tokens))] for seed in seeds]
        for points in zip(*curves, strict=True):
            print(f"  {format_points(points)}", flush=True)


if __name__ == "__main__":
    main()
