// The start page: a text, its hits, and what is known of both. All that comes from data is set as text.

const form = document.getElementById("search");
const box = document.getElementById("q");
const summary = document.getElementById("summary");
const list = document.getElementById("hits");

let shown = 0; // the number of the newest search: an older answer is not shown
let pictures = false; // whether the server has a folder of images

async function ask(address) {
  const response = await fetch(address);
  const record = await response.json();
  if (!response.ok) throw new Error(record.detail);
  return record;
}

function element(name, text, kind) {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function sentence(found) {
  const searched = `${found.searched.toLocaleString("en")} items`;
  const { answerable, expected_matches: expected, note } = found.query;
  let text = `The nearest of ${searched}.`;
  if (answerable === true) text = `About ${Math.round(expected).toLocaleString("en")} of ${searched} match.`;
  if (answerable === false) text = `Nothing among ${searched} seems to match. These are the nearest.`;
  if (!found.calibrated && answerable !== null) text += " The probabilities are the model's own, not calibrated.";
  return note ? `${text} Note: ${note}.` : text;
}

function card(hit) {
  const item = document.createElement("li");
  if (pictures && hit.kind === "image") {
    const image = document.createElement("img");
    image.src = `/v1/thumbnails/${encodeURIComponent(hit.id)}`;
    image.alt = hit.text ?? hit.id;
    image.loading = "lazy";
    item.append(image);
  }
  item.append(element("p", hit.text ?? hit.id));
  if (hit.match_probability !== null) item.append(element("p", `p = ${hit.match_probability.toFixed(3)}`));
  const facts = Object.entries(hit.metadata).map(([name, value]) => `${name} ${value}`);
  if (facts.length) item.append(element("p", facts.join(", "), "faint"));
  return item;
}

async function search(text) {
  const number = ++shown;
  summary.textContent = "Searching …";
  try {
    const found = await ask(`/v1/search?${new URLSearchParams({ q: text, k: "24" })}`);
    if (number !== shown) return;
    summary.textContent = sentence(found);
    list.replaceChildren(...found.hits.map(card));
  } catch (error) {
    if (number !== shown) return;
    summary.textContent = error.message;
    list.replaceChildren();
  }
}

function fromAddress() {
  const text = new URLSearchParams(location.search).get("q") ?? "";
  box.value = text;
  if (text) {
    search(text);
  } else {
    shown += 1;
    list.replaceChildren();
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  history.pushState(null, "", `/?${new URLSearchParams({ q: box.value })}`);
  search(box.value);
});
addEventListener("popstate", () => {
  summary.textContent = "";
  fromAddress();
});

try {
  pictures = (await ask("/v1/describe")).images;
} catch (error) {
  summary.textContent = error.message;
}
fromAddress();
