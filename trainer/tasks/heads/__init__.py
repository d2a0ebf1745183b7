"""What tasks add to an encoder: `task_model` has what all of them share, the others a file for each kind of head."""
