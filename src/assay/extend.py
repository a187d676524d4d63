"""What third parties implement, and what their parts are given: names and signatures that stay.

An attack of your own is a frozen dataclass with `needs` and `__call__(problem)`; a space has
`around(x) -> Region`; a goal has `targets(...)`; a defender has `start` and `adapt`. `ay.testing`
checks each of them. A package registers its parts through the entry points `assay.attacks`,
`assay.spaces`, `assay.goals`, `assay.games`, `assay.defenses`, `assay.datasets`, `assay.noise`.
"""

from assay.attacks.base import Attack
from assay.datasets.splits import Splits
from assay.games.game import Game, Play
from assay.games.transductive import Defender
from assay.goals.goal import Expandable, Goal
from assay.model.answers import ANY, SCORES, AnswerKind
from assay.model.classifier import AnyModel, Classifier
from assay.noise.joint import Noise
from assay.problem.needs import Needs
from assay.problem.problem import Problem
from assay.records import Records
from assay.report.stats import Estimate
from assay.spaces.candidates import Candidates
from assay.spaces.choices import ChoiceRegion, Chosen
from assay.spaces.region import Region, Space
from assay.streams import Stream

__all__ = [
    "ANY",
    "SCORES",
    "AnswerKind",
    "AnyModel",
    "Attack",
    "Candidates",
    "ChoiceRegion",
    "Chosen",
    "Classifier",
    "Defender",
    "Estimate",
    "Expandable",
    "Game",
    "Goal",
    "Needs",
    "Noise",
    "Play",
    "Problem",
    "Records",
    "Region",
    "Space",
    "Splits",
    "Stream",
]
