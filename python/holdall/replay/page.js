"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const app = document.getElementById("app");
  const COLORS = {
    full: "#a3acb8", sliding: "#6f7d90", summary: "#b5793b", masking: "#b54f93", hybrid: "#23989b",
    greedy: "#8aa4ff", optimal: "#2f5bea", stable: "#0b9a62",
  };
  const OTHERS = ["#d1495b", "#7b4fd1", "#c2a400", "#4b8f29", "#e07a2f", "#3f7cac"];
  const names = data.strategies.map((one) => one.name);
  const others = names.filter((name) => !(name in COLORS));
  const color = (name) => COLORS[name] || OTHERS[others.indexOf(name) % OTHERS.length];
  const state = {
    source: data.sources[0].name, budget: data.budgets[Math.floor((data.budgets.length - 1) / 2)], line: null, lost: "", more: 40,
  };

  // All text goes in as text: nothing of a conversation is ever parsed as HTML.
  const SVG = "http://www.w3.org/2000/svg";
  const fill = (node, attributes, children) => {
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined) continue;
      if (key === "on") Object.entries(value).forEach(([event, act]) => node.addEventListener(event, act));
      else if (key === "css") Object.entries(value).forEach(([name, one]) => node.style.setProperty(name, one));
      else if (key === "tip") tipped(node, value);
      else node.setAttribute(key, value);
    }
    for (const child of children.flat(3)) if (child !== null && child !== undefined) node.append(child);
    return node;
  };
  const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  const tip = h("div", { id: "tip" });
  document.body.append(tip);
  function tipped(node, text) {
    node.addEventListener("pointermove", (event) => {
      tip.textContent = text;
      tip.style.visibility = "visible";
      const box = tip.getBoundingClientRect();
      tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
      tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - box.height - 8)) + "px";
    });
    node.addEventListener("pointerleave", () => { tip.style.visibility = "hidden"; });
  }

  const tokens = (n) => n >= 1e6 ? +(n / 1e6).toPrecision(3) + "M" : n >= 1e3 ? +(n / 1e3).toPrecision(3) + "k" : String(Math.round(n));
  const dollars = (n) => n === 0 ? "$0" : n >= 100 ? "$" + Math.round(n).toLocaleString("en") : n >= 10 ? "$" + n.toFixed(1) : n >= 1 ? "$" + n.toFixed(2) : "$" + n.toPrecision(3);
  const percent = (n) => n === null ? "" : (n * 100).toFixed(n > 0.995 && n < 1 ? 1 : 0) + "%";
  const time = (us) => us >= 1e6 ? (us / 1e6).toPrecision(3) + " s" : us >= 1e3 ? +(us / 1e3).toPrecision(2) + " ms" : Math.max(1, Math.round(us)) + " µs";
  const whole = (n) => n.toLocaleString("en");
  const plural = (n, word) => `${whole(n)} ${word}${n === 1 ? "" : "s"}`;

  const source = () => data.sources.find((one) => one.name === state.source);
  const chosen = (budget = state.budget) => data.figures.filter((one) => one.source === state.source && one.budget === budget);
  const sound = (one) => one.invalid === 0 && one.refused === 0 && one.refused_questions === 0;
  const dot = (name) => h("span", { class: "dot", css: { background: color(name) } });

  function draw() {
    const at = scrollY;
    app.replaceChildren(...[header(), bar(), verdict(), charts(), figures(), timelines(), questions(), notes()].filter(Boolean));
    for (const paint of pending.splice(0)) paint();
    scrollTo(0, at);
  }
  const pending = [];
  const holders = new Map();
  const sized = new ResizeObserver((entries) => {
    for (const entry of entries) {
      const paint = holders.get(entry.target);
      if (paint) paint();
    }
  });
  function chart(label, paint) {
    const holder = h("div", { class: "chart" });
    let width = 0;
    const again = () => {
      const now = Math.floor(holder.clientWidth);
      if (!now || now === width) return;
      width = now;
      const { height, marks } = paint(now);
      holder.replaceChildren(s("svg", { viewBox: `0 0 ${now} ${height}`, height, role: "img", "aria-label": label }, marks));
    };
    holders.set(holder, again);
    sized.observe(holder);
    pending.push(again);
    return holder;
  }

  function header() {
    const one = source();
    const facts = [
      plural(one.conversations, "conversation"), plural(one.messages, "message"),
      one.requests ? plural(one.requests, "request") : null, one.questions ? plural(one.questions, "question") : null,
    ].filter(Boolean);
    return h("header", {},
      h("div", { class: "mark" }, "holdall replay"),
      h("h1", {}, "Which context strategy fits these conversations?"),
      h("p", { class: "lead" }, `${facts.join(" · ")} · prices of ${data.model} · counted with ${data.encoding}`));
  }

  function bar() {
    const pick = (value, key) => h("button", {
      type: "button", "aria-pressed": String(state[key] === value), on: { click: () => { state[key] = value; draw(); } },
    }, tokens(value));
    const set = data.sources.length < 2 ? null : h("label", { class: "control" }, h("span", {}, "Set"),
      h("select", { id: "set", on: { change: (event) => { state.source = event.target.value; state.line = null; state.more = 40; draw(); } } },
        data.sources.map((one) => h("option", { value: one.name, selected: one.name === state.source ? "" : null }, one.name))));
    return h("div", { class: "bar" }, set,
      h("div", { class: "control" }, h("span", {}, "Budget of a request"),
        h("div", { class: "segments", role: "group", "aria-label": "Budget" }, data.budgets.map((one) => pick(one, "budget")))));
  }

  function verdict() {
    const rows = chosen();
    const usable = rows.filter(sound);
    const sliding = rows.find((one) => one.strategy === "sliding");
    const best = (key, sign) => usable.filter((one) => one[key] !== null)
      .reduce((a, b) => a === null || sign * b[key] > sign * a[key] ? b : a, null);
    const card = (what, one, much) => h("div", { class: "card" }, h("div", { class: "what" }, what),
      one ? [h("div", { class: "who" }, dot(one.strategy), one.strategy), h("div", { class: "much" }, much)]
        : h("div", { class: "much" }, "No strategy was valid at every turn."));
    const found = [];
    if (source().questions) {
      const one = best("recall", 1);
      found.push(card("Keeps most of the evidence", one, one && `${percent(one.recall)} of it, unchanged`));
    }
    if (source().requests) {
      const cheap = best("dollars", -1), steady = best("stability", 1);
      const ratio = cheap && sliding && sliding.dollars && cheap !== sliding ? `, ${(cheap.dollars / sliding.dollars).toFixed(2)} times sliding` : "";
      found.push(card("Cheapest input that is always valid", cheap, cheap && dollars(cheap.dollars) + ratio));
      if (steady) found.push(card("Steadiest prefix", steady, `${percent(steady.stability)} of a request is sent again`));
    }
    const broken = rows.filter((one) => !sound(one));
    found.push(h("div", { class: "card" }, h("div", { class: "what" }, "Valid at every turn"),
      h("div", { class: "who" }, `${usable.length} of ${rows.length}`),
      h("div", { class: "much" }, broken.length ? `not: ${broken.map((one) => one.strategy).join(", ")}` : "all strategies")));
    return h("section", { class: "cards", id: "verdict" }, found);
  }

  function charts() {
    const one = source();
    const card = (title, text, body, legend) => h("div", { class: "card" }, h("h3", {}, title), h("p", {}, text), body, legend || null);
    const keys = (pairs) => h("div", { class: "legend" }, pairs.map(([name, css]) => h("span", {}, h("i", { css: { background: css } }), name)));
    const strategies = () => keys(names.map((name) => [name, color(name)]));
    const found = [];
    if (one.questions) {
      found.push(card("Evidence kept", "Share of the messages that hold the answer and are in, unchanged. Bars are 95% intervals at this budget.",
        bars("Evidence kept", (row) => [[row.recall, color(row.strategy)]], percent, { most: 1, range: (row) => [row.recall_low, row.recall_high] })));
      if (data.budgets.length > 1) {
        found.push(card("Evidence by budget", "Each line is a strategy.", lines("Evidence by budget", (row) => row.recall, percent, 1), strategies()));
      }
    }
    if (one.requests) {
      const repeats = chosen().some((row) => row.stability !== null);
      const million = 1e6, price = data.price;
      found.push(card("Input dollars", "All requests, with the prompt cache at its best use. Pale bars are invalid or refused at some turn.",
        bars("Input dollars", (row) => {
          const read = row.read * price.cache_read / million, write = row.written * price.cache_write / million;
          const cached = row.dollars - row.summarizer_dollars;
          return [[read, "var(--read)"], [write, "var(--write)"], [Math.max(0, cached - read - write), "var(--plain)"], [row.summarizer_dollars, "var(--fold)"]];
        }, dollars),
        keys([["read from the cache", "var(--read)"], ["written to it", "var(--write)"], ["neither", "var(--plain)"], ["summariser", "var(--fold)"]])));
      if (repeats) found.push(card("Same prefix", "Share of a request that the next one begins with: what a prompt cache can read.",
        bars("Same prefix", (row) => [[row.stability, color(row.strategy)]], percent, { most: 1 })));
      if (data.budgets.length > 1) {
        found.push(card("Dollars by budget", "Each line is a strategy.", lines("Dollars by budget", (row) => row.dollars, dollars, null), strategies()));
      }
    }
    found.push(card("Time to choose", "Processor time, median to 99th percentile, on a logarithmic scale.", latencies()));
    return h("section", { class: "charts", id: "charts" }, found);
  }

  function bars(label, parts, format, { most = null, range = null } = {}) {
    return chart(label, (width) => {
      const rows = chosen(), step = 30, left = Math.min(100, 16 + 7.4 * Math.max(...names.map((name) => name.length))), right = 62;
      const sums = rows.map((row) => parts(row).reduce((sum, [value]) => sum + (value || 0), 0));
      const top = most || Math.max(...sums, 1e-9), room = Math.max(width - left - right, 20);
      const marks = rows.map((row, n) => {
        const y = n * step, empty = parts(row).every(([value]) => value === null);
        let x = left;
        const tipText = `${row.strategy}: ${empty ? "nothing" : format(sums[n])}` + (sound(row) ? "" : `\n${faults(row)}`);
        const boxes = parts(row).map(([value, css]) => {
          const size = (value || 0) / top * room;
          const box = s("rect", { x, y: y + 6, width: Math.max(size, 0), height: 17, rx: 2, css: { fill: css, "fill-opacity": sound(row) ? 1 : .35 } });
          x += size;
          return box;
        });
        const [low, high] = range ? range(row) : [null, null];
        const whisker = low === null ? null : s("path", {
          d: `M${left + low / top * room} ${y + 14.5}H${left + high / top * room}M${left + low / top * room} ${y + 11}v7M${left + high / top * room} ${y + 11}v7`,
          css: { stroke: "var(--ink)", "stroke-opacity": .55, fill: "none" },
        });
        const end = high === null ? x : Math.max(x, left + high / top * room);
        return s("g", { tip: tipText },
          s("rect", { x: 0, y, width, height: step, fill: "transparent" }),
          s("text", { x: 0, y: y + 19, class: "name" }, short(row.strategy)), boxes, whisker,
          s("text", { x: end + 6, y: y + 19, class: "value" }, empty ? "–" : format(sums[n])));
      });
      return { height: rows.length * step + 4, marks };
    });
  }
  const short = (name) => name.length > 12 ? "…" + name.slice(-11) : name;
  function faults(row) {
    const said = [[row.overflow, "over the budget"], [row.orphans, "with a call or result alone"], [row.missing, "without what must be in"],
      [row.refused + row.refused_questions, "refused: what must be in does not fit"]];
    return said.filter(([n]) => n).map(([n, text]) => `${whole(n)} ${text}`).join("\n");
  }

  function lines(label, value, format, most) {
    return chart(label, (width) => {
      const height = 236, left = 44, right = 14, top = 10, bottom = 26;
      const all = data.figures.filter((row) => row.source === state.source && value(row) !== null);
      const high = most || round(Math.max(...all.map(value), 1e-9));
      const x = (budget) => left + (data.budgets.length < 2 ? .5 : data.budgets.indexOf(budget) / (data.budgets.length - 1)) * (width - left - right);
      const y = (n) => top + (1 - n / high) * (height - top - bottom);
      const marks = [0, .25, .5, .75, 1].map((share) => [
        s("line", { x1: left, x2: width - right, y1: y(share * high), y2: y(share * high), class: "grid" }),
        s("text", { x: left - 8, y: y(share * high) + 4, "text-anchor": "end" }, format(share * high).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "")),
      ]);
      data.budgets.forEach((budget) => marks.push(
        s("text", { x: x(budget), y: height - 6, "text-anchor": "middle", css: { "font-weight": budget === state.budget ? 700 : 400 } }, tokens(budget))));
      for (const name of names) {
        const rows = data.budgets.map((budget) => all.find((row) => row.strategy === name && row.budget === budget)).filter(Boolean);
        if (!rows.length) continue;
        marks.push(s("path", {
          d: rows.map((row, n) => `${n ? "L" : "M"}${x(row.budget).toFixed(1)} ${y(value(row)).toFixed(1)}`).join(""),
          css: { stroke: color(name), fill: "none", "stroke-width": 2 },
        }));
        rows.forEach((row) => marks.push(s("circle", {
          cx: x(row.budget), cy: y(value(row)), r: 4.5, css: { fill: sound(row) ? color(name) : "var(--card)", stroke: color(name), "stroke-width": 2 },
          tip: `${name} at ${tokens(row.budget)}: ${format(value(row))}` + (sound(row) ? "" : `\n${faults(row)}`),
        })));
      }
      return { height, marks };
    });
  }

  // The next number that four steps divide well.
  function round(n) {
    const unit = 10 ** Math.floor(Math.log10(n));
    return [1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10].map((one) => one * unit).find((one) => one >= n * 1.0001) || 10 * unit;
  }

  function latencies() {
    return chart("Time to choose", (width) => {
      const rows = chosen(), step = 26, left = 92, right = 84, foot = 20;
      const low = Math.log10(Math.max(1, Math.min(...rows.map((row) => row.p50_us)))), high = Math.log10(Math.max(10, ...rows.map((row) => row.p99_us)));
      const first = Math.floor(low), last = Math.max(Math.ceil(high), first + 1);
      const x = (us) => left + (Math.log10(Math.max(us, 1)) - first) / (last - first) * (width - left - right);
      const height = rows.length * step + foot, marks = [];
      const every = Math.ceil((last - first) * 52 / Math.max(width - left - right, 1));
      for (let power = first; power <= last; power += every) {
        marks.push(s("line", { x1: x(10 ** power), x2: x(10 ** power), y1: 0, y2: height - foot, class: "grid" }),
          s("text", { x: x(10 ** power), y: height - 4, "text-anchor": "middle" }, time(10 ** power)));
      }
      rows.forEach((row, n) => {
        const y = n * step + 14;
        marks.push(s("g", { tip: `${row.strategy}: median ${time(row.p50_us)}, 99th percentile ${time(row.p99_us)}` },
          s("rect", { x: 0, y: y - 13, width, height: step, fill: "transparent" }),
          s("text", { x: 0, y: y + 4, class: "name" }, short(row.strategy)),
          s("line", { x1: x(row.p50_us), x2: x(row.p99_us), y1: y, y2: y, css: { stroke: color(row.strategy), "stroke-width": 3, "stroke-opacity": .45 } }),
          s("circle", { cx: x(row.p50_us), cy: y, r: 5, css: { fill: color(row.strategy) } }),
          s("text", { x: x(row.p99_us) + 7, y: y + 4, class: "value" }, time(row.p99_us))));
      });
      return { height, marks };
    });
  }

  function figures() {
    const rows = chosen(), one = source();
    const columns = [
      one.questions && ["evidence kept", (row) => row.recall, percent, 1, (row) => row.recall === null ? "" : `${percent(row.recall_low)}–${percent(row.recall_high)}`],
      one.requests && ["input", (row) => row.dollars, dollars, -1],
      one.requests && ["without cache", (row) => row.dollars_uncached, dollars, -1],
      one.requests && ["tokens", (row) => row.tokens, tokens, 0],
      one.requests && ["same prefix", (row) => row.stability, percent, 1],
      one.requests && ["prefix breaks", (row) => row.breaks, whole, 0],
      one.requests && ["fill", (row) => row.fill, percent, 0],
      rows.some((row) => row.summarizer_calls) && ["summaries", (row) => row.summarizer_calls, whole, 0],
      ["p50", (row) => row.p50_us, time, 0],
      ["p99", (row) => row.p99_us, time, 0],
    ].filter((column) => column && rows.some((row) => column[1](row) !== null));
    const best = columns.map(([, value, , sign]) => {
      const values = rows.filter(sound).map(value).filter((n) => n !== null);
      return sign && values.length > 1 ? (sign > 0 ? Math.max(...values) : Math.min(...values)) : null;
    });
    const cell = (row, [, value, format, , small], n) => {
      const figure = value(row);
      return h("td", { class: figure !== null && figure === best[n] && sound(row) ? "best" : null },
        figure === null ? "–" : format(figure), small ? h("small", {}, small(row)) : null);
    };
    return h("section", { id: "figures" }, h("h2", {}, "All figures"),
      h("p", { class: "note" }, "At the budget chosen above. Green is the best of those that were valid at every turn."),
      h("div", { class: "scroll" }, h("table", {},
        h("thead", {}, h("tr", {}, h("th", {}, "strategy"), h("th", {}, "invalid"), h("th", {}, "refused"), columns.map(([name]) => h("th", {}, name)))),
        h("tbody", {}, rows.map((row) => h("tr", {},
          h("td", { tip: data.strategies.find((two) => two.name === row.strategy).about }, h("span", { class: "strategy" }, dot(row.strategy), row.strategy)),
          h("td", { class: row.invalid ? "bad" : null, tip: row.invalid ? faults(row) : "none" }, whole(row.invalid)),
          h("td", { class: row.refused + row.refused_questions ? "bad" : null }, whole(row.refused + row.refused_questions)),
          columns.map((column, n) => cell(row, column, n))))))));
  }

  function timelines() {
    const found = data.timelines.filter((one) => data.traces[one.trace].source === state.source);
    if (!found.length) return null;
    const one = found.find((two) => two.trace === state.line) || found[0];
    const trace = data.traces[one.trace];
    const at = one.lines.filter((line) => line.budget === state.budget && line.points.length);
    const top = Math.min(Math.max(...at.flatMap((line) => line.points.map((point) => point[1])), 1), state.budget * 1.6);
    return h("section", { id: "turns" }, h("h2", {}, "Turn by turn"),
      h("p", { class: "note" }, "Tokens of each request. The filled part repeats the request before, so a prompt cache can read it; the light part is new. Dashed: the budget."),
      h("label", { class: "control" }, h("span", {}, "Conversation"), h("select", { id: "conversation", on: { change: (event) => { state.line = +event.target.value; draw(); } } },
        found.map((two) => h("option", { value: two.trace, selected: two === one ? "" : null },
          `${data.traces[two.trace].id} (${plural(data.traces[two.trace].messages, "message")})`)))),
      h("p", { class: "quote" }, trace.first ? `“${trace.first}”` : ""),
      h("div", { class: "lines" }, at.map((line) => {
        const row = data.figures.find((two) => two.source === state.source && two.budget === state.budget && two.strategy === line.strategy);
        const sent = line.points.reduce((sum, point) => sum + point[1], 0), shared = line.points.slice(1).reduce((sum, point) => sum + point[2], 0);
        return h("div", { class: "card" }, h("div", { class: "top" }, h("h3", {}, line.strategy), h("span", {}, `${percent(sent ? shared / sent : 0)} repeated`)),
          area(line, top, row));
      })));
  }

  function area(line, top) {
    return chart(`Tokens by turn, ${line.strategy}`, (width) => {
      const height = 112, left = 34, bottom = 18, points = line.points;
      const x = (n) => left + (points.length < 2 ? 0 : n / (points.length - 1)) * (width - left - 4);
      const y = (n) => 6 + (1 - Math.min(n, top) / top) * (height - 6 - bottom);
      const shape = (of) => "M" + x(0) + " " + y(0) + points.map((point, n) => `L${x(n).toFixed(1)} ${y(of(point)).toFixed(1)}`).join("") + `L${x(points.length - 1)} ${y(0)}Z`;
      const slot = (width - left - 4) / Math.max(points.length, 1);
      return { height, marks: [
        s("line", { x1: left, x2: width - 4, y1: y(0), y2: y(0), class: "axis" }),
        s("path", { d: shape((point) => point[1]), css: { fill: color(line.strategy), "fill-opacity": .25 } }),
        s("path", { d: shape((point) => point[2]), css: { fill: color(line.strategy), "fill-opacity": .85 } }),
        state.budget <= top ? [s("line", { x1: left, x2: width - 4, y1: y(state.budget), y2: y(state.budget), class: "limit" }),
          s("text", { x: left - 5, y: y(state.budget) + 4, "text-anchor": "end" }, tokens(state.budget))] : s("text", { x: left - 5, y: y(top) + 6, "text-anchor": "end" }, tokens(top)),
        s("text", { x: left - 5, y: y(0) + 3, "text-anchor": "end" }, "0"),
        s("text", { x: left, y: height - 3 }, "first turn"), s("text", { x: width - 4, y: height - 3, "text-anchor": "end" }, `message ${whole(points[points.length - 1][0])}`),
        points.map((point, n) => s("rect", { x: x(n) - slot / 2, y: 0, width: Math.max(slot, 1), height: height - bottom, fill: "transparent",
          tip: `message ${whole(point[0])}: ${whole(point[1])} tokens,\n${whole(point[2])} as in the request before` })),
      ] };
    });
  }

  function questions() {
    const every = data.questions.shown.filter((one) => data.traces[one.trace].source === state.source);
    if (!every.length) return null;
    const kept = (one, name) => one.kept[`${name}|${state.budget}`];
    const found = state.lost ? every.filter((one) => kept(one, state.lost) < 9) : every;
    const mark = (value) => value === undefined ? "" : value >= 9 ? h("span", { class: "mark-kept" }, "●") : value > 0 ? h("span", { class: "mark-part" }, "◐") : h("span", { class: "mark-lost" }, "○");
    const all = data.questions.all, shown = data.questions.shown.length;
    return h("section", { id: "questions" }, h("h2", {}, "What was kept for each question"),
      h("p", { class: "note" }, (all > shown ? `${whole(shown)} of ${whole(all)} questions, evenly chosen. ` : "") + "● all of its evidence is in, unchanged; ◐ some of it; ○ none. Open a question to see the evidence."),
      h("label", { class: "control" }, h("span", {}, "Show"), h("select", { id: "lost", on: { change: (event) => { state.lost = event.target.value; state.more = 40; draw(); } } },
        h("option", { value: "" }, "all questions"),
        names.map((name) => h("option", { value: name, selected: state.lost === name ? "" : null }, `where ${name} lost something`)))),
      h("p", { class: "note" }, plural(found.length, "question")),
      h("div", { class: "scroll questions" }, h("table", {},
        h("thead", {}, h("tr", {}, h("th", {}, "question"), names.map((name) => h("th", {}, short(name))))),
        h("tbody", {}, found.slice(0, state.more).map((one) => h("tr", {},
          h("td", {}, h("details", {}, h("summary", {}, one.text, one.category ? h("small", {}, ` ${one.category}`) : null),
            one.evidence.map((part) => h("div", { class: "evidence" }, `message ${whole(part.at)}: ${part.text}`)),
            one.size > one.evidence.length ? h("div", { class: "evidence" }, `and ${one.size - one.evidence.length} more`) : null)),
          names.map((name) => h("td", { tip: name }, mark(kept(one, name))))))))),
      found.length > state.more ? h("button", { class: "more", type: "button", on: { click: () => { state.more += 100; draw(); } } }, "Show more") : null);
  }

  function notes() {
    const price = data.price;
    const rule = price.caching === "none" ? "no prompt cache" : price.caching === "automatic" ? `prompt cache: automatic, from ${whole(price.minimum)} tokens in steps of ${price.step}`
      : `prompt cache: breakpoints at the end of the prompt, where a request parted from the one before, at the end of what lasts beyond a turn and, where that is cheaper, at its end, from ${whole(price.minimum)} tokens, or at the prompt alone or not at all where that is cheaper`;
    const terms = [
      data.questions.all && ["evidence kept", "of the messages that hold the answer to a question asked at the end, the share that is in the window unchanged"],
      ["input", `dollars for input tokens, a summariser's calls included; per million: plain $${price.input}, read $${price.cache_read}, written $${price.cache_write}; ${rule}` + (price.billed_ratio === 1 ? "" : `; ${price.billed_ratio} billed tokens are taken for each one counted, since the model's tokenizer is not public`)],
      ["same prefix", "tokens that two consecutive requests begin with alike, as a share of the first of them"],
      ["invalid", "requests over the budget, with a tool call or result that stands alone, or without the system prompt, the last user message or the last group"],
      ["refused", "the strategy said that what must be in does not fit, and sent nothing"],
      ["fill", "share of the budget in use at turns where not everything fits"],
    ].filter(Boolean);
    const strategies = data.strategies.map((one) => [one.name, one.about]);
    return h("footer", {}, h("strong", {}, "How to read this"), h("dl", {}, terms.concat(strategies).map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])));
  }

  draw();
})();
