// Findings, source lines, padding, collectives and slices.

const SEVERITIES = { error: ["✕", "Error"], warning: ["!", "Warning"], note: ["i", "Note"] };

function drawFindings() {
  if (report.findings.length === 0) return false;
  const item = (finding) => {
    const [mark, name] = SEVERITIES[finding.severity];
    return h("li", { class: finding.severity },
      h("span", { class: "mark", "aria-hidden": "true" }, mark),
      h("div", {},
        h("p", {}, h("strong", {}, `${name}: `), finding.message, h("span", { class: "tag" }, finding.kind)),
        finding.help ? h("p", { class: "help" }, finding.help) : null,
        h("p", { class: "note" }, finding.source.file ? sourceLink(finding.source) : "",
          finding.source.module ? ` in ${finding.source.module}` : "", finding.source.op ? ` · ${finding.source.op}` : "")));
  };
  const list = h("ul", { class: "findings" }, ...report.findings.slice(0, 12).map(item));
  const rest = moreButton(report.findings.length - 12, () => list.append(...report.findings.slice(12).map(item)));
  byId("findings").append(...[list, rest].filter(Boolean));
  return true;
}

/** The text of a line, where the report has it. */
function lineText(source) {
  const found = (sourceLines.get(source.file) || []).find(([number]) => number === source.line);
  return found ? found[1].trim() : "";
}

function drawLines() {
  const totals = [...lineTotals.values()].filter((total) => hasLine(total.source));
  if (totals.length === 0) return false;
  const most = Math.max(...totals.map((total) => total.seconds)) || 1;
  const grid = sortedGrid({
    id: "line-list", label: "Source lines", limit: 12, printed: 25, identity: (total) => total,
    sort: { key: cost ? "seconds" : "held", descending: true }, open: (total) => sourcePanel.show({ ...total.source, module: "" }),
    columns: [
      { key: "place", title: "Line", width: "minmax(9rem, 1.3fr)", value: (total) => place(total.source), cell: (total) => sourceLink({ ...total.source, module: "" }) },
      { key: "text", title: "Code", width: "minmax(8rem, 2fr)", minor: true, cell: (total) => h("code", { title: lineText(total.source) }, lineText(total.source)) },
      { key: "modules", title: "Modules", width: "5rem", number: true, minor: true, value: (total) => total.modules.size,
        hint: "How many modules run this line", cell: (total) => formatCount(total.modules.size) },
      { key: "seconds", off: !cost, title: "Time", width: "minmax(6rem, 1fr)", number: true, value: (total) => total.seconds,
        cell: (total) => withBar(formatSeconds(total.seconds), total.seconds / most) },
      { key: "share", off: !cost, title: "Share", width: "4.5rem", number: true, minor: true, value: (total) => total.seconds,
        cell: (total) => formatShare(total.seconds / totalSeconds) },
      { key: "held", off: !memory, title: "At the peak", width: "5.5rem", number: true, value: (total) => total.held, cell: (total) => formatBytes(total.held) },
      { key: "flops", off: !cost, title: "Flops", width: "5.5rem", number: true, minor: true, value: (total) => total.flops, cell: (total) => formatFlops(total.flops) },
      { key: "bytes", off: !cost, title: "HBM traffic", width: "6.5rem", number: true, minor: true, value: (total) => total.bytes, cell: (total) => formatBytes(total.bytes) },
    ],
  }, totals);
  byId("lines").append(h("p", { class: "note" }, "What a line costs in all modules that run it."), grid.host);
  return true;
}

function drawPadding() {
  if (!cost || cost.padding.length === 0) return false;
  const shape = (extents) => extents.map((extent) => extent.toLocaleString("en-US", { useGrouping: false })).join("×");
  byId("padding").append(
    h("p", { class: "note" }, "Matrix products whose shapes do not fill the matrix unit: batch × rows × contracted × columns."),
    wrappingTable("Matrix products that waste the matrix unit", [
      { title: "Waste", number: true, cell: (row) => withBar(formatShare(row.waste), row.waste, "wasted") },
      { title: "Shape", cell: (row) => h("span", { class: "mono" }, shape(row.shape)) },
      { title: "Computed as", cell: (row) => h("span", { class: "mono" }, shape(row.padded)) },
      { title: "Where", cell: (row) => h("span", {}, sourceLink(row.source), row.source.module ? h("small", {}, ` ${row.source.module}`) : "") },
      { title: "Instead", cell: (row) => row.advice },
    ], cost.padding));
  return true;
}

function drawCollectives() {
  if (!cost || cost.collectives.length === 0) return false;
  byId("collectives").append(wrappingTable("Collectives", [
    { title: "Kind", cell: (row) => h("span", { class: "mono" }, row.kind) },
    { title: "Count", number: true, cell: (row) => formatCount(row.count) },
    { title: "Sent by one device", number: true, cell: (row) => formatBytes(row.bytes) },
  ], cost.collectives));
  return true;
}

function drawSlices() {
  const plan = report.slices;
  if (!plan) return false;
  const chips = `${plural(plan.count, "slice")} of ${report.target.name} on paper: ${plural(plan.chips, "chip")}, ${plural(plan.hosts, "host")}`;
  const batch = plan.batch === null ? "" : `, a batch of ${formatCount(plan.batch)}`;
  const extra = plan.extra_hbm_bytes
    ? ` Each device needs at most ${formatBytes(plan.extra_hbm_bytes)} more HBM, for which there is ${plan.fits ? "room" : "no room"}.` : "";
  byId("slices").append(
    h("p", {}, `${chips}${batch}. A device holds ${formatBytes(plan.gradient_bytes)} of gradients and sends ${formatBytes(plan.device_bytes)} a step, `,
      `its host ${formatBytes(plan.host_bytes)} at ${formatBytes(plan.host_bandwidth)}/s, in ${formatSeconds(plan.exchange_seconds)}.${extra}`),
    wrappingTable("A step on several slices", [
      { title: "Exchange", cell: (row) => row.exchange },
      { title: "Step", number: true, cell: (row) => formatSeconds(row.seconds) },
      { title: "Efficiency", number: true, cell: (row) => formatShare(row.efficiency) },
    ], [
      { exchange: "after computing", ...plan.exposed },
      { exchange: "behind computing, fully overlapped", ...plan.overlapped },
    ]),
    h("p", { class: "note" }, "Assuming:"),
    h("ul", { class: "note" }, ...plan.assumptions.map((assumption) => h("li", {}, assumption))));
  return true;
}
