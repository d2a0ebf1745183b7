"""The list of calls that kernels are compiled for: what a small store of the shipped samples comes to when it is built.

    python -m flows.command.kernel_calls

writes `kernel_calls.txt` again. That is due when a kernel that Python calls is new, has gone, or takes other arguments.
Cost: the kernels' compilation in one process, where they are not kept yet.
"""

from collections.abc import Sequence

from corpora.kernels.calls import write_call
from corpora.kernels.dispatching import Kernel
from corpora.sources.contract import StatCache
from corpora.store.manifest import Manifest
from corpora.store.places import Place
from corpora.store.stage import Stage, build_parts, publish, survey_stage
from flows.command.compiling import CALLS
from flows.recipes.lock import Lock, resolve
from flows.recipes.recipe import Recipe, parse_recipe
from flows.run.pipeline import run_recipe
from flows.stopping import scratch_folder
from shards.reading.budgets import cut_step
from shards.reading.interleave import Interleave
from shards.reading.loader import Loader
from shards.reading.mixture import Mixture
from shards.reading.shard_set import ShardSet

RECIPE = """
name = "prepare"
store = "store"

[[source]]
kind = "wikipedia"
path = "sample:wikipedia/samplewiki-20260101-pages-articles-multistream.xml.bz2"

[[source]]
kind = "bookcorpus"
path = "sample:books"

[[source]]
kind = "cc-news"
path = "sample:cc_news/CC-NEWS-20260103000000-00000.warc.gz"

[[source]]
kind = "stories"
path = "sample:stories/stories.txt"

[[source]]
kind = "openwebtext"
path = "sample:openwebtext/openwebtext.tar.xz"

[[vocabulary]]
name = "wordpiece"
size = 500

[[vocabulary]]
name = "byte-bpe"
algorithm = "byte-bpe"
size = 500

[[vocabulary]]
name = "unigram"
algorithm = "unigram"
size = 500

[[shards]]
name = "plain"
vocabulary = "wordpiece"

[[shards]]
name = "pairs"
vocabulary = "wordpiece"
input = "segment-pair"
length = 64

[[shards]]
name = "orders"
vocabulary = "wordpiece"
input = "sentence-order"

[[shards]]
name = "sentence-pairs"
vocabulary = "wordpiece"
input = "sentence-pair"

[[shards]]
name = "single"
vocabulary = "wordpiece"
input = "single"

[[shards]]
name = "electra"
vocabulary = "wordpiece"
input = "electra"

[[shards]]
name = "causal"
vocabulary = "wordpiece"
input = "causal"

[[shards]]
name = "whole-words"
vocabulary = "byte-bpe"
input = "full-sentences"
masking = { kind = "static", unit = "whole-word", rate = 0.15 }

[[shards]]
name = "pieces"
vocabulary = "unigram"
"""


def calls() -> list[str]:
    """Build a small store and throw it away: the calls on the way, in their order."""
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
