// The samples of a run: each sentence with its translations by step.

const data = JSON.parse(byId("data").textContent);

function drawSamples() {
  const run = data.runs[byId("run").value];
  const list = byId("sentences");
  list.replaceChildren();
  for (const sample of run.samples) {
    const sentence = add(list, "li", "sentence");
    drawRow(sentence, "source", "source", sample.source, null);
    drawRow(sentence, "reference", "reference", sample.reference, null);
    let earlier = null;
    for (const [step, translation] of sample.translations) {
      const base = {reference: sample.reference, earlier, none: null}[byId("base").value];
      drawRow(sentence, "output", `step ${step.toLocaleString()}`, translation, base, run.index);
      earlier = translation;
    }
  }
}

function drawRow(sentence, kind, name, text, base, which) {
  const row = add(sentence, "div", `row ${kind}`);
  const label = add(row, "div", "label");
  if (which !== undefined) add(label, "span", `swatch series-${(which % data.colors) + 1}`);
  add(label, "bdi", "name", name);
  addParagraph(add(row, "div", "body"), text, base, byId("missing").checked);
}

if (data.runs.length) {
  data.runs.forEach((run, index) => byId("run").append(new Option(run.name, index)));
  for (const id of ["run", "base", "missing"]) byId(id).addEventListener("change", drawSamples);
  drawSamples();
}
