"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const section = document.getElementById("plots");
  const COLOURS = 8;
  let charts = [];

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const shown = (value) => (value == null ? "–" : value.toFixed(value < 10 ? 2 : 1));

  const named = data.x.ticks.length > 0;
  const across = (value) =>
    named ? (Number.isInteger(value) ? data.x.ticks[value] ?? "" : "") : value.toFixed(2) + " " + data.x.unit;

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
    const acrossAxis = () => {
      const base = axis(data.x.label + (data.x.unit ? ", " + data.x.unit : ""), 38);
      return named ? { ...base, splits: () => data.x.values, values: (_, at) => at.map(across) } : base;
    };
    charts = data.plots.map((plot, index) => {
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
        cursor: { sync: { key: "fairwater" } },
        scales: { x: { time: false, range: [data.x.from, data.x.to] }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
        axes: [acrossAxis(), axis(plot.unit, 62)],
        series: [{ label: data.x.label, value: (_, v) => (v == null ? "–" : across(v)) }].concat(
          plot.lines.map((line) => ({
            label: line.label,
            stroke: css("--s" + (1 + (line.run % COLOURS))),
            width: line.dashed ? 1.25 : 1.5,
            dash: line.dashed ? [6, 4] : undefined,
            spanGaps: true,
            points: { show: named },
            value: (_, v) => (v == null ? "–" : shown(v) + " " + plot.unit),
          })),
        ),
      };
      return new uPlot(options, [data.x.values, ...plot.lines.map((line) => line.values)], place);
    });
  }

  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("resize", () => {
    section.style.gridTemplateColumns = `repeat(${beside()}, minmax(0, 1fr))`;
    charts.forEach((chart) => chart.setSize(size()));
  });
})();
