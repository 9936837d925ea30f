// Draws what `millpond serve` tells: the views of the last hour, what to look at first, what happened.
(function () {
  "use strict";
  var KEPT_MS = 3600e3, GAP_MS = 2500, LOOKS = 6, HEIGHT = 180, LEFT = 58, TOP = 18, FOOT = 22;
  var LENGTHS = [60, 300, 900, 3600];
  var data = { views: [], t: [], v: [] };
  var charts = [];
  // What is shown: its length, and its end; without an end it is live.
  var seconds = 300, end = null, cursor = null, clock = 0, connected = false, trouble = null;
  // The past is shown, and not a target that lives; the connection over which it was told.
  var past = false, stream = null;
  var $ = function (id) { return document.getElementById(id); };

  function two(n) { return (n < 10 ? "0" : "") + n; }
  function time(ms, short) {
    var d = new Date(ms);
    return two(d.getHours()) + ":" + two(d.getMinutes()) + (short ? "" : ":" + two(d.getSeconds()));
  }
  // The first place at or after a time.
  function place(ms) {
    var low = 0, high = data.t.length;
    while (low < high) {
      var middle = (low + high) >> 1;
      if (data.t[middle] < ms) { low = middle + 1; } else { high = middle; }
    }
    return low;
  }
  function nearest(ms) {
    var at = place(ms);
    if (at > 0 && (at === data.t.length || ms - data.t[at - 1] < data.t[at] - ms)) { at -= 1; }
    return at;
  }
  function last() { return data.t.length ? data.t[data.t.length - 1] : Date.now(); }
  function range() {
    var to = end === null ? last() : end;
    return [to - seconds * 1e3, to];
  }

  // --- what is drawn -------------------------------------------------------------------------

  function ticks(most, unit) {
    var factor = 1;
    if (unit.indexOf("bytes") === 0) {
      [1024, 1048576, 1073741824].forEach(function (f) { if (most >= 2 * f) { factor = f; } });
    }
    var wanted = most / factor / 4, power = Math.pow(10, Math.floor(Math.log10(wanted)));
    var step = [1, 2, 5, 10].map(function (n) { return n * power; }).find(function (n) { return n >= wanted * 0.999; }) * factor;
    var out = [];
    for (var i = 0; i * step <= most * 1.06 && i < 12; i++) { out.push(i * step); }
    return out;
  }
  function tickLabel(v, unit) {
    if (unit === "count") { return v >= 1e6 ? v / 1e6 + "M" : v >= 1e4 ? v / 1e3 + "k" : String(Math.round(v * 1000) / 1000); }
    return v === 0 ? "0" : show[unit](v).replace(".0 ", " ");
  }
  // Keeps the least and the greatest of each interval, so that the worst second stays visible.
  function thinned(values, from, to, stacked, most) {
    var out = [], interval = Math.ceil((stacked ? 1 : 2) * (to - from) / most);
    if (to - from <= most) {
      for (var i = from; i < to; i++) { out.push([data.t[i], values(i)]); }
      return out;
    }
    // Whole intervals from the beginning of all data, so that points do not dance.
    for (var a = from - from % interval; a < to; a += interval) {
      var low = -1, high = -1, gap = -1, b = Math.min(a + interval, to), sum = 0, n = 0, at = Math.max(a, from);
      for (var j = at; j < b; j++) {
        var v = values(j);
        if (v === null) { gap = j; continue; }
        sum += v; n += 1;
        if (low < 0 || v < values(low)) { low = j; }
        if (high < 0 || v > values(high)) { high = j; }
      }
      if (stacked) { out.push([data.t[b - 1], gap < 0 && n ? sum / n : null]); continue; }
      [low, high, gap].filter(function (k) { return k >= 0; }).sort(function (x, y) { return x - y; })
        .forEach(function (k, i, all) { if (i === 0 || all[i - 1] !== k) { out.push([data.t[k], values(k)]); } });
    }
    return out;
  }
  function runs(points) {
    var out = [], run = [], gap = Math.max(GAP_MS, 2.5 * seconds * 1e3 / 500);
    points.forEach(function (point, i) {
      if (point[1] === null || (run.length && point[0] - points[i - 1][0] > gap)) {
        if (run.length) { out.push(run); run = []; }
      }
      if (point[1] !== null) { run.push(point); }
    });
    if (run.length) { out.push(run); }
    return out;
  }
  function path(points, x, y) {
    var d = "";
    for (var i = 0; i < points.length; i++) {
      d += (i ? "L" : "M") + x(points[i][0]).toFixed(1) + "," + y(points[i][1]).toFixed(1);
    }
    return d;
  }

  // The lines of a chart that have values in the range; those of a long family that moved most.
  function chosen(chart, from, to) {
    var lines = chart.lines.filter(function (line) {
      line.most = -1; line.least = Infinity; line.sum = 0;
      for (var i = from; i < to; i++) {
        var v = line.values[i];
        if (v === null || v === undefined) { continue; }
        if (v > line.most) { line.most = v; }
        if (v < line.least) { line.least = v; }
        line.sum += v;
      }
      return line.most >= 0;
    });
    var measured = lines.filter(function (line) { return !line.limit; });
    if (measured.length > LOOKS) {
      var kept = measured.slice().sort(function (a, b) { return b.sum - a.sum; }).slice(0, LOOKS);
      lines = lines.filter(function (line) { return line.limit || kept.indexOf(line) >= 0; });
      measured = kept;
    }
    var most = Math.max.apply(null, measured.map(function (line) { return line.most; }).concat(0));
    lines.forEach(function (line) { line.far = line.limit && line.most > 3 * most; });
    return lines;
  }

  function draw(chart) {
    var span = range(), from = place(span[0]), to = place(span[1] + 1);
    var lines = chosen(chart, from, to), measured = lines.filter(function (line) { return !line.limit; });
    chart.figure.hidden = !measured.length && data.t.length > 3;
    if (chart.figure.hidden) { return; }
    var width = chart.width || (chart.width = Math.max(200, chart.svg.getBoundingClientRect().width));
    var right = width - 8, bottom = HEIGHT - FOOT, stacked = chart.view.stacked;
    var most = 0, value = function (line) { return function (i) { var v = line.values[i]; return v === undefined ? null : v; }; };
    var under = [], sums = null;
    if (stacked) {
      measured.forEach(function (line) {
        var below = sums;
        sums = thinned(value(line), from, to, true, 500).map(function (point, i) {
          var base = below ? below[i][1] : 0;
          return [point[0], point[1] === null || base === null ? null : base + point[1], base];
        });
        sums.forEach(function (point) { if (point[1] > most) { most = point[1]; } });
      under.push(sums);
      });
    }
    lines.forEach(function (line) { if (!line.far && (line.limit || !stacked) && line.most > most) { most = line.most; } });
    var top = (most || 1) * 1.06;
    var x = function (t) { return LEFT + (right - LEFT) * (t - span[0]) / (span[1] - span[0]); };
    var y = function (v) { return bottom - (bottom - TOP) * v / top; };
    var out = "";
    ticks(most || 1, chart.view.unit).forEach(function (tick) {
      var at = y(tick).toFixed(1);
      out += '<path class="' + (tick ? "grid" : "base") + '" d="M' + LEFT + "," + at + "H" + right + '"/><text class="tick end" x="' + (LEFT - 6) + '" y="' + (+at + 4) + '">' + tickLabel(tick, chart.view.unit) + "</text>";
    });
    var steps = [10, 30, 60, 120, 300, 600, 1200], room = (right - LEFT) / 80;
    var step = 1e3 * (steps.find(function (s) { return seconds / s <= room; }) || 1800);
    for (var t = Math.ceil(span[0] / step) * step; t <= span[1]; t += step) {
      out += '<path class="base" d="M' + x(t).toFixed(1) + "," + bottom + 'v4"/><text class="tick mid" x="' + Math.min(x(t), right - 24).toFixed(1) + '" y="' + (bottom + 17) + '">' + time(t, step >= 60e3) + "</text>";
    }
    var looks = 0, limits = 0;
    lines.forEach(function (line) {
      line.look = line.limit ? "limit l" + (limits++ % 4 + 1) : "line s" + (looks++ % LOOKS + 1);
    });
    under.forEach(function (tops, i) {
      var look = measured[i].look.replace("line", "area");
      runs(tops).forEach(function (run) {
        var base = run.map(function (point) { return [point[0], point[2]]; }).reverse();
        out += '<path class="' + look + '" d="' + path(run.concat(base), x, y) + 'Z"/>';
      });
    });
    lines.forEach(function (line) {
      if (line.far || (stacked && !line.limit)) { return; }
      runs(thinned(value(line), from, to, false, 500)).forEach(function (run) {
        out += run.length > 1 ? '<path class="' + line.look + '" d="' + path(run, x, y) + '"/>'
          : '<circle class="' + line.look + '" cx="' + x(run[0][0]).toFixed(1) + '" cy="' + y(run[0][1]).toFixed(1) + '" r="2"/>';
      });
    });
    out += '<path class="cursor" d=""/><rect class="drag" y="' + TOP + '" height="' + (bottom - TOP) + '" width="0"/>';
    chart.svg.setAttribute("viewBox", "0 0 " + width + " " + HEIGHT);
    chart.svg.innerHTML = out;
    chart.x = x; chart.shown = lines;
    chart.time = function (pixel) { return span[0] + (span[1] - span[0]) * Math.min(1, Math.max(0, (pixel - LEFT) / (right - LEFT))); };
    keys(chart);
    read(chart);
  }

  // The names of the lines, made anew only if there are others.
  function keys(chart) {
    var names = chart.shown.map(function (line) { return line.label + line.look + line.far; }).join("|");
    if (names === chart.names) { return; }
    chart.names = names;
    chart.key.textContent = "";
    chart.shown.forEach(function (line) {
      var item = document.createElement("span"), look = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      var area = chart.view.stacked && !line.limit;
      look.setAttribute("class", "plot");
      look.setAttribute("viewBox", "0 0 20 9");
      look.setAttribute("aria-hidden", "true");
      look.innerHTML = area ? '<rect class="' + line.look.replace("line", "area") + '" width="20" height="9"/>'
        : line.far ? "" : '<path class="' + line.look + '" d="M0,4.5H20"/>';
      line.value = document.createElement("b");
      item.append(look, line.label + " ", line.value);
      chart.key.append(item);
    });
  }
  // The values at the cursor, or the last ones.
  function read(chart) {
    if (!chart.shown) { return; }
    var span = range(), at = cursor === null ? nearest(span[1]) : nearest(cursor);
    chart.shown.forEach(function (line) {
      var v = line.values[at];
      line.value.textContent = (v === null || v === undefined ? "–" : show[chart.view.unit](v)) + (line.far ? " (above)" : "");
    });
    var node = chart.svg.querySelector(".cursor");
    if (node) {
      var seen = cursor !== null && data.t.length;
      node.setAttribute("d", seen ? "M" + chart.x(data.t[at]).toFixed(1) + "," + TOP + "V" + (HEIGHT - FOOT) : "");
    }
  }
  function readAll() {
    charts.forEach(function (chart) { if (chart.seen) { read(chart); } });
    tools();
  }
  function drawAll() {
    charts.forEach(function (chart) { if (chart.seen) { draw(chart); } else { chart.stale = true; } });
    tools();
  }

  // --- the rest of the page ------------------------------------------------------------------

  function tools() {
    var span = range(), paused = end !== null;
    $("pause").setAttribute("aria-pressed", String(paused));
    $("pause").textContent = paused ? "Go on" : "Pause";
    document.querySelectorAll(".zoom").forEach(function (button) {
      var chosen = +button.dataset.seconds === seconds;
      button.classList.toggle("chosen", chosen);
      button.setAttribute("aria-pressed", String(chosen));
    });
    $("shown").textContent = (cursor !== null ? "at " + time(data.t[nearest(cursor)] || cursor) + ", " : "") + time(span[0]) + " to " + time(span[1]) + (past ? ", the past" : paused ? ", held" : ", live");
  }
  function pairs(node, list, make) {
    if (node.childElementCount !== list.length) {
      node.textContent = "";
      list.forEach(function () {
        var box = document.createElement("div");
        box.append(document.createElement("dt"), document.createElement("dd"));
        node.append(box);
      });
    }
    list.forEach(function (item, i) { make(node.children[i].children[0], node.children[i].children[1], item); });
  }
  function put(node, text) { if (node.textContent !== text) { node.textContent = text; } }
  function first(told) {
    if (!told) { return; }
    $("first").className = told.urgency;
    put($("first-text"), told.text);
    put($("hint"), told.hint || "");
    $("hint").hidden = !told.hint;
    $("age").hidden = told.age === null;
    if (told.age !== null) {
      var percent = Math.min(100, 100 * told.age);
      $("age-now").style.width = percent.toFixed(1) + "%";
      $("age").setAttribute("aria-valuenow", percent.toFixed(0));
      $("age-soft").hidden = told.soft === null;
      $("age-soft").style.left = (100 * (told.soft || 0)).toFixed(1) + "%";
    }
    pairs($("tiles"), told.tiles, function (dt, dd, tile) {
      put(dt, tile[0]);
      if (!dd.firstChild) { dd.append(document.createTextNode(""), document.createElement("small")); }
      if (dd.firstChild.data !== tile[1]) { dd.firstChild.data = tile[1]; }
      put(dd.lastChild, tile[2]);
    });
    pairs($("who-waits"), told.waits, function (dt, dd, wait) { put(dt, wait[0]); put(dd, wait[1]); });
  }
  // Figures of before would look like those of now.
  function forget() {
    $("age").hidden = true;
    document.querySelectorAll("#tiles dd, #who-waits dd").forEach(function (dd) {
      if (dd.lastChild && dd.lastChild.nodeType === 1) { dd.firstChild.data = "not known"; put(dd.lastChild, ""); }
      else { put(dd, "not known"); }
    });
  }
  function happened(events) {
    if (!events) { return; }
    $("happened").hidden = !events.length;
    var text = events.map(function (event) { return time(event.t) + "  " + event.what; });
    if (text.join("\n") === happened.text) { return; }
    happened.text = text.join("\n");
    $("events").textContent = "";
    text.reverse().forEach(function (line) {
      var item = document.createElement("li");
      item.textContent = line;
      $("events").append(item);
    });
  }
  function state() {
    if (past) {
      put($("state"), !connected ? "no connection to millpond serve; trying again" : "the past, until " + new Date(last()).toLocaleString());
      return;
    }
    var gone = trouble || !connected;
    put($("state"), !connected ? "no connection to millpond serve; trying again" : trouble ? "the target is gone since " + time(trouble.since) : "live, " + time(last()));
    $("first").classList.toggle("gone", Boolean(gone));
    if (!connected && data.t.length) {
      put($("first-text"), "this page gets no samples: millpond serve does not answer");
      forget();
    }
  }

  function build() {
    $("charts").textContent = "";
    watcher.disconnect();
    var at = 0;
    charts = data.views.map(function (view) {
      var chart = { view: view, figure: document.createElement("figure"), key: document.createElement("div") };
      chart.lines = view.lines.map(function (line) { return { label: line.label, limit: line.limit, at: at, values: data.v[at++] }; });
      chart.svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      chart.svg.setAttribute("class", "plot");
      chart.svg.setAttribute("aria-hidden", "true");
      chart.key.className = "key";
      var caption = document.createElement("figcaption"), title = document.createElement("strong"), note = document.createElement("span");
      title.textContent = view.title; note.textContent = view.note; note.className = "note";
      caption.append(title, note, chart.key);
      chart.figure.id = "plot-" + view.id;
      chart.figure.tabIndex = 0;
      chart.figure.setAttribute("aria-label", view.title);
      chart.figure.append(caption, chart.svg);
      $("charts").append(chart.figure);
      listen(chart);
      watcher.observe(chart.figure);
      return chart;
    });
    charts.forEach(function (chart, i) { chart.seen = i < 8; });
    drawAll();
  }
  // Only what can be seen is drawn.
  var watcher = new IntersectionObserver(function (entries) {
    entries.forEach(function (entry) {
      var chart = charts.find(function (one) { return one.figure === entry.target; });
      if (!chart || chart.figure.hidden) { return; }
      var before = chart.seen;
      chart.seen = entry.isIntersecting;
      if (chart.seen && (!before || chart.stale)) { chart.stale = false; draw(chart); }
    });
  }, { rootMargin: "200px" });

  function listen(chart) {
    var began = null, pixel = function (event) { return event.clientX - chart.svg.getBoundingClientRect().left; };
    chart.svg.addEventListener("pointermove", function (event) {
      if (!chart.time) { return; }
      cursor = chart.time(pixel(event));
      readAll();
      if (began !== null) {
        var drag = chart.svg.querySelector(".drag");
        drag.setAttribute("x", Math.min(began, pixel(event)));
        drag.setAttribute("width", Math.abs(pixel(event) - began));
      }
    });
    chart.svg.addEventListener("pointerdown", function (event) { if (event.pointerType !== "touch") { began = pixel(event); } });
    chart.svg.addEventListener("pointerup", function (event) {
      if (began !== null && Math.abs(pixel(event) - began) > 8) {
        var a = chart.time(Math.min(began, pixel(event))), b = chart.time(Math.max(began, pixel(event)));
        seconds = Math.max(5, (b - a) / 1e3); end = b; cursor = null;
        drawAll();
      }
      began = null;
    });
    chart.svg.addEventListener("pointerleave", function () { cursor = null; began = null; readAll(); });
  }

  // --- what the user does --------------------------------------------------------------------

  // Another hour of the past: the one before a moment.
  function ask(until) { end = null; cursor = null; connect(Math.round(until)); }
  function pause() { end = end === null ? last() : null; if (end === null && LENGTHS.indexOf(seconds) < 0) { seconds = 300; } drawAll(); }
  function live() {
    if (past) { ask(Date.now()); return; }
    end = null; cursor = null; if (LENGTHS.indexOf(seconds) < 0) { seconds = 300; } drawAll();
  }
  function move(by) {
    if (past && data.t.length) {
      var shown = range();
      if (by < 0 && shown[0] <= data.t[0]) { ask(data.t[0]); return; }
      if (by > 0 && shown[1] >= last()) { ask(last() + KEPT_MS); return; }
    }
    var to = (end === null ? last() : end) + by * seconds * 500;
    var least = (data.t[0] || 0) + seconds * 1e3;
    end = Math.min(last(), Math.max(Math.min(least, last()), to));
    drawAll();
  }
  function zoom(to) {
    // The middle of what is held stays where it is.
    if (end !== null) { end = Math.min(last(), end + (to - seconds) * 500); }
    seconds = to;
    drawAll();
  }
  function longer(by) {
    var at = LENGTHS.findIndex(function (length) { return length >= seconds; });
    zoom(LENGTHS[Math.min(LENGTHS.length - 1, Math.max(0, (at < 0 ? LENGTHS.length : at) + by))]);
  }
  $("pause").addEventListener("click", pause);
  $("until").addEventListener("change", function () {
    var until = new Date($("until").value).getTime();
    if (until > 0) { ask(until + 1e3); }
  });
  $("live").addEventListener("click", live);
  $("back").addEventListener("click", function () { move(-1); });
  $("forth").addEventListener("click", function () { move(1); });
  document.querySelectorAll(".zoom").forEach(function (button) {
    button.addEventListener("click", function () { zoom(+button.dataset.seconds); });
  });
  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) { return; }
    var onButton = /^(BUTTON|SUMMARY|A)$/.test(event.target.tagName), inPlot = event.target.tagName === "FIGURE";
    var step = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    if (event.target.tagName === "INPUT") { return; }
    if (step && inPlot && data.t.length) {
      var at = nearest(cursor === null ? range()[1] : cursor) + step;
      cursor = data.t[Math.min(data.t.length - 1, Math.max(0, at))];
      readAll();
    } else if (step) { move(step); }
    else if (event.key === "p" || (event.key === " " && !onButton)) { pause(); }
    else if (event.key === "+" || event.key === "=") { longer(-1); }
    else if (event.key === "-") { longer(1); }
    else if (/^[1-4]$/.test(event.key)) { zoom(LENGTHS[event.key - 1]); }
    else if (event.key === "l" || event.key === "Escape") { live(); }
    else { return; }
    event.preventDefault();
  });
  window.addEventListener("resize", function () {
    charts.forEach(function (chart) { chart.width = 0; });
    drawAll();
  });

  // --- what is told --------------------------------------------------------------------------

  function hello(told) {
    past = Boolean(told.past);
    $("pause").hidden = past;
    $("when").hidden = !past;
    $("live").textContent = past ? "The end" : "Live";
    data = { views: told.views, t: told.t, v: told.v };
    trouble = told.trouble;
    put($("target"), told.target);
    put($("version"), told.version);
    document.title = told.target + " – millpond";
    first(told.first);
    happened(told.events);
    state();
    build();
    // The time of this clock, as the field wants it.
    if (past) { $("until").value = new Date(last() - new Date(last()).getTimezoneOffset() * 6e4).toISOString().slice(0, 19); }
  }
  function second(told) {
    trouble = null;
    if (told.t > last() || !data.t.length) {
      data.t.push(told.t);
      data.v.forEach(function (values, i) { values.push(told.v[i]); });
      var old = place(told.t - KEPT_MS);
      // What is held stays.
      if (old > 0 && (end === null || data.t.length > 4500)) {
        data.t.splice(0, old);
        data.v.forEach(function (values) { values.splice(0, old); });
      }
    }
    first(told.first);
    happened(told.events);
    state();
    if (end === null) { drawAll(); }
    document.documentElement.dataset.seconds = String(++clock);
  }
  function connect(until) {
    if (stream) { stream.close(); }
    var events = stream = new EventSource(until ? "events?until=" + until : "events");
    var on = function (name, take) {
      events.addEventListener(name, function (event) { connected = true; take(JSON.parse(event.data)); });
    };
    on("hello", hello);
    on("second", second);
    on("trouble", function (told) { trouble = told; first(told.first); happened(told.events); state(); });
    // Nothing was recorded then: what is shown stays.
    on("nothing", function (told) { put($("state"), told.why); });
    events.onerror = function () {
      if (events !== stream) { return; }
      connected = false;
      state();
      // A refusal ends the stream for good; a lost connection does not.
      if (events.readyState === EventSource.CLOSED) { events.close(); setTimeout(function () { if (events === stream) { connect(until); } }, 3000); }
    };
  }
  connect();
})();
