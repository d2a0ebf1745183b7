"""In the processes that tests start there is no pandas, as where Cloze is installed without what its tests need.

The tests have it for `datasets`, and pyarrow imports it wherever it makes an array, which takes half a second of a core
in each process. No package of Cloze asks for it.
"""

raise ModuleNotFoundError("there is no pandas in what a test starts", name="pandas")
