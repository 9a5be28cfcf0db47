// Draws the alignment of a sentence as SVG: lines between the pieces, or a matrix of the weights.

const SVG = "http://www.w3.org/2000/svg";
const LEAST_WEIGHT = 0.05; // of a line that is drawn although the alignment is another one
const BOX = { height: 26, padding: 5, gap: 4 };
const ROW_DISTANCE = 120; // from the top of the source to the top of the translation
const CELL = 26;
const MARGIN = 4;

const canvas = document.createElement("canvas").getContext("2d");

/**
 * Replaces the content of a figure by the drawing of an alignment.
 *
 * @param {HTMLElement} figure contains the drawing; its font is used.
 * @param {object} alignment `source_pieces` and `target_pieces`; `hard`, pairs [i, j] of their
 *   indices; `soft`, for each target piece its weights on the source pieces and the source's end.
 * @param {string} drawing `lines` or `matrix`.
 * @param {string} title names the figure for screen readers.
 */
export function drawAlignment(figure, alignment, drawing, title) {
  canvas.font = "14px system-ui, sans-serif"; // that of the class `alignment` in page.css
  const svg = drawing === "matrix" ? drawMatrix(alignment) : drawLines(alignment);
  svg.setAttribute("role", "img");
  const pairs = alignment.hard.map(
    ([i, j]) => `${alignment.source_pieces[i]} → ${alignment.target_pieces[j]}`,
  );
  svg.prepend(make("title", {}, title), make("desc", {}, pairs.join(", ")));
  figure.replaceChildren(svg);
}

function make(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function makeCanvas(width, height) {
  return make("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
}

function textWidth(text) {
  return Math.ceil(canvas.measureText(text).width);
}

// ---- Lines ----

function drawLines({ source_pieces: sources, target_pieces: targets, hard, soft }) {
  const rows = [placeBoxes(sources), placeBoxes(targets)];
  const width = Math.max(...rows.map((row) => row.width)) + 2 * MARGIN;
  const svg = makeCanvas(width, ROW_DISTANCE + BOX.height + 2 * MARGIN);
  for (const row of rows) row.left = (width - row.width) / 2;

  const isHard = new Set(hard.map((pair) => pair.join("-")));
  const lines = [];
  soft.forEach((weights, j) => {
    weights.slice(0, sources.length).forEach((weight, i) => {
      const aligned = isHard.has(`${i}-${j}`);
      if (aligned || weight >= LEAST_WEIGHT) lines.push({ i, j, weight, aligned });
    });
  });
  lines.sort((a, b) => a.aligned - b.aligned); // the alignment on top
  svg.append(...lines.map((line) => drawLine(line, rows, sources, targets)));
  svg.append(...rows.flatMap((row, side) => row.boxes.map((box) => drawBox(box, row, side))));
  svg.addEventListener("pointerover", (event) => showRelated(svg, event.target));
  svg.addEventListener("pointerleave", () => showRelated(svg, null));
  return svg;
}

function placeBoxes(pieces) {
  let x = 0;
  const boxes = pieces.map((piece, index) => {
    const box = { piece, index, x, width: textWidth(piece) + 2 * BOX.padding };
    x += box.width + BOX.gap;
    return box;
  });
  return { boxes, width: Math.max(x - BOX.gap, 0) };
}

function drawLine({ i, j, weight, aligned }, [top, bottom], sources, targets) {
  const centre = (row, index) => row.left + row.boxes[index].x + row.boxes[index].width / 2;
  const line = make("line", {
    class: aligned ? "aligned" : "weight",
    x1: centre(top, i),
    y1: MARGIN + BOX.height,
    x2: centre(bottom, j),
    y2: MARGIN + ROW_DISTANCE,
    "stroke-width": 1 + 3 * weight,
    "stroke-opacity": aligned ? 0.4 + 0.6 * weight : weight,
    "data-side0": i,
    "data-side1": j,
  });
  line.append(make("title", {}, `${sources[i]} → ${targets[j]}: ${weight.toFixed(2)}`));
  return line;
}

function drawBox({ piece, index, x, width }, row, side) {
  const group = make("g", { class: "piece", "data-side": side, "data-index": index });
  const [left, top] = [row.left + x, MARGIN + side * ROW_DISTANCE];
  group.append(
    make("rect", { x: left, y: top, width, height: BOX.height, rx: 5 }),
    makeLabel(piece, left + width / 2, top + BOX.height / 2, "middle"),
  );
  return group;
}

function makeLabel(text, x, y, anchor) {
  const label = { x, y, "text-anchor": anchor, "dominant-baseline": "central" };
  return make("text", label, text);
}

function showRelated(svg, target) {
  const piece = target?.closest(".piece");
  svg.classList.toggle("has-selection", Boolean(piece));
  for (const line of svg.querySelectorAll("line")) {
    const index = piece && line.getAttribute(`data-side${piece.getAttribute("data-side")}`);
    line.classList.toggle("selected", Boolean(piece) && index === piece.getAttribute("data-index"));
  }
}

// ---- Matrix ----

function drawMatrix({ source_pieces: sources, target_pieces: targets, hard, soft }) {
  const columns = [...sources, "(end)"];
  const left = Math.max(0, ...targets.map(textWidth)) + 10;
  const top = Math.max(...columns.map(textWidth)) + 10;
  const width = left + columns.length * CELL + 2 * MARGIN;
  const svg = makeCanvas(width, top + targets.length * CELL + 2 * MARGIN);
  const x = (i) => MARGIN + left + i * CELL;
  const y = (j) => MARGIN + top + j * CELL;

  columns.forEach((piece, i) => {
    const label = makeLabel(piece, 0, 0, "start");
    label.setAttribute("transform", `translate(${x(i) + CELL / 2} ${MARGIN + top - 6}) rotate(-90)`);
    svg.append(label);
  });
  const isHard = new Set(hard.map((pair) => pair.join("-")));
  targets.forEach((piece, j) => {
    svg.append(makeLabel(piece, x(0) - 6, y(j) + CELL / 2, "end"));
    soft[j].forEach((weight, i) => {
      const cell = make("g", { class: isHard.has(`${i}-${j}`) ? "cell aligned" : "cell" });
      const place = { x: x(i) + 1, y: y(j) + 1, width: CELL - 2, height: CELL - 2, rx: 3 };
      cell.append(
        make("title", {}, `${columns[i]} → ${piece}: ${weight.toFixed(2)}`),
        make("rect", { ...place, class: "ground" }),
        make("rect", { ...place, class: "value", "fill-opacity": weight }),
      );
      svg.append(cell);
    });
  });
  return svg;
}
