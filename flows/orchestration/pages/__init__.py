"""Pages that people see in the UI: `page_artifacts.py` has the ledgers, samples and lineage, `markdown.py` is the one
place that sends them to Prefect, `report_server.py` serves the reports of runs next to the UI.
"""
