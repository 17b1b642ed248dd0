r"""What must hold for the phases of label-noise SGD (`theory.linear.phases`), each number by itself.

The limits are from runs of the algorithm itself (d = 2 to 20, fresh samples; 12 to 100 runs, times to 1-3 %): up to them a
number is off by 10 % at most, mostly by less than 5 %.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from theory.declared.known import fact, small
from theory.prediction.validity import Condition

#: d/m. At a fifth the escape is off by 0-5 %, the onset by 3-8 % and the limit by 2-6 %; at a third some runs in
#: d = 5 took half as long again to the onset, at 1 some networks never escape.
_NARROW = 0.2
#: Displacement by fitting alone, over 1/√m: 0.41 leaves the escape 1-4 % off, 0.60 one of 25 %.
_FITTED = 0.5
#: sinh of twice the rapidity of the fit: 3.4 leaves the onset 3 % off, 6.9 one of 25 %.
_BOOSTED = 4.0
#: Steps of relaxation over steps to the escape: 1/40 leaves errors of 2-7 %, 1/16 of 3-16 %, 1/4 of 26 %. Along a set's
#: slowest direction, of the error of θ at a tenth of that time: up to 1/31 5 % at most, 1/16 to 1/14 4-17 %, 1/3 17 %.
_RELAXED = 1 / 30
#: tr β/√d at the onset (d = 2 to 20), which comes early by up to 2 % until 0.1, 2-6 % at 0.12-0.14, 9-16 % at 0.17-0.19;
#: beyond, none may be predicted. In sets of 8 to 60 points in d = 5 to 24, with S and β as they are: 0-2 % early until
#: 0.06, 9 % at 0.09, 5-18 % at 0.11-0.15, 47 % at 0.16 in d = 20; beyond, some onsets that are predicted never come.
_LATE = 0.08
#: Share by which κ in place of all fourth moments moves ϱ²: the rates follow it.
_MOMENTS = 0.05
#: Points per dimension from which κ can stand for all fourth moments of a set: it moves the limit by 1-2 %.
_POINTS = 10.0


@dataclass(frozen=True)
class Neglected:
    r"""What the phases neglect.

    Attributes:
        narrow: d/m. fitted: median displacement by fitting the labels, over 1/√m.
        boosted: $\sinh2\varphi=2\|\theta^*\|/(g+A_0)$ of the fit.
        relaxed: steps of the error's relaxation over steps to the escape; 0 if that is while the labels are fitted.
        slowest: the same for the direction in which the error relaxes last.
        late: `theory.linear.phases.Law.cancelled` at the onset, or the last one if there is none, over √d: tr β/√d if all is
            isotropic.
        aligned: whether fitting the labels leaves neurons as aligned as at the onset; in one dimension they always are.
        awaited: whether there is no onset yet where the averaged flow was left, and it had not ended.
        moments: relative change of ϱ² by κ in place of the set's fourth moments; None if these are not known.
        points: training points per dimension, inf for fresh samples. batch: samples in a step.
    """

    narrow: float
    fitted: float
    boosted: float
    relaxed: float
    slowest: float
    late: float
    aligned: bool
    awaited: bool
    moments: float | None
    points: float
    batch: int

    @property
    def conditions(self) -> Mapping[str, tuple[Condition, ...]]:
        """Those of each number of `theory.linear.phases.Phases`, by its name."""
        layers = self._narrow(), self._boosted()
        settled, flow = self._relaxed(self.relaxed), (*layers, *self._moments())
        return {
            "residual_variance": (*layers, settled, *self._counted()),
            # A direction of little data is little of ϱ², but as much of |θ − θ*|² as any other.
            "lms_error": (*layers, self._relaxed(self.slowest), *self._counted()),
            "stability_limit": (self._narrow(), *self._counted()),
            "decay_rate": (*flow, settled),
            "half_steps": (*flow, settled),
            "escape_steps": (*flow, self._fitted(), settled),
            "escape_bound": (self._narrow(), self._single()),
            "onset_steps": (*flow, self._late(), self._unaligned(), self._seen()),
        }

    def _narrow(self) -> Condition:
        sentence = "width: d/m is {:.2g}, and the layers' own fluctuations decide: give m of 5 d or more"
        return small("width", self.narrow, _NARROW, sentence)

    def _single(self) -> Condition:
        return fact("batch", self.batch == 1, "batch: the theorem is for single samples: give batch 1")

    def _boosted(self) -> Condition:
        sentence = "norm: 2|θ*| is {:.2g} of |W|²/d + |a|², fitting the labels aligns the layers: give a larger width"
        return small("norm", self.boosted, _BOOSTED, sentence)

    def _fitted(self) -> Condition:
        sentence = "fit: fitting the labels alone moves the median neuron by {:.2g} of the way: give a larger width"
        return small("fit", self.fitted, _FITTED, sentence)

    def _relaxed(self, share: float) -> Condition:
        sentence = "relaxation: the error takes {:.2g} of the time to the escape to settle: give a smaller step size"
        return small("relaxation", share, _RELAXED, sentence)

    def _late(self) -> Condition:
        sentence = (
            "boosts: by the onset they undo {:.2g} √d of the decay, and their square is left out: give less noise"
        )
        return small("boosts", self.late, _LATE, sentence)

    def _unaligned(self) -> Condition:
        sentence = (
            "onset: neurons are aligned before any noise, by fitting the labels or as in one dimension: give a larger width "
            "or dim"
        )
        return fact("onset", not self.aligned, sentence)

    def _seen(self) -> Condition:
        sentence = (
            "end: the averaged flow had not ended where it was left, an onset may be to come: give more training points"
        )
        return fact("end", not self.awaited, sentence)

    def _moments(self) -> tuple[Condition, ...]:
        if self.moments is None:
            return self._counted()
        sentence = (
            "training set: one number for its fourth moments moves the noise by {:.0%}: give more training points"
        )
        return (small("training set", self.moments, _MOMENTS, sentence),)

    def _counted(self) -> tuple[Condition, ...]:
        """Where the fourth moments are too many to use, the set has to be large for its dimension."""
        sentence = (
            f"training set: {self.points:.2g} points a dimension, and its fourth moments are too many: give 10 or more"
        )
        return () if self.moments is not None else (fact("training set", self.points >= _POINTS, sentence),)
