// The source beside the numbers: one file, the chosen line marked, and what each line costs.

const sourcePanel = {
  /** Shows a source's line. `opened` says that a person asked for it, so that it may come up over a narrow page. */
  show(source, opened = true) {
    const panel = byId("source");
    panel.classList.toggle("opened", opened);
    panel.replaceChildren(this.heading(source), this.facts(source), this.code(source));
    const marked = panel.querySelector("[aria-current]");
    const scroller = panel.querySelector(".code-scroll");
    if (marked && scroller) scroller.scrollTop = marked.offsetTop - scroller.clientHeight / 3;
    if (opened) announce(`Source: ${place(source) || "no line known"}`);
  },

  heading(source) {
    return h("div", { class: "source-head" },
      h("h2", { id: "source-title" }, "Source"),
      h("span", { class: "path", title: place(source) }, h("bdi", {}, place(source) || "no line known")),
      h("button", { type: "button", class: "close", "aria-label": "Close the source",
        onclick: () => byId("source").classList.remove("opened") }, "×"));
  },

  facts(source) {
    const total = lineTotals.get(lineKey(source));
    const facts = [];
    if (source.module) facts.push(h("span", { class: "module" }, source.module));
    if (total) {
      facts.push(h("span", {}, h("b", {}, formatSeconds(total.seconds)), ` (${formatShare(total.seconds / totalSeconds)})`));
      facts.push(h("span", {}, h("b", {}, formatBytes(total.held)), " at the peak"));
    }
    const here = hasLine(source) && regions.some((region) => lineKey(region.source) === lineKey(source));
    const find = (text, query) =>
      h("button", { type: "button", class: "link", onclick: () => fusions.search(query) }, text);
    if (here) facts.push(find("Its fusions", `${place(source)}:`));
    if (source.module && regions.length) facts.push(find("The module’s fusions", source.module));
    return h("div", { class: "facts" }, ...facts);
  },

  code(source) {
    const lines = sourceLines.get(source.file);
    const totals = fileTotals.get(source.file) || new Map();
    const known = lines || [...totals.keys()].sort((a, b) => a - b).map((number) => [number, ""]);
    if (known.length === 0) return h("p", { class: "note" }, "The compiler kept no line for this.");
    const most = Math.max(0, ...[...totals.values()].map((total) => total.seconds));
    const body = h("tbody");
    const indents = known.filter(([, text]) => text.trim()).map(([, text]) => text.length - text.trimStart().length);
    const indent = Math.min(...indents, 80);
    let previous = known[0][0] - 1;
    for (const [number, text] of known) {
      if (number !== previous + 1) body.append(h("tr", { class: "gap" }, h("td", { class: "number" }, "⋯"), h("td", { colspan: 3 })));
      previous = number;
      body.append(this.line(source, number, text.slice(indent), totals.get(number), most));
    }
    const head = ["Line", "Time", "Memory", "Code"].map((title) => h("th", { scope: "col" }, title));
    return h("div", { class: "code-scroll", tabindex: 0, role: "region", "aria-label": "Code" },
      lines ? null : h("p", { class: "note" }, "This file was not at hand when the report was made."),
      h("table", { class: "code" }, h("thead", {}, h("tr", {}, ...head)), body));
  },

  line(source, number, text, total, most) {
    const chosen = number === source.line;
    const label = total
      ? h("button", { type: "button", class: "link", "aria-label": `Line ${number}`,
        onclick: () => this.show({ ...total.source, module: "" }) }, String(number))
      : String(number);
    const heat = total && most ? total.seconds / most : 0;
    return h("tr", { class: chosen ? "chosen" : null, "aria-current": chosen ? "true" : null },
      h("th", { scope: "row" }, label),
      h("td", { class: "number" }, total && total.seconds ? withBar(formatSeconds(total.seconds), heat) : ""),
      h("td", { class: "number" }, total && total.held ? formatBytes(total.held) : ""),
      h("td", {}, h("code", {}, text)));
  },
};

/** A button that shows a source; plain text where no line is known. */
function sourceLink(source) {
  if (!source.file) return h("span", { class: "dim" }, source.op || source.module || NONE);
  return h("button", { type: "button", class: "link", title: place(source), onclick: () => sourcePanel.show(source) },
    shortPlace(source));
}
