"""Where each remedy that a message or the runbook names is carried out: in the table of faults, or in another test."""

import re

# What of the program is looked at: messages about runs, their inputs and their results.
ROOMS = (
    "corpora/judging/documents.py",
    "flows/integrity",
    "flows/maintenance/release.py",
    "flows/orchestration/approval.py",
    "flows/recipes/lock.py",
    "flows/run/faults",
    "flows/run/record",
    "flows/run/source_stages.py",
)
TO_DO = re.compile(
    r"again|[Bb]ring |[Dd]elete|[Rr]estore|[Rr]aise|[Ss]et |[Gg]ive |[Ww]ait |[Cc]heck |[Cc]opy |[Ff]ix |`cloze"
)

MET = {  # by words of the message: the fault of the table that gives it
    "records are damaged, more than documents.": "one damaged document among two new ones",
    "raw files cannot be opened, such as": "most files of a source closed",
    "is in the recipe's own store": "a source in its own store",
    "is not as it was written": "a lock with a flipped bit",
    "is not a lock that this program can read": "a lock that is none",
    "the list of damaged files, is damaged itself": "a damaged list of damaged files",
    "and the raw files that it was made from are gone": "a damaged part whose raw file is gone",
    "none of its raw files can be read": "a source of which nothing is left",
    "are not in the store with these settings": "raw files and their documents gone",
    "is complete: `cloze run` comes first": "a release before the first run",
    "is damaged, so it is not released": "a release of damaged shards",
    "`cloze release` makes one": "a release that is not there",
    "is gone, which": "a release whose artifact is gone",
}
GARBAGE = "tests/flows/upkeep/test_garbage.py::"
LEFT_OUT = "tests/flows/run/test_leaving_out.py::"
DAMAGE = "tests/flows/integrity/test_damage_found.py::"
CLEARED = f"{GARBAGE}test_killed_anywhere_the_store_is_whole_and_the_next_ends_what_was_begun"
REPAIRS = "tests/flows/run/test_mending.py::"
RELEASES = "tests/flows/run/test_releases.py::"
LOCKS = "tests/flows/run/test_locks.py::"
ELSEWHERE = {  # the same: the test that does what the message says, or that tries what it is about
    "has other bytes than": f"{REPAIRS}test_a_raw_file_that_changed_under_its_digest_is_named",
    "was damaged, was built again": f"{REPAIRS}test_a_file_that_is_damaged_again_ends_the_run",
    "from which it would be built again": f"{REPAIRS}test_damaged_documents_whose_raw_files_are_gone",
    "finds is in a store of Cloze": (
        "tests/flows/command/test_store_as_source.py::test_a_folder_with_nothing_but_a_store_has_no_files"
    ),
    "nothing is fetched yet": (
        "tests/flows/recipes/test_new_recipe.py::test_what_is_not_fetched_yet_is_named_with_the_command_that_fetches_it"
    ),
    "Check the path and its permissions": f"{LEFT_OUT}test_a_file_that_vanishes_or_grows_is_left_to_a_later_run",
    "copy the recipe to a folder that you can write to": f"{LOCKS}test_a_folder_that_cannot_be_written_is_said",
    "copy the recipe to a folder that you may write": f"{LOCKS}test_a_folder_that_cannot_be_written_is_said",
    "Wait for its end": f"{GARBAGE}test_a_release_waits_for_a_clearing",
    "The clean-up stalled for minutes": CLEARED,
    "There is no artifact at": f"{DAMAGE}test_an_artifact_alone_is_checked_with_the_parts_that_it_points_to",
    "would make": "tests/flows/run/test_kept_store.py::test_a_run_on_the_kept_store_builds_nothing",
    "cannot be built again: its raw files are gone": f"{REPAIRS}test_damaged_documents_whose_raw_files_are_gone",
    "a clock was ahead": "tests/flows/orchestration/test_releasing.py::test_what_cannot_be_released_is_refused",
    "are gone: run its recipe again": "tests/flows/run/test_run_again.py::test_a_lost_file_costs_its_part_alone",
    "does not hold what was released": f"{RELEASES}test_what_is_gone_or_another_is_said",
    "(`cloze releases` lists them)": f"{RELEASES}test_commands_list_and_go_back",
    "Say with --to which number": f"{RELEASES}test_going_back_adds_to_the_history",
}

SERVICE = "tests/flows/orchestration/test_service.py::"
CLUSTER = "tests/flows/engines/test_cluster.py::"
TRAINING = "tests/trainer/training/"
BY_HAND = "(a person's: of another machine, disk, account or program)"
RUNBOOK: dict[str, tuple[str, ...]] = {  # what the entry tells to do, done
    "The input is wrong": ("tests/flows/command/test_bad_input.py::test_unknown_key_names_the_nearest",),
    "Not enough disk or memory": (
        "tests/flows/run/estimates/test_estimates.py::test_each_kind_of_stage_has_the_remedy_that_lowers_its_memory",
    ),
    "Raw files cannot be downloaded": (
        "tests/corpora/acquire/test_acquire_parts.py::test_a_killed_download_is_continued",
        "tests/flows/run/test_fetching.py::test_the_second_fetch_asks_for_nothing_until_refreshed",
    ),
    "A raw file cannot be read": ("a packed file that is cut off", "a Parquet file without its end"),
    "Raw files are left out": (
        "tests/flows/orchestration/test_nights.py::test_bad_files_are_set_aside_and_the_others_go_on",
    ),
    "Most of a folder cannot be read": (
        "most files of a source closed",
        "one damaged document among two new ones",
        "files in another encoding than the recipe says",
    ),
    "Raw files changed during a run": ("a raw file that grows",),
    "Raw files are gone": ("raw files and their documents gone", "a damaged part whose raw file is gone"),
    "Too many records are damaged, or a rule drops too much": (
        "one damaged document among two new ones",
        "a rule that drops much",
        "documents larger than the bound",
    ),
    "The lock was changed": ("a lock with a flipped bit", "a lock that is none"),
    "A record ends its worker": (
        "tests/flows/orchestration/test_run_quarantine.py::test_a_run_goes_on_without_what_ends_its_workers",
    ),
    "Workers keep ending": (
        "tests/corpora/store/test_pool_limits.py::test_a_record_that_takes_too_much_memory_ends_its_worker",
    ),
    "A worker hangs": ("tests/corpora/store/test_pool_limits.py::test_a_worker_that_stands_still_is_replaced",),
    "The disk is full or not writable": ("tests/flows/command/test_bad_input.py::test_full_disk_keeps_what_is_done",),
    "The object store is unreachable, or refuses": (
        "tests/corpora/store/test_s3_faults.py::test_a_stage_whose_store_dies_goes_on_when_it_is_back",
    ),
    "A file is damaged": ("tests/flows/integrity/test_damage_list.py::test_a_list_is_left_and_taken_back",),
    "Damaged again, or impossible to rebuild": (
        "a damaged list of damaged files",
        "a damaged part whose raw file is gone",
    ),
    "The store has another version, or is being cleaned up": (CLEARED,),
    "Another run holds the lock": (f"{LOCKS}test_two_runs_make_one_generation_of_a_file",),
    "The server of a run does not answer": (
        "tests/flows/orchestration/test_recording.py::test_a_server_that_is_killed_or_stopped_costs_no_result",
    ),
    "A port is taken": (f"{SERVICE}test_mistakes_are_said_before_anything_starts",),
    "The UI asks for a password": (
        "tests/flows/orchestration/test_server_lock.py::test_a_browser_is_let_in_by_the_link_and_no_page_of_others",
    ),
    "The database is locked, damaged or of a newer Prefect": (
        "tests/flows/orchestration/test_database.py::test_every_command_says_so_in_a_paragraph",
    ),
    "A scheduled run did not start": (f"{SERVICE}test_a_recipe_is_served_once",),
    "A notice could not be sent": (
        "tests/flows/orchestration/test_notifying.py::test_a_notice_that_nobody_got_does_not_count",
    ),
    "A value of a deployment is refused": (
        "tests/flows/orchestration/test_deploying.py::test_a_recipe_is_found_under_its_entrypoint",
    ),
    "A bound is crossed": ("tests/flows/orchestration/test_releasing.py::test_a_person_approves_or_rejects",),
    "A release waits": (
        "tests/flows/orchestration/test_releasing.py::test_a_person_approves_or_rejects",
        "a release of damaged shards",
        "a release before the first run",
    ),
    "The run was stopped": (
        "tests/flows/orchestration/test_run_stopped.py::test_a_run_is_stopped_in_stages_and_ends_the_same",
    ),
    "The process was killed": ("tests/flows/orchestration/test_run_kills.py::test_kills_change_no_byte",),
    "A traceback": (BY_HAND,),
    "The trainer died": (f"{TRAINING}test_mendable.py::test_no_memory_left_says_what_to_lower",),
    "The loss is no longer a number": (f"{TRAINING}test_loop.py::test_a_gradient_that_is_not_finite_stops_the_run",),
    "The first steps show that training cannot succeed": (
        f"{TRAINING}test_first_steps.py::test_weights_that_know_nothing_and_are_sure_stop_the_run",
    ),
    "A checkpoint, an export or a copy of a shard is damaged": (
        f"{TRAINING}test_checkpoint_folders.py::test_a_run_without_a_whole_checkpoint_begins_anew",
        "tests/trainer/launching/test_launch.py::test_a_damaged_export_is_written_again",
    ),
    "The scheduler is gone": (f"{CLUSTER}test_a_scheduler_that_comes_again_goes_on",),
    "No usable worker": (f"{CLUSTER}test_workers_of_another_kind_build_nothing",),
    "No worker with a GPU": (
        "tests/flows/engines/test_training_on_cluster.py::test_a_model_is_trained_where_the_gpus_are",
    ),
}
