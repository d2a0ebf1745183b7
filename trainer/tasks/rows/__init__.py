"""The tasks, a file for each kind, without torch; `windows` and `naming` are what they share."""
