// Overview: whether all is well, and the topics.
import { html, observable, useEffect, useRef, useState } from "../lib.js";
import { href, queryText, ROOT } from "../address.js";
import { Cause } from "../cause.js";
import { useMay } from "../changes.js";
import { Timeline } from "../chart.js";
import { serverNow, useNow } from "../clock.js";
import { count, counted, duration, rate, shellQuote, together } from "../format.js";
import { lossOf } from "../durability.js";
import { useKeys } from "../keys.js";
import { t } from "../language.js";
import { Changes, useStableOrder } from "../order.js";
import { AsOf, Bars, Command, Distance, Elapsed, Failure, Mark, Moment, STATES, stateName, Unloaded } from "../parts.js";
import { usePoll } from "../poll.js";
import { countsSince } from "../timeline.js";

/** How many topics are in trouble, while the overview shows that; else null. */
export const troubles = observable(null);

const PAGE = 1000;
const ROWS = 50;
const LATE_SECONDS = 60;

const overdueSeconds = (view, now) =>
  view.oldest_overdue_at ? Math.max(0, (now - Date.parse(view.oldest_overdue_at)) / 1000) : 0;

function troublesOf({ topic, cause, paused, pauses, counts, ...view }, now) {
  const found = [];
  const says = (kind) => cause?.kind === kind;
  const waits = says("delivery_paused") ? counts.ready > 0 : says("callback_fails") || isLate({ counts, ...view }, now);
  if (waits) found.push(html`<${Cause} cause=${cause} />`);
  if (paused.intake && !(waits && says("intake_paused"))) {
    found.push(html`<${Cause} cause=${{ kind: "intake_paused", ...pauses?.intake }} />`);
  }
  if (counts.dead > 0) found.push(html`<a href=${href("topics", topic, "dead")}>${counted(counts.dead, "dead letter")}</a>`);
  return found;
}

const isLate = (view, now) => overdueSeconds(view, now) >= LATE_SECONDS;
const byName = (a, b) => a.topic.localeCompare(b.topic);

/** How long late jobs waited together, if each as long as the oldest. */
const waited = (view, now) => isLate(view, now) && overdueSeconds(view, now) * view.counts.ready;

const bySeverity = (now) => (a, b) =>
  waited(b, now) - waited(a, now) || b.counts.dead - a.counts.dead || b.counts.ready - a.counts.ready || byName(a, b);

/** The last hour, or the time since the start. */
const hourOf = (stats) => {
  const since = countsSince(stats);
  return Date.parse(stats.now) - since < 3_600_000 ? t`Since the start ${html`<${Distance} at=${new Date(since).toISOString()} />`}` : t`Last hour`;
};

/** How late 99 % of jobs were delivered. It is not said if there were none, and if that is more than two hours. */
const lateOf = (events) => events?.delivered_late_p99 ?? (events?.delivered > 0 ? Infinity : undefined);
const lateText = (events) => (lateOf(events) === Infinity ? `> ${duration(7_200)}` : lateOf(events) === undefined ? "–" : duration(lateOf(events)));

/** What happened in the hour, in words. */
function events({ hour, ...stats }) {
  const parts = [t`${hourOf(stats)}: ${count(hour.added)} added, ${count(hour.finished)} finished, ${count(hour.died)} died`];
  if (lateOf(hour) === Infinity) parts.push(t`more than 1 % of jobs were delivered over two hours after their due time`);
  else if (hour.delivered > 0) parts.push(t`99 % of jobs were delivered within ${lateText(hour)} of their due time`);
  if (hour.late_p99) parts.push(t`the server made 99 % ready within ${duration(hour.late_p99)}`);
  return html`<p class="small">${together(parts)}</p>`;
}

const MINUTE = 60_000;

/** What happened in each minute of the last hour, as far as the servers know. */
function Past({ stats, event }) {
  const [from, since] = [Date.parse(stats.minutes.from), countsSince(stats)];
  const known = stats.minutes[event].map((jobs, n) => (from + (n + 1) * MINUTE > since ? jobs : null));
  return html`<${Bars} kind=${event} numbers=${known} /><span class="visually-hidden">${t`at most ${count(Math.max(...known))} in a minute of the last hour`}</span>`;
}

const Tile = ({ name, label = name, figure, children }) => html`<div data-tile=${name}>
  <dt>${label}</dt><dd class="figure">${figure}</dd><dd class="small">${children}</dd></div>`;

/** The topic whose ready jobs wait longest, of those that the list has. */
const longestLate = ({ data }) => [...(data?.topics ?? [])].sort((a, b) => overdueSeconds(b, serverNow()) - overdueSeconds(a, serverNow()))[0];

function Totals({ topics, isPart, stale, late, stats: data }) {
  const now = useNow();
  if (isPart && !data) return null;
  const sum = (state) => [state, topics.reduce((all, view) => all + view.counts[state], 0)];
  const sums = isPart ? data.counts : Object.fromEntries(STATES.map(sum));
  const worst = longestLate(late);
  const name = (state) => html`<${Mark} state=${state} />${stateName(state)}`;
  return html`<section class=${`card totals ${stale ? "stale" : ""}`} aria-labelledby="totals">
    <h2 id="totals" class="visually-hidden">${t`Figures`}</h2>
    <dl>${STATES.map((state) => html`<${Tile} key=${state} name=${state} label=${name(state)} figure=${count(sums[state])}>${
        state === "dead" && data && html`<${Past} stats=${data} event="died" />`}<//>`)}
      ${late.data && html`<${Tile} name="oldest" label=${t`Oldest waiting`} figure=${worst?.oldest_overdue_at ? duration(Math.floor(overdueSeconds(worst, now))) : "–"}>${
        worst?.oldest_overdue_at && html`<a class="mono" href=${href("topics", worst.topic)}>${worst.topic}</a>`}<//>`}
      ${data && [["in", t`in`, "added"], ["out", t`out`, "finished"]].map(([name, label, event]) => html`<${Tile} key=${name} name=${name} label=${label} figure=${rate(data.minute[event])}>
        <${Past} stats=${data} event=${event} /><//>`)}
      ${data && html`<${Tile} name="late" label=${capitalized(t`late p99`)} figure=${lateText(data.minute)}>${
        data.minute.late_p99 && t`ready within ${duration(data.minute.late_p99)}`}<//>`}</dl>
    ${data && events(data)}
  </section>`;
}

/** From so many topics on that wait for the same, they are one row. */
const FOLD_FROM = 4;

/** Whether a topic only waits for a worker. */
const lacksWorker = (view, now) => view.cause?.kind === "no_worker" && isLate(view, now) && view.counts.dead === 0 && !view.paused.intake;

/** How many topics are late, and which one most. */
function Verdict({ late, isPart }) {
  if (late.length === 0) return html`<p>${t`No topic is late.`}</p>`;
  const [{ topic, counts }] = late;
  const [worst, jobs] = [html`<a class="mono" href=${href("topics", topic)}>${topic}</a>`, counted(counts.ready, "job")];
  const number = isPart ? t`At least ${counted(late.length, "topic")}` : counted(late.length, "topic");
  return html`<p class="problem">${late.length === 1 ? t`${number} is late, the worst is ${worst}: ${jobs}.` : t`${number} are late, the worst is ${worst}: ${jobs}.`}</p>`;
}

const Flow = ({ minute }) => minute && html`<span class="small">${t`${rate(minute.added)} in`}</span><span class="small">${t`${rate(minute.finished)} out`}</span>`;

function TroubleRow({ view, gone, now, minute }) {
  const found = troublesOf(view, now);
  return html`<li data-row>
    <span class=${`mark ${gone ? "well" : isLate(view, now) ? "alert bad" : "alert"}`} aria-hidden="true" />
    <a class="mono" href=${href("topics", view.topic)}>${view.topic}</a>
    <span class="what">${gone ? t`well again` : found.length > 0 && together(found)}</span>
    ${view.counts.ready > 0 && html`<span class="small">${view.oldest_overdue_at && t`overdue ${duration(Math.floor(overdueSeconds(view, now)))}`}</span>
      <span class="small">${t`${count(view.counts.ready)} ready`}</span><${Flow} minute=${minute} />`}
  </li>`;
}

/** Topics that wait for a worker, as one row above their own. */
const FoldedRow = ({ views, now, isUnfolded, toggle }) => html`<li>
  <span class="mark alert bad" aria-hidden="true" />
  <button type="button" class="link" aria-expanded=${isUnfolded} onClick=${toggle}>${counted(views.length, "topic")}</button>
  <span class="what"><${Cause} cause=${views[0].cause} /></span>
  <span class="small">${t`overdue up to ${duration(Math.floor(Math.max(...views.map((view) => overdueSeconds(view, now)))))}`}</span>
  <span class="small">${t`${count(views.reduce((sum, { counts }) => sum + counts.ready, 0))} ready`}</span>
</li>`;

function Trouble({ topics, isPart, poll, late, minuteOf, loss }) {
  const now = useNow();
  const [isUnfolded, setUnfolded] = useState(false);
  // The topics of the folded row, which stays as the rows do until they are sorted anew.
  const folded = useRef(null);
  const dead = usePoll(isPart ? "topics?sort=dead" : null, 2_000);
  const [lates, deads] = [late, dead].map(({ data }) => data?.topics ?? []);
  // On Redis, only the list sorted by it has the oldest ready jobs.
  const oldest = new Map(lates.map((view) => [view.topic, view.oldest_overdue_at]));
  const present = new Map((isPart ? [...lates, ...deads, ...topics] : topics).map((view) => [view.topic, {
    ...view, oldest_overdue_at: view.oldest_overdue_at ?? (view.counts.ready > 0 ? oldest.get(view.topic) : null),
  }]));
  const troubled = [...present.values()].filter((view) => troublesOf(view, now).length > 0);
  useEffect(() => void troubles.set(troubled.length), [troubled.length]);
  useEffect(() => () => troubles.set(null), []);
  const { shown, changes, sort } = useStableOrder(troubled, (view) => view.topic, bySeverity(now), `${!late.data} ${!dead.data}`);
  const sortAnew = () => Promise.all([poll.refresh(), late.refresh(), dead.refresh()]).then(() => (folded.current = null, sort()));
  useKeys({ r: sortAnew });
  const unknown = [late, dead].find(({ data, error }) => error && !data);
  const stale = [poll, late, dead].find((one) => one.stale);
  if (shown.length === 0) {
    if (unknown) return html`<${Failure} error=${{ ...unknown.error, title: t`Whether all is well is not known` }} retry=${sortAnew} />`;
    return late.data && (dead.data || !isPart) && html`<section class="card well ${stale ? "stale" : ""}"><span class="mark well" aria-hidden="true" />
      <p><strong>${stale ? t`All was well at ${html`<${Moment} at=${stale.at} />`}.` : loss ? t`No topic is in trouble.` : t`All is well.`}</strong>${" "}
        ${stale ? t`No topic had dead letters, or ready jobs that wait longer than a minute.` : t`No topic has dead letters, or ready jobs that wait longer than a minute.`}</p></section>`;
  }
  const rows = shown.map(({ key, row, gone }) => ({ key, gone, view: present.get(key) ?? row }));
  const waiting = rows.filter(({ gone, view }) => !gone && lacksWorker(view, now));
  if (late.data) folded.current ??= new Set(waiting.length >= FOLD_FROM ? waiting.map(({ key }) => key) : []);
  const group = waiting.filter(({ key }) => folded.current?.has(key));
  const hidden = new Set(isUnfolded ? [] : group);
  const place = rows.indexOf(group[0]);
  const ofRow = ({ key, view, gone }) => html`<${TroubleRow} key=${key} view=${view} gone=${gone} now=${now} minute=${minuteOf(key)} />`;
  const [above, below] = [rows.slice(0, Math.max(place, 0)), rows.slice(Math.max(place, 0)).filter((row) => !hidden.has(row))];
  const left = above.length + below.length - ROWS;
  return html`<section class="card" aria-labelledby="trouble">
    <div class="heading"><h2 id="trouble">${t`In trouble`}</h2>
      <${Changes} changes=${changes} sort=${sortAnew} /></div>
    ${late.data && html`<${Verdict} late=${troubled.filter((view) => isLate(view, now)).sort(bySeverity(now))} isPart=${isPart} />`}
    ${unknown && html`<p class="problem" role="alert">${t`There may be more: ${unknown.error.detail}`}</p>`}
    <ul class="troubles ${stale ? "stale" : ""}">
      ${above.slice(0, ROWS).map(ofRow)}
      ${group.length > 0 && html`<${FoldedRow} key="*" views=${group.map(({ view }) => view)} now=${now} isUnfolded=${isUnfolded} toggle=${() => setUnfolded(!isUnfolded)} />`}
      ${below.slice(0, Math.max(ROWS - above.length, 0)).map(ofRow)}</ul>
    ${left > 0 && html`<p class="small">${isPart ? t`At least ${count(left)} more topics are in trouble.` : t`${count(left)} more topics are in trouble.`}</p>`}
  </section>`;
}

const capitalized = (word) => `${word[0].toUpperCase()}${word.slice(1)}`;

/** The orders that the API has. */
const SORTS = { Topic: "name", delayed: "delayed", ready: "ready", dead: "dead", Overdue: "overdue" };

const COLUMNS = [
  { name: "Topic", label: t`Topic` },
  ...STATES.map((state) => ({ name: state, label: capitalized(stateName(state)), value: (view) => view.counts[state] })),
  { name: "In", label: capitalized(t`in`), value: (view, minuteOf) => minuteOf(view.topic)?.added ?? -1 },
  { name: "Out", label: capitalized(t`out`), value: (view, minuteOf) => minuteOf(view.topic)?.finished ?? -1 },
  { name: "Late p99", label: capitalized(t`late p99`), value: (view, minuteOf) => lateOf(minuteOf(view.topic)) ?? -1 },
  { name: "Next due", label: capitalized(t`next due`), value: (view) => (view.next_due_at ? -Date.parse(view.next_due_at) : -Infinity) },
  { name: "Overdue", label: capitalized(t`overdue`) },
  { name: "Polls", label: capitalized(t`polls`), value: (view) => view.polls },
];

/** The highest value first. */
const compareBy = ({ value = () => 0 }, minuteOf) => (a, b) => value(b, minuteOf) - value(a, minuteOf) || byName(a, b);

/** What happened in the minute to a topic's jobs, as cells. */
const flowOf = (minute) => [
  [t`in`, minute && rate(minute.added), minute?.added], [t`out`, minute && rate(minute.finished), minute?.finished],
  [t`late p99`, minute && lateText(minute), lateOf(minute)],
];

const Row = ({ view, gone, minute }) => html`<tr role="row" data-row class=${gone ? "gone" : ""}>
  <th scope="row" role="rowheader"><a class="mono" href=${href("topics", view.topic)}>${view.topic}</a>
    ${view.paused.delivery && html` <span class="tag">${t`delivery paused`}</span>`}
    ${view.paused.intake && html` <span class="tag">${t`intake paused`}</span>`}
    ${gone && html` <span class="tag">${t`gone`}</span>`}</th>
  ${STATES.map((state) => html`<td key=${state} role="cell" class=${`number ${view.counts[state] ? "" : "zero"}`}
    data-name=${stateName(state)}>${view.counts[state] > 0 ? html`<a href=${`${href("jobs")}${queryText({ state, topic: view.topic })}`}>${count(view.counts[state])}</a>` : "0"}</td>`)}
  ${flowOf(minute).map(([name, text, value]) => html`<td key=${name} role="cell" class=${`number flow ${value ? "" : "zero"}`} data-name=${name}>${text ?? "?"}</td>`)}
  ${[[t`next due`, view.next_due_at, Distance, "delayed"], [t`overdue`, view.oldest_overdue_at, Elapsed, "ready"]].map(([name, at, Time, state]) => html`<td key=${name}
    role="cell" class=${at ? "" : "zero"} data-name=${name}>${at ? html`<${Time} at=${at} />` : view.counts[state] > 0 ? "?" : "–"}</td>`)}
  <td role="cell" class=${`number ${view.polls ? "" : "zero"}`} data-name=${t`polls`}>${view.polls === null ? "?" : count(view.polls)}</td>
</tr>`;

/** The topics in an order. If there are more than a page, the server sorts and searches them. */
function Topics({ all, isPart, minuteOf }) {
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
    latest.current = { found, compare: compareBy(column, minuteOf), again: `${sortedBy} ${begin}` };
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
      <h2 id="topics">${t`Topics`} <span class="small">${isPart ? t`${count(found.length)} on this page` : count(found.length)}</span></h2>
      <${Changes} changes=${changes} sort=${sortAnew} />
      <label class="filter"><span class="visually-hidden">${t`Topics that begin with`}</span>
        <input ref=${filter} type="search" placeholder=${t`begins with`} autocomplete="off" autocapitalize="off" spellcheck=${false}
          value=${prefix} onInput=${(event) => ask({ prefix: event.target.value })} /></label>
      <label class="sort">${t`Sort by`}
        <select value=${sortedBy} onChange=${(event) => ask({ sortedBy: event.target.value })}>
          ${columns.map(({ name, label }) => html`<option key=${name} value=${name}>${label}</option>`)}
        </select></label>
    </div>
    ${asks && error && html`<p class="problem" role="alert">${error.detail}</p>`}
    <table role="table" class=${`topics ${stale || !data ? "stale" : ""}`} aria-labelledby="topics">
      <thead role="rowgroup"><tr role="row">
        ${COLUMNS.map(({ name, label }, n) => html`<th key=${name} scope="col" role="columnheader" class=${n > 0 && !["Next due", "Overdue"].includes(name) ? "number" : ""}
          aria-sort=${name === sortedBy ? (["Topic", "Next due", "Overdue"].includes(name) ? "ascending" : "descending") : undefined}>
          <button type="button" class="column" disabled=${isPart && !SORTS[name]} onClick=${() => (ask({ sortedBy: name }), sort())}>${label}</button></th>`)}
      </tr></thead>
      <tbody role="rowgroup">${rows.map(({ key, row, gone }) => html`<${Row} key=${key} view=${row} gone=${gone && !isPart} minute=${minuteOf(key)} />`)}</tbody>
    </table>
    ${rows.length === 0 && html`<p class="empty">${t`No topic here begins with “${begin}”.`}</p>`}
    ${(rows.length < shown.length || cursor || next) && html`<div class="actions">
      ${rows.length < shown.length && html`<button type="button" onClick=${() => setShowsAll(true)}>${t`Show all ${count(shown.length)}`}</button>`}
      ${cursor && html`<button type="button" onClick=${() => ask({ cursors: cursors.slice(0, -1) })}>${t`Earlier topics`}</button>`}
      ${next && html`<button type="button" onClick=${() => ask({ cursors: [...cursors, next] })}>${t`Next topics by name`}</button>`}
    </div>`}
  </section>`;
}

/** What a failure would lose, if that is jobs: then all is not well, whatever the topics say. */
function useLoss() {
  const { data } = usePoll("version", 60_000);
  const { text, isBad } = data ? lossOf(data) : {};
  return isBad ? text : null;
}

const Loss = ({ text }) => text && html`<p class="as-of"><span><strong>${t`Jobs are not safe.`}</strong> ${text} <a href=${href("server")}>${t`Server`}</a></span></p>`;

const FIRST_JOB = `curl ${shellQuote(new URL("jobs", ROOT).href)} \\
  --header 'content-type: application/json' \\
  --data '{"topic":"hello","delay":"30s","body":"my first job"}'`;

const NewServer = () => html`<section class="card">
  <h2>${t`There is no job yet`}</h2>
  <p>${t`A topic appears here with its first job. This adds one that comes due in half a minute:`}</p>
  <${Command} text=${FIRST_JOB} />
</section>`;

const NONE = { added: 0, finished: 0 };

/** What happened in the last minute to the jobs of a topic; nothing if that is not known. */
function useMinutes() {
  const { data } = usePoll(useMay()("read") ? "stats?by=topic" : null, 5_000);
  const minutes = new Map(data?.topics.map(({ topic, minute }) => [topic, minute]));
  return (topic) => minutes.get(topic) ?? (data?.topics_complete ? NONE : undefined);
}

export function Overview() {
  const poll = usePoll(`topics?limit=${PAGE}`, 2_000);
  const late = usePoll("topics?sort=overdue", 2_000);
  const minuteOf = useMinutes();
  const loss = useLoss();
  const may = useMay();
  const { data: stats } = usePoll(may("read") ? "stats?by=minute" : null, 2_000);
  useKeys({ r: poll.refresh });
  const heading = html`<h1 tabindex="-1" class="visually-hidden">${t`Overview`}</h1>`;
  if (!poll.data) return html`${heading}<${Unloaded} poll=${poll} what=${t`the topics`} />`;
  const { topics, next_cursor: next } = poll.data;
  if (topics.length === 0) return html`${heading}<${AsOf} poll=${poll} /><${Loss} text=${loss} /><${NewServer} />`;
  const parts = { topics, isPart: Boolean(next), stale: poll.stale, poll, late, minuteOf, loss, stats };
  return html`${heading}
    <${AsOf} poll=${poll} />
    <${Loss} text=${loss} />
    <${Trouble} ...${parts} />
    <${Totals} ...${parts} />
    ${may("read") && html`<${Timeline} oldest=${longestLate(late)?.oldest_overdue_at} stats=${stats} />`}
    <${Topics} all=${poll} isPart=${parts.isPart} minuteOf=${minuteOf} />`;
}
