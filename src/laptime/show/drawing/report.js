"use strict";
// Keys switch curves on and off; the nearest point of a curve is named where the pointer or the arrow keys are.
for (const figure of document.querySelectorAll("figure.of-plane")) {
  const plane = figure.querySelector("svg.plane");
  const curves = [...plane.querySelectorAll(".curve")];
  for (const button of figure.querySelectorAll(".keys button")) {
    button.disabled = false;
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      for (const curve of plane.querySelectorAll("[data-key]")) {
        if (curve.dataset.key === button.dataset.key) curve.classList.toggle("away", !on);
      }
    });
  }
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.setAttribute("role", "status");
  const logs = plane.dataset.logs || "";
  const plain = (value, axis) => Number((logs.includes(axis) ? 10 ** value : value).toPrecision(5)).toLocaleString("en");
  const points = curve => {
    if (!curve.points) {
      let y = 0;
      curve.points = [];
      for (const [, letter, numbers] of curve.getAttribute("d").matchAll(/([MLHV])([^MLHVh]*)/g)) {
        const all = numbers.trim().split(/[ ,]+/).map(Number);
        if (letter === "H") curve.points.push([all[0], y]);
        else if (letter === "V") { y = all[0]; curve.points.push([curve.points.at(-1)[0], y]); }
        else for (let i = 0; i + 1 < all.length; i += 2) { y = all[i + 1]; curve.points.push([all[i], y]); }
      }
    }
    return curve.points;
  };
  let all = [], chosen = 0;
  const shown = () => curves.filter(curve => !curve.classList.contains("away"));
  const tell = (curve, point, x, y) => {
    tip.textContent = `${curve.querySelector("title").textContent}: ${plain(point[1], "y")} ${plane.dataset.up} at ` +
      `${plain(point[0], "x")} ${plane.dataset.across}`;
    document.body.append(tip);
    tip.style.left = Math.max(4, Math.min(x + 12, innerWidth - tip.offsetWidth - 4)) + "px";
    tip.style.top = Math.max(4, y - tip.offsetHeight - 10) + "px";
  };
  const place = (curve, point) => {
    const at = new DOMPoint(point[0], point[1]).matrixTransform(curve.getScreenCTM());
    return [at.x, at.y];
  };
  plane.addEventListener("pointermove", event => {
    let best = null, least = 40 ** 2;
    for (const curve of shown()) {
      const map = curve.getScreenCTM();
      for (const point of points(curve)) {
        const dx = map.a * point[0] + map.e - event.clientX, dy = map.d * point[1] + map.f - event.clientY;
        if (dx * dx + dy * dy < least) { least = dx * dx + dy * dy; best = [curve, point]; }
      }
    }
    if (best) tell(...best, event.clientX, event.clientY); else tip.remove();
  });
  plane.addEventListener("pointerleave", () => tip.remove());
  plane.addEventListener("blur", () => tip.remove());
  plane.addEventListener("keydown", event => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") tip.remove();
    if (!step) return;
    event.preventDefault();
    all = shown().flatMap(curve => points(curve).map(point => [curve, point]));
    if (!all.length) return;
    chosen = (chosen + step + all.length) % all.length;
    const [curve, point] = all[chosen];
    tell(curve, point, ...place(curve, point));
  });
}
