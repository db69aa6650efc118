"use strict";
// The page of a master. It shows what /ui/events sends: the whole state each time, so a message that was missed costs nothing.
// Names come from clients of the master and may be anything: they only ever become text, never markup.

const byID = (id) => document.getElementById(id);
let token = ""; // lives as long as the page does
let skew = 0;   // of this clock against the master's

function make(tag, className, ...inside) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  e.append(...inside.filter((x) => x !== null && x !== undefined));
  return e;
}

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let n = bytes, u = 0;
  while (n >= 1024 && u < units.length - 1) { n /= 1024; u++; }
  return (u === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)) + " " + units[u];
}

const count = (n) => n.toLocaleString("en");

function ago(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 1) return "now";
  if (s < 120) return s + " s ago";
  if (s < 7200) return Math.round(s / 60) + " min ago";
  return s < 172800 ? Math.round(s / 3600) + " h ago" : Math.round(s / 86400) + " d ago";
}

// when is a time that grows older while it is looked at.
function when(at) {
  if (!at) return make("span", "none", "–");
  const e = make("time", "", ago(Date.now() + skew - at));
  e.dataset.at = at;
  e.title = new Date(at).toISOString();
  return e;
}

setInterval(() => {
  for (const e of document.querySelectorAll("time[data-at]")) e.textContent = ago(Date.now() + skew - e.dataset.at);
}, 1000);

function bar(used, of) {
  const share = of > 0 ? Math.min(1, used / of) : 0;
  const fill = make("i", share > 0.95 ? "full" : share > 0.85 ? "high" : "");
  fill.style.width = (100 * share).toFixed(1) + "%";
  const e = make("div", "bar", fill);
  e.title = (100 * share).toFixed(1) + " %";
  return e;
}

const cell = (className, ...inside) => make("td", className, ...inside);
const tag = (state) => make("span", "tag " + String(state).replace(/[^A-Za-z]/g, ""), state);
const limit = (bytes) => bytes ? size(bytes) : make("span", "none", "–");

function named(text, title) {
  const e = cell("name", text);
  e.title = title || text;
  return e;
}

// fill puts rows into a table, or says that there are none, and tells how many are left out.
function fill(id, rows, more, none) {
  const body = byID(id);
  if (rows.length === 0) {
    const e = cell("none", none);
    e.colSpan = 8;
    rows = [make("tr", "", e)];
  }
  body.replaceChildren(...rows);
  const rest = byID(id + "-more");
  rest.hidden = more === 0;
  rest.textContent = "and " + count(more) + " more";
}

function card(number, text, extra, wide) {
  return make("div", wide ? "card wide" : "card", make("b", "", number), make("span", "", text), extra);
}

function showStanding(m) {
  byID("host").textContent = m.address;
  document.title = "mooncake-master " + m.address;
  byID("role").textContent = m.role;
  byID("role").className = "badge " + m.role;
  byID("state").textContent = m.state;
  byID("term").textContent = m.leader_address ? "· term " + m.term : "";
  const notices = [];
  if (!m.serving) {
    notices.push(m.leader_address ? "This master stands by. The leader is " + m.leader_address + ", term " + m.term + "; its page shows the pool."
      : "This master does not serve, and nobody is known to lead.");
    if (m.newest > 0) notices.push("It has " + count(m.applied) + " of " + count(m.newest) + " records, " + count(m.objects) + " objects.");
  }
  if (m.no_space) notices.push("Etcd is full: nothing is acknowledged.");
  byID("notice").hidden = notices.length === 0;
  byID("notice").textContent = notices.join(" ");
}

function showPool(p, m) {
  const clients = count(p.clients_active) + " active" +
    (p.clients_suspected ? ", " + count(p.clients_suspected) + " suspected" : "") + (p.clients_lost ? ", " + count(p.clients_lost) + " lost" : "");
  const cards = [
    card(size(p.used_bytes), "of " + size(p.capacity_bytes) + " in use" + (p.quarantined_bytes ? ", " + size(p.quarantined_bytes) + " wait" : ""),
      bar(p.used_bytes, p.capacity_bytes), true),
    card(count(p.keys), "objects"), card(count(p.segments), "segments"), card(clients, "owners of memory"),
    card(count(p.evicted_keys), "evicted so far" + (p.evicted_keys ? ", " + size(p.evicted_bytes) : ""))];
  if (m.leader_address) cards.push(card("term " + m.term, m.unacked ? count(m.unacked) + " records on their way to the log" : "everything is in the log"));
  byID("cards").replaceChildren(...cards);
}

function showSegments(list, more) {
  fill("segments", list.map((s) => make("tr", "",
    named(s.segment, s.segment + "  " + s.segment_id), named(s.host), cell("fill", bar(s.used_bytes, s.size_bytes)),
    cell("n", size(s.used_bytes)), cell("n", size(s.size_bytes)), cell("n", count(s.replicas)), cell("", tag(s.client_stage)),
    cell("", tag(s.status), s.endpoint_state === "unverified" ? " unreachable from here" : ""))), more, "no memory is mounted");
}

function showBundles(states, list, more) {
  const there = states.filter((s) => s.bundles > 0);
  byID("states").replaceChildren(...there.map((s) => make("li", "tag " + s.state, s.state + " " + count(s.bundles) + (s.bytes ? " · " + size(s.bytes) : ""))));
  byID("stack").hidden = there.every((s) => s.bytes === 0);
  byID("stack").replaceChildren(...there.filter((s) => s.bytes > 0).map((s) => {
    const part = make("i", s.state);
    part.style.flexGrow = String(s.bytes);
    return part;
  }));
  fill("bundles", list.map((b) => make("tr", "",
    named(b.id), cell("", tag(b.state), b.verified ? " verified" : b.evicted ? " evicted" : b.lost_keys ? " " + count(b.lost_keys) + " keys lost" : ""),
    cell("n", count(b.keys)), cell("n", size(b.allocated_bytes)), cell("n", count(b.reads)),
    b.workload ? named(b.workload) : cell("none", "–"), cell("", when(b.times_ms.created)), cell("", when(b.times_ms.published)))),
  more, "no bundle was written yet");
}

function showWorkloads(list, more) {
  fill("workloads", list.map((w) => make("tr", "",
    w.name ? named(w.name) : cell("none", "what no rule fits"), cell("n", count(w.keys)), cell("n", size(w.bytes)),
    cell("n", limit(w.soft_bytes)), cell("n", limit(w.hard_bytes)), cell("n", limit(w.reserved_bytes)),
    cell("n", size(w.evicted_bytes)), cell("n", count(w.refused_puts)))), more, "no rules");
}

function showEvents(list) {
  byID("events").replaceChildren(...list.map((e) => {
    const line = make("div", "", make("b", "", e.text), e.count > 1 ? " ×" + count(e.count) : "");
    for (const f of e.fields || []) line.append(make("code", "", f.name + "=" + f.value));
    return make("li", e.level, when(e.at_ms), line);
  }));
  if (list.length === 0) byID("events").append(make("li", "none", "nothing happened yet"));
}

// Only what has changed is drawn again, so that a selection stays.
const drawn = {};
function draw(name, value, show) {
  const text = JSON.stringify(value);
  if (drawn[name] === text) return;
  drawn[name] = text;
  show();
}

function show(message) {
  const s = message.state, m = s.master;
  skew = message.now_ms - Date.now();
  draw("master", m, () => showStanding(m));
  for (const part of ["cards", "segments-part", "bundles-part", "workloads-part"]) byID(part).hidden = !m.serving;
  draw("pool", [s.pool, m], () => showPool(s.pool, m));
  draw("segments", [s.segments, s.segments_more], () => showSegments(s.segments, s.segments_more));
  draw("bundles", [s.bundle_states, s.bundles, s.bundles_more], () => showBundles(s.bundle_states, s.bundles, s.bundles_more));
  draw("workloads", [s.workloads, s.workloads_more], () => showWorkloads(s.workloads, s.workloads_more));
  draw("events", s.events, () => showEvents(s.events));
  byID("all").hidden = false;
  live(true, "live");
}

function live(on, text) {
  byID("live").className = on ? "live" : "live off";
  byID("live").textContent = text;
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// follow reads one stream until it ends. EventSource cannot send a token, so the lines are read here.
async function follow() {
  const answer = await fetch("ui/events", { headers: token ? { Authorization: "Bearer " + token } : {}, cache: "no-store" });
  if (answer.status === 401 || answer.status === 403) {
    byID("refusal").textContent = token ? "not with this one" : "";
    byID("door").hidden = false;
    live(false, "a token is needed");
    await new Promise((done) => byID("door").addEventListener("submit", (e) => { e.preventDefault(); done(); }, { once: true }));
    token = byID("token").value.trim();
    byID("token").value = "";
    return true;
  }
  if (!answer.ok) throw new Error(answer.status === 503 ? "too many look already" : "status " + answer.status);
  byID("door").hidden = true;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return false;
    const messages = (rest + value).split("\n\n");
    rest = messages.pop();
    for (const text of messages) if (text.startsWith("data: ")) show(JSON.parse(text.slice("data: ".length)));
  }
}

(async () => {
  for (let wait = 1000; ; wait = Math.min(2 * wait, 30000)) {
    try {
      if (await follow()) { wait = 500; continue; }
      wait = 1000;
      live(false, "the master ended the stream");
    } catch (e) {
      live(false, e instanceof TypeError ? "no answer" : e.message);
    }
    await pause(wait);
  }
})();
