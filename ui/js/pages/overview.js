// Overview: whether all is well, and the topics.
import { html, useRef, useState } from "../lib.js";
import { href, queryText, ROOT } from "../address.js";
import { Cause } from "../cause.js";
import { useMay } from "../changes.js";
import { Timeline } from "../chart.js";
import { useNow } from "../clock.js";
import { count, counted, duration, shellQuote } from "../format.js";
import { useKeys } from "../keys.js";
import { Changes, useStableOrder } from "../order.js";
import { AsOf, Bar, Command, Distance, Elapsed, Failure, Mark, Moment, STATES, Unloaded } from "../parts.js";
import { usePoll } from "../poll.js";

const PAGE = 1000;
const ROWS = 50;
const LATE_SECONDS = 60;

const overdueSeconds = (view, now) =>
  view.oldest_overdue_at ? Math.max(0, (now - Date.parse(view.oldest_overdue_at)) / 1000) : 0;

function troublesOf({ cause, paused, pauses, counts, ...view }, now) {
  const found = [];
  const says = (kind) => cause?.kind === kind;
  const waits = says("delivery_paused") ? counts.ready > 0 : says("callback_fails") || isLate({ counts, ...view }, now);
  if (waits) found.push(html`<${Cause} cause=${cause} />`);
  if (paused.intake && !(waits && says("intake_paused"))) {
    found.push(html`<${Cause} cause=${{ kind: "intake_paused", ...pauses?.intake }} />`);
  }
  if (counts.dead > 0) found.push(counted(counts.dead, "dead letter"));
  return found;
}

const isLate = (view, now) => overdueSeconds(view, now) >= LATE_SECONDS;
const byName = (a, b) => a.topic.localeCompare(b.topic);

/** How long late jobs waited together, if each as long as the oldest. */
const waited = (view, now) => isLate(view, now) && overdueSeconds(view, now) * view.counts.ready;

const bySeverity = (now) => (a, b) =>
  waited(b, now) - waited(a, now) || b.counts.dead - a.counts.dead || b.counts.ready - a.counts.ready || byName(a, b);

/** Since when the servers count: the oldest of them knows no more. */
const countsSince = ({ processes }) => Math.min(...processes.map(({ started_at: at }) => Date.parse(at)));

/** The last hour, or the time since the start. */
const hourOf = (stats) => {
  const since = countsSince(stats);
  return Date.parse(stats.now) - since < 3_600_000 ? html`Since the start <${Distance} at=${new Date(since).toISOString()} />` : "Last hour";
};

/** What happened in a time, in words. */
const events = (time, { added, finished, died, late_p99: late }) => html`<p class="small">${time}: ${count(added)} added, ${
  count(finished)} finished, ${count(died)} died${late ? `; 99 % of jobs were ready within ${duration(late)} of their due time` : ""}</p>`;

function Totals({ topics, isPart, stale }) {
  const { data } = usePoll(useMay()("read") ? "stats" : null, 2_000);
  if (isPart && !data) return null;
  const sum = (state) => [state, topics.reduce((all, view) => all + view.counts[state], 0)];
  const sums = isPart ? data.counts : Object.fromEntries(STATES.map(sum));
  return html`<section class=${`card totals ${stale ? "stale" : ""}`} aria-labelledby="totals">
    <h2 id="totals" class="visually-hidden">Jobs by state</h2>
    <dl>${STATES.map((state) => html`<div key=${state}>
      <dt><${Mark} state=${state} />${state}</dt><dd>${count(sums[state])}</dd>
    </div>`)}</dl>
    <${Bar} counts=${sums} />
    ${data && [events("Last minute", data.minute), events(hourOf(data), data.hour)]}
  </section>`;
}

function Trouble({ topics, isPart, poll }) {
  const now = useNow();
  const late = usePoll("topics?sort=overdue", 2_000);
  const dead = usePoll(isPart ? "topics?sort=dead" : null, 2_000);
  const [lates, deads] = [late, dead].map(({ data }) => data?.topics ?? []);
  // On Redis, only the list sorted by it has the oldest ready jobs.
  const oldest = new Map(lates.map((view) => [view.topic, view.oldest_overdue_at]));
  const present = new Map((isPart ? [...lates, ...deads, ...topics] : topics).map((view) => [view.topic, {
    ...view, oldest_overdue_at: view.oldest_overdue_at ?? (view.counts.ready > 0 ? oldest.get(view.topic) : null),
  }]));
  const troubled = [...present.values()].filter((view) => troublesOf(view, now).length > 0);
  const { shown, changes, sort } = useStableOrder(troubled, (view) => view.topic, bySeverity(now), `${!late.data} ${!dead.data}`);
  const sortAnew = () => Promise.all([poll.refresh(), late.refresh(), dead.refresh()]).then(sort);
  useKeys({ r: sortAnew });
  const unknown = [late, dead].find(({ data, error }) => error && !data);
  const stale = [poll, late, dead].find((one) => one.stale);
  if (shown.length === 0) {
    if (unknown) return html`<${Failure} error=${{ ...unknown.error, title: "Whether all is well is not known" }} retry=${sortAnew} />`;
    return late.data && (dead.data || !isPart) && html`<section class="card well ${stale ? "stale" : ""}"><span class="mark well" aria-hidden="true" />
      <p><strong>${stale ? html`All was well at <${Moment} at=${stale.at} />.` : "All is well."}</strong> No topic ${stale ? "had" : "has"} dead letters, or ready jobs that wait longer than a minute.</p></section>`;
  }
  return html`<section class="card" aria-labelledby="trouble">
    <div class="heading"><h2 id="trouble">In trouble</h2>
      <${Changes} changes=${changes} sort=${sortAnew} /></div>
    ${unknown && html`<p class="problem" role="alert">There may be more: ${unknown.error.detail}</p>`}
    <ul class="troubles ${stale ? "stale" : ""}">${shown.slice(0, ROWS).map(({ key, row, gone }) => {
      const view = present.get(key) ?? row;
      const found = troublesOf(view, now);
      return html`<li key=${key} data-row>
        <span class=${`mark ${gone ? "well" : isLate(view, now) ? "alert bad" : "alert"}`} aria-hidden="true" />
        <a class="mono" href=${href("topics", key)}>${key}</a>
        <span class="what">${gone ? "well again" : found.map((one, n) => html`${n > 0 && "; "}${one}`)}</span>
        ${view.counts.ready > 0 && html`<span class="small">
          ${view.oldest_overdue_at && html`overdue ${duration(Math.floor(overdueSeconds(view, now)))} · `}
          ${count(view.counts.ready)} ready</span>`}
      </li>`;
    })}</ul>
    ${shown.length > ROWS && html`<p class="small">${isPart ? "At least " : ""}${count(shown.length - ROWS)} more topics are in trouble.</p>`}
  </section>`;
}

/** The orders that the API has. */
const SORTS = { Topic: "name", delayed: "delayed", ready: "ready", dead: "dead", Overdue: "overdue" };

const COLUMNS = [
  { name: "Topic" },
  ...STATES.map((state) => ({ name: state, label: state[0].toUpperCase() + state.slice(1), value: (view) => view.counts[state] })),
  { name: "Next due", value: (view) => (view.next_due_at ? -Date.parse(view.next_due_at) : -Infinity) },
  { name: "Overdue" },
  { name: "Polls", value: (view) => view.polls },
];

/** The highest value first. */
const compareBy = ({ value = () => 0 }) => (a, b) => value(b) - value(a) || byName(a, b);

const Row = ({ view, gone }) => html`<tr role="row" data-row class=${gone ? "gone" : ""}>
  <th scope="row" role="rowheader"><a class="mono" href=${href("topics", view.topic)}>${view.topic}</a>
    ${view.paused.delivery && html` <span class="tag">delivery paused</span>`}
    ${view.paused.intake && html` <span class="tag">intake paused</span>`}
    ${gone && html` <span class="tag">gone</span>`}</th>
  <td role="cell" class="bar-cell"><${Bar} counts=${view.counts} /></td>
  ${STATES.map((state) => html`<td key=${state} role="cell" class=${`number ${view.counts[state] ? "" : "zero"}`}
    data-name=${state}>${count(view.counts[state])}</td>`)}
  ${[["next due", view.next_due_at, Distance, "delayed"], ["overdue", view.oldest_overdue_at, Elapsed, "ready"]].map(([name, at, Time, state]) => html`<td key=${name}
    role="cell" class=${at ? "" : "zero"} data-name=${name}>${at ? html`<${Time} at=${at} />` : view.counts[state] > 0 ? "?" : "–"}</td>`)}
  <td role="cell" class=${`number ${view.polls ? "" : "zero"}`} data-name="polls">${view.polls === null ? "?" : count(view.polls)}</td>
</tr>`;

/** The topics in an order. If there are more than a page, the server sorts and searches them. */
function Topics({ all, isPart }) {
  const [asked, setAsked] = useState({ sortedBy: "Topic", prefix: "", cursors: [] });
  const { sortedBy, prefix, cursors } = asked;
  const ask = (changes) => setAsked({ ...asked, cursors: [], ...changes });
  const [showsAll, setShowsAll] = useState(false);
  const filter = useRef(null);
  const columns = COLUMNS.filter(({ name }) => SORTS[name] || !isPart);
  const column = columns.find(({ name }) => name === sortedBy) ?? COLUMNS[0];
  const [begin, cursor, order] = [prefix.trim(), cursors.at(-1), SORTS[column.name]];
  const asks = order === "overdue" || (isPart && (begin || cursor || order !== "name"));
  const path = asks ? `topics${queryText({ sort: order, limit: PAGE, prefix: begin, cursor })}` : null;
  const own = usePoll(path, 2_000);
  const { data, error, stale, refresh } = asks ? own : all;
  // While another list loads, the one before stays.
  const latest = useRef(null);
  if (!asks) {
    const found = data.topics.filter((view) => view.topic.startsWith(begin));
    latest.current = { found, compare: compareBy(column), again: `${sortedBy} ${begin}` };
  } else if (data) {
    const places = new Map(data.topics.map((view, n) => [view, n]));
    latest.current = { found: data.topics, compare: (a, b) => places.get(a) - places.get(b), again: path };
  }
  const { found, compare, again } = latest.current;
  const { shown, changes, sort } = useStableOrder(found, (view) => view.topic, compare, again);
  const sortAnew = () => refresh().then(sort);
  useKeys({ r: sortAnew, "g t": () => filter.current?.focus() });
  const rows = showsAll ? shown : shown.slice(0, ROWS);
  const next = data?.next_cursor;
  return html`<section class="card" aria-labelledby="topics">
    <div class="heading">
      <h2 id="topics">Topics <span class="small">${count(found.length)}${isPart && " on this page"}</span></h2>
      <${Changes} changes=${changes} sort=${sortAnew} />
      <label class="filter"><span class="visually-hidden">Topics that begin with</span>
        <input ref=${filter} type="search" placeholder="begins with" autocomplete="off" autocapitalize="off" spellcheck=${false}
          value=${prefix} onInput=${(event) => ask({ prefix: event.target.value })} /></label>
      <label class="sort">Sort by
        <select value=${sortedBy} onChange=${(event) => ask({ sortedBy: event.target.value })}>
          ${columns.map(({ name, label }) => html`<option key=${name} value=${name}>${label ?? name}</option>`)}
        </select></label>
    </div>
    ${asks && error && html`<p class="problem" role="alert">${error.detail}</p>`}
    <table role="table" class=${`topics ${stale || !data ? "stale" : ""}`} aria-labelledby="topics">
      <thead role="rowgroup"><tr role="row">
        ${COLUMNS.map(({ name, label }, n) => [
          html`<th key=${name} scope="col" role="columnheader" class=${n > 0 && !["Next due", "Overdue"].includes(name) ? "number" : ""}
            aria-sort=${name === sortedBy ? (n === 0 || !label ? "ascending" : "descending") : undefined}>
            <button type="button" class="column" disabled=${isPart && !SORTS[name]} onClick=${() => (ask({ sortedBy: name }), sort())}>${label ?? name}</button></th>`,
          n === 0 && html`<th key="bar" scope="col" role="columnheader"><span class="visually-hidden">Shares</span></th>`,
        ])}
      </tr></thead>
      <tbody role="rowgroup">${rows.map(({ key, row, gone }) => html`<${Row} key=${key} view=${row} gone=${gone && !isPart} />`)}</tbody>
    </table>
    ${rows.length === 0 && html`<p class="empty">No topic here begins with “${begin}”.</p>`}
    ${(rows.length < shown.length || cursor || next) && html`<div class="actions">
      ${rows.length < shown.length && html`<button type="button" onClick=${() => setShowsAll(true)}>Show all ${count(shown.length)}</button>`}
      ${cursor && html`<button type="button" onClick=${() => ask({ cursors: cursors.slice(0, -1) })}>Earlier topics</button>`}
      ${next && html`<button type="button" onClick=${() => ask({ cursors: [...cursors, next] })}>Next topics by name</button>`}
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

export function Overview() {
  const poll = usePoll(`topics?limit=${PAGE}`, 2_000);
  const may = useMay();
  useKeys({ r: poll.refresh });
  const heading = html`<h1 tabindex="-1" class="visually-hidden">Overview</h1>`;
  if (!poll.data) return html`${heading}<${Unloaded} poll=${poll} what="the topics" />`;
  const { topics, next_cursor: next } = poll.data;
  if (topics.length === 0) return html`${heading}<${AsOf} poll=${poll} /><${NewServer} />`;
  const parts = { topics, isPart: Boolean(next), stale: poll.stale, poll };
  return html`${heading}
    <${AsOf} poll=${poll} />
    <${Totals} ...${parts} />
    ${may("read") && html`<${Timeline} />`}
    <${Trouble} ...${parts} />
    <${Topics} all=${poll} isPart=${parts.isPart} />`;
}
