"""What tasks add to an encoder: `task_model` has what all of them share, `classes` whole texts, `tags` words."""
