// Draws what `millpond serve` tells of several targets: what to look at first at each, and its figures.
(function () {
  "use strict";
  var list = document.getElementById("targets"), connected = false, past = false, count = 0, seconds = 0;

  function put(node, text) { if (node.textContent !== text) { node.textContent = text; } }
  function made(parent, kind, look) {
    var node = document.createElement(kind);
    node.className = look;
    parent.append(node);
    return node;
  }
  function card(number) {
    var item = document.createElement("li"), link = made(item, "a", "card");
    link.href = number + "/";
    var one = { link: link, name: made(link, "h2", "name"), version: made(link, "p", "version"), text: made(link, "p", "text") };
    one.age = made(link, "div", "age");
    one.now = made(one.age, "div", "now");
    one.soft = made(one.age, "div", "soft");
    one.tiles = made(link, "dl", "tiles");
    list.append(item);
    return one;
  }
  var cards = [];

  function draw(one, told) {
    var first = told.first, waits = !first && !told.trouble;
    put(one.name, told.target);
    put(one.version, told.version);
    put(one.text, told.trouble ? "no samples: " + told.trouble : first ? first.text : "waiting for the first sample");
    one.link.className = "card " + (told.trouble ? "alarm" : waits ? "unknown" : first.urgency);
    var age = first && !told.trouble ? first.age : null;
    one.age.hidden = age === null;
    if (age !== null) {
      one.now.style.width = Math.min(100, 100 * age).toFixed(1) + "%";
      one.soft.hidden = first.soft === null;
      one.soft.style.left = (100 * (first.soft || 0)).toFixed(1) + "%";
    }
    var tiles = first ? first.tiles : [];
    if (one.tiles.childElementCount !== tiles.length) {
      one.tiles.textContent = "";
      tiles.forEach(function () {
        var box = made(one.tiles, "div", "tile");
        made(box, "dt", "what"); made(box, "dd", "value");
      });
    }
    tiles.forEach(function (tile, i) {
      var box = one.tiles.children[i];
      put(box.children[0], tile[0]);
      put(box.children[1], tile[1]);
    });
  }
  function all(told) {
    count = told.targets.length;
    while (cards.length < count) { cards.push(card(cards.length + 1)); }
    told.targets.forEach(function (one, i) { draw(cards[i], one); });
    past = told.past;
    document.title = count + " targets \u2013 millpond";
    document.documentElement.dataset.seconds = String(++seconds);
    state();
  }
  function state() { put(document.getElementById("state"), connected ? count + " targets, " + (past ? "the past" : "live") : "no connection"); }
  function connect() {
    var events = new EventSource("events");
    events.addEventListener("all", function (event) { connected = true; all(JSON.parse(event.data)); });
    events.onerror = function () {
      connected = false;
      // What is not known now does not look as if it were.
      cards.forEach(function (one) { one.link.className = "card gone"; one.age.hidden = true; });
      state();
      // A refusal ends the stream for good; a lost connection does not.
      if (events.readyState === EventSource.CLOSED) { events.close(); setTimeout(connect, 3000); }
    };
  }
  connect();
})();
