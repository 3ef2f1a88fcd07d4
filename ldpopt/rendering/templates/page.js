// Statements to filter by paper, verdict and words. Without this script all of them can be opened.
"use strict";
const form = document.querySelector("form.filter");
const items = [...document.querySelectorAll("[data-verdict]")];
const groups = [...document.querySelectorAll("details.group")];
// The list of a paper's statements follows the filter; what is counted are claims.
const counted = items.filter((item) => item.classList.contains("item"));
const texts = new Map(items.map((item) => [item, item.textContent.toLowerCase()]));

function update() {
  const words = form.words.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const paper = form.paper.value;
  const verdict = form.verdict.value;
  const filtered = words.length > 0 || paper !== "" || verdict !== "";
  for (const item of items) {
    item.hidden =
      (paper !== "" && !item.dataset.papers.split(" ").includes(paper)) ||
      (verdict !== "" && item.dataset.verdict !== verdict) ||
      !words.every((word) => texts.get(item).includes(word));
  }
  for (const group of groups) {
    const inside = group.querySelectorAll("[data-verdict]");
    // A group without statements, such as one of corrections, is no part of the filter.
    if (inside.length === 0) continue;
    const left = [...inside].some((item) => !item.hidden);
    group.hidden = filtered && !left;
    group.open = filtered && left;
  }
  const shown = counted.filter((item) => !item.hidden).length;
  form.querySelector("output").textContent = `${shown} of ${counted.length}`;
}

function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  if (target.closest("[hidden]")) {
    form.reset();
    update();
  }
  for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  target.scrollIntoView();
}

form.addEventListener("input", () => {
  update();
  // What fits stands below the summary, which may fill the screen.
  const start = document.getElementById("statements");
  if (start.getBoundingClientRect().top > window.innerHeight / 2) start.scrollIntoView();
});
form.addEventListener("submit", (event) => event.preventDefault());
document.querySelector("button.all").addEventListener("click", (event) => {
  const open = event.target.textContent === "Open all";
  // Evidence stays closed: what is opened is the list of statements.
  for (const group of groups) group.open = open;
  event.target.textContent = open ? "Close all" : "Open all";
});
for (const link of document.querySelectorAll("a[data-show]")) {
  link.addEventListener("click", () => {
    form.reset();
    form.verdict.value = link.dataset.show;
    update();
  });
}
window.addEventListener("hashchange", reveal);
window.addEventListener("beforeprint", () => groups.forEach((group) => (group.open = true)));
update();
reveal();
