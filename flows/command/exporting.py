"""`cloze export`: data for others; it calls one module, and shows what came back."""

from typing import Annotated

from cyclopts import App, Parameter

from flows.command.output import console

exporting_app = App(name="exporting")


@exporting_app.command
def export(
    artifact: Annotated[
        str, Parameter(help="A corpus or a shard set: its folder, a store, or a release (STORE@NAME).")
    ],
    folder: Annotated[str, Parameter(help="The folder to write; it must not hold anything yet.")],
    *,
    kind: Annotated[str | None, Parameter(help="Of a store or release: shards or corpora.")] = None,
    name: Annotated[str | None, Parameter(help="Of several shard sets or corpora the one of this name.")] = None,
    format: Annotated[str, Parameter(help="Of the files: parquet or arrow; `datasets` opens either.")] = "parquet",
    split: Annotated[list[str] | None, Parameter(help="train or held-out alone.", negative=())] = None,
    file_size: Annotated[int, Parameter(help="The most MiB that a file may have.")] = 256,
) -> int:
    """Write a corpus or shards for others: Parquet that `datasets` opens, a data card, Croissant metadata."""
    from flows.export.export import ExportSettings, choose, local_target
    from flows.export.export import export as export_rows
    from flows.run.accounts import readable_bytes
    from flows.run.units import counted

    splits = {"splits": tuple(dict.fromkeys(split))} if split else {}
    settings = ExportSettings(format=format, file_mib=file_size, **splits)
    target = local_target(folder)
    chosen = choose(artifact, kind, name)
    content = export_rows(chosen, target, settings)
    unit = "example" if content.has_examples else "document"
    for each in content.splits:
        files = content.of_split(each)
        size = readable_bytes(sum(file.size_bytes for file in files))
        console.print(
            f"{each}: {counted(content.rows(each), unit)} in {counted(len(files), 'file')}, {size}", markup=False
        )
    console.print(f"{chosen.manifest.folder} is in {target}; what it is, its README.md tells.", markup=False)
    return 0
