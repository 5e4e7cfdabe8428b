"use strict";
// Filters, the axis and the row that factors are against. What is chosen is in the address, behind #. Texts of rows are
// set as text, never as markup. A filter reads an index of the page's lines, and then loads the details of those that are
// shown. All are scripts and not fetched, because a page that is a file may fetch nothing.
(() => {
  const form = document.getElementById("filters"), table = document.getElementById("lines");
  if (!form || !table) return;
  const SVG = "http://www.w3.org/2000/svg", MOST = 60, WAIT = "...";
  const KINDS = { m: "measured", r: "reported", p: "predicted" };
  const PRESETS = ["as-written", "best", "fastest"];
  const AXES = { lap: ["a lap", "s"], step: ["a step", "s"], wh: ["energy of a lap", "Wh"], cost: ["cost of a lap", "USD"] };
  const LADDERS = {
    s: [[1e-4, "0.1 ms"], [1e-3, "1 ms"], [1e-2, "10 ms"], [.1, "0.1 s"], [1, "1 s"], [10, "10 s"], [60, "1 min"], [600, "10 min"],
      [3600, "1 h"], [36000, "10 h"]],
    Wh: [-5, -4, -3, -2, -1, 0, 1, 2, 3].map(e => [10 ** e, `${Number((10 ** e).toPrecision(1))} Wh`]),
    USD: [-7, -6, -5, -4, -3, -2, -1, 0, 1].map(e => [10 ** e, `$${Number((10 ** e).toPrecision(1))}`]),
  };
  let all = null, root = "", tiers = {}, folder = "", waiting = null, most = MOST;
  const pending = new Set(), members = new Map();

  const make = (name, words, attributes = {}) => {
    const made = document.createElement(name);
    if (words !== undefined && words !== null) made.textContent = words;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const draw = (name, attributes) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const digits = value => {
    const shown = Number(value.toPrecision(3));
    return shown >= 100 ? Math.round(shown).toLocaleString("en") : shown.toPrecision(3);
  };
  // As laptime's own pages write them: a step in s, ms or µs; a lap in seconds, and from a minute on as a duration.
  const rounded = value => Number(value.toPrecision(3));
  const stepWords = value => {
    const [size, unit] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]].find(([least]) => rounded(value) >= least) || [1e-6, "µs"];
    return `${digits(value / size)} ${unit}`;
  };
  const joined = (large, one, small, other) => !large ? `${small} ${other}` : small ? `${large} ${one} ${small} ${other}` : `${large} ${one}`;
  const duration = value => {
    const whole = Math.round(value), minutes = Math.round(value / 60);
    return whole < 3600 ? joined(Math.floor(whole / 60), "min", whole % 60, "s") : joined(Math.floor(minutes / 60), "h", minutes % 60, "min");
  };
  const lapWords = value => value < .1 ? stepWords(value) : rounded(value) < 60 ? `${digits(value)} s` : duration(value);
  const times = ratio => `${ratio < 9.995 ? ratio.toFixed(2) : ratio < 99.95 ? ratio.toFixed(1) : Math.round(ratio).toLocaleString("en")}x`;

  // The state: what the address says, and what the form shows of it.
  const plain = { training: "", measured: "1", reported: "1", predicted: "1", kind: "", framework: "", settings: "", tier: "", memory: "",
    price: "", axis: "lap", against: "" };
  const read = () => ({ ...plain, ...Object.fromEntries(new URLSearchParams(location.hash.slice(1))) });
  const write = state => {
    const told = new URLSearchParams(Object.entries(state).filter(([key, value]) => key in plain && value !== plain[key]));
    history.replaceState(null, "", `#${told}`);
  };

  const select = (name, says, options) => {
    const label = make("label", says), chosen = make("select", null, { name });
    for (const [value, words] of options) chosen.append(make("option", words, { value }));
    label.append(chosen);
    return label;
  };
  const fill = () => {
    const of = key => [...new Set(all.map(each => each[key]))].sort();
    const shown = make("fieldset");
    shown.append(make("legend", "show"));
    for (const name of Object.values(KINDS)) {
      const label = make("label");
      label.append(make("input", null, { type: "checkbox", name }), ` ${name}`);
      shown.append(label);
    }
    const limit = (name, says) => {
      const label = make("label", says);
      label.append(make("input", null, { type: "number", name, min: "0", step: "any" }));
      return label;
    };
    const again = make("button", "show all", { type: "reset" });
    const trainings = root ? [select("training", "training", [["", "all"], ...of("training").map(each => [each, each])])] : [];
    form.replaceChildren(...trainings, shown,
      select("kind", "device", [["", "all"], ["cpu", "processors"], ["card", "cards"]]),
      select("framework", "framework", [["", "all"], ...of("framework").map(each => [each, each])]),
      select("settings", "settings", [["", "all"], ["as-written", "as written"], ["best", "best"], ["fastest", "fastest"], ["other", "others"]]),
      select("tier", "repeated", [["", "any"], ["2", "in another record"], ["3", "on another kind of machine"]]),
      limit("memory", "memory from, GB"), limit("price", "USD an hour, at most"),
      select("axis", "axis", Object.entries(AXES).map(([key, [words]]) => [key, words])), again);
  };
  const set = state => {
    for (const field of form.elements) {
      if (field.type === "checkbox") field.checked = state[field.name] === "1";
      else if (field.name) field.value = state[field.name];
    }
  };

  const valueOf = (line, axis) => axis === "lap" ? line.lap : axis === "step" ? line.step / 1e3 : axis === "wh" ? line.wh : line.cost;
  const endsOf = (line, axis) => {
    const value = valueOf(line, axis);
    return line.low === null || value === null || axis === "wh" ? null : [line.low / line.lap * value, line.high / line.lap * value];
  };
  const fits = (line, state) =>
    state[KINDS[line.kind]] === "1"
    && (!state.training || line.training === state.training)
    && (!state.kind || (state.kind === "cpu") === (line.deviceKind === "cpu"))
    && (!state.framework || line.framework === state.framework)
    && (!state.settings || (state.settings === "other" ? !PRESETS.includes(line.settings) : line.settings === state.settings))
    && (!state.tier || line.tier >= Number(state.tier))
    && (!state.memory || (line.memory !== null && line.memory >= Number(state.memory)))
    && (!state.price || (line.price !== null && line.price <= Number(state.price)))
    && valueOf(line, state.axis) !== null;

  const inWords = (value, axis) => axis === "lap" ? lapWords(value) : axis === "step" ? stepWords(value) : axis === "wh" ? `${digits(value)} Wh` : `$${Number(value.toPrecision(3))}`;
  const words = (line, axis) => {
    const say = value => inWords(value, axis).replaceAll(" ", "\u00a0");
    const ends = endsOf(line, axis);
    if (line.kind === "p" && line.where === null) return WAIT;
    return line.kind === "p" && ends ? `${say(ends[0])} to ${say(ends[1])}` : say(valueOf(line, axis));
  };
  const plot = (line, axis, place) => {
    const svg = draw("svg", { class: "place", "aria-hidden": "true" }), ends = endsOf(line, axis);
    svg.append(draw("line", { class: "rail", x1: "0", x2: "100%", y1: 12, y2: 12 }));
    if (ends) {
      const left = place(ends[0]), wide = place(ends[1]) - left;
      if (line.kind === "p") {
        const count = Math.max(2, Math.round(wide / 1.2));
        for (let i = 0; i < count; i++) svg.append(draw("rect", { class: "stripe", x: `${left + wide / count * i}%`, y: 7, width: `${wide / count / 2}%`, height: 10 }));
      } else svg.append(draw("rect", { class: "band", x: `${left}%`, y: 7, width: `${Math.max(wide, .3)}%`, height: 10, rx: 5 }));
    }
    if (line.kind !== "p") svg.append(draw("circle", { class: "dot", cx: `${place(valueOf(line, axis))}%`, cy: 12, r: line.kind === "m" ? 6 : 5 }));
    return svg;
  };
  const cell = (kind, ...parts) => {
    const made = make("td", null, kind ? { class: kind } : {});
    made.append(...parts);
    return made;
  };
  const factorWords = (of, line, axis) => {
    const ends = line.kind === "p" ? endsOf(line, axis) : null;
    if (line.kind === "p" && line.where === null) return WAIT;
    return ends ? `${times(of / ends[1])} to ${times(of / ends[0])}` : times(of / valueOf(line, axis));
  };
  const row = (line, state, place, against) => {
    const made = make("tr", null, { class: line.kind });
    const name = make("b", line.hardware), lane = line.kind === "r" ? line.settings : `${line.framework} ${line.settings}`;
    const named = line.device ? make("a", null, { href: `device/${line.device}.html` }) : name;
    if (line.device) named.append(name);
    made.append(cell("", named, make("br"), make("span", line.training ? `${line.training} · ${lane}` : lane, { class: "soft" })),
      cell("number", words(line, state.axis)), cell("plot", plot(line, state.axis, place)));
    if (!root) {
      const ratio = against === null ? "" : factorWords(valueOf(against, state.axis), line, state.axis);
      const button = make("button", ratio, { type: "button", class: "factor", "aria-pressed": String(line === against),
        title: `factors against ${line.hardware}, ${lane}` });
      button.addEventListener("click", () => change({ against: line.key }));
      made.append(cell("number factor", button));
    }
    const from = cell("", make("em", KINDS[line.kind], { class: line.kind }), " ",
      make("span", (line.where ?? WAIT) + (line.tier > 1 ? ` · ${tiers[line.tier]}` : "") + (state.axis === "cost" ? ` · price: ${line.priceDate}` : ""), { class: "soft" }));
    if (line.record) from.append(" ", make("a", "record", { href: `${root}records/${line.record}.json.gz` }));
    const more = make("details");
    more.append(make("summary", "more"), ...line.more.map(each => make("p", each)));
    from.append(more);
    made.append(from);
    return made;
  };

  const show = () => {
    const state = read();
    if (!Object.hasOwn(AXES, state.axis)) state.axis = "lap";
    set(state);
    const found = all.filter(line => fits(line, state)).sort((one, other) => valueOf(one, state.axis) - valueOf(other, state.axis));
    const ends = found.flatMap(line => [valueOf(line, state.axis), ...(endsOf(line, state.axis) || [])]).filter(each => each > 0);
    let low = 0, high = 1;
    if (ends.length) {
      low = Math.log10(ends.reduce((one, other) => Math.min(one, other)));
      high = Math.log10(ends.reduce((one, other) => Math.max(one, other)));
    }
    const room = Math.max(.04 * (high - low), .1);
    low -= room, high += room;
    const place = value => Math.min(100, Math.max(0, 100 * (Math.log10(value) - low) / (high - low)));
    const ticks = document.getElementById("ticks"), shownTicks = [];
    for (const [at, told] of LADDERS[AXES[state.axis][1]]) {
      const where = 100 * (Math.log10(at) - low) / (high - low);
      if (where > 3 && where < 97 && (!shownTicks.length || where - shownTicks.at(-1)[0] > 9)) shownTicks.push([where, told]);
    }
    ticks.replaceChildren(...shownTicks.flatMap(([where, told]) => {
      const label = draw("text", { x: `${where}%`, y: 14 });
      label.textContent = told;
      return [draw("line", { x1: `${where}%`, x2: `${where}%`, y1: 22, y2: 32 }), label];
    }));
    document.getElementById("axis-name").textContent = AXES[state.axis][0];
    const measured = all.filter(line => line.kind === "m" && valueOf(line, state.axis) !== null);
    const written = measured.filter(line => line.deviceKind === "cpu" && line.settings === "as-written");
    const slowest = (written.length ? written : measured).reduce((one, other) => one && valueOf(one, state.axis) >= valueOf(other, state.axis) ? one : other, null);
    const named = state.against === "" ? null : all.find(line => line.key === state.against) || null;
    const against = named && valueOf(named, state.axis) !== null ? named : slowest;
    const shown = found.slice(0, most);
    table.tBodies[0].replaceChildren(...shown.map(line => row(line, state, place, against)));
    const count = document.getElementById("count");
    count.textContent = `${Math.min(most, found.length).toLocaleString("en")} of ${all.length.toLocaleString("en")} lines on a logarithmic axis` +
      (found.length < all.length ? `, ${found.length.toLocaleString("en")} fit` : "") +
      (against && !root ? `; factors are against ${against.hardware}, ${against.settings}` : "");
    const pages = document.querySelector("nav.pages");
    if (pages) pages.hidden = true;
    more.hidden = found.length <= most;
    complete(shown);
  };
  // The details of lines that have none yet: a file each of some lines of a device. With the last of them, all are shown.
  const complete = lines => {
    for (const file of new Set(lines.filter(line => line.where === null).map(line => line.file))) {
      if (pending.has(file)) continue;
      pending.add(file);
      const script = make("script", null, { src: `${folder}/${file}.js` });
      script.addEventListener("error", () => window.laptimeDetails([file, []]));
      document.head.append(script);
    }
    table.setAttribute("aria-busy", String(pending.size > 0));
  };
  window.laptimeDetails = ([file, details]) => {
    members.get(file).forEach((line, place) => {
      [line.low, line.high, line.where, line.record, line.more] = details[place] || [null, null, "its details could not be loaded", null, []];
    });
    pending.delete(file);
    if (!pending.size) show();
  };
  const more = make("button", "show more lines", { type: "button" });
  more.hidden = true;
  more.addEventListener("click", () => { most += MOST; show(); });
  table.after(more);

  const change = changed => { write({ ...read(), ...changed }); most = MOST; load(show); };
  // The index is a file next to the page. It is loaded when a reader first asks for something that needs it.
  const load = then => {
    if (all) return then();
    const isLoading = waiting !== null;
    waiting = then;
    if (isLoading) return undefined;
    document.head.append(make("script", null, { src: form.dataset.file }));
    return undefined;
  };
  window.laptimeIndex = told => {
    ({ root, tiers, of: folder } = told);
    all = told.places.flatMap(([file, first, hardware, hasPage, deviceKind, memory, price, priceDate, numbers]) =>
      Array.from({ length: numbers.length / 2 }, (_, place) => {
        const device = hasPage ? file : null, [kind, framework, settings, tier, steps, training] = told.kinds[numbers[2 * place]], lap = numbers[2 * place + 1];
        const line = { kind, hardware: told.texts[hardware], device: root ? null : device, deviceKind, framework: told.texts[framework],
          settings: told.texts[settings], lap, low: null, high: null, step: 1e3 * lap / steps, wh: null, memory, price,
          priceDate: told.texts[priceDate], tier, where: null, record: null, more: [], training: root ? told.texts[training] : "",
          file: `${file}.${Math.floor((first + place) / told.chunk)}`, cost: price === null ? null : price * lap / 3600 };
        // What the address calls a line: it stays when other rows are added.
        line.key = [kind, kind === "m" ? device : line.hardware, line.framework, line.settings].join("/");
        if (!members.has(line.file)) members.set(line.file, []);
        members.get(line.file).push(line);
        return line;
      }));
    const starts = [];
    told.places.reduce((sum, place) => (starts.push(sum), sum + place[8].length / 2), 0);
    for (const [place, line, wh] of told.energy) all[starts[place] + line].wh = wh;
    fill();
    waiting();
  };
  form.addEventListener("change", event => {
    const field = event.target;
    change({ [field.name]: field.type === "checkbox" ? (field.checked ? "1" : "0") : field.value });
  });
  form.addEventListener("reset", event => { event.preventDefault(); change({ ...plain }); });
  form.addEventListener("submit", event => event.preventDefault());
  window.addEventListener("hashchange", () => load(show));

  // Until a reader opens the filters, the page is as it was written.
  const open = make("button", "filter, choose an axis, compare with a row", { type: "button", id: "open-filters" });
  open.addEventListener("click", () => { open.remove(); load(show); });
  form.hidden = false;
  if (location.hash.length > 1) load(show);
  else form.append(open);
})();
