// The beam search of a sentence: the tree of its hypotheses, grown step by step.

const SVG = "http://www.w3.org/2000/svg";
const ROW = 30, BOX = 22, PADDING = 6, GAP = 28, MARGIN = 4, SCORE_WIDTH = 52;
const LONGEST_LABEL = 16;
const PLAY_DELAY = 900; // milliseconds a step

const search = {nodes: [], lines: null, step: 0, timer: null};

function makeSvg(parent, name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

const measure = document.createElement("canvas").getContext("2d");

function textWidth(text) {
  measure.font = getComputedStyle(byId("tree")).font;
  return Math.ceil(measure.measureText(text).width);
}

function shorten(text) {
  const letters = [...text];
  return letters.length > LONGEST_LABEL ? `${letters.slice(0, LONGEST_LABEL - 1).join("")}…` : text;
}

// ---- Nodes ----

// Returns the nodes of a search with their places; the root has the begin of the target.
function placeNodes(recorded, begin) {
  const nodes = [];
  for (const [parent, piece, row, logProb, score] of recorded.nodes) {
    const depth = parent === null ? 0 : nodes[parent].depth + 1;
    const label = shorten(showHidden(piece ?? begin));
    nodes.push({
      parent, piece: piece ?? begin, row, logProb, score, depth, label, width: textWidth(label),
    });
  }
  const columns = [];
  for (const node of nodes) columns[node.depth] = Math.max(columns[node.depth] ?? 0, node.width);
  let left = MARGIN;
  const edges = columns.map((width) => {
    const edge = left;
    left += width + 2 * PADDING + GAP;
    return edge;
  });
  for (const node of nodes) {
    node.x = edges[node.depth];
    node.y = MARGIN + ROW * (node.row + 0.5);
    node.turn = node.x - GAP / 2; // where the line to it turns
  }
  return {nodes, width: left - GAP + SCORE_WIDTH};
}

// The nodes of a hypothesis, the root first.
function pathTo(index) {
  const path = [];
  for (let at = index; at !== null; at = search.nodes[at].parent) path.unshift(at);
  return path;
}

// ---- Tree ----

function drawTree() {
  const sentence = data.sentences[state.sentence];
  const placed = placeNodes(sentence.search, sentence.target[0]);
  search.nodes = placed.nodes;
  const height = ROW * (1 + Math.max(...search.nodes.map((node) => node.row))) + 2 * MARGIN;
  const tree = byId("tree");
  tree.replaceChildren();
  const svg = makeSvg(tree, "svg", {
    width: placed.width, height, viewBox: `0 0 ${placed.width} ${height}`, role: "img",
    "aria-label": "tree of the hypotheses; the tables below have what it shows",
  });
  search.lines = makeSvg(svg, "g", {}); // below all boxes
  for (const node of search.nodes) {
    if (node.parent === null) continue;
    const parent = search.nodes[node.parent];
    node.line = makeSvg(search.lines, "path", {
      d: `M${parent.x + parent.width + 2 * PADDING} ${parent.y}H${node.turn}V${node.y}H${node.x}`,
    });
  }
  for (const node of search.nodes) node.box = drawNode(svg, node);
}

function drawNode(svg, node) {
  const group = makeSvg(svg, "g", {});
  makeSvg(group, "title", {}, `${showHidden(node.piece)}: log-probability ${node.logProb.toFixed(3)}`);
  makeSvg(group, "rect", {
    x: node.x, y: node.y - BOX / 2, width: node.width + 2 * PADDING, height: BOX, rx: 5,
  });
  makeSvg(group, "text", {x: node.x + PADDING, y: node.y, "dominant-baseline": "central"}, node.label);
  if (node.score !== null) {
    makeSvg(group, "text", {
      class: "score", x: node.x + node.width + 2 * PADDING + 6, y: node.y,
      "dominant-baseline": "central",
    }, node.score.toFixed(3));
  }
  return group;
}

const FATES = ["later", "dropped", "ended", "live", "best"];

// What has become of each node after some steps, one of `FATES`.
function fatesAfter(step, recorded) {
  const fates = search.nodes.map((node) => (node.depth > step ? "later" : "dropped"));
  const isOver = step === recorded.numSteps;
  search.nodes.forEach((node, index) => {
    const hasEnded = node.score !== null && node.depth <= step;
    const isLive = node.score === null && node.depth === step && !isOver;
    if (!hasEnded && !isLive) return;
    for (const at of pathTo(index)) {
      if (isLive || fates[at] === "dropped") fates[at] = isLive ? "live" : "ended";
    }
  });
  const best = recorded.finished[0][3];
  if (isOver && best !== null) for (const at of pathTo(best)) fates[at] = "best";
  return fates;
}

function showStep(step) {
  const recorded = data.sentences[state.sentence].search;
  search.step = step;
  const fates = fatesAfter(step, recorded);
  search.nodes.forEach((node, index) => {
    node.box.setAttribute("class", `node ${fates[index]}`);
    if (node.line) node.line.setAttribute("class", `line ${fates[index]}`);
  });
  // Where lines share their way, the best is on top.
  for (const fate of FATES) search.lines.append(...search.lines.querySelectorAll(`.${fate}`));
  const last = recorded.steps.length;
  byId("step").max = last;
  byId("step").value = step;
  byId("step").setAttribute("aria-valuetext", `${step} of ${recorded.numSteps}`);
  byId("back").disabled = step === 0;
  byId("forward").disabled = step === last;
  const cut = byId("cut");
  cut.hidden = last === recorded.numSteps;
  cut.textContent = `The first ${last} of ${recorded.numSteps} steps are drawn.`;
  describeStep(step, recorded);
  drawCandidates(step, recorded);
  drawFinished(step, recorded);
  followTree(step);
}

function describeStep(step, recorded) {
  const live = search.nodes.filter((node) => node.score === null && node.depth === step).length;
  const ended = search.nodes.filter((node) => node.score !== null && node.depth <= step).length;
  const parts = [`Step ${step} of ${recorded.numSteps}: ${live} in the beam, ${ended} ended.`];
  if (step === recorded.numSteps) {
    parts.push(live ? "The search is over: those in the beam cannot become better than those that " +
      "ended." : "The search is over.");
  }
  byId("state").textContent = parts.join(" ");
}

// Scrolls the tree, not the page, so that the newest tokens can be seen.
function followTree(step) {
  const tree = byId("tree");
  const newest = search.nodes.find((node) => node.depth === step);
  if (!newest) return;
  const right = newest.x + newest.width + SCORE_WIDTH + GAP;
  if (right > tree.scrollLeft + tree.clientWidth || newest.x < tree.scrollLeft) {
    tree.scrollLeft = right - tree.clientWidth;
  }
}

// ---- Tables ----

function textOf(index) {
  return pathTo(index).map((at) => search.nodes[at].piece);
}

function drawCandidates(step, recorded) {
  const body = byId("candidates").tBodies[0];
  body.replaceChildren();
  const candidates = step ? recorded.steps[step - 1] : [];
  byId("candidates-hint").textContent = step
    ? `The most probable extensions that step ${step} chose from.`
    : "Before the first step, the only hypothesis is the begin.";
  byId("candidates").hidden = !candidates.length;
  for (const [parent, piece, tokenLogProb, logProb, node] of candidates) {
    const row = add(body, "tr", node === null ? "dropped" : "kept");
    addTokens(add(row, "td"), textOf(parent));
    addTokens(add(row, "th"), [piece]).scope = "row";
    add(row, "td", "number", `${(100 * Math.exp(tokenLogProb)).toFixed(1)} %`);
    add(row, "td", "number", logProb.toFixed(3));
    const score = node === null ? null : search.nodes[node].score;
    add(row, "td", "", node === null ? "dropped"
      : score === null ? "stays in the beam" : `ends, score ${score.toFixed(3)}`);
  }
}

const MOST_TOKENS = 6;

function addTokens(cell, tokens) {
  if (tokens.length > MOST_TOKENS) cell.append("… ");
  tokens.slice(-MOST_TOKENS).forEach((token, index) => {
    if (index) cell.append(" ");
    addText(add(cell, "bdi", "piece"), token);
  });
  return cell;
}

function drawFinished(step, recorded) {
  const body = byId("finished").tBodies[0];
  body.replaceChildren();
  const isOver = step === recorded.numSteps || step === recorded.steps.length;
  recorded.finished.forEach(([length, score, logProb, node], index) => {
    if (!isOver && (node === null || search.nodes[node].depth > step)) return;
    const row = add(body, "tr");
    add(row, "td", "number", score.toFixed(3));
    addParagraph(add(row, "td", "value"), data.sentences[state.sentence].translations[index], null);
    add(row, "td", "number", logProb.toFixed(3));
    add(row, "td", "number", String(length));
  });
  byId("finished").hidden = !body.rows.length;
  byId("none-ended").hidden = body.rows.length > 0;
}

// ---- Player ----

function stopPlaying() {
  clearInterval(search.timer);
  search.timer = null;
  byId("play").textContent = "Play";
}

function startPlaying() {
  const last = Number(byId("step").max);
  if (search.step === last) showStep(0);
  byId("play").textContent = "Pause";
  search.timer = setInterval(() => {
    showStep(search.step + 1);
    if (search.step === last) stopPlaying();
  }, PLAY_DELAY);
}

byId("play").addEventListener("click", () => (search.timer ? stopPlaying() : startPlaying()));
for (const [id, change] of [["back", -1], ["forward", 1]]) {
  byId(id).addEventListener("click", () => {
    stopPlaying();
    showStep(search.step + change);
  });
}
byId("step").addEventListener("input", () => {
  stopPlaying();
  showStep(Number(byId("step").value));
});
