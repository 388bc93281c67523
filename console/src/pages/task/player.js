// The script of an exported task. It is copied into the file as it is, so it imports nothing.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const frames = data.frames;
  const start = frames.length ? frames[0].at : 0;
  const make = (tag, text, style) => {
    const element = document.createElement(tag);
    if (text) element.textContent = text;
    if (style) element.style.cssText = style;
    return element;
  };
  document.body.style.cssText = "font:15px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem";
  const head = make("h1", data.title, "font-size:1.3rem;overflow-wrap:anywhere");
  const line = make("p", "", "color:GrayText");
  const range = make("input", "", "width:100%");
  range.type = "range";
  range.min = "0";
  range.max = String(Math.max(0, frames.length - 1));
  range.setAttribute("aria-label", "event");
  const play = make("button", "Play");
  const box = make("div");
  document.body.append(head, line, range, play, box);

  const numberOf = (i) => (frames[i] ? frames[i].n : 0);
  const draw = (n) => {
    box.replaceChildren();
    let state = "submitted";
    const artifacts = new Map();
    for (const frame of frames.slice(0, n + 1)) {
      if (frame.kind === "state") state = frame.name;
      if (frame.kind === "artifact") {
        let shown = artifacts.get(frame.artifact);
        if (!shown) {
          box.append(make("strong", frame.name));
          shown = make("pre", "", "white-space:pre-wrap;overflow-wrap:anywhere;border-left:3px solid;padding-left:.8rem");
          artifacts.set(frame.artifact, shown);
          box.append(shown);
        }
        shown.textContent = (frame.append ? shown.textContent : "") + frame.text;
      } else if (frame.text) {
        box.append(make("strong", frame.who === "user" ? "User" : "Agent"));
        box.append(make("pre", frame.text, "white-space:pre-wrap;overflow-wrap:anywhere"));
      } else if (frame.kind === "step") {
        box.append(make("p", `step ${frame.name}`, "color:GrayText"));
      }
    }
    const at = frames[n] ? ((frames[n].at - start) / 1000).toFixed(3) : "0";
    line.textContent = `${data.skill} · ${state} · event ${numberOf(n)} of ${numberOf(frames.length - 1)} · +${at} s`;
  };
  let timer = 0;
  range.oninput = () => draw(Number(range.value));
  play.onclick = () => {
    clearInterval(timer);
    if (Number(range.value) >= frames.length - 1) range.value = "0";
    timer = setInterval(() => {
      range.value = String(Number(range.value) + 1);
      draw(Number(range.value));
      if (Number(range.value) >= frames.length - 1) clearInterval(timer);
    }, 250);
  };
  range.value = range.max;
  draw(frames.length - 1);
})();
