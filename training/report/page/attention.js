// Attention weights of a sentence: token by token, as a map, and all heads at a glance.

const state = {sentence: 0, part: null, layer: null, head: "mean", held: null, matrix: null};

// ---- Weights ----

// Returns the weights of a part, `levels` for 1, a byte each.
async function unpackWeights(packed) {
  const bytes = Uint8Array.from(atob(packed.bytes), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const unpacked = new Map();

function weightsOf(packed) {
  if (!unpacked.has(packed)) unpacked.set(packed, unpackWeights(packed));
  return unpacked.get(packed);
}

// Returns views of the weights of all heads of a layer, rows after rows.
function headsOf(packed, bytes, layer, size) {
  const start = packed.heads.slice(0, layer).reduce((sum, heads) => sum + heads, 0);
  return Array.from({length: packed.heads[layer]}, (_, head) =>
    bytes.subarray((start + head) * size, (start + head + 1) * size));
}

// Returns the weights from 0 to 1 of one head, or the mean or the maximum of all.
function combine(heads, which) {
  const weights = new Float32Array(heads[0].length);
  const chosen = which === "mean" || which === "max" ? heads : [heads[which]];
  for (const head of chosen) {
    for (let index = 0; index < weights.length; index += 1) {
      const weight = head[index] / data.levels;
      if (which === "max") weights[index] = Math.max(weights[index], weight);
      else weights[index] += weight / chosen.length;
    }
  }
  return weights;
}

const percent = (weight) => `${Math.round(100 * weight)} %`;

// ---- Choice ----

function fillSelect(select, options) {
  const before = select.value;
  select.replaceChildren(...options.map(([value, title, isDisabled]) => {
    const option = new Option(title, value);
    option.disabled = Boolean(isDisabled);
    return option;
  }));
  if (options.some(([value, , isDisabled]) => String(value) === before && !isDisabled)) {
    select.value = before;
  }
}

function chosenPart() {
  return data.parts.find((part) => part.name === state.part);
}

// Offers the layers and heads of the part; the layer is at first the last but one, in which
// cross-attention is mostly an alignment.
function offerLayers() {
  const {heads} = data.sentences[state.sentence].weights[state.part];
  state.layer = Math.min(state.layer ?? Math.max(heads.length - 2, 0), heads.length - 1);
  fillSelect(byId("layer"), heads.map((_, layer) => [layer, `${layer + 1} of ${heads.length}`]));
  byId("layer").value = state.layer;
  const count = heads[state.layer];
  if (state.head >= count) state.head = "mean";
  fillSelect(byId("head"), [
    ["mean", "mean of the heads"], ["max", "maximum of the heads"],
    ...Array.from({length: count}, (_, head) => [head, `${head + 1} of ${count}`]),
  ]);
  byId("head").value = state.head;
}

async function drawAttention() {
  const sentence = data.sentences[state.sentence];
  const part = chosenPart();
  const packed = sentence.weights[state.part];
  const [rows, columns] = part.sides.map((side) => sentence[side]);
  const chosen = JSON.stringify([state.sentence, state.part, state.layer, state.head]);
  const bytes = await weightsOf(packed);
  // Another one may have been chosen while these were unpacked.
  const now = JSON.stringify([state.sentence, state.part, state.layer, state.head]);
  if (now !== chosen) return;
  const heads = headsOf(packed, bytes, state.layer, rows.length * columns.length);
  state.matrix = {
    rows, columns, weights: combine(heads, state.head),
    next: part.sides[0] === "target" ? sentence.next : null,
  };
  byId("meaning").textContent =
    `Shown is ${part.title}, ${describeChoice()}. ${part.meaning}`;
  drawStrips();
  drawMap();
  drawOverview(packed, bytes);
  show(state.held);
}

// ---- Token by token ----

const SIDE_NAMES = {source: "Source", target: "Decoder input"};

function drawStrips() {
  const {rows, columns, next} = state.matrix;
  const sides = chosenPart().sides;
  byId("queries-name").textContent = `${SIDE_NAMES[sides[0]]}: attends to`;
  byId("keys-name").textContent = `${SIDE_NAMES[sides[1]]}: is attended to`;
  drawStrip(byId("queries"), "row", rows, next);
  drawStrip(byId("keys"), "column", columns, null);
}

function drawStrip(strip, axis, tokens, next) {
  strip.replaceChildren();
  tokens.forEach((token, index) => {
    const button = add(strip, "button", "token");
    button.type = "button";
    button.dataset.axis = axis;
    button.dataset.index = index;
    button.tabIndex = index ? -1 : 0;
    addText(add(button, "bdi", "piece"), token);
    if (next) {
      const prediction = add(button, "small", "next");
      add(prediction, "span", "", "→ ");
      addText(add(prediction, "bdi"), next[index]);
    }
    add(button, "small", "weight");
  });
}

// Shows the weights of a token: of a row those it gives, of a column those it gets.
function show(place) {
  if (state.matrix === null) return;
  const {columns, weights} = state.matrix;
  const ofRow = place?.axis === "row";
  for (const button of byId("strips").querySelectorAll(".token")) {
    const {axis} = button.dataset;
    const index = Number(button.dataset.index);
    const isChosen = place !== null && axis === place.axis && index === place.index;
    const isOther = place !== null && axis !== place.axis;
    const at = ofRow ? place.index * columns.length + index : index * columns.length + place?.index;
    const weight = isOther ? weights[at] : 0;
    button.classList.toggle("chosen", isChosen);
    button.setAttribute("aria-pressed", String(isHeld(axis, index)));
    // Small weights can be told apart by the root; the number is the weight.
    button.style.setProperty("--colour", Math.sqrt(weight));
    button.querySelector(".weight").textContent = isOther && weight >= 0.005 ? percent(weight) : "";
  }
  showCursor(place);
  describe(place);
}

const isHeld = (axis, index) => state.held?.axis === axis && state.held.index === index;

const MOST_NAMED = 5;

function describe(place) {
  const reading = byId("reading");
  reading.replaceChildren();
  if (place === null) {
    reading.textContent = "No token is chosen.";
    return;
  }
  const {rows, columns, weights, next} = state.matrix;
  const ofRow = place.axis === "row";
  addQuoted(reading, (ofRow ? rows : columns)[place.index]);
  if (ofRow && next) {
    reading.append(", which predicts ");
    addQuoted(reading, next[place.index]);
    reading.append(",");
  }
  reading.append(ofRow ? " attends to " : " is attended to by ");
  const others = (ofRow ? columns : rows).map((token, index) => ({
    token,
    weight: weights[ofRow ? place.index * columns.length + index
      : index * columns.length + place.index],
  })).filter(({weight}) => weight >= 0.005).sort((a, b) => b.weight - a.weight);
  others.slice(0, MOST_NAMED).forEach(({token, weight}, index) => {
    if (index) reading.append(", ");
    addQuoted(reading, token);
    reading.append(` ${percent(weight)}`);
  });
  if (!others.length) reading.append("nothing");
  reading.append(others.length > MOST_NAMED ? ", and less to others." : ".");
}

function addQuoted(parent, token) {
  addText(add(parent, "bdi", "quoted"), token);
}

function placeOf(event) {
  const token = event.target.closest(".token");
  return token && {axis: token.dataset.axis, index: Number(token.dataset.index)};
}

function hold(place) {
  state.held = place && !isHeld(place.axis, place.index) ? place : null;
  show(state.held);
}

// Moves the focus among elements of which one is reached by Tab.
function moveFocus(event, elements, columns) {
  const steps = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns};
  const index = elements.indexOf(document.activeElement);
  let next = index + (steps[event.key] ?? 0);
  if (event.key === "Home") next = 0;
  if (event.key === "End") next = elements.length - 1;
  if (index < 0 || next === index || !elements[next]) return;
  event.preventDefault();
  elements[index].tabIndex = -1;
  elements[next].tabIndex = 0;
  elements[next].focus();
}

for (const strip of [byId("queries"), byId("keys")]) {
  strip.addEventListener("pointerover", (event) => {
    const place = placeOf(event);
    if (place && event.pointerType === "mouse") show(place);
  });
  strip.addEventListener("pointerleave", () => show(state.held));
  strip.addEventListener("focusin", (event) => {
    if (event.target.matches(":focus-visible")) show(placeOf(event));
  });
  strip.addEventListener("focusout", () => show(state.held));
  strip.addEventListener("click", (event) => {
    const place = placeOf(event);
    if (place) hold(place);
  });
  strip.addEventListener("keydown", (event) => moveFocus(event, [...strip.children], 1));
}

// ---- Maps ----

// Seen on light and on dark ground.
const INK = [47, 120, 216];
const LARGEST_CELL = 26, SMALLEST_CELL = 8, MAP_WIDTH = 1100;

function paint(canvas, weights, rows, columns) {
  canvas.width = columns;
  canvas.height = rows;
  const image = new ImageData(columns, rows);
  for (let index = 0; index < weights.length; index += 1) {
    image.data.set(INK, 4 * index);
    image.data[4 * index + 3] = Math.round(255 * weights[index]);
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

function drawMap() {
  const {rows, columns, weights, next} = state.matrix;
  const map = byId("map");
  map.replaceChildren();
  const cell = Math.floor(Math.min(
    LARGEST_CELL, Math.max(SMALLEST_CELL, MAP_WIDTH / Math.max(rows.length, columns.length))));
  map.style.setProperty("--cell", `${cell}px`);
  const table = add(map, "div", "map");
  table.classList.toggle("fine", cell < 14);
  const top = add(table, "div", "map-columns");
  for (const token of columns) addText(add(top, "bdi"), token);
  const left = add(table, "div", "map-rows");
  rows.forEach((token, index) => {
    const label = add(left, "div");
    addText(add(label, "bdi"), token);
    if (next) {
      const prediction = add(label, "small", "next", " → ");
      addText(add(prediction, "bdi"), next[index]);
    }
  });
  const body = add(table, "div", "map-body");
  const canvas = add(body, "canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${chosenPart().title}, ${describeChoice()}`);
  canvas.style.width = `${cell * columns.length}px`;
  canvas.style.height = `${cell * rows.length}px`;
  paint(canvas, weights, rows.length, columns.length);
  for (const axis of ["row", "column"]) add(body, "div", `cursor ${axis}`).hidden = true;
  const placeAt = (event) => {
    const box = canvas.getBoundingClientRect();
    return [
      Math.min(rows.length - 1, Math.max(0, Math.floor((event.clientY - box.top) / cell))),
      Math.min(columns.length - 1, Math.max(0, Math.floor((event.clientX - box.left) / cell))),
    ];
  };
  canvas.addEventListener("pointermove", (event) => {
    const [row, column] = placeAt(event);
    show({axis: "row", index: row});
    canvas.title = `${showHidden(rows[row])} – ${showHidden(columns[column])}: ` +
      percent(weights[row * columns.length + column]);
  });
  canvas.addEventListener("pointerleave", () => show(state.held));
  canvas.addEventListener("click", (event) => hold({axis: "row", index: placeAt(event)[0]}));
}

function describeChoice() {
  const head = {mean: "mean of the heads", max: "maximum of the heads"}[state.head] ??
    `head ${Number(state.head) + 1}`;
  return `layer ${state.layer + 1}, ${head}`;
}

function showCursor(place) {
  for (const axis of ["row", "column"]) {
    const cursor = byId("map").querySelector(`.cursor.${axis}`);
    cursor.hidden = place?.axis !== axis;
    if (!cursor.hidden) cursor.style.setProperty("--index", place.index);
  }
}

// ---- All heads ----

const THUMBNAIL = 64;

// Returns weights with at most `THUMBNAIL` rows and columns, each the largest of several.
function shrink(weights, rows, columns) {
  const [tall, wide] = [rows, columns].map((size) => Math.ceil(size / THUMBNAIL));
  const [height, width] = [Math.ceil(rows / tall), Math.ceil(columns / wide)];
  const small = new Float32Array(height * width);
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const at = Math.floor(row / tall) * width + Math.floor(column / wide);
      small[at] = Math.max(small[at], weights[row * columns + column] / data.levels);
    }
  }
  return [small, height, width];
}

// The overview that is on the page: it is drawn anew only for another sentence or part.
let drawn = null;

function drawOverview(packed, bytes) {
  const overview = byId("overview");
  if (drawn !== packed) {
    drawn = packed;
    const {rows, columns} = state.matrix;
    overview.replaceChildren();
    packed.heads.forEach((count, layer) => {
      const line = add(overview, "div", "heads");
      add(line, "span", "layer", `layer ${layer + 1}`);
      headsOf(packed, bytes, layer, rows.length * columns.length).forEach((weights, head) => {
        const button = add(line, "button");
        button.type = "button";
        button.tabIndex = -1;
        Object.assign(button.dataset, {layer, head});
        button.setAttribute("aria-label", `layer ${layer + 1}, head ${head + 1} of ${count}`);
        paint(add(button, "canvas"), ...shrink(weights, rows.length, columns.length));
      });
    });
    overview.querySelector("button").tabIndex = 0;
  }
  for (const button of overview.querySelectorAll("button")) {
    const {layer, head} = button.dataset;
    const isChosen = Number(layer) === state.layer && head === String(state.head);
    button.setAttribute("aria-pressed", String(isChosen));
  }
}

byId("overview").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  state.layer = Number(button.dataset.layer);
  state.head = Number(button.dataset.head);
  offerLayers();
  drawAttention();
});
byId("overview").addEventListener("keydown", (event) => moveFocus(
  event, [...byId("overview").querySelectorAll("button")],
  Math.max(...data.sentences[state.sentence].weights[state.part].heads)));

// ---- Controls ----

byId("part").addEventListener("change", () => {
  state.part = byId("part").value;
  Object.assign(state, {held: null, layer: null});
  offerLayers();
  drawAttention();
});
byId("layer").addEventListener("change", () => {
  state.layer = Number(byId("layer").value);
  offerLayers();
  drawAttention();
});
byId("head").addEventListener("change", () => {
  const {value} = byId("head");
  state.head = value === "mean" || value === "max" ? value : Number(value);
  drawAttention();
});
