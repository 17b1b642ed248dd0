"use strict";
// The page is complete without this: it adds the filter, and opens a claim that a link leads to.
(() => {
  const form = document.querySelector("form.filter");
  const claims = [...document.querySelectorAll("section.claim")].map((section) => ({
    section,
    fold: section.querySelector("details"),
    id: section.querySelector(".body").id,
    verdicts: section.dataset.verdicts.split(" "),
    sources: section.dataset.sources.split("|"),
    words: null,
  }));
  const tiles = new Map([...document.querySelectorAll("a.tile")].map((tile) => [tile.getAttribute("href").slice(1), tile]));
  const open = (id) => {
    const place = id && document.getElementById(id);
    const section = place && place.closest("section.claim");
    if (!section) return;
    section.hidden = section.closest(".system").hidden = false;  // asked for by name, whatever the filter says
    section.querySelector("details").open = true;
    place.scrollIntoView();
  };
  const follow = () => open(decodeURIComponent(location.hash.slice(1)));
  addEventListener("hashchange", follow);
  document.addEventListener("click", (event) => {  // the same link again
    const link = event.target.closest && event.target.closest("a[href^='#']");
    if (link && link.hash === location.hash) follow();
  });
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    folded.forEach((one) => (one.open = true));
  });
  addEventListener("afterprint", () => folded.forEach((one) => (one.open = false)));
  follow();
  if (!form) return;
  const filter = () => {
    const words = form.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const source = form.elements.source.value;
    const verdicts = [...form.querySelectorAll("[name=verdict]:checked")].map((box) => box.value);
    let shown = 0;
    for (const claim of claims) {
      if (words.length) claim.words ??= claim.section.textContent.toLowerCase();
      const fits = claim.verdicts.some((one) => verdicts.includes(one))
        && (!source || claim.sources.includes(source))
        && words.every((word) => claim.words.includes(word));
      claim.section.hidden = !fits;
      tiles.get(claim.id).classList.toggle("off", !fits);
      shown += fits;
    }
    for (const system of document.querySelectorAll(".system"))
      system.hidden = !system.querySelector("section.claim:not([hidden])");
    form.querySelector("output").textContent = shown === claims.length ? "" : `${shown} of ${claims.length} claims shown`;
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const button of form.querySelectorAll("[data-open]"))
    button.addEventListener("click", () => {
      for (const claim of claims) if (!claim.section.hidden) claim.fold.open = Boolean(button.dataset.open);
    });
  form.hidden = false;
  filter();  // a browser keeps the fields of a page that is loaded again
})();
