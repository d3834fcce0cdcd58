// Draws the sections that there is something to say in.

overview.draw();
const drawn = {
  findings: drawFindings(),
  model: modelTree.draw(),
  memory: memorySection.draw(),
  fusions: fusions.draw(),
  lines: drawLines(),
  padding: drawPadding(),
  collectives: drawCollectives(),
  slices: drawSlices(),
  legend: true,
};
for (const [id, there] of Object.entries(drawn)) {
  const title = byId(`${id}-title`).textContent;
  if (there) byId("links").append(h("a", { href: `#${id}` }, title));
  else byId(id).hidden = true;
}
if (regions.length === 0) {
  const first = report.findings.map((finding) => finding.source).find(hasLine);
  if (first) sourcePanel.show(first, false);
  else byId("source").hidden = true;
}

addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey || !fusions.box) return;
  fusions.box.focus();
  fusions.box.select();
  event.preventDefault();
});
