"""`cloze export`: data or a model's checkpoint for others. It calls one module, and shows the result."""

from typing import Annotated, Any

from cyclopts import App, Parameter

from corpora.errors import InputError
from flows.command.arguments import AsJson, Count, Position
from flows.command.terminal.output import print_json, teller

exporting_app = App(name="exporting")


@exporting_app.command
def export(
    artifact: Annotated[
        str, Parameter(help="A corpus or shard set: its folder, a store, or a release. Or a model's folder.")
    ],
    folder: Annotated[str, Parameter(help="The folder to write; it must be empty or not exist.")],
    *,
    kind: Annotated[
        str | None, Parameter(help="What to export: shards, corpora, models, or a release with its tasks: release.")
    ] = None,
    name: Annotated[str | None, Parameter(help="Name of the corpus or shard set, if there are several.")] = None,
    split: Annotated[
        list[str] | None, Parameter(help="Export only this split: train or held-out.", negative=())
    ] = None,
    file_size: Annotated[Count, Parameter(help="Largest size of a file, in MiB.")] = 256,
    step: Annotated[
        Position | None, Parameter(help="Of a model: the checkpoint of this step; default: the newest.")
    ] = None,
    onnx: Annotated[
        bool, Parameter(help="Of a model, fine-tuned or not: an ONNX file, for programs without torch.", negative=())
    ] = False,
    int8: Annotated[bool, Parameter(help="With --onnx: also one with 8-bit integer weights.", negative=())] = False,
    as_json: AsJson = False,
) -> None:
    """Write a corpus, shards, a model or a whole release.

    Parquet files come with a data card and Croissant metadata.
    """
    from flows.command.training.checkpoints import export_onnx, export_step, is_model
    from flows.export.export import ExportSettings, choose
    from flows.export.export import export as export_rows
    from flows.export.exported import local_target
    from flows.export.release_folder import export_release
    from flows.run.record.counts_text import format_count
    from flows.run.record.ledger_balance import format_bytes

    tell, target = teller(as_json), local_target(folder)
    done: dict[str, Any] = {"artifact": artifact, "folder": str(target), "splits": {}}
    if int8 and not onnx:
        raise InputError("--int8 is of an ONNX file: add --onnx, or leave it out.")
    if onnx or step is not None or kind == "models" or (kind is None and is_model(artifact)):
        tell(export_onnx(artifact, target, int8) if onnx else export_step(artifact, target, step))
        if as_json:
            print_json(done)
        return
    if kind == "release":
        folders = export_release(artifact, target)
        for inside, made in folders.items():
            tell(f"{target / inside}: {made}")
        if as_json:
            print_json({**done, "folders": folders})
        return
    splits = {"splits": tuple(dict.fromkeys(split))} if split else {}
    settings = ExportSettings(file_mib=file_size, **splits)
    chosen = choose(artifact, kind, name)
    content = export_rows(chosen, target, settings)
    unit = "example" if content.has_examples else "document"
    facts: dict[str, dict[str, int]] = {}
    for each in content.splits:
        files = content.of_split(each)
        size = sum(file.size_bytes for file in files)
        facts[each] = {f"{unit}s": content.rows(each), "files": len(files), "bytes": size}
        tell(
            f"{each}: {format_count(content.rows(each), unit)} in {format_count(len(files), 'file')}, "
            f"{format_bytes(size)}"
        )
    tell(f"{chosen.manifest.folder} is in {target}; its README.md describes it.")
    if as_json:
        print_json({**done, "artifact": chosen.manifest.folder, "splits": facts})
