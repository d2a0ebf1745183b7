"""What the trainer does without a run of the flow: `cloze train JOB`, and a checkpoint as a folder.

cli           the command `train`
jobs          a job, trained here; needs the trainer's packages alone
checkpoints   the work folder that an address means, and `cloze export --step`
"""
