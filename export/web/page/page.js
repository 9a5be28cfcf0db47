// The page: a form, a request to /api/translate, and the translations.
//
// Text from the server is only ever set as the text of an element, never as HTML.

import { drawAlignment } from "./alignment.js";

const byId = (id) => document.getElementById(id);

let model = null; // what /api/model says
let lastAnswer = null; // the lines that were sent, and their translations
let pending = null; // the AbortController of the request in progress

function makeElement(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function makeText(name, className, text) {
  const element = makeElement(name, className, text);
  element.dir = "auto"; // right to left where the text is
  return element;
}

// ---- What the model offers ----

async function loadModel() {
  try {
    model = await request("api/model");
  } catch (error) {
    showError(error);
    return;
  }
  byId("model").textContent = `model ${model.model}`;
  byId("num-best-choice").hidden = model.num_best < 2;
  byId("num-best").max = model.num_best;
  byId("alignment-choice").hidden = !model.alignment;
  byId("confidence-choice").hidden = !model.confidence;
  fillLanguages("target-language", model.target_languages);
  fillLanguages("source-language", model.source_languages);
  byId("options-choice").hidden = model.options.length === 0;
  byId("options").replaceChildren(...model.options.map(makeOption));
  byId("translate").disabled = !model.translates;
  if (!model.translates) showError(new Error("The model offers no translation of text."));
  showCount();
}

function fillLanguages(id, languages) {
  byId(`${id}-choice`).hidden = languages.length === 0;
  byId(id).replaceChildren(
    ...languages.map((language) => {
      const option = makeElement("option", "", language);
      option.value = language;
      return option;
    }),
  );
}

function makeOption(option) {
  const label = makeElement("label", "option");
  label.append(makeElement("span", "name", option.name.replaceAll("_", " ")));
  const input = makeElement("input");
  Object.assign(input, {
    type: "number",
    id: `option-${option.name}`,
    name: option.name,
    min: 0,
    max: option.largest,
    step: option.is_integer ? 1 : "any",
    placeholder: option.unset_meaning,
    inputMode: option.is_integer ? "numeric" : "decimal",
  });
  label.append(input, makeElement("span", "description", option.description));
  return label;
}

// ---- Sending a request ----

async function request(path, body, signal) {
  const settings = { signal, headers: { Accept: "application/json" } };
  if (body !== undefined) {
    settings.method = "POST";
    settings.headers["Content-Type"] = "application/json";
    settings.body = JSON.stringify(body);
  }
  let response;
  let answer = null;
  try {
    response = await fetch(path, settings);
    answer = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    // The answer of a proxy or of an overloaded server need not be JSON.
    if (!response) throw new Error("The page's server cannot be reached.");
  }
  if (response.ok && answer !== null) return answer;
  const message = answer?.error ?? `the server answered with status ${response.status}`;
  const wait = response.headers.get("Retry-After");
  throw new Error(asSentence(wait ? `${message} (in ${wait} seconds)` : message));
}

function asSentence(message) {
  return `${message.charAt(0).toUpperCase()}${message.slice(1).replace(/\.$/, "")}.`;
}

function sourceLines() {
  const lines = byId("source").value.split(/\r\n|\r|\n/);
  while (lines.length && !lines.at(-1).trim()) lines.pop();
  return lines;
}

function makeRequest() {
  const body = { lines: sourceLines() };
  if (model.num_best > 1) body.num_best = Number(byId("num-best").value || 1);
  if (model.alignment) body.alignment = byId("alignment").checked;
  if (model.confidence) body.confidence = byId("confidence").checked;
  for (const name of ["target_language", "source_language"]) {
    const select = byId(name.replace("_", "-"));
    if (select.options.length) body[name] = select.value;
  }
  const options = {};
  for (const option of model.options) {
    const { value } = byId(`option-${option.name}`);
    if (value !== "") options[option.name] = Number(value);
  }
  if (Object.keys(options).length) body.options = options;
  return body;
}

async function translate() {
  if (!byId("form").reportValidity()) return;
  if (model === null) await loadModel();
  if (model === null || !model.translates) return;
  const body = makeRequest();
  if (body.lines.length === 0) {
    byId("source").focus();
    return;
  }
  pending?.abort();
  const mine = new AbortController();
  pending = mine;
  hideError();
  byId("status").textContent = "Translating …";
  byId("results").setAttribute("aria-busy", "true");
  try {
    const answer = await request("api/translate", body, mine.signal);
    lastAnswer = { lines: body.lines, ...answer };
    showAnswer();
    byId("status").textContent = `${answer.seconds.toFixed(2)} s`;
  } catch (error) {
    if (error.name === "AbortError") return; // a newer request has replaced this one
    byId("status").textContent = "";
    showError(error);
  } finally {
    if (pending === mine) {
      pending = null;
      byId("results").removeAttribute("aria-busy");
    }
  }
}

// ---- Showing the answer ----

function showError(error) {
  byId("error").textContent = error.message;
  byId("error").hidden = false;
}

function hideError() {
  byId("error").hidden = true;
  byId("error").textContent = "";
}

function showCount() {
  const lines = sourceLines();
  const characters = lines.reduce((sum, line) => sum + [...line].length, 0);
  // How many sentences these are, the server finds out.
  const isTooLong = model !== null && characters > model.max_characters;
  const limit = isTooLong ? ` (at most ${model.max_characters})` : "";
  byId("count").textContent = characters ? `${characters} characters${limit}` : "";
  byId("count").classList.toggle("too-long", isTooLong);
}

function showAnswer() {
  const { lines, translations } = lastAnswer;
  byId("drawing-choice").hidden = !translations.some((found) =>
    sentencesOf(found).some((sentence) => sentence.alignment),
  );
  const items = [];
  translations.forEach((found, index) => {
    if (found !== null) items.push(makeResult(lines[index], found, index + 1));
  });
  byId("results").replaceChildren(...items);
}

// The results of the sentences of a line that were translated on their own, or that of the line.
function sentencesOf(found) {
  return found?.sentences ?? (found === null ? [] : [found]);
}

function makeResult(line, found, number) {
  const item = makeElement("li", "result");
  item.append(makeText("p", "source", line));
  const [best] = found.best;
  const sentences = sentencesOf(found);
  const judged = sentences.map(({ confidence }) => confidence).filter(Boolean);
  item.append(
    judged.length
      ? makeConfidentText(best.text, judged.flatMap(({ words }) => words))
      : makeText("p", "translation", best.text),
  );
  const facts = makeElement("p", "facts", `score ${best.score.toFixed(3)}`);
  if (judged.length) {
    const mean = judged.reduce((sum, { mean }) => sum + mean, 0) / judged.length;
    facts.append(`, confidence ${percent(mean)}`);
  }
  if (found.truncated) {
    facts.append(" ", makeElement("strong", "truncated", "truncated"));
    facts.append(" The sentence is longer than the model's limit; its end was not translated.");
  }
  item.append(facts);
  sentences.forEach(({ best: all, alignment }, index) => {
    const where = sentences.length > 1 ? `line ${number}, sentence ${index + 1}` : `line ${number}`;
    if (all.length > 1) item.append(makeTable(all, where));
    if (alignment) item.append(makeFigure(alignment, where));
  });
  return item;
}

// Words that are probably wrong are underlined; the title of each says how probable it is right.
// Between words is what the text has there: nothing, in a language without spaces.
function makeConfidentText(text, words) {
  const paragraph = makeText("p", "translation");
  let position = 0;
  words.forEach(([word, confidence], index) => {
    const start = text.indexOf(word, position);
    const gap = start < 0 ? " " : text.slice(position, start);
    if (start >= 0) position = start + word.length;
    const span = makeElement("span", "word", word);
    span.title = `${percent(confidence)} confident`;
    if (confidence < 0.5) span.classList.add("doubtful");
    else if (confidence < 0.8) span.classList.add("uncertain");
    paragraph.append(index ? gap : "", span);
  });
  return paragraph;
}

function percent(value) {
  return `${Math.round(100 * value)} %`;
}

function makeTable(best, where) {
  const table = makeElement("table", "best");
  table.append(makeElement("caption", "", `The ${best.length} best translations of ${where}`));
  const head = makeElement("tr");
  for (const title of ["rank", "score", "tokens", "translation"]) {
    const cell = makeElement("th", "", title);
    cell.scope = "col";
    head.append(cell);
  }
  const thead = makeElement("thead");
  thead.append(head);
  const body = makeElement("tbody");
  best.forEach(({ text, score, num_tokens: numTokens }, index) => {
    const row = makeElement("tr");
    row.append(
      makeElement("td", "number", index + 1),
      makeElement("td", "number", score.toFixed(3)),
      makeElement("td", "number", numTokens),
      makeText("td", "", text),
    );
    body.append(row);
  });
  table.append(thead, body);
  return table;
}

function makeFigure(alignment, where) {
  const figure = makeElement("figure", "alignment");
  // It can be wider than the page; with the focus, the arrow keys scroll it.
  figure.tabIndex = 0;
  const drawing = document.querySelector("input[name=drawing]:checked").value;
  drawAlignment(figure, alignment, drawing, `Alignment of ${where}`);
  return figure;
}

// ---- Events ----

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  translate();
});
byId("source").addEventListener("input", showCount);
byId("options").addEventListener(
  "invalid",
  () => {
    byId("options-choice").open = true; // the browser shows its message at the field
  },
  true,
);
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    translate();
  }
});
byId("drawing-choice").addEventListener("change", () => {
  if (lastAnswer !== null) showAnswer();
});
loadModel();
