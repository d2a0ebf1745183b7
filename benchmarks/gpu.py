"""A step of training on a GPU: real tokens a second, MFU and memory, next to transformers' model of the same weights.

    python -m benchmarks.gpu --model bert-base-128 --seconds 5  one H100, 100 seconds
    python -m benchmarks.gpu --model bert-base-128 --alone      only ours
    python -m benchmarks.gpu --model all --tiny --device cpu    every path, in a minute, without a GPU

Ours is a user's training: the trainer's loop and sharded model in bfloat16, compiled layers, micro-batches of random
tokens filled to a budget. Theirs reads the same examples as padded rows under autocast, with the same optimiser and
clipping, unchanged and under torch.compile. Before anything is timed, the losses and the gradient's norm in bfloat16
are checked against those in float32, and their loss against ours. The share of the card's own bfloat16 products of
matrices, measured first, is next to MFU. Needs what the trainer needs; transformers where there is a comparison.
"""

import argparse
import gc
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from corpora.errors import InputError
from corpora.kernels.arrays import Int64s
from shards.reading.budgets import round_shape_up
from shards.reading.loader import GatheredExamples
from trainer.auto_settings import ComputeChoice, find_missing_compiler
from trainer.checkpoints.folders import Checkpoints, Cursor
from trainer.families.contract import ModelInputs, SpecialIds
from trainer.huggingface.checkpoints import export
from trainer.learn import STEP_COUNTS, MicroBatch, Step, StepResult, TrainState, build_state, make_step
from trainer.metrics import MetricsLog
from trainer.model.batches import Batch, fill_batch, to_batch
from trainer.model.objective import Objective, build_model, find_peak_flops
from trainer.ranks import Ranks, StopSignal, join_process_group
from trainer.settings.model import ModelSettings
from trainer.settings.phases import PhaseSettings
from trainer.settings.training import TrainingSettings
from trainer.step_log import Watcher
from trainer.train import Phase, Run, split_phases, train

SPECIAL_IDS = SpecialIds(pad=0, unk=1, cls=2, sep=3, mask=4)
FIRST_WORD = 5
SHORT_SHARE = 0.1  # of the examples, which have any length; the others are full
STEPS = 4  # different ones, which are learnt again and again
WARM_STEPS = 3
GOAL_SHARE = 0.5  # of the measured products of matrices
LIMIT_SECONDS = 420.0  # after which no further side is started
LOSS_WITHIN, NORM_WITHIN = 0.01, 0.05  # bfloat16 of float32
TINY: Mapping[str, int] = {"layers": 3, "hidden_size": 64, "heads": 4, "feed_forward_size": 128}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The training to measure. goals: real tokens a second on a card, by a word of its name; limit: longest example"""

    family: str
    size: str
    vocab_size: int
    limit: int
    rate: float = 0.15
    budget: int = 32_768
    changes: Mapping[str, int] = field(default_factory=dict)
    goals: Mapping[str, float] = field(default_factory=dict)

    @property
    def model(self) -> ModelSettings:
        """The published sizes, without attention dropout, which rules out fast kernels."""
        sizes: dict[str, Any] = dict(self.changes)
        return ModelSettings(family=self.family, size=self.size, attention_dropout=0.0, **sizes)

    @property
    def inputs(self) -> ModelInputs:
        """The inputs; pairs have labels where the family learns them."""
        return ModelInputs(vocab_size=self.vocab_size, special_ids=SPECIAL_IDS, pair_labels=True)


WORKLOADS: Mapping[str, Workload] = {
    "bert-base-128": Workload(family="bert", size="base", vocab_size=30522, limit=128, goals={"H200": 0.72e6}),
    "bert-base-512": Workload(family="bert", size="base", vocab_size=30522, limit=512),
    "bert-large-512": Workload(family="bert", size="large", vocab_size=30522, limit=512, goals={"H200": 0.20e6}),
    "roberta-base-512": Workload(family="roberta", size="base", vocab_size=50265, limit=512),
    "electra-small-128": Workload(family="electra", size="small", vocab_size=30522, limit=128),
    "electra-base-512": Workload(family="electra", size="base", vocab_size=30522, limit=512),
    "albert-base-512": Workload(family="albert", size="base", vocab_size=30000, limit=512),
    "modernbert-base-1024": Workload(
        family="modernbert", size="base", vocab_size=50368, limit=1024, rate=0.3, goals={"H100": 312e3}
    ),
    "modernbert-base-8192": Workload(family="modernbert", size="base", vocab_size=50368, limit=8192, rate=0.3),
}


def tiny(workload: Workload) -> Workload:
    """Return the same with sizes for a processor."""
    return replace(workload, vocab_size=600, limit=min(workload.limit, 160), budget=512, changes=TINY)


# What is read.


def examples(workload: Workload, seed: int) -> GatheredExamples:
    """Return random tokens as the loader gathers them, as many examples as the budget holds full ones."""
    draw = np.random.default_rng(seed)
    lengths = _lengths(workload, draw)
    ids = draw.integers(FIRST_WORD, workload.vocab_size, int(lengths.sum()))
    return masked_examples(ids, lengths, workload.rate, draw, seed)


def masked_examples(
    ids: Int64s, lengths: Int64s, rate: float, draw: np.random.Generator, epoch: int
) -> GatheredExamples:
    """Return tokens as examples of these lengths, each of two halves, a share of the tokens masked."""
    masked = np.sort(draw.choice(len(ids), round(rate * len(ids)), replace=False))
    seen = ids.astype(np.uint16)
    seen[masked] = SPECIAL_IDS.mask
    return GatheredExamples(
        ids=seen,
        offsets=np.concatenate([[0], lengths.cumsum()]).astype(np.int32),
        boundary=lengths // 2,
        labels=draw.integers(0, 2, len(lengths)),
        masked=masked,
        targets=ids[masked].astype(np.uint16),
        example_ids=np.arange(len(lengths), dtype=np.uint64),
        epochs=np.full(len(lengths), epoch, np.int64),
        deleted=0,
    )


def _lengths(workload: Workload, draw: np.random.Generator) -> Int64s:
    number = workload.budget // workload.limit
    short = draw.random(number) < SHORT_SHARE
    return np.where(short, draw.integers(8, workload.limit + 1, number), workload.limit).astype(np.int64)


def micro_batch(workload: Workload, model: Objective, ranks: Ranks, gathered: GatheredExamples) -> MicroBatch:
    """Return the examples as the feed of a training makes them, filled to the budget."""
    objective, terms = workload.model.objective_settings, model.terms
    reads = objective.read(gathered, terms, seed=0)
    bare = to_batch(gathered, reads)
    batch = fill_batch(
        bare, round_shape_up(bare.shape, workload.budget, workload.limit), SPECIAL_IDS.pad, reads.targets
    )
    numbers = (len(gathered.masked), gathered.num_examples, len(gathered.ids), gathered.num_examples, 0)
    dummies = len(batch.ids) - len(gathered.ids)
    counts = (*numbers, gathered.num_examples, dummies, *objective.count_targets(gathered, terms))
    assert len(counts) == len(STEP_COUNTS) + len(terms)
    return MicroBatch(
        batch=batch.pin() if ranks.device.type == "cuda" else batch,
        guessed=reads.guessed,
        counts=np.array(counts, np.int64),
        tallies=gathered.tallies,
    )


def make_steps(
    workload: Workload, model: Objective, ranks: Ranks, read: Sequence[Sequence[GatheredExamples]]
) -> list[Step]:
    """Return steps of the trainer."""
    return [
        make_step(number, [micro_batch(workload, model, ranks, gathered) for gathered in some], ranks)
        for number, some in enumerate(read, 1)
    ]


def count_flops(model: Objective, read: Sequence[Sequence[GatheredExamples]]) -> float:
    """Return the mean FLOPs of a step, of real tokens and masked places only."""
    every = [gathered for some in read for gathered in some]
    each = [model.count_macs(np.diff(one.offsets).astype(np.int64), len(one.masked)).flops for one in every]
    return sum(each) / len(read)


def padded(settings: ModelSettings, inputs: ModelInputs, gathered: GatheredExamples, width: int) -> dict[str, Tensor]:
    """Return examples as rows of one width, as transformers' models take them: labels are -100 where none is masked."""
    labels = np.full(len(gathered.ids), -100, np.int64)
    labels[gathered.masked] = gathered.targets
    segments = np.concatenate([np.arange(n) >= n // 2 for n in np.diff(gathered.offsets)]).astype(np.int64)
    flat = {
        "input_ids": (gathered.ids.astype(np.int64), SPECIAL_IDS.pad),
        "attention_mask": (np.ones(len(gathered.ids), np.int64), 0),
        "labels": (labels, -100),
    }
    family = settings.family_row
    if family.segment_types > 1:
        flat["token_type_ids"] = (segments, 0)
    rows = {name: _rows(values, gathered, width, fill) for name, (values, fill) in flat.items()}
    if family.has_pairs(inputs):
        rows["sentence_order_label" if family.shared_layers else "next_sentence_label"] = torch.from_numpy(
            gathered.labels
        )
    return rows


def _rows(values: Int64s, gathered: GatheredExamples, width: int, fill: int) -> Tensor:
    rows = np.full((gathered.num_examples, width), fill, np.int64)
    for row, begin, end in zip(rows, gathered.offsets, gathered.offsets[1:], strict=False):
        row[: end - begin] = values[begin:end]
    return torch.from_numpy(rows)


# The sides.


def training(precision: str, compiled: bool, rate: float) -> TrainingSettings:
    """Return settings without "auto", of a run that writes neither lines nor checkpoints."""
    never = 1 << 40
    return TrainingSettings(
        phase=(PhaseSettings(steps=never, batch=1),),
        precision=precision,
        compile=compiled,
        learning_rate=rate,
        schedule="constant",
        checkpoint_every=0,
        log_every=never,
    )


def train_steps(
    state: TrainState, settings: TrainingSettings, ranks: Ranks, steps: Iterator[Step], watchers: Sequence[Watcher] = ()
) -> None:
    """Train on steps by the loop of the trainer."""

    def read_steps(phase: Phase, done: int) -> Generator[Step, None, None]:
        yield from steps

    with TemporaryDirectory() as folder:
        run = Run(
            settings=settings,
            choice=ComputeChoice(device=ranks.device.type, precision=settings.precision, compile=False, tf32=True),
            identity={},
            ranks=ranks,
            log=MetricsLog(Path(folder), speaks=False),
            stop=StopSignal(ranks),
            checkpoints=Checkpoints(Path(folder), 1, ranks),
            watchers=watchers,
            describe_line=lambda report: {},
            find_cursor=lambda steps_done: Cursor(phase=0, step=steps_done, slot=0),
            describe_progress=dict,
        )
        train(run, state, split_phases(settings), read_steps, lambda *_: None, export=None, resume_from=None)


class LastResult(Watcher):
    """Keeps what the last step came to."""

    def on_step(self, result: StepResult, state: TrainState) -> None:
        """Keep it."""
        self.result = result


def state_of(workload: Workload, settings: TrainingSettings, ranks: Ranks, dropout: float | None = None) -> TrainState:
    """Return a model whose weights are always the same, with its optimizer."""
    model = workload.model if dropout is None else replace(workload.model, dropout=dropout)
    torch.manual_seed(0)
    whole = build_model(model, workload.inputs)
    whole.init_weights()
    return build_state(whole, settings, ranks)


class Loss(NamedTuple):
    """The answer of transformers' models."""

    loss: Tensor


class GeneratorAndDiscriminator(nn.Module):
    """Both of transformers' ELECTRA with one table of words, which its library does not train together.

    weight: of the discriminator's loss
    """

    def __init__(self, generator: Any, discriminator: Any, weight: float) -> None:
        super().__init__()
        self.generator, self.discriminator, self.weight = generator, discriminator, weight
        generator.electra.embeddings = discriminator.electra.embeddings
        generator.tie_weights()

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor, labels: Tensor) -> Loss:
        """Return the loss of the generator and of what it makes the discriminator read."""
        more = {"attention_mask": attention_mask, "token_type_ids": token_type_ids}
        guessed = self.generator(input_ids=input_ids, labels=labels, **more)
        masked = labels != -100
        logits = guessed.logits.detach()[masked].float()
        drawn = (logits - torch.empty_like(logits).exponential_().log()).argmax(-1)
        ids = input_ids.masked_scatter(masked, drawn)
        replaced = (masked & (ids != labels)).long()
        judged = self.discriminator(input_ids=ids, labels=replaced, **more)
        return Loss(guessed.loss + self.weight * judged.loss)


def their_model(settings: ModelSettings, inputs: ModelInputs, model: Objective) -> nn.Module:
    """Return transformers' class with the same weights, read from an export of ours."""
    family, classes = settings.family_row, import_module("transformers")
    with TemporaryDirectory() as folder:
        export(Path(folder), model.state_dict(), settings, inputs)
        if "replaced" in family.names.architectures:
            generator = classes.ElectraForMaskedLM.from_pretrained(Path(folder) / "generator")
            discriminator = classes.ElectraForPreTraining.from_pretrained(folder)
            return GeneratorAndDiscriminator(generator, discriminator, model.terms[-1].weight)
        kind = "AutoModelForPreTraining" if family.has_pairs(inputs) else "AutoModelForMaskedLM"
        loaded: nn.Module = getattr(classes, kind).from_pretrained(folder)
        return loaded


def losses(step: Step, sums: Tensor) -> Tensor:
    """Return the mean of each term."""
    return sums[:, 0].cpu() / step.divisors


def check(workload: Workload, ranks: Ranks, read: Sequence[GatheredExamples], compiled: bool) -> list[str]:
    """Check bfloat16 against float32, without dropout: the losses and the gradient's norm; returns lines about it."""
    results = []
    for precision in ("float32", "bfloat16"):
        settings = training(precision, compiled and precision == "bfloat16", rate=0.0)
        state, last = state_of(workload, settings, ranks, dropout=0.0), LastResult()
        [step] = make_steps(workload, state.model, ranks, [read])
        train_steps(state, settings, ranks, iter([step]), [last])
        results.append((losses(step, torch.stack([*last.result.sums]).sum(0)), last.result.norm.cpu()))
        del state, last
        _forget(ranks.device)
    (exact, exact_norm), (rough, rough_norm) = results
    torch.testing.assert_close(rough, exact, rtol=LOSS_WITHIN, atol=0)
    torch.testing.assert_close(rough_norm, exact_norm, rtol=NORM_WITHIN, atol=0)
    worst, norms = float(((rough - exact) / exact).abs().max()), (float(rough_norm), float(exact_norm))
    return [f"  - bfloat16 next to float32: losses within {worst:.1e}, gradient's norm {norms[0]:.4f}, {norms[1]:.4f}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Seconds of a step, and the peak bytes of the device."""

    seconds: float
    memory: int


def measured_steps(device: torch.device, seconds: float, measured: list[Measured]) -> Iterator[int]:
    """Yield numbers of steps to do: some that are not counted, then as many as fit into the time; then measure them.

    measured: gets the mean over the steps that count
    """
    yield from range(max(WARM_STEPS, STEPS))
    _wait(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        yield from range(STEPS)
        _wait(device)
        steps += STEPS
    spent = (time.perf_counter() - began) / steps
    memory = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
    measured.append(Measured(seconds=spent, memory=memory))


def ours(
    ranks: Ranks, steps: Sequence[Step], state: TrainState, settings: TrainingSettings, seconds: float
) -> Measured:
    """Measure the trainer."""
    measured = list[Measured]()
    numbers = measured_steps(ranks.device, seconds, measured)
    train_steps(state, settings, ranks, (steps[number % STEPS] for number in numbers))
    return measured[0]


def theirs(
    workload: Workload, ranks: Ranks, read: Sequence[Sequence[GatheredExamples]], seconds: float, compiled: bool
) -> Measured:
    """Measure transformers, whose first loss is checked against ours in float32."""
    torch.manual_seed(0)
    model = build_model(workload.model, workload.inputs)
    model.init_weights()
    other = their_model(workload.model, workload.inputs, model).to(ranks.device)
    rows = [
        [_on(ranks.device, padded(workload.model, workload.inputs, each, workload.limit)) for each in some]
        for some in read
    ]
    _check_theirs(workload, ranks, model, other, read[0][0], rows[0][0])
    optimizer = torch.optim.AdamW(other.parameters(), lr=1e-5, fused=True)
    run = torch.compile(other) if compiled else other

    measured = list[Measured]()
    for number in measured_steps(ranks.device, seconds, measured):
        for some in rows[number % STEPS]:
            with torch.autocast(ranks.device.type, torch.bfloat16):
                loss = run(**some).loss
            (loss / len(rows[0])).backward()
        nn.utils.clip_grad_norm_(other.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return measured[0]


def _check_theirs(
    workload: Workload,
    ranks: Ranks,
    model: Objective,
    other: nn.Module,
    gathered: GatheredExamples,
    rows: Mapping[str, Tensor],
) -> None:
    settings = workload.model.objective_settings
    model.eval().to(ranks.device)
    other.eval()
    with torch.no_grad():
        reads = settings.read(gathered, model.terms, seed=0)
        one = float(
            mean_loss(model, to_batch(gathered, reads).to(ranks.device), settings.count_targets(gathered, model.terms))
        )
        another = float(other(**rows).loss)
    assert abs(one - another) < LOSS_WITHIN * one, f"the losses differ: {one} and {another}"
    model.cpu()
    other.train()


def mean_loss(model: Objective, batch: Batch, counts: Sequence[int]) -> Tensor:
    """Return the means of a model's terms over what each counts, by their weights."""
    sums = model(batch)[:, 0]
    shares = [term.weight / count for term, count in zip(model.terms, counts, strict=True)]
    loss: Tensor = (sums * torch.tensor(shares, device=sums.device)).sum()
    return loss


def products(device: torch.device, size: int) -> float:
    """Return FLOPs a second of products of square matrices in bfloat16: the best of several tens."""
    one, other = (torch.randn(size, size, device=device).to(torch.bfloat16) for _ in range(2))
    best = 0.0
    for _ in range(10):
        _wait(device)
        began = time.perf_counter()
        for _ in range(5):
            one @ other
        _wait(device)
        best = max(best, 5 * 2 * size**3 / (time.perf_counter() - began))
    return best


def _on(device: torch.device, rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: values.to(device) for name, values in rows.items()}


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _forget(device: torch.device) -> None:
    gc.collect()
    torch.compiler.reset()  # what was compiled for one side holds its weights, and counts against the next one
    if device.type == "cuda":
        torch.cuda.empty_cache()


# What is said.


def benchmark(
    name: str, workload: Workload, ranks: Ranks, micro_batches: int, seconds: float, size: int, alone: bool
) -> list[str]:
    """Return all sides of one workload, or only ours, as lines."""
    began, device = time.perf_counter(), ranks.device
    card = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    compiled = device.type == "cuda" and not find_missing_compiler("cuda")
    rate = products(device, size)
    read = [[examples(workload, STEPS * micro + number) for micro in range(micro_batches)] for number in range(STEPS)]
    notes = check(workload, ranks, read[0], compiled)
    settings = training("bfloat16", compiled, rate=1e-5)
    state = state_of(workload, settings, ranks)
    steps = make_steps(workload, state.model, ranks, read)
    tokens = float(np.mean([len(gathered.ids) for some in read for gathered in some])) * micro_batches
    flops = count_flops(state.model, read)
    results = {f"Cloze, {'compiled' if compiled else 'eager'}": ours(ranks, steps, state, settings, seconds)}
    del state, steps
    _forget(device)
    compares = not alone and find_spec("transformers") is not None
    if not alone and not compares:
        notes.append("  - transformers is not installed: nothing is compared")
    for side, to_compile in (("eager", False), ("compiled", True)) if compares else ():
        if time.perf_counter() - began > LIMIT_SECONDS or (to_compile and not compiled):
            notes.append(f"  - transformers, {side}: left out, for want of {'a compiler' if not compiled else 'time'}")
            continue
        try:
            results[f"transformers, {side}"] = theirs(workload, ranks, read, seconds, to_compile)
        except torch.OutOfMemoryError:
            notes.append(f"  - transformers, {side}: out of memory")
        _forget(device)
    title = (
        f"{name} on {card}, torch {torch.__version__}: {micro_batches} x {workload.budget} tokens a step, "
        f"{tokens / (micro_batches * workload.budget):.0%} of them real; bfloat16 products: {rate / 1e12:.1f} TFLOP/s"
    )
    return [
        title,
        *_table(results, tokens, flops, rate, find_peak_flops(card)),
        *_goals(workload, card, results, tokens),
        *notes,
    ]


def _table(results: Mapping[str, Measured], tokens: float, flops: float, rate: float, peak: float | None) -> list[str]:
    """Return a line for each side; FLOPs are those of ours, which counts only real tokens and masked places."""
    width, first = max(map(len, results)), next(iter(results.values()))
    lines = [f"  {'':{width}}  {'tokens/s':>10}  {'MFU':>6}  {'of products':>11}  {'GB':>6}  {'times':>6}"]
    for side, measured in results.items():
        done = flops / measured.seconds
        mfu = f"{done / peak:.1%}" if peak else "-"
        lines.append(
            f"  {side:{width}}  {tokens / measured.seconds:>10,.0f}  {mfu:>6}  {done / rate:>11.1%}  "
            f"{measured.memory / 1e9:>6.1f}  {measured.seconds / first.seconds:>6.2f}"
        )
    return lines


def _goals(workload: Workload, card: str, results: Mapping[str, Measured], tokens: float) -> list[str]:
    speed = tokens / next(iter(results.values())).seconds
    lines = [f"  goal: {GOAL_SHARE:.0%} of the measured products"]
    for word, goal in workload.goals.items():
        reached = f": {speed / goal:.2f} of it" if word in card else ", and this is none"
        lines.append(f"  goal: {goal:,.0f} tokens/s on an {word}{reached}")
    return lines


def main() -> None:
    """Run one workload, or all; ends with exit code 2 where there is no GPU."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--model", choices=[*WORKLOADS, "all"], required=True)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--micro-batches", type=int, default=2, help="of a step, each of the budget (default: 2)")
    parser.add_argument("--budget", type=int, help="tokens of a micro-batch (default: 32768)")
    parser.add_argument("--alone", action="store_true", help="without transformers")
    parser.add_argument("--seconds", type=float, default=20.0, help="in which each side learns (default: 20)")
    parser.add_argument("--tiny", action="store_true", help="sizes for a processor: that it runs, not how fast")
    arguments = parser.parse_args()
    names = list(WORKLOADS) if arguments.model == "all" else [arguments.model]
    seconds, size = (0.01, 256) if arguments.tiny else (arguments.seconds, 8192)
    torch.set_float32_matmul_precision("high")
    try:
        with join_process_group(arguments.device) as ranks:
            for name in names:
                workload = tiny(WORKLOADS[name]) if arguments.tiny else WORKLOADS[name]
                workload = replace(workload, budget=arguments.budget or workload.budget)
                lines = benchmark(name, workload, ranks, arguments.micro_batches, seconds, size, arguments.alone)
                print("\n".join(lines), flush=True)
    except InputError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
