"""A release one bit of which was flipped is refused by every command that reads it, and the file is named."""

from collections.abc import Callable
from pathlib import Path

import pytest
from labelled_world import FIRST, copied
from small_recipe import Run
from tiers import LONG

from corpora.errors import InputError
from flows.command.cli import run_command_line
from flows.run.record.releases import Release, add_release, list_run_artifacts
from flows.run.record.run_record import read_run

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
MODEL = ("config.json", "model.safetensors", "tokenizer.json", "vocab.txt", "manifest.json")
TASK = ("finetune.json", *MODEL)

Command = Callable[[str, Path], list[str]]
DOORS: dict[str, tuple[str, tuple[str, ...], Command]] = {  # the kind of artifact, its files, the command
    "predict": ("tasks", TASK, lambda a, to: ["predict", a, str(to / "texts.txt"), "--output", str(to / "answers")]),
    "fill": ("models", MODEL, lambda a, to: ["fill", a, "the [MASK] is here"]),
    "embed": ("models", MODEL, lambda a, to: ["embed", a, str(to / "texts.txt"), "--output", str(to / "v.parquet")]),
    "export": ("tasks", TASK[:-1], lambda a, to: ["export", a, str(to / "export"), "--kind", "release"]),
    "export --onnx": ("models", MODEL, lambda a, to: ["export", a, str(to / "onnx"), "--onnx"]),
    "vocabulary": ("vocabularies", MODEL[2:], lambda a, to: ["vocabulary", "show", a, "the boat"]),
}
CASES = [(door, name) for door, (_, names, _) in DOORS.items() for name in names]


@pytest.mark.parametrize(("door", "name"), CASES if LONG else [("predict", "finetune.json"), ("export", "vocab.txt")])
def test_a_command_refuses_a_released_file_with_a_flipped_bit(
    learnt: Run, tmp_path: Path, door: str, name: str
) -> None:
    """Fails if a command answers by what was not released, or does not name the file."""
    run = copied(learnt, tmp_path / "world")
    recorded = read_run(run.place, FIRST)
    entry = Release(name="prod", number=0, action="release", recipe="small", run=FIRST, who="ada@host",
                    artifacts=list_run_artifacts(run.place, recorded), when="2026-01-04T00:00:00+00:00")  # fmt: skip
    add_release(run.place, entry)
    (tmp_path / "texts.txt").write_text("the boat is here\n")
    kind, _, command = DOORS[door]
    [path] = sorted(Path(run.place.address).glob(f"{kind}/*/*/{name}"))[:1]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError) as told:
        run_command_line(command(f"{run.place.address}@prod", tmp_path), tmp_path / "home")
    assert path.relative_to(run.place.to_full_path("")).as_posix() in str(told.value)
