// How numbers are written, for the page of a report and for the dashboard: each has this before its own script.
var show = (function () {
  "use strict";
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
    return v < 1e3 ? v.toFixed(v < 10 && v % 1 ? 1 : 0) + " µs" : v < 1e6 ? (v / 1e3).toFixed(1) + " ms" : (v / 1e6).toFixed(2) + " s";
  }
  return {
    "count": count, "bytes": size, "us": micros,
    "bytes/s": function (v) { return size(v) + "/s"; },
    "us/s": function (v) { return micros(v) + "/s"; }
  };
})();
