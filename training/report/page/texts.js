"use strict";
// Texts on the page: always as text, never as markup. Words that differ are marked, hidden
// characters become visible.

const byId = (id) => document.getElementById(id);

function add(parent, tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

// As in hidden_characters.py.
const HIDDEN = new RegExp(
  "([\\x00-\\x08\\x0a-\\x1f\\x7f-\\x9f\\xad\\u061c\\u200b\\u200e\\u200f\\u2028-\\u202e" +
  "\\u2060-\\u2069\\ufeff\\ufff9-\\ufffb\\u{e0000}-\\u{e007f}])", "u");

const nameHidden = (character) =>
  `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

function addText(parent, text) {
  text.split(HIDDEN).forEach((part, index) => {
    if (index % 2) {
      add(parent, "span", "hidden-character", nameHidden(part));
    } else if (part) {
      parent.append(part);
    }
  });
}

// A text for where there is no markup, such as in a drawing or a label.
const showHidden = (text) =>
  text.split(HIDDEN).map((part, index) => (index % 2 ? nameHidden(part) : part)).join("");

// ---- Words, as in words.py, and what stands between them ----

const UNSPACED = "[\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Thai}" +
  "\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}]";
const LETTERS = `(?:(?!${UNSPACED})[\\p{L}\\p{M}\\p{N}_])+`;
const PIECES = new RegExp(`${UNSPACED}|${LETTERS}(?:['’.,:\\-]${LETTERS})*|\\s+|[^]`, "gu");

function splitPieces(text) {
  const pieces = [];
  let space = "";
  for (const piece of text.match(PIECES) || []) {
    if (piece.trim()) {
      pieces.push({space, word: piece});
      space = "";
    } else {
      space += piece;
    }
  }
  return {pieces, end: space};
}

// ---- Differences ----

// Larger products of two lengths take longer than a page may.
const MAX_PRODUCT = 4e6;

// Returns pairs of indices of words that a longest common subsequence consists of.
function commonWords(ours, theirs) {
  let start = 0;
  const pairs = [];
  while (start < ours.length && start < theirs.length && ours[start] === theirs[start]) {
    pairs.push([start, start]);
    start += 1;
  }
  let ourEnd = ours.length, theirEnd = theirs.length;
  const atEnd = [];
  while (ourEnd > start && theirEnd > start && ours[ourEnd - 1] === theirs[theirEnd - 1]) {
    ourEnd -= 1;
    theirEnd -= 1;
    atEnd.push([ourEnd, theirEnd]);
  }
  const rows = ourEnd - start, columns = theirEnd - start;
  if (rows * columns <= MAX_PRODUCT) {
    pairs.push(...commonInTheMiddle(ours, theirs, start, rows, columns));
  }
  return pairs.concat(atEnd.reverse());
}

function commonInTheMiddle(ours, theirs, start, rows, columns) {
  const width = columns + 1;
  const lengths = new Uint16Array((rows + 1) * width);
  for (let row = rows - 1; row >= 0; row -= 1) {
    for (let column = columns - 1; column >= 0; column -= 1) {
      const at = row * width + column;
      lengths[at] = ours[start + row] === theirs[start + column]
        ? lengths[at + width + 1] + 1
        : Math.max(lengths[at + width], lengths[at + 1]);
    }
  }
  const pairs = [];
  let row = 0, column = 0;
  while (row < rows && column < columns) {
    const at = row * width + column;
    if (ours[start + row] === theirs[start + column]) {
      pairs.push([start + row, start + column]);
      row += 1;
      column += 1;
    } else if (lengths[at + width] >= lengths[at + 1]) {
      row += 1;
    } else {
      column += 1;
    }
  }
  return pairs;
}

// Adds a text; words that the base does not have are `ins`, those that are missing `del`.
function addDifferences(parent, text, base, showsMissing) {
  const ours = splitPieces(text), theirs = splitPieces(base);
  const pairs = commonWords(
    ours.pieces.map((piece) => piece.word), theirs.pieces.map((piece) => piece.word));
  let our = 0, their = 0;
  for (const [ourNext, theirNext] of [...pairs, [ours.pieces.length, theirs.pieces.length]]) {
    if (showsMissing && their < theirNext) {
      addRun(parent, "del", theirs.pieces.slice(their, theirNext));
    }
    if (our < ourNext) addRun(parent, "ins", ours.pieces.slice(our, ourNext));
    const common = ours.pieces[ourNext];
    if (common) {
      addText(parent, common.space);
      addText(parent, common.word);
    }
    our = ourNext + 1;
    their = theirNext + 1;
  }
  addText(parent, ours.end);
}

function addRun(parent, tag, pieces) {
  if (tag === "ins") addText(parent, pieces[0].space);
  const element = add(parent, tag);
  pieces.forEach((piece, index) => addText(element, (index ? piece.space : "") + piece.word));
}

// ---- Paragraphs ----

const MOST_CHARACTERS = 1000;

// Adds a paragraph of a text, cut where it is very long, isolated from the direction of others.
function addParagraph(parent, text, base, showsMissing) {
  const paragraph = add(parent, "p", "text");
  paragraph.dir = "auto";
  if (!text.trim()) add(paragraph, "span", "nothing", text ? "only spaces" : "empty");
  const draw = (shown) => {
    if (base === null) addText(paragraph, shown);
    else addDifferences(paragraph, shown, base.slice(0, shown.length + MOST_CHARACTERS), showsMissing);
  };
  if (text.length <= MOST_CHARACTERS) {
    draw(text);
    return;
  }
  draw(text.slice(0, MOST_CHARACTERS));
  const more = add(parent, "button", "more", `show all ${text.length.toLocaleString()} characters`);
  more.type = "button";
  more.addEventListener("click", () => {
    paragraph.replaceChildren();
    draw(text);
    more.remove();
  });
}
