"""The list of calls that kernels are compiled for: those that building small stores of the shipped samples makes.

Those of a run of a folder of text are first, and a blank line is after them.

    python -m flows.command.kernel_calls

writes `kernel_calls.txt` again. Do so when a kernel that Python calls is new, is gone, or takes other arguments.
Cost: the kernels' compilation in one process, if they are not cached yet.
"""

from collections.abc import Sequence
from pathlib import Path

from corpora.kernels.calls import format_call
from corpora.kernels.dispatching import Kernel
from corpora.sources.contract import StatCache
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import Stage, build_stage
from flows.command.compile_kernels import CALLS
from flows.recipes.lock import Lock, resolve_raw_files
from flows.recipes.recipe import Recipe, parse_recipe
from flows.run.pipeline import run_recipe
from flows.signals import open_scratch_folder
from shards.reading.budgets import plan_micro_batches
from shards.reading.files.shard_set import ShardSet
from shards.reading.loader import Loader
from shards.reading.mixture import Mixture
from shards.reading.order import Interleave

SOURCES = (
    ("wikipedia", "wikipedia/samplewiki-20260101-pages-articles-multistream.xml.bz2"),
    ("bookcorpus", "books"),
    ("cc-news", "cc_news/CC-NEWS-20260103000000-00000.warc.gz"),
    ("stories", "stories/stories.txt"),
    ("openwebtext", "openwebtext/openwebtext.tar.xz"),
)
VOCABULARIES = ("wordpiece", "byte-bpe", "unigram")
SHARDS = (  # name, vocabulary, and the rest of its table
    ("plain", "wordpiece", ""),
    ("pairs", "wordpiece", 'input = "segment-pair"\nlength = 64'),
    ("orders", "wordpiece", 'input = "sentence-order"'),
    ("sentence-pairs", "wordpiece", 'input = "sentence-pair"'),
    ("single", "wordpiece", 'input = "single"'),
    ("electra", "wordpiece", 'input = "electra"'),
    (
        "whole-words",
        "byte-bpe",
        'input = "full-sentences"\nmasking = { kind = "static", unit = "whole-word", rate = 0.15 }',
    ),
    ("pieces", "unigram", ""),
)


def record_calls() -> list[str]:
    """Build small stores in a scratch folder, and record the calls of compiled functions (kernels) that this makes.

    Returns:
        The lines of `kernel_calls.txt`: the calls of a run on a folder of text, an empty line, then all other calls.
    """
    with open_scratch_folder() as folder:
        build_all(*_parse_store_recipe(folder / "folder.toml", VOCABULARIES[:1], SHARDS[:1]))
        first = len(Kernel.python_calls)
        for shards in build_all(*_parse_store_recipe(folder / "prepare.toml", VOCABULARIES, SHARDS)):
            _read_examples(shards)
    lines = [format_call(*call) for call in Kernel.python_calls]
    return [*lines[:first], "", *lines[first:]]


def _parse_store_recipe(
    path: Path, vocabularies: Sequence[str], shards: Sequence[tuple[str, str, str]]
) -> tuple[Recipe, Lock]:
    """Build the recipe of a small store next to `path`, and its lock.

    The lock lists the raw files to use: samples that come with Cloze.

    Args:
        path: The path of the recipe's file, which need not exist.
        vocabularies: The algorithms of the vocabularies, which are also used as their names.
        shards: A tuple for each shard set: its name, the name of its vocabulary, and additional TOML lines.
    """
    parts = (
        f'name = "{path.stem}"\nstore = "{path.stem}"',
        *(f'[[source]]\nkind = "{kind}"\npath = "sample:{raw}"' for kind, raw in SOURCES),
        *(f'[[vocabulary]]\nname = "{name}"\nalgorithm = "{name}"\nsize = 500' for name in vocabularies),
        *(f'[[shards]]\nname = "{name}"\nvocabulary = "{used}"\n{rest}' for name, used, rest in shards),
    )
    recipe = parse_recipe("\n".join(parts), path, {})
    return recipe, resolve_raw_files(recipe, Lock(), StatCache()).lock


def build_all(recipe: Recipe, lock: Lock) -> list[ShardSet]:
    """Build all stages of a recipe in this process, and return its shard sets in the order of the recipe.

    Args:
        recipe: The recipe.
        lock: The recipe's lock, which lists the raw files to use.
    """
    place = Place(recipe.store)

    def perform(stages: Sequence[Stage]) -> list[Manifest]:
        return [build_stage(place, stage) for stage in stages]

    return [ShardSet(place, manifest) for manifest in run_recipe(place, recipe, lock, perform).shard_sets.values()]


def _read_examples(shards: ShardSet) -> None:
    """Read examples of a shard set as training does, so that the kernels used for reading are called."""
    loader = Loader(shards, seed=0, with_word_starts=True)
    mixture = Mixture([loader, loader], Interleave((1, 1)))
    plan_micro_batches(mixture.find_lengths(range(2)), 1, mixture.gather(range(2)).max_length or 1)


if __name__ == "__main__":
    CALLS.write_text("".join(f"{call}\n" for call in record_calls()), encoding="utf-8")
