"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const section = document.getElementById("plots");
  const COLOURS = 8;
  let charts = [];

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const shown = (value) => (value == null ? "–" : value.toFixed(value < 10 ? 2 : 1));

  const isNamed = (x) => x.ticks.length > 0;
  const across = (x) => (value) =>
    isNamed(x) ? (Number.isInteger(value) ? x.ticks[value] ?? "" : "") : value.toFixed(2) + " " + x.unit;

  // Bars side by side, for values of a variable that have no order.
  const bars = (index, count) => (chart, at, first, last) => {
    const path = new Path2D();
    const slot = Math.abs(chart.valToPos(1, "x", true) - chart.valToPos(0, "x", true)) * 0.7;
    const width = slot / count;
    for (let i = first; i <= last; i++) {
      const value = chart.data[at][i];
      if (value == null) continue;
      const left = chart.valToPos(chart.data[0][i], "x", true) - slot / 2 + index * width;
      const top = chart.valToPos(value, "y", true);
      path.rect(left, top, width * 0.9, chart.valToPos(0, "y", true) - top);
    }
    return { stroke: path, fill: path };
  };

  const GAP = 24;
  const NARROWEST = 280;
  const fitting = () => Math.max(1, Math.floor((section.clientWidth + GAP) / (NARROWEST + GAP)));
  const beside = () => Math.min(data.columns, fitting());
  const size = () => ({ width: (section.clientWidth - GAP * (beside() - 1)) / beside(), height: beside() > 1 ? 220 : 260 });

  function draw() {
    charts.forEach((chart) => chart.destroy());
    section.replaceChildren();
    section.style = `display: grid; column-gap: ${GAP}px; grid-template-columns: repeat(${beside()}, minmax(0, 1fr))`;
    const axis = (label, size) => ({
      label, size, labelSize: 22,
      stroke: css("--muted"),
      grid: { stroke: css("--grid"), width: 1 },
      ticks: { stroke: css("--line"), width: 1 },
      font: "12px system-ui, sans-serif",
      labelFont: "12px system-ui, sans-serif",
    });
    const acrossAxis = (x) => {
      const base = axis(x.label + (x.unit ? ", " + x.unit : ""), 38);
      return isNamed(x) ? { ...base, splits: () => x.values, values: (_, at) => at.map(across(x)) } : base;
    };
    charts = data.plots.map((plot, index) => {
      const x = plot.x ?? data.x;
      const named = isNamed(x);
      const barred = named && !x.ordered;
      const margin = barred ? 0.25 : 0;
      const title = document.createElement("h2");
      const note = document.createElement("span");
      note.textContent = plot.note;
      title.append(plot.title + " ", note);
      const place = document.createElement("div");
      const panel = document.createElement("div");
      if (index % data.columns === 0) panel.style.gridColumnStart = 1;
      panel.append(title, place);
      section.append(panel);
      const options = {
        ...size(),
        legend: {
          markers: {
            dash: (_, i) => (i > 0 && plot.lines[i - 1].dashed ? "dashed" : "solid"),
            fill: (u, i) => (i > 0 && plot.lines[i - 1].dashed ? "transparent" : u.series[i].stroke()),
          },
        },
        cursor: plot.x ? {} : { sync: { key: "fairwater" } },
        scales: { x: { time: false, distr: x.logarithmic ? 3 : 1, range: [x.from - margin, x.to + margin] }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
        axes: [acrossAxis(x), axis(plot.unit, 62)],
        series: [{ label: x.label, value: (_, v) => (v == null ? "–" : across(x)(v)) }].concat(
          plot.lines.map((line, at) => ({
            label: line.label,
            stroke: css("--s" + (1 + (line.run % COLOURS))),
            width: line.dashed ? 1.25 : 1.5,
            dash: line.dashed ? [6, 4] : undefined,
            spanGaps: true,
            points: { show: named && !barred },
            ...(barred && { paths: bars(at, plot.lines.length), fill: css("--s" + (1 + (line.run % COLOURS))) + "99" }),
            value: (_, v) => (v == null ? "–" : shown(v) + " " + plot.unit),
          })),
        ),
      };
      return new uPlot(options, [x.values, ...plot.lines.map((line) => line.values)], place);
    });
  }

  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("resize", () => {
    section.style.gridTemplateColumns = `repeat(${beside()}, minmax(0, 1fr))`;
    charts.forEach((chart) => chart.setSize(size()));
  });
})();
