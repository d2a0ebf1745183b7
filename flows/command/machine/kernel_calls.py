"""The list of calls that kernels are compiled for: those that building a small store of the shipped samples makes.

    python -m flows.command.machine.kernel_calls

writes `kernel_calls.txt` again. Do so when a kernel that Python calls is new, is gone, or takes other arguments.
Cost: the kernels' compilation in one process, where they are not cached yet.
"""

from collections.abc import Sequence

from corpora.kernels.calls import write_call
from corpora.kernels.dispatching import Kernel
from corpora.sources.contract import StatCache
from corpora.store.manifest import Manifest
from corpora.store.places.place import Place
from corpora.store.stage import Stage, build_parts, publish, survey_stage
from flows.command.machine.compile_kernels import CALLS
from flows.recipes.lock import Lock, resolve
from flows.recipes.recipe import Recipe, parse_recipe
from flows.run.pipeline import run_recipe
from flows.signals import scratch_folder
from shards.reading.budgets import cut_step
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
    ("causal", "wordpiece", 'input = "causal"'),
    (
        "whole-words",
        "byte-bpe",
        'input = "full-sentences"\nmasking = { kind = "static", unit = "whole-word", rate = 0.15 }',
    ),
    ("pieces", "unigram", ""),
)
RECIPE = "\n".join(
    (
        'name = "prepare"\nstore = "store"',
        *(f'[[source]]\nkind = "{kind}"\npath = "sample:{path}"' for kind, path in SOURCES),
        *(f'[[vocabulary]]\nname = "{name}"\nalgorithm = "{name}"\nsize = 500' for name in VOCABULARIES),
        *(f'[[shards]]\nname = "{name}"\nvocabulary = "{used}"\n{rest}' for name, used, rest in SHARDS),
    )
)


def calls() -> list[str]:
    """Build a small store and throw it away; return the calls on the way, in their order."""
    with scratch_folder() as folder:
        recipe = parse_recipe(RECIPE, folder / "prepare.toml", {})
        build_all(Place(recipe.store), recipe, resolve(recipe, Lock(), StatCache()).lock)
    return [write_call(*call) for call in Kernel.called]


def build_all(place: Place, recipe: Recipe, lock: Lock) -> None:
    """Build everything a recipe asks for, stage by stage, and read examples of each shard set as training does."""

    def perform(stages: Sequence[Stage]) -> list[Manifest]:
        return [_build(place, stage) for stage in stages]

    outcome = run_recipe(place, recipe, lock, perform)
    for manifest in outcome.shard_sets.values():
        loader = Loader(ShardSet(place, manifest), seed=0)
        mixture = Mixture([loader, loader], Interleave((1, 1)))
        cut_step(mixture.lengths(range(2)), 1, mixture.gather(range(2)).longest or 1)


def _build(place: Place, stage: Stage) -> Manifest:
    build_parts(place, stage, survey_stage(place, stage).missing)
    return publish(place, stage, survey_stage(place, stage))


if __name__ == "__main__":
    CALLS.write_text("".join(f"{call}\n" for call in calls()), encoding="utf-8")
