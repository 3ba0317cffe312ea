// A list of jobs: read page by page, chosen from, and acted on.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./lib.js";
import { changed, href, path as pathOf, queryText, setQuery } from "./address.js";
import { get } from "./api.js";
import { useMay } from "./changes.js";
import { isPart, MOMENTS } from "./filter.js";
import { bytes, count, enumerated } from "./format.js";
import { useKeys } from "./keys.js";
import { t } from "./language.js";
import { Changes, holding, useStableOrder } from "./order.js";
import { AsOf, Cut, Distance, Failure, Mark, Moment, STATES, stateName, Text, Unloaded } from "./parts.js";
import { entryName, keep, recalled } from "./place.js";
import { seen, usePoll } from "./poll.js";

const PAGE = 50;

/**
 * The first page stays fresh. Once more are read, all stay as they were; a search reads on until a page is full. `left` is the
 * `whenLeft` of the list to which the user went back.
 */
function useList(filter, left) {
  const path = `jobs${queryText({ ...filter, limit: PAGE })}`;
  const polled = usePoll(path, 5_000);
  // Until the first page is read again it is there as it was left.
  const first = polled.data || !left ? polled : { ...polled, data: left.first, at: left.at, stale: polled.error ? "stale" : "" };
  const [more, setMore] = useState(left?.more ?? null);
  const turn = useRef(0);
  const list = more ?? { jobs: first.data?.jobs ?? [], next: first.data?.next_cursor, examined: first.data?.examined ?? 0, at: first.at };
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
        known = { jobs, next: page.next_cursor, examined: known.examined + page.examined, at: known.at };
      }
      setMore({ ...known, busy: false });
    } catch (error) {
      if (turn.current === mine) setMore({ ...known, busy: false, error });
    }
  };
  const isShort = Boolean(polled.data?.next_cursor) && polled.data.jobs.length < PAGE;
  useEffect(() => void (isShort && !more && extend(PAGE)), [isShort, more]);
  useEffect(() => () => (turn.current += 1), []);
  const refresh = async () => {
    stop();
    await first.refresh();
    setMore(null);
  };
  const whenLeft = { first: first.data, at: first.at, more: more && { ...more, busy: false } };
  return { ...list, first, isAsLeft: more !== null && more === left?.more, whenLeft, refresh, stop, extend: () => extend(list.jobs.length + PAGE) };
}

/**
 * Keeps `state` when the list is left, with the position of the element `card` on the screen and the row that has the focus. If
 * the user goes back, `left` is what was kept: the page scrolls there, and the row gets the focus.
 */
function usePlace(card, left, state) {
  const latest = useRef(null);
  latest.current = state;
  useLayoutEffect(() => {
    const name = entryName();
    const top = () => card.current.getBoundingClientRect().top;
    if (left) {
      scrollBy(0, top() - left.top);
      const rows = [...card.current.querySelectorAll("[data-row]")];
      rows.find(({ dataset }) => dataset.row === left.row)?.querySelector("a").focus({ preventScroll: true });
    }
    return () => card.current && keep(name, { ...latest.current, top: top(), row: card.current.querySelector("[data-row]:focus-within")?.dataset.row });
  }, []);
}

/** The columns beside the id: the heading and the class of each, and what a cell of it shows. */
const columnsOf = ({ state, topic, reserved_by: worker }) => [
  !topic && [t`Topic`, "topic", (job) => html`<${Cut} text=${job.topic} />`],
  [MOMENTS[state][1], "moment", (job, gone) => (gone ? html`<span class="tag">${t`no longer ${stateName(state)}`}</span>` : html`<${Distance} at=${job[MOMENTS[state][0]]} />`)],
  [t`Attempts`, "attempts", (job) => (job.max_attempts > 0 ? t`${count(job.attempts)} of ${count(job.max_attempts)}` : count(job.attempts))],
  state === "dead" && [t`Reason`, "reason", (job) => job.reason && html`<${Cut} text=${job.reason} />`],
  state === "reserved" && [t`Worker`, "worker", (job) => job.reserved_by && (worker ? html`<${Cut} text=${job.reserved_by} />`
    : html`<a href=${changed({ reserved_by: job.reserved_by })}><${Cut} text=${job.reserved_by} /></a>`)],
  [t`Size`, "size", (job) => bytes(job.body_bytes)],
].filter(Boolean);

const Row = ({ job, gone, columns, isChosen, choose }) => html`<tr role="row" class=${gone ? "gone" : ""} data-row=${job.id}>
  <td role="cell" class="picks"><label class="pick" onMouseDown=${(event) => event.shiftKey && event.preventDefault()}><input type="checkbox" aria-label=${t`Select ${job.id}`}
    checked=${isChosen} disabled=${gone} onClick=${(event) => choose(event.shiftKey)} /></label></td>
  <th role="rowheader" scope="row" class="id"><a class="mono cut" title=${job.id} href=${href("jobs", job.id)}>${job.id}</a></th>
  ${columns.map(([name, kind, cell]) => html`<td key=${kind} role="cell" class=${kind} data-name=${name}>${cell(job, gone)}</td>`)}
</tr>`;

/** The jobs by state of a topic, or of all; nothing where the token must not read those. */
export function useCounts(topic) {
  const target = topic ? pathOf("topics", topic) : "stats";
  return usePoll(useMay(topic)("read") ? target : null, 5_000);
}

/** Says of an empty list what is near: the jobs of its topic, or of all, in every state. */
function Nothing({ topic, counts: { data, error } }) {
  const near = STATES.filter((state) => data?.counts[state] > 0);
  const found = near.length > 0 && enumerated(near.map((state) => html`<a href=${`${href("jobs")}${queryText({ state, topic })}`}>${count(data.counts[state])} ${stateName(state)}</a>`));
  return html`<p class="empty">${t`No job matches.`} ${error?.status === 404 && t`There is no topic ${html`<bdi class="mono"><${Text} text=${topic} /></bdi>`}.`} ${
    found && (topic ? t`In ${topic}: ${found}.` : t`In all topics: ${found}.`)}</p>`;
}

/**
 * The jobs of a filter. `ask` opens the question before a change: of an action, and of the chosen jobs or of all. `counts` is what
 * `useCounts` of its topic returns.
 */
export function JobList({ filter, counts, ask }) {
  const [left] = useState(recalled);
  const list = useList(filter, left);
  const [chosen, setChosen] = useState(new Set(left?.chosen));
  const [latest, all, card] = [useRef(left?.latest), useRef(null), useRef(null)];
  usePlace(card, left, { ...list.whenLeft, chosen: [...chosen], latest: latest.current });
  // Unless it is held, or jobs are chosen, the list moves on with the queue.
  const [isHeld, hold] = useState(false);
  const may = useMay(filter.topic);
  const rows = list.jobs.map((job, n) => ({ job, n }));
  const { shown, changes, sort } = useStableOrder(rows, ({ job }) => job.id, (a, b) => a.n - b.n, list.first.data ? (isHeld || list.jobs.some((job) => chosen.has(job.id)) ? "held" : list.jobs) : "");
  const sortAnew = () => list.refresh().then(sort);
  useKeys({ r: sortAnew, x: () => document.activeElement?.closest("[data-row]")?.querySelector("[type=checkbox]").click() });
  const poll = list.first;
  if (!poll.data) return html`<${Unloaded} poll=${poll} what=${t`the jobs`} />`;
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
  const buttons = (jobs, scope) => [["requeue", t`Replay …`, t`Replay all that match …`, ["dead"]], ["revoke", t`Take back …`, t`Take back all that match …`, ["reserved"]], ["reschedule", t`Reschedule …`, t`Reschedule all that match …`, ["delayed", "ready"]], ["delete", t`Delete …`, t`Delete all that match …`, Object.keys(MOMENTS)]]
    .filter(([action, , , states]) => states.includes(filter.state) && may(["requeue", "revoke"].includes(action) ? "admin" : scope))
    .map(([action, name, nameForAll]) => html`<button key=${action} class=${action === "delete" ? "danger quiet" : ""}
      onClick=${() => ask({ action, filter, jobs, done })}>${jobs ? name : nameForAll}</button>`);
  const columns = columnsOf(filter);
  const total = list.next && !isPart(filter) ? (counts?.data?.counts[filter.state] ?? 0) : 0;
  const heading = (name, kind) => html`<th key=${kind} role="columnheader" scope="col" class=${kind}
    aria-sort=${kind === "moment" ? (filter.order ? "descending" : "ascending") : undefined}>${name}</th>`;
  return html`${list.isAsLeft && !poll.stale
      ? html`<p class="as-of" role="status"><strong>${t`As of ${html`<${Moment} at=${list.at} />`}.`}</strong> ${t`These rows are as you left them.`} <button onClick=${sortAnew}>${t`Read now`}</button></p>`
      : html`<${AsOf} poll=${poll} />`}
    <section class="card ${poll.stale}" aria-labelledby="list" ref=${card}>
      <div class="heading">
        <label class="pick"><input type="checkbox" ref=${all} checked=${isAll} disabled=${present.length === 0}
          onChange=${() => setChosen(new Set(isAll ? [] : present.map(({ key }) => key)))} /> ${t`Select all shown`}</label>
        <h2 id="list"><${Mark} state=${filter.state} /> ${
          total > present.length ? t`${count(present.length)} of ${count(total)}` : list.next ? t`${count(present.length)} and more` : count(present.length)}</h2>
        <${Changes} changes=${changes} sort=${sortAnew} />
        ${filter.state !== "ready" && html`<label class="order">${t`Order`}
          <select value=${filter.order ?? "asc"} onChange=${(event) => setQuery({ order: event.target.value === "desc" ? "desc" : null })}>
            <option value="asc">${t`earliest first`}</option><option value="desc">${t`latest first`}</option></select></label>`}
        ${picked.length === 0 && present.length > 0 && html`<div class="actions">${buttons(null, "admin")}</div>`}
      </div>
      ${shown.length > 0 && html`<table role="table" class="list" aria-labelledby="list">
        <thead role="rowgroup"><tr role="row">${[[html`<span class="visually-hidden">${t`Selected`}</span>`, "picks"], [t`Id`, "id"], ...columns].map(([name, kind]) => heading(name, kind))}</tr></thead>
        <tbody role="rowgroup" ...${holding(hold)}>${shown.map(({ key, row, gone }) => html`<${Row} key=${key} job=${row.job} gone=${gone} columns=${columns}
          isChosen=${chosen.has(key)} choose=${(isRange) => toggle(key, isRange)} />`)}</tbody></table>`}
      ${shown.length === 0 && !list.next && html`<${Nothing} topic=${filter.topic} counts=${counts ?? {}} />`}
      ${list.error && html`<${Failure} error=${list.error} />`}
      ${list.next && html`<div class="actions">
        ${list.busy
          ? html`<span role="status">${t`Searching: ${count(list.examined)} jobs examined …`}</span> <button onClick=${list.stop}>${t`Stop`}</button>
            ${filter.id_prefix && !filter.topic && html`<span class="small">${t`All topics are searched. In one topic an id is found sooner.`}</span>`}`
          : html`<button onClick=${list.extend}>${t`Show more`}</button>`}</div>`}
      ${picked.length > 0 && html`<div class="selection" role="group" aria-label=${t`Selected jobs`}>
        <strong>${t`${count(picked.length)} selected`}</strong> ${buttons(picked, "add")}
        <button class="quiet" onClick=${() => (setChosen(new Set()), all.current.focus())}>${t`Clear`}</button></div>`}
    </section>`;
}
