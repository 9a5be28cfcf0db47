// The sentences: searched, filtered, sorted, and drawn page by page.

const data = JSON.parse(byId("data").textContent);
const systems = data.systems;
const numSentences = data.references[0].length;
const state = {shown: [], page: 0, gains: []};

const chosen = (id) => byId(id).value;
const number = (value) => value.toLocaleString();
const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(1)}`;
const scores = (id) => systems[chosen(id)].scores;

// ---- Which sentences, in which order ----

let lowered = null;

// Lower-case texts of each sentence, made when the first search needs them.
function searchedTexts() {
  const texts = [...(data.source ? [data.source] : []), ...data.references,
    ...systems.map((system) => system.lines)];
  return Array.from({length: numSentences}, (_, index) =>
    texts.map((lines) => lines[index]).join("\n").toLowerCase());
}

function hasError(index, wanted, names) {
  return names.some((name) => {
    const errors = systems[name].errors[index];
    if (!errors) return false;
    return wanted === "any" || errors.some(([error]) => error === Number(wanted));
  });
}

// For each order, a number by which sentences ascend.
const ORDERS = {
  gain: () => state.gains.map((gain) => -gain),
  loss: () => state.gains,
  worst: () => scores("system"),
  best: () => scores("system").map((score) => -score),
};

function choose() {
  const query = byId("query").value.trim().toLowerCase();
  if (query && !lowered) lowered = searchedTexts();
  const wanted = chosen("error");
  const of = chosen("error-system");
  const names = of === "any" ? systems.map((_, index) => index) : [Number(of)];
  state.shown = [];
  for (let index = 0; index < numSentences; index += 1) {
    if (query && !lowered[index].includes(query)) continue;
    if (wanted && !hasError(index, wanted, names)) continue;
    state.shown.push(index);
  }
  const others = scores("other");
  state.gains = scores("system").map((score, index) => score - others[index]);
  const order = ORDERS[chosen("order")];
  if (order) {
    const keys = order();
    state.shown.sort((a, b) => keys[a] - keys[b] || a - b);
  }
  state.page = 0;
  draw();
}

function describeChoice() {
  const count = state.shown.length;
  let text = `${number(count)} of ${number(numSentences)} sentences`;
  if (systems.length > 1 && count && chosen("system") !== chosen("other")) {
    const gains = state.shown.map((index) => state.gains[index]);
    const better = gains.filter((value) => value > 0).length;
    const worse = gains.filter((value) => value < 0).length;
    text += `; ${systems[chosen("system")].name} is better than ${systems[chosen("other")].name} ` +
      `in ${number(better)}, equal in ${number(count - better - worse)}, worse in ${number(worse)}`;
  }
  byId("status").replaceChildren();
  addText(byId("status"), text);
}

// ---- Drawing ----

function draw() {
  const size = Number(chosen("size"));
  const pages = Math.max(1, Math.ceil(state.shown.length / size));
  state.page = Math.min(Math.max(0, state.page), pages - 1);
  const list = byId("sentences");
  list.replaceChildren();
  for (const index of state.shown.slice(state.page * size, (state.page + 1) * size)) {
    drawSentence(list, index);
  }
  describeChoice();
  for (const place of document.querySelectorAll(".pages")) {
    place.hidden = pages === 1;
    place.querySelector(".place").textContent =
      `page ${number(state.page + 1)} of ${number(pages)}`;
    place.querySelector(".previous").disabled = state.page === 0;
    place.querySelector(".next").disabled = state.page === pages - 1;
  }
}

function drawSentence(list, index) {
  const sentence = add(list, "li", "sentence");
  const heading = add(sentence, "h3");
  heading.append(`Sentence ${number(index + 1)}`);
  if (systems.length > 1 && chosen("system") !== chosen("other")) {
    const value = state.gains[index];
    const kind = value > 0 ? "better" : value < 0 ? "worse" : "equal";
    add(heading, "span", `gain ${kind}`, `${data.score} ${signed(value)}`);
  }
  if (data.source) drawRow(sentence, "source", "source", data.source[index], null);
  data.references.forEach((lines, number) => {
    const name = data.references.length > 1 ? `reference ${number + 1}` : "reference";
    drawRow(sentence, "reference", name, lines[index], baseFor(null, index));
  });
  systems.forEach((system, which) => {
    const row = drawRow(
      sentence, "output", system.name, system.lines[index], baseFor(which, index), which);
    add(row.label, "span", "score", `${data.score} ${system.scores[index].toFixed(1)}`);
    if (system.errors[index]) drawErrors(row.body, system.errors[index]);
  });
}

// The text that the output of a system is compared with, or a reference, which has no `which`;
// null if it is shown as it is.
function baseFor(which, index) {
  const base = chosen("base");
  if (base === "none") return null;
  if (base.startsWith("r")) return which === null ? null : data.references[base.slice(1)][index];
  return Number(base.slice(1)) === which ? null : systems[base.slice(1)].lines[index];
}

function drawRow(sentence, kind, name, text, base, which) {
  const row = add(sentence, "div", `row ${kind}`);
  const label = add(row, "div", "label");
  if (which !== undefined) add(label, "span", `swatch series-${(which % data.colors) + 1}`);
  add(label, "bdi", "name", name);
  const body = add(row, "div", "body");
  addParagraph(body, text, base, byId("missing").checked);
  return {label, body};
}

function drawErrors(body, errors) {
  const list = add(body, "ul", "errors");
  list.setAttribute("aria-label", "errors");
  for (const [error, evidence] of errors) {
    const item = add(list, "li", "error", data.errors[error]);
    if (evidence) {
      item.append(": ");
      const isolated = add(item, "bdi");
      addText(isolated, evidence);
    }
  }
}

// ---- Controls ----

let waiting = null;
byId("query").addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(choose, 150);
});
byId("controls").addEventListener("submit", (event) => event.preventDefault());
for (const id of ["error", "error-system", "order", "system", "other"]) {
  byId(id).addEventListener("change", choose);
}
for (const id of ["base", "missing"]) byId(id).addEventListener("change", draw);
byId("size").addEventListener("change", () => {
  state.page = 0;
  draw();
});
for (const place of document.querySelectorAll(".pages")) {
  place.addEventListener("click", (event) => {
    const step = event.target.closest(".next") ? 1 : event.target.closest(".previous") ? -1 : 0;
    if (!step) return;
    state.page += step;
    draw();
    byId("sentences-heading").focus();
    byId("sentences-heading").scrollIntoView();
  });
}
// The counts of errors lead to their sentences.
byId("error-table").addEventListener("click", (event) => {
  const button = event.target.closest("button[data-error]");
  if (!button) return;
  byId("error").value = button.dataset.error;
  byId("error-system").value = button.dataset.system;
  choose();
  byId("sentences-heading").focus();
  byId("sentences-heading").scrollIntoView();
});

choose();
