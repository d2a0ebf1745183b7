"""Releases and deployments on the command line.

`cli.py` has the commands; `display.py` shows a history. Their work is done in `flows.run.record.releases` and
`flows.orchestration`.
"""
