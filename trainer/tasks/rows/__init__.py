"""The tasks, a file for each kind, without torch: `texts` (classes and numbers of whole texts), `tags` (words)."""
