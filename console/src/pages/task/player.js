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
  // Each frame that is drawn leaves how to take it back, so a step draws one frame and none of those before it.
  const undo = [];
  const states = ["submitted"];
  const artifacts = new Map();
  const add = (...elements) => {
    box.append(...elements);
    return () => elements.forEach((element) => element.remove());
  };
  const apply = (frame) => {
    states.push(frame.kind === "state" ? frame.name : states[states.length - 1]);
    if (frame.kind === "artifact") {
      const shown = artifacts.get(frame.artifact);
      if (!shown) {
        const text = document.createTextNode(frame.text);
        const pre = make("pre", "", "white-space:pre-wrap;overflow-wrap:anywhere;border-left:3px solid;padding-left:.8rem");
        pre.append(text);
        artifacts.set(frame.artifact, text);
        const remove = add(make("strong", frame.name), pre);
        return () => {
          artifacts.delete(frame.artifact);
          remove();
        };
      }
      if (frame.append) {
        const length = shown.length;
        shown.appendData(frame.text);
        return () => shown.deleteData(length, shown.length - length);
      }
      const before = shown.data;
      shown.data = frame.text;
      return () => {
        shown.data = before;
      };
    }
    if (frame.text) {
      return add(
        make("strong", frame.who === "user" ? "User" : "Agent"),
        make("pre", frame.text, "white-space:pre-wrap;overflow-wrap:anywhere"),
      );
    }
    return frame.kind === "step" ? add(make("p", `step ${frame.name}`, "color:GrayText")) : () => {};
  };
  const draw = (n) => {
    while (undo.length <= n) undo.push(apply(frames[undo.length]));
    while (undo.length > n + 1) {
      undo.pop()();
      states.pop();
    }
    const state = states[states.length - 1];
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
