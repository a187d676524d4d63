"""What third parties implement, and what their parts are given: names and signatures that stay.

An attack of your own is a frozen dataclass with `needs` and `__call__(problem)`; a space has
`around(x) -> Region`; a goal has `targets(...)`; a defender has `start` and `adapt`. `du.testing`
checks each of them. `noun` instead of `dataclass(frozen=True)` checks their fields when they are
made, by their annotations and metadata.

A package registers its parts through the entry points `durometer.attacks`,
`durometer.spaces`, `durometer.goals`, `durometer.games`, `durometer.defenses`,
`durometer.datasets`, `durometer.noise`.
"""

from durometer.attacks.base import Attack
from durometer.core.capabilities import (
    Answers,
    Climbs,
    CpuOnly,
    Described,
    HasSchema,
    HasVocabulary,
    Levelled,
    OneGoal,
    ReadsSymbols,
    Starts,
    TakesGaps,
    Titled,
    ToTable,
    Unrolls,
    UsuallyAttacked,
)
from durometer.core.records import Records
from durometer.core.spec import GateSpec, Provenance, QuotaRule, Spec
from durometer.core.streams import Stream
from durometer.core.validation import noun
from durometer.data.splits import Splits
from durometer.games.game import Game, Play
from durometer.games.transductive import Defender
from durometer.goals.goal import Aims, Expandable, Goal
from durometer.model.answers import ANY, SCORES, AnswerKind
from durometer.model.classifier import AnyModel, Classifier
from durometer.noise.joint import Noise
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.report.stats import Estimate
from durometer.spaces.candidates import Candidates
from durometer.spaces.discrete import RelaxedTokens, SubstitutionRegion
from durometer.spaces.region import Region, Space

__all__ = [
    "ANY",
    "SCORES",
    "Aims",
    "AnswerKind",
    "Answers",
    "AnyModel",
    "Attack",
    "Candidates",
    "Classifier",
    "Climbs",
    "CpuOnly",
    "Defender",
    "Described",
    "Estimate",
    "Expandable",
    "Game",
    "GateSpec",
    "Goal",
    "HasSchema",
    "HasVocabulary",
    "Levelled",
    "Needs",
    "Noise",
    "OneGoal",
    "Play",
    "Problem",
    "Provenance",
    "QuotaRule",
    "ReadsSymbols",
    "Records",
    "Region",
    "RelaxedTokens",
    "Space",
    "Spec",
    "Splits",
    "Starts",
    "Stream",
    "SubstitutionRegion",
    "TakesGaps",
    "Titled",
    "ToTable",
    "Unrolls",
    "UsuallyAttacked",
    "noun",
]
