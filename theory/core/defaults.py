"""What is taken where nobody says: how much of a stability bound a step uses, and how far past its last event a run goes."""

#: Runs last this many times the last predicted event.
HORIZON = 1.3
#: Share of the largest stable step that is taken by default.
SAFE_FRACTION = {
    "overlap-flow": 0.01,  # fluctuations matter 10 to 100 times below the drift's bound
    "rest": 0.1,  # of the step from which runs lose what they found, where that is less (one direction of exponent 1)
    "correlation-flow": 0.05,  # overlaps settle a share of the bound away from 1
    "stiefel-sgd": 0.1,  # the risk that is left behind is proportional to it
}
