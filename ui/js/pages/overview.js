// Overview: whether all is well, and the topics.
import { html, useMemo, useRef, useState } from "../lib.js";
import { go, href, path, ROOT } from "../address.js";
import { Timeline } from "../chart.js";
import { useNow } from "../clock.js";
import { count, counted, duration, shellQuote } from "../format.js";
import { useKeys } from "../keys.js";
import { Changes, useStableOrder } from "../order.js";
import { AsOf, Bar, Command, Distance, Elapsed, Mark, STATES, Unloaded } from "../parts.js";
import { usePoll } from "../poll.js";

const PAGE = 1000;
const ROWS = 50;
const LATE_SECONDS = 60;

const overdueSeconds = (view, now) =>
  view.oldest_overdue_at ? Math.max(0, (now - Date.parse(view.oldest_overdue_at)) / 1000) : 0;

function troublesOf(view, now) {
  const [overdue, found] = [overdueSeconds(view, now), []];
  if (view.paused.delivery && view.counts.ready > 0) found.push("delivery is paused, jobs wait");
  else if (overdue >= LATE_SECONDS) found.push(view.waiting ? "jobs wait, workers are too slow" : "jobs wait");
  if (view.paused.intake) found.push("intake is paused");
  if (view.counts.dead > 0) found.push(counted(view.counts.dead, "dead letter"));
  return found;
}

const severity = (view, now) => [overdueSeconds(view, now) >= LATE_SECONDS ? 1 : 0, view.counts.dead, view.counts.ready];

function bySeverity(now) {
  return (a, b) => {
    const [left, right] = [severity(a, now), severity(b, now)];
    const differs = left.findIndex((value, n) => value !== right[n]);
    return differs < 0 ? a.topic.localeCompare(b.topic) : right[differs] - left[differs];
  };
}

/** What happened in the last minute, in words. */
const events = ({ added, finished, died, late_p99: late }) =>
  `Last minute: ${count(added)} added, ${count(finished)} finished, ${count(died)} died${late ? `; 99 % of jobs ready within ${duration(late)} of their due time` : ""}`;

function Totals({ topics, isPart, stale }) {
  const { data } = usePoll("stats", 2_000);
  if (isPart && !data) return null;
  const sum = (state) => topics.reduce((all, view) => all + view.counts[state], 0);
  const sums = isPart ? data.counts : Object.fromEntries(STATES.map((state) => [state, sum(state)]));
  return html`<section class=${`card totals ${stale ? "stale" : ""}`} aria-labelledby="totals">
    <h2 id="totals" class="visually-hidden">Jobs by state</h2>
    <dl>${STATES.map((state) => html`<div key=${state}>
      <dt><${Mark} state=${state} />${state}</dt><dd>${count(sums[state])}</dd>
    </div>`)}</dl>
    <${Bar} counts=${sums} />
    ${data && html`<p class="small">${events(data.minute)}</p>`}
  </section>`;
}

function Trouble({ topics, stale, refresh }) {
  const now = useNow();
  const troubled = topics.filter((view) => troublesOf(view, now).length > 0);
  const { shown, changes, sort } = useStableOrder(troubled, (view) => view.topic, bySeverity(now), "severity");
  const sortAnew = () => refresh().then(sort);
  useKeys({ r: sortAnew });
  const rows = shown.slice(0, ROWS);
  if (shown.length === 0) {
    return html`<section class="card well"><span class="mark well" aria-hidden="true" />
      <p><strong>All is well.</strong> No topic has dead letters, or ready jobs that wait longer than a minute.</p></section>`;
  }
  const present = new Map(topics.map((view) => [view.topic, view]));
  return html`<section class="card" aria-labelledby="trouble">
    <div class="heading"><h2 id="trouble">In trouble</h2>
      <${Changes} changes=${changes} sort=${sortAnew} /></div>
    <ul class=${`troubles ${stale ? "stale" : ""}`}>${rows.map(({ key, row, gone }) => {
      const view = present.get(key) ?? row;
      const found = troublesOf(view, now);
      return html`<li key=${key} data-row>
        <span class=${`mark ${gone ? "well" : overdueSeconds(view, now) >= LATE_SECONDS ? "alert bad" : "alert"}`} aria-hidden="true" />
        <a class="mono" href=${href("topics", key)}>${key}</a>
        <span class="what">${gone ? "well again" : found.join("; ")}</span>
        ${view.counts.ready > 0 && html`<span class="small">
          ${view.oldest_overdue_at && html`overdue ${duration(Math.floor(overdueSeconds(view, now)))} · `}
          ${count(view.counts.ready)} ready · ${counted(view.waiting, "worker")} waiting</span>`}
      </li>`;
    })}</ul>
    ${shown.length > ROWS && html`<p class="small">${count(shown.length - ROWS)} more topics are in trouble.</p>`}
  </section>`;
}

const number = (state) => (view) => view.counts[state];
const earliest = (text) => (text ? Date.parse(text) : Infinity);

const COLUMNS = [
  { name: "Topic", order: (a, b) => a.topic.localeCompare(b.topic) },
  ...STATES.map((state) => ({ name: state, label: state[0].toUpperCase() + state.slice(1), value: number(state) })),
  { name: "Next due", order: (a, b) => earliest(a.next_due_at) - earliest(b.next_due_at) },
  { name: "Overdue", order: (a, b) => earliest(a.oldest_overdue_at) - earliest(b.oldest_overdue_at) },
  { name: "Workers waiting", value: (view) => view.waiting },
];

function compareBy(column) {
  const byName = COLUMNS[0].order;
  const order = column.order ?? ((a, b) => column.value(b) - column.value(a));
  return (a, b) => order(a, b) || byName(a, b);
}

const Row = ({ view, gone }) => html`<tr role="row" data-row class=${gone ? "gone" : ""}>
  <th scope="row" role="rowheader"><a class="mono" href=${href("topics", view.topic)}>${view.topic}</a>
    ${view.paused.delivery && html` <span class="tag">delivery paused</span>`}
    ${view.paused.intake && html` <span class="tag">intake paused</span>`}
    ${gone && html` <span class="tag">gone</span>`}</th>
  <td role="cell" class="bar-cell"><${Bar} counts=${view.counts} /></td>
  ${STATES.map((state) => html`<td key=${state} role="cell" class=${`number ${view.counts[state] ? "" : "zero"}`}
    data-name=${state}>${count(view.counts[state])}</td>`)}
  <td role="cell" class=${view.next_due_at ? "" : "zero"} data-name="next due">${view.next_due_at ? html`<${Distance} at=${view.next_due_at} />` : "–"}</td>
  <td role="cell" class=${view.oldest_overdue_at ? "" : "zero"} data-name="overdue">${view.oldest_overdue_at ? html`<${Elapsed} since=${view.oldest_overdue_at} />` : "–"}</td>
  <td role="cell" class=${`number ${view.waiting ? "" : "zero"}`} data-name="workers waiting">${count(view.waiting)}</td>
</tr>`;

function Topics({ topics, stale, refresh, before, after }) {
  const [sortedBy, setSortedBy] = useState("Topic");
  const [prefix, setPrefix] = useState("");
  const [showsAll, setShowsAll] = useState(false);
  const filter = useRef(null);
  const matching = useMemo(() => topics.filter((view) => view.topic.startsWith(prefix.trim())), [topics, prefix]);
  const compare = compareBy(COLUMNS.find((column) => column.name === sortedBy));
  const again = `${sortedBy} ${prefix}`;
  const { shown, changes, sort } = useStableOrder(matching, (view) => view.topic, compare, again);
  const sortAnew = () => refresh().then(sort);
  useKeys({ r: sortAnew, "g t": () => filter.current?.focus() });
  const rows = showsAll ? shown : shown.slice(0, ROWS);
  return html`<section class="card" aria-labelledby="topics">
    <div class="heading">
      <h2 id="topics">Topics <span class="small">${count(topics.length)}${(before || after) && " on this page"}</span></h2>
      <${Changes} changes=${changes} sort=${sortAnew} />
      <label class="filter"><span class="visually-hidden">Topics that begin with</span>
        <input ref=${filter} type="search" placeholder="begins with" autocomplete="off" autocapitalize="off" spellcheck=${false}
          value=${prefix} onInput=${(event) => setPrefix(event.target.value)} /></label>
      <label class="sort">Sort by
        <select value=${sortedBy} onChange=${(event) => setSortedBy(event.target.value)}>
          ${COLUMNS.map(({ name, label }) => html`<option key=${name} value=${name}>${label ?? name}</option>`)}
        </select></label>
    </div>
    <table role="table" class=${`topics ${stale ? "stale" : ""}`} aria-labelledby="topics">
      <thead role="rowgroup"><tr role="row">
        ${COLUMNS.flatMap(({ name, label }, n) => [
          html`<th key=${name} scope="col" role="columnheader" class=${n > 0 && !["Next due", "Overdue"].includes(name) ? "number" : ""}
            aria-sort=${name === sortedBy ? (n === 0 || !label ? "ascending" : "descending") : undefined}>
            <button type="button" class="column" onClick=${() => (setSortedBy(name), sort())}>${label ?? name}</button></th>`,
          ...(n === 0 ? [html`<th key="bar" scope="col" role="columnheader"><span class="visually-hidden">Shares</span></th>`] : []),
        ])}
      </tr></thead>
      <tbody role="rowgroup">${rows.map(({ key, row, gone }) => html`<${Row} key=${key} view=${row} gone=${gone} />`)}</tbody>
    </table>
    ${rows.length === 0 && html`<p class="empty">No topic here begins with “${prefix.trim()}”.</p>`}
    ${(rows.length < shown.length || before || after) && html`<div class="actions">
      ${rows.length < shown.length && html`<button type="button" onClick=${() => setShowsAll(true)}>Show all ${count(shown.length)}</button>`}
      ${before && html`<button type="button" onClick=${before}>Earlier topics</button>`}
      ${after && html`<button type="button" onClick=${after}>Next topics by name</button>`}
    </div>`}
  </section>`;
}

const FIRST_JOB = `curl ${shellQuote(new URL("jobs", ROOT).href)} \\
  --header 'content-type: application/json' \\
  --data '{"topic":"hello","delay":"30s","body":"my first job"}'`;

const NewServer = () => html`<section class="card">
  <h2>There is no job yet</h2>
  <p>A topic appears here with its first job. This adds one that comes due in half a minute:</p>
  <${Command} text=${FIRST_JOB} />
</section>`;

function OpenTopic({ detail }) {
  const [topic, setTopic] = useState("");
  const open = (event) => {
    event.preventDefault();
    if (topic.trim()) go("topics", topic.trim());
  };
  return html`<form class="card find" onSubmit=${open}>
    <h2>Open a topic</h2>
    <p>The list of all topics is not for this token: ${detail}.</p>
    <label for="topic">Name of the topic</label>
    <div class="field-row">
      <input id="topic" class="mono" autocomplete="off" autocapitalize="off" spellcheck=${false} maxlength="128" value=${topic}
        onInput=${(event) => setTopic(event.target.value)} />
      <button class="primary">Open</button>
    </div>
  </form>`;
}

export function Overview() {
  // The cursors of the pages up to the present one.
  const [cursors, setCursors] = useState([]);
  const cursor = cursors.at(-1);
  const poll = usePoll(`topics?limit=${PAGE}${cursor ? `&cursor=${path(cursor)}` : ""}`, 2_000);
  useKeys({ r: poll.refresh });
  const heading = html`<h1 tabindex="-1" class="visually-hidden">Overview</h1>`;
  if (poll.error?.status === 403) return html`${heading}<${OpenTopic} detail=${poll.error.detail} />`;
  if (!poll.data) return html`${heading}<${Unloaded} poll=${poll} what="the topics" />`;
  const { topics, next_cursor: next } = poll.data;
  if (topics.length === 0 && !cursor) return html`${heading}<${AsOf} poll=${poll} /><${NewServer} />`;
  const before = cursor && (() => setCursors(cursors.slice(0, -1)));
  const after = next && (() => setCursors([...cursors, next]));
  return html`${heading}
    <${AsOf} poll=${poll} />
    <${Totals} topics=${topics} isPart=${Boolean(before || after)} stale=${poll.stale} />
    <${Timeline} />
    <${Trouble} key=${`trouble ${cursor}`} topics=${topics} stale=${poll.stale} refresh=${poll.refresh} />
    <${Topics} key=${`topics ${cursor}`} topics=${topics} stale=${poll.stale} refresh=${poll.refresh} before=${before} after=${after} />`;
}
