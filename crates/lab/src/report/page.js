// Shows the values at the pointer, and a line through all plots over time. The page is complete without this script.
(function () {
  "use strict";
  var plots = [];
  function grouped(n) { return n.toString().replace(/\B(?=(\d{3})+$)/g, "\u202f"); }
  function count(v) { return v < 100 && v % 1 ? v.toFixed(1) : grouped(Math.round(v)); }
  function size(v) {
    var units = [["GiB", 1073741824], ["MiB", 1048576], ["KiB", 1024]];
    for (var i = 0; i < units.length; i++) {
      if (v >= units[i][1]) { v /= units[i][1]; return v.toFixed(v >= 100 ? 0 : 1) + " " + units[i][0]; }
    }
    return Math.round(v) + " B";
  }
  function micros(v) {
    return v < 1e3 ? v.toFixed(v < 10 ? 1 : 0) + " µs" : v < 1e6 ? (v / 1e3).toFixed(1) + " ms" : (v / 1e6).toFixed(2) + " s";
  }
  var show = {
    "count": count, "bytes": size, "us": micros,
    "bytes/s": function (v) { return size(v) + "/s"; },
    "us/s": function (v) { return micros(v) + "/s"; }
  };
  function nearest(times, t) {
    var low = 0, high = times.length - 1;
    while (low < high) {
      var middle = (low + high) >> 1;
      if (times[middle] < t) { low = middle + 1; } else { high = middle; }
    }
    return low > 0 && t - times[low - 1] < times[low] - t ? low - 1 : low;
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
        return series.n + " " + (value === null ? "–" : show[plot.data.unit](value));
      });
      plot.read.textContent = t.toFixed(plot.data.end < 10 ? 1 : 0) + " s:  " + parts.filter(Boolean).join("  ·  ");
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
