// Draws the sections that there is something to say in, and hands out what the page needs of them.

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
  rewrites: rewritesSection.draw(),
  planned: drawPlanned(),
  legend: Boolean(report.target),
};
const links = [];
for (const [id, there] of Object.entries(drawn)) {
  const title = byId(`${id}-title`).textContent;
  if (there) links.push(h("a", { href: `#${id}` }, title));
  else byId(id).hidden = true;
}
if (regions.length === 0) {
  const told = [...report.findings, ...(report.planned || [])].map((item) => item.source);
  const named = [...told, ...rewritesSection.places()];
  const first = named.find(hasLine);
  if (first) sourcePanel.show(first, false);
  else byId("source").hidden = true;
}

return { links, fusions, modelTree, memoryChart, schedule };
