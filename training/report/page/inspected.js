// The sentences of the page, of which one is shown.

const data = JSON.parse(byId("data").textContent);

function drawTexts() {
  const sentence = data.sentences[state.sentence];
  const texts = byId("texts");
  texts.replaceChildren();
  for (const [kind, text] of [["source", sentence.text], ["translation", sentence.translations[0]]]) {
    const row = add(texts, "div", `row ${kind}`);
    add(row, "div", "label", kind);
    const body = add(row, "div", "body");
    addParagraph(body, text, null);
    if (kind === "source" && sentence.truncated) {
      add(body, "p", "hint", "Its end was cut off: it is longer than the model's limit.");
    }
  }
}

function drawSentence() {
  drawTexts();
  offerLayers();
  drawAttention();
  drawTree();
  showStep(data.sentences[state.sentence].search.steps.length);
}

data.sentences.forEach((sentence, index) => {
  const text = showHidden(sentence.text);
  const title = text.length > 60 ? `${text.slice(0, 59)}…` : text;
  byId("sentence").append(new Option(`${index + 1}: ${title}`, index));
});
fillSelect(byId("part"), data.parts.map((part) => [part.name, part.title, !part.isThere]));
byId("part").value = data.parts.some((part) => part.name === data.part && part.isThere)
  ? data.part : "cross";
state.part = byId("part").value;
byId("sentence").addEventListener("change", () => {
  stopPlaying();
  Object.assign(state, {sentence: Number(byId("sentence").value), held: null});
  drawSentence();
});
drawSentence();
