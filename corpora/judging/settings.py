"""The settings of the documents stage: those of all steps, and the limits for a record, a part and a run.

The settings of a step that was added later and is off by default do not change the fingerprints of older documents.
"""

from dataclasses import dataclass, field

from corpora.judging.source_statistics import RepeatedLineSettings
from corpora.judging.steps.added import StepEntry
from corpora.judging.steps.clean import CleanSettings
from corpora.judging.steps.contamination import ContaminationSettings
from corpora.judging.steps.language import LanguageSettings
from corpora.judging.steps.lines import LineSettings
from corpora.judging.steps.privacy import PersonalDataSettings
from corpora.judging.steps.rules import RulesSettings
from corpora.judging.steps.selection import StoriesScoreSettings
from corpora.store.settings import check_range, later_field, later_table, limit_field


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentsSettings:
    """Settings for turning records into documents.

    part_bytes:         raw bytes per part, effective from about a megabyte on; affects how rows are divided into files,
                        not the rows themselves
    max_document_bytes: documents with more bytes are dropped
    max_damaged_share:  the run stops if more than this share of the records is damaged. From 0.5 on, each raw file that
                        is left out counts as one damaged record. Scheduled runs do not stop: they leave out the damaged
                        files and records
    max_rule_share:     the run stops if one rule, or one step of your own, drops a larger share of a source's documents
    rule_share_from:    a source with fewer documents only causes a warning then, unless a rule drops more than half of
                        ten or more documents. If fewer records than this are new, they are judged together with earlier
                        ones
    """

    clean: CleanSettings = field(default_factory=CleanSettings)
    language: LanguageSettings = field(default_factory=LanguageSettings)
    rules: RulesSettings = field(default_factory=RulesSettings)
    steps: tuple[StepEntry, ...] = later_field(neutral=())
    lines: LineSettings = later_table(LineSettings)
    repeated_lines: RepeatedLineSettings = later_table(RepeatedLineSettings)
    personal_data: PersonalDataSettings = later_table(PersonalDataSettings)
    contamination: ContaminationSettings = later_table(ContaminationSettings)
    selection: StoriesScoreSettings = later_table(StoriesScoreSettings)
    max_document_bytes: int = 5_000_000
    part_bytes: int = 4_000_000
    max_damaged_share: float = limit_field(0.01)
    max_rule_share: float = limit_field(0.2)
    rule_share_from: int = limit_field(100)

    def __post_init__(self) -> None:
        check_range("documents.part_bytes", self.part_bytes, 1, 1 << 40)
        check_range("documents.max_document_bytes", self.max_document_bytes, 1, 1 << 30)
        check_range("documents.max_damaged_share", self.max_damaged_share, 0.0, 1.0)
        check_range("documents.max_rule_share", self.max_rule_share, 0.0, 1.0)
        check_range("documents.rule_share_from", self.rule_share_from, 1, 1 << 62)

    @property
    def needs_statistics(self) -> bool:
        """True if the documents can be judged only after their source's statistics were computed."""
        return self.repeated_lines.enabled or bool(self.selection.questions)
