// A list of jobs: read page by page, chosen from, and acted on.
import { html, useEffect, useRef, useState } from "./lib.js";
import { href, path as pathOf, queryText, setQuery } from "./address.js";
import { get } from "./api.js";
import { useMay } from "./changes.js";
import { MOMENTS } from "./filter.js";
import { bytes, count, counted } from "./format.js";
import { useKeys } from "./keys.js";
import { Changes, holding, useStableOrder } from "./order.js";
import { AsOf, Distance, Failure, Mark, STATES, Text, Unloaded } from "./parts.js";
import { seen, usePoll } from "./poll.js";

const PAGE = 50;

/** The first page stays fresh. Once more are read, all stay as they were; a search reads on until a page is full. */
function useList(filter) {
  const path = `jobs${queryText({ ...filter, limit: PAGE })}`;
  const first = usePoll(path, 5_000);
  const [more, setMore] = useState(null);
  const turn = useRef(0);
  const list = more ?? { jobs: first.data?.jobs ?? [], next: first.data?.next_cursor, examined: first.data?.examined ?? 0 };
  const stop = () => {
    turn.current += 1;
    setMore((known) => known && { ...known, busy: false });
  };
  const extend = async (goal) => {
    const mine = (turn.current += 1);
    let known = list;
    try {
      while (known.next && known.jobs.length < goal) {
        setMore({ ...known, busy: true, error: null });
        await seen();
        if (turn.current !== mine) return;
        const page = await get(`${path}&cursor=${encodeURIComponent(known.next)}`);
        if (turn.current !== mine) return;
        const ids = new Set(known.jobs.map((job) => job.id));
        const jobs = [...known.jobs, ...page.jobs.filter((job) => !ids.has(job.id))];
        known = { jobs, next: page.next_cursor, examined: known.examined + page.examined };
      }
      setMore({ ...known, busy: false });
    } catch (error) {
      if (turn.current === mine) setMore({ ...known, busy: false, error });
    }
  };
  const isShort = Boolean(first.data?.next_cursor) && first.data.jobs.length < PAGE;
  useEffect(() => void (isShort && !more && extend(PAGE)), [isShort, more]);
  useEffect(() => () => (turn.current += 1), []);
  const refresh = async () => {
    stop();
    await first.refresh();
    setMore(null);
  };
  return { ...list, first, refresh, stop, extend: () => extend(list.jobs.length + PAGE) };
}

const Row = ({ job, gone, filter, isChosen, choose }) => html`<li class=${`job ${gone ? "gone" : ""}`} data-row>
  <label class="pick" onMouseDown=${(event) => event.shiftKey && event.preventDefault()}><input type="checkbox" aria-label=${`Select ${job.id}`} checked=${isChosen} disabled=${gone}
    onClick=${(event) => choose(event.shiftKey)} /></label>
  <div>
    <a class="mono" href=${href("jobs", job.id)}>${job.id}</a>
    ${job.reason && html`<p class="reason"><${Text} text=${job.reason} /></p>`}
  </div>
  <span class="small">${!filter.topic && html`<span class="mono">${job.topic}</span> `}
    ${gone ? html`<span class="tag">no longer ${filter.state}</span>` : html`${MOMENTS[filter.state][1]} <${Distance} at=${job[MOMENTS[filter.state][0]]} />`}
${job.reserved_by && html` · <bdi class="mono"><${Text} text=${job.reserved_by} /></bdi>`}${` · ${counted(job.attempts, "attempt")}${job.max_attempts > 0 ? ` of ${job.max_attempts}` : ""} · ${bytes(job.body_bytes)}`}</span>
</li>`;

/** Says of an empty list what is near: the jobs of its topic, or of all, in every state. */
function Nothing({ topic }) {
  const target = topic ? pathOf("topics", topic) : "stats";
  const { data, error } = usePoll(useMay(topic)("read") ? target : null, 5_000);
  const near = STATES.filter((state) => data?.counts[state] > 0);
  return html`<p class="empty">No job matches. ${error?.status === 404 && html`There is no topic <bdi class="mono"><${Text} text=${topic} /></bdi>. `}${near.length > 0 && html`In ${topic || "all topics"}: ${near.map((state, n) => html`${n > 0 && ", "}<a
    href=${`${href("jobs")}${queryText({ state, topic })}`}>${count(data.counts[state])} ${state}</a>`)}.`}</p>`;
}

/** The jobs of a filter. `ask` opens the question before a change: of an action, and of the chosen jobs or of all. */
export function JobList({ filter, ask }) {
  const list = useList(filter);
  const [chosen, setChosen] = useState(new Set());
  const [latest, all] = [useRef(null), useRef(null)];
  // Unless it is held, or jobs are chosen, the list moves on with the queue.
  const [isHeld, hold] = useState(false);
  const may = useMay(filter.topic);
  const rows = list.jobs.map((job, n) => ({ job, n }));
  const { shown, changes, sort } = useStableOrder(rows, ({ job }) => job.id, (a, b) => a.n - b.n, list.first.data ? (isHeld || list.jobs.some((job) => chosen.has(job.id)) ? "held" : list.jobs) : "");
  const sortAnew = () => list.refresh().then(sort);
  useKeys({ r: sortAnew, x: () => document.activeElement?.closest("[data-row]")?.querySelector("[type=checkbox]").click() });
  const poll = list.first;
  if (!poll.data) return html`<${Unloaded} poll=${poll} what="the jobs" />`;
  const present = shown.filter(({ gone }) => !gone);
  const isAll = present.length > 0 && present.every(({ key }) => chosen.has(key));
  /** Selects a job, or unselects it; with Shift, it does the same to all between it and the last one. */
  const toggle = (key, isRange) => {
    const keys = present.map(({ key }) => key);
    const [from, to] = [keys.indexOf(isRange ? latest.current : key), keys.indexOf(key)].sort((a, b) => a - b);
    const range = from < 0 ? [key] : keys.slice(from, to + 1);
    latest.current = key;
    setChosen(chosen.has(key) ? new Set([...chosen].filter((id) => !range.includes(id))) : new Set([...chosen, ...range]));
  };
  const done = () => (setChosen(new Set()), sortAnew());
  const picked = present.filter(({ key }) => chosen.has(key)).map(({ row }) => row.job);
  const buttons = (jobs, scope) => [["requeue", "Replay", ["dead"]], ["revoke", "Take back", jobs ? ["reserved"] : []], ["reschedule", "Reschedule", ["delayed", "ready"]], ["delete", "Delete", Object.keys(MOMENTS)]]
    .filter(([action, , states]) => states.includes(filter.state) && may(["requeue", "revoke"].includes(action) ? "admin" : scope))
    .map(([action, name]) => html`<button key=${action} class=${action === "delete" ? "danger quiet" : ""}
      onClick=${() => ask({ action, filter, jobs, done })}>${name}${jobs ? "" : " all that match"} …</button>`);
  return html`<${AsOf} poll=${poll} />
    <section class="card ${poll.stale}" aria-labelledby="list">
      <div class="heading">
        <label class="pick"><input type="checkbox" ref=${all} checked=${isAll} disabled=${present.length === 0}
          onChange=${() => setChosen(new Set(isAll ? [] : present.map(({ key }) => key)))} /> Select all shown</label>
        <h2 id="list"><${Mark} state=${filter.state} /> ${count(present.length)}${list.next && " and more"}</h2>
        <${Changes} changes=${changes} sort=${sortAnew} />
        ${filter.state !== "ready" && html`<label class="order">Order
          <select value=${filter.order ?? "asc"} onChange=${(event) => setQuery({ order: event.target.value === "desc" ? "desc" : null })}>
            <option value="asc">earliest first</option><option value="desc">latest first</option></select></label>`}
        ${picked.length === 0 && present.length > 0 && html`<div class="actions">${buttons(null, "admin")}</div>`}
      </div>
      <ul class="jobs" ...${holding(hold)}>${shown.map(({ key, row, gone }) => html`<${Row} key=${key} job=${row.job} gone=${gone} filter=${filter}
        isChosen=${chosen.has(key)} choose=${(isRange) => toggle(key, isRange)} />`)}</ul>
      ${shown.length === 0 && !list.next && html`<${Nothing} topic=${filter.topic} />`}
      ${list.error && html`<${Failure} error=${list.error} />`}
      ${list.next && html`<div class="actions">
        ${list.busy
          ? html`<span role="status">Searching: ${count(list.examined)} jobs examined …</span> <button onClick=${list.stop}>Stop</button>`
          : html`<button onClick=${list.extend}>Show more</button>`}</div>`}
      ${picked.length > 0 && html`<div class="selection" role="group" aria-label="Selected jobs">
        <strong>${count(picked.length)} selected</strong> ${buttons(picked, "add")}
        <button class="quiet" onClick=${() => (setChosen(new Set()), all.current.focus())}>Clear</button></div>`}
    </section>`;
}
