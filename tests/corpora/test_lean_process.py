"""A process of the command does without pandas, where it is installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import sys
from corpora.lean_process import hide_pandas_from_pyarrow
hide_pandas_from_pyarrow()
import pyarrow as pa
table = pa.table({"a": [1, 2]})
assert "pandas" not in sys.modules
assert table.to_pandas()["a"].tolist() == [1, 2]
import pandas
assert pa.Table.from_pandas(pandas.DataFrame({"a": [1, 2]})).column("a") == table["a"]
"""


def test_arrays_need_no_pandas_and_get_it_where_it_is_asked_for() -> None:
    """Fails if an array from a list imports pandas, or a table cannot become a frame any more."""
    pytest.importorskip("pandas")
    subprocess.run([sys.executable, "-c", CODE], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
