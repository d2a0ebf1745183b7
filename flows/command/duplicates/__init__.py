"""`cloze dedup`: files without their duplicates, and near-duplicates of a text in a corpus."""
