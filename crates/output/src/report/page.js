// Shows the values at the pointer, and a line through all plots over time. The page is complete without this script.
(function () {
  "use strict";
  var plots = [];
  function nearest(times, t) {
    var low = 0, high = times.length - 1;
    while (low < high) {
      var middle = (low + high) >> 1;
      if (times[middle] < t) { low = middle + 1; } else { high = middle; }
    }
    return low > 0 && t - times[low - 1] < times[low] - t ? low - 1 : low;
  }
  // The time of day, in UTC and where the reader is; without a clock the seconds.
  function time(data, t) {
    if (data.began === null) { return t.toFixed(data.end < 10 ? 1 : 0) + " s"; }
    var date = new Date((data.began + t) * 1000);
    var utc = date.toISOString().slice(11, 19), here = date.toTimeString().slice(0, 8);
    return utc + " UTC" + (here === utc ? "" : " (" + here + " here)");
  }
  function at(t) {
    plots.forEach(function (plot) {
      plot.lines.forEach(function (line) {
        var x = line.box[0] + (line.box[1] - line.box[0]) * t / plot.data.end;
        line.node.setAttribute("d", t === null ? "" : "M" + x.toFixed(1) + "," + line.box[2] + "V" + line.box[3]);
      });
      if (t === null) { plot.read.textContent = ""; return; }
      var parts = plot.data.series.map(function (series) {
        if (!series.t.length) { return ""; }
        var value = series.v[nearest(series.t, t)];
        return series.n + " " + (value === null ? "–" : show[series.u](value));
      });
      plot.read.textContent = time(plot.data, t) + ":  " + parts.filter(Boolean).join("  ·  ");
    });
  }
  document.querySelectorAll("figure.time").forEach(function (figure) {
    var plot = { data: JSON.parse(figure.querySelector("script").textContent), lines: [], read: document.createElement("p") };
    plot.read.className = "read";
    figure.querySelector("figcaption").after(plot.read);
    figure.querySelectorAll("svg").forEach(function (svg) {
      var box = svg.dataset.box.split(" ").map(Number);
      // Keeps the title for screen readers, but not as a tooltip, which would cover the plot.
      var title = svg.querySelector("title");
      svg.setAttribute("aria-label", title.textContent);
      svg.removeAttribute("aria-labelledby");
      svg.setAttribute("aria-describedby", svg.querySelector("desc").id);
      title.remove();
      var node = document.createElementNS("http://www.w3.org/2000/svg", "path");
      node.setAttribute("class", "cursor");
      svg.append(node);
      plot.lines.push({ node: node, box: box });
      svg.addEventListener("pointermove", function (event) {
        var frame = svg.getBoundingClientRect();
        var x = (event.clientX - frame.left) * svg.viewBox.baseVal.width / frame.width;
        var share = (x - box[0]) / (box[1] - box[0]);
        var t = Math.min(1, Math.max(0, share)) * plot.data.end;
        var times = plot.data.series.length ? plot.data.series[0].t : [];
        at(times.length ? times[nearest(times, t)] : t);
      });
      svg.addEventListener("pointerleave", function () { at(null); });
    });
    plots.push(plot);
  });
})();
