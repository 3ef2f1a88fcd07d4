// Show the rows of a table with certain words, and of claims those of one paper or one verdict.
document.addEventListener("DOMContentLoaded", () => {
  for (const form of document.querySelectorAll("form.filter")) {
    const table = form.parentElement.querySelector("table");
    const rows = [...table.tBodies[0].rows];
    const update = () => {
      const words = form.words.value.trim().toLowerCase().split(/\s+/);
      let shown = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        const fits =
          (!form.paper?.value || row.dataset.paper.split(" ").includes(form.paper.value)) &&
          (!form.verdict?.value || row.dataset.verdict === form.verdict.value) &&
          words.every((word) => text.includes(word));
        row.hidden = !fits;
        shown += fits;
      }
      form.querySelector("output").textContent = `${shown} of ${rows.length}`;
    };
    form.addEventListener("input", update);
    form.addEventListener("submit", (event) => event.preventDefault());
    update();
  }
});
