// How the search ranks pages: what answers a question before what records how the toolkit was made.
"use strict";
const RECORDS = /^(CHANGELOG|CONTRIBUTING|reference\/claims|docs\/(broken|mutants|false_alarms|architecture|faults|laws|verdicts))/;
const ANSWERS = /^(cite|docs\/(start|own_activation|elsewhere|claims|plots|step_size|cluster|sweeps|add_model|declared|reproduce|networks|command_line|json|validity))$/;
var Scorer = {
  // [page, title, anchor, description, score, file, kind] of a hit
  score: ([page, title, , , score]) => {
    const asked = (new URLSearchParams(window.location.search).get("q") || "").toLowerCase().trim();
    const named = asked && title.toLowerCase().includes(asked) ? 2 : 1;
    const weight = RECORDS.test(page) ? 0.2 : ANSWERS.test(page) ? 2 : /^docs\//.test(page) ? 1.5 : 1;
    return score * weight * named;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
