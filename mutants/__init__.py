"""``python -m mutants`` (``make mutants``): formulas are broken one at a time, and tests and claims are asked who notices.

`sites` and `operators` say what may be changed, `choosing` draws by seed, `overlay` and `apart` run one mutant in a copy of
the tree and a process of its own, `reach` and `measuring` know which tests and claims come by a line, `asking` goes
through them until one notices, `results` keeps what was said, `page` writes it down.
"""
