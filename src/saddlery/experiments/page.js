// Charts, themes and sortable tables of the page. Everything it needs is in the page.
(function () {
  "use strict";
  const root = document.documentElement;
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const fade = (hex) => hex + "26";

  function look() {
    const axis = { gridcolor: colour("--grid"), linecolor: colour("--rule"), zerolinecolor: colour("--rule"), tickcolor: colour("--rule") };
    return { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: colour("--ink"), size: 13 }, axis };
  }

  function traces(chart) {
    const seen = new Set();
    const out = [];
    for (const line of chart.series) {
      if (line.low && line.high) {
        out.push({ x: line.x.concat(line.x.slice().reverse()), y: line.high.concat(line.low.slice().reverse()), fill: "toself",
          fillcolor: fade(line.colour), line: { width: 0 }, mode: "lines", hoverinfo: "skip", legendgroup: line.name, showlegend: false });
      }
      out.push({ x: line.x, y: line.y, name: line.name, legendgroup: line.name, showlegend: !seen.has(line.name), mode: line.x.length < 40 ? "lines+markers" : "lines",
        marker: { size: 5 }, line: { color: line.colour, width: line.dashed ? 1.2 : 2.2, dash: line.dashed ? "dot" : "solid" },
        hovertemplate: "%{y:.4g} at %{x:.4g}<extra>" + line.name.replace(/</g, "&lt;") + "</extra>" });
      seen.add(line.name);
    }
    return out;
  }

  function layout(chart) {
    const { axis, ...rest } = look();
    const place = (label, log) => ({ ...axis, title: { text: label, standoff: 8 }, type: log ? "log" : "linear", exponentformat: "power", automargin: true });
    return { ...rest, margin: { l: 64, r: 12, t: 34, b: 40 }, hovermode: "closest",
      legend: { orientation: "h", y: -0.22, yanchor: "top" }, xaxis: place(chart.x, chart.log_x), yaxis: place(chart.y, chart.log_y) };
  }

  const config = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d"] };
  for (const holder of document.querySelectorAll(".plot")) {
    const chart = charts[Number(holder.dataset.chart)];
    Plotly.newPlot(holder, traces(chart), layout(chart), config);
    for (const button of holder.parentElement.querySelectorAll("button[data-axis]")) {
      button.addEventListener("click", function () {
        const log = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(log));
        Plotly.relayout(holder, { [button.dataset.axis + ".type"]: log ? "log" : "linear", [button.dataset.axis + ".autorange"]: true });
      });
    }
  }

  function restyle() {
    const { axis, ...rest } = look();
    const changes = { paper_bgcolor: rest.paper_bgcolor, plot_bgcolor: rest.plot_bgcolor, "font.color": rest.font.color };
    for (const side of ["xaxis", "yaxis"]) for (const [name, value] of Object.entries(axis)) changes[side + "." + name] = value;
    for (const holder of document.querySelectorAll(".plot")) Plotly.relayout(holder, changes);
  }

  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  document.getElementById("theme").addEventListener("click", function () {
    const now = root.dataset.theme || (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    restyle();
  });
  dark.addEventListener("change", restyle);

  function key(cell) {
    return cell.dataset.value !== undefined ? Number(cell.dataset.value) : cell.textContent;
  }
  for (const button of document.querySelectorAll("th button[data-column]")) {
    button.addEventListener("click", function () {
      const head = button.parentElement, table = head.closest("table"), at = Number(button.dataset.column);
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.querySelectorAll("th[aria-sort]")) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const body = table.tBodies[0];
      const rows = Array.from(body.rows).sort(function (one, two) {
        const a = key(one.cells[at]), b = key(two.cells[at]);
        const order = typeof a === "number" && typeof b === "number" ? a - b : typeof a === "number" ? -1 : typeof b === "number" ? 1 : a.localeCompare(b);
        return up ? order : -order;
      });
      body.append(...rows);
    });
  }
  root.dataset.ready = "yes";
})();
