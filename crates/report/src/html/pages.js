// The sheets of the page, one a report: one of them is shown, all are printed.

const pages = {
  sheets: JSON.parse(byId("report").textContent).map((report) => ({ report, root: null, parts: null })),
  shown: null,

  start() {
    const names = this.sheets.map(({ report }) => (report.target ? report.target.name : report.program.name));
    this.sheets.forEach((sheet, nth) => {
      const same = names.slice(0, nth).filter((name) => name === names[nth]).length;
      sheet.name = same ? `${names[nth]} (${same + 1})` : names[nth];
      sheet.address = this.sheets.length > 1 ? `target=${encodeURIComponent(sheet.name)}&` : "";
    });
    if (this.sheets.length > 1) byId("targets").append(...this.sheets.map((sheet) => this.button(sheet)));
    this.show(this.asked() || this.sheets[0]);
  },

  button(sheet) {
    const { verdict, memory, cost } = sheet.report;
    const figures = [memory && `${formatBytes(memory.peak)} at the peak`, cost && formatSeconds(cost.seconds)].filter(Boolean);
    sheet.button = h("button", {
      type: "button", class: `chip ${verdict.runs ? "good" : "bad"}`, title: [verdict.summary, ...figures].join("\n"),
      onclick: () => {
        location.hash = sheet.address.slice(0, -1);
        this.show(sheet);
      },
    }, h("span", { class: "mark", "aria-hidden": "true" }, verdict.runs ? "✓ " : "✕ "), sheet.name,
    h("span", { class: "unseen" }, verdict.runs ? ", runs" : ", does not run"));
    return sheet.button;
  },

  /** The sheet that the address names. */
  asked() {
    const name = new URLSearchParams(location.hash.slice(1)).get("target");
    return this.sheets.find((sheet) => sheet.name === name);
  },

  /** Draws a sheet the first time that it is wanted. It must be in the document then, where things have sizes. */
  attach(sheet) {
    const first = !sheet.root;
    if (first) sheet.root = h("div", { class: "sheet" }, byId("sheet").content.cloneNode(true));
    byId("top").append(sheet.root);
    if (first) sheet.parts = drawSheet(sheet.report, sheet.root, sheet.address);
  },

  show(sheet) {
    if (this.shown === sheet) return;
    const before = this.shown;
    if (before) before.root.remove();
    this.shown = sheet;
    this.attach(sheet);
    const { program, target } = sheet.report;
    document.title = target ? `${program.name} on ${target.name}` : program.name;
    byId("links").replaceChildren(...sheet.parts.links);
    this.sheets.forEach((other) => other.button && other.button.setAttribute("aria-pressed", other === sheet));
    if (before) announce(`The report for ${sheet.name}`);
  },

  fromAddress() {
    this.show(this.asked() || this.shown);
    if (this.shown.parts.fusions.addresses) this.shown.parts.fusions.fromAddress();
  },

  print() {
    this.sheets.forEach((sheet) => this.attach(sheet));
    Grid.all.forEach((grid) => grid.print());
  },

  afterPrint() {
    Grid.all.forEach((grid) => grid.paper.replaceChildren());
    this.sheets.filter((sheet) => sheet !== this.shown).forEach((sheet) => sheet.root && sheet.root.remove());
  },

  /** The key that searches. */
  keydown(event) {
    const typing = event.target.closest("input, textarea, select");
    const { box } = this.shown.parts.fusions;
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey || !box) return;
    box.focus();
    box.select();
    event.preventDefault();
  },
};

addEventListener("hashchange", () => pages.fromAddress());
addEventListener("beforeprint", () => pages.print());
addEventListener("afterprint", () => pages.afterPrint());
addEventListener("keydown", (event) => pages.keydown(event));
pages.start();
