// Dead letters of a topic: why they died; replay and delete one or all.
import { html, useState } from "../lib.js";
import { href, path } from "../address.js";
import { DeleteAll, DeleteJob, Lacking, replay, ReplayAll, useMay } from "../changes.js";
import { count, counted } from "../format.js";
import { useKeys } from "../keys.js";
import { Changes, useStableOrder } from "../order.js";
import { AsOf, Distance, Mark, Text, Unloaded } from "../parts.js";
import { usePoll } from "../poll.js";

const PAGE = 20;
/** Pages with larger bodies than this, in characters, are read less often. */
const HEAVY = 256 * 1024;

function Letter({ job, gone, refresh, remove }) {
  const may = useMay(job.topic);
  const [busy, setBusy] = useState(false);
  const replayIt = async () => {
    setBusy(true);
    await replay(job);
    setBusy(false);
    refresh();
  };
  return html`<li class=${`letter ${gone ? "gone" : ""}`} data-row>
    <div>
      <a class="mono" href=${href("jobs", job.id)}>${job.id}</a>
      <p class="reason">${job.reason ? html`<${Text} text=${job.reason} />` : "no reason given"}</p>
      <p class="small">died <${Distance} at=${job.dead_at} /> after ${counted(job.attempts, "attempt")}</p>
    </div>
    <div class="actions">${gone
      ? html`<span class="tag">no longer dead</span>`
      : html`${may("admin") && html`<button type="button" disabled=${busy} aria-label=${`Replay ${job.id}`} onClick=${replayIt}>Replay</button>`}
          ${may("add") && html`<button type="button" class="danger quiet" aria-label=${`Delete ${job.id}`} onClick=${remove}>Delete …</button>`}`}
    </div>
  </li>`;
}

function Letters({ topic, list, cursors, setCursors }) {
  const [removes, setRemoves] = useState(null);
  const rows = list.data.jobs.map((job, n) => ({ job, n }));
  const order = useStableOrder(rows, ({ job }) => job.id, (a, b) => a.n - b.n, "as listed");
  const sort = () => list.refresh().then(order.sort);
  useKeys({ r: sort });
  const { shown, changes } = order;
  const next = list.data.next_cursor;
  return html`<section class="card" aria-labelledby="letters">
    <div class="heading"><h2 id="letters">Oldest first</h2>
      <${Changes} changes=${changes} sort=${sort} /></div>
    <ul class=${`letters ${list.stale ? "stale" : ""}`}>${shown.map(({ key, row, gone }) => html`<${Letter} key=${key} job=${row.job}
      gone=${gone} refresh=${list.refresh} remove=${() => setRemoves(row.job)} />`)}</ul>
    ${shown.length === 0 && html`<p class="empty">No dead letter is left on this page.</p>`}
    ${(cursors.length > 0 || next) && html`<div class="actions">
      ${cursors.length > 0 && html`<button type="button" onClick=${() => setCursors(cursors.slice(0, -1))}>Older</button>`}
      ${next && html`<button type="button" onClick=${() => setCursors([...cursors, next])}>Newer</button>`}
    </div>`}
    ${removes && html`<${DeleteJob} job=${removes} close=${() => setRemoves(null)} done=${list.refresh} />`}
  </section>`;
}

export function Dead({ topic }) {
  const [cursors, setCursors] = useState([]);
  const [pace, setPace] = useState(5_000);
  const [asks, setAsks] = useState(null);
  const cursor = cursors.at(-1);
  const list = usePoll(`${path("topics", topic, "dead")}?limit=${PAGE}${cursor ? `&cursor=${path(cursor)}` : ""}`, pace);
  const view = usePoll(path("topics", topic), 5_000);
  const may = useMay(topic);
  useKeys({ r: view.refresh });
  const size = list.data?.jobs.reduce((sum, job) => sum + job.body.length, 0) ?? 0;
  const wanted = size > HEAVY ? 30_000 : 5_000;
  if (wanted !== pace) setPace(wanted);
  const dead = view.error?.status === 404 ? 0 : view.data?.counts.dead;
  const done = () => (list.refresh(), view.refresh());
  const close = () => setAsks(null);
  const heading = html`<nav class="crumbs" aria-label="Path"><a href=${href()}>Overview</a>
      <a class="mono" href=${href("topics", topic)}>${topic}</a></nav>
    <h1 tabindex="-1">Dead letters</h1>`;
  if (!list.data) return html`${heading}<${Unloaded} poll=${list} what="the dead letters" />`;
  if (dead === 0 && list.data.jobs.length === 0 && !cursor) {
    return html`${heading}<section class="card well"><span class="mark well" aria-hidden="true" />
      <p><strong>No dead letters.</strong> A job comes here when its attempts are used up, or when a worker buries it.</p></section>`;
  }
  return html`${heading}
    <${AsOf} poll=${list} />
    <div class=${`actions ${view.stale ? "stale" : ""}`}>
      ${dead !== undefined && html`<span class="headline"><${Mark} state="dead" /> <strong>${count(dead)}</strong> dead</span>`}
      ${dead > 0 && may("admin") && html`
        <button type="button" onClick=${() => setAsks({ what: "replay", dead })}>Replay all …</button>
        <button type="button" class="danger quiet" onClick=${() => setAsks({ what: "delete", dead })}>Delete all …</button>`}
      <${Lacking} topic=${topic} scopes=${["add", "admin"]} />
    </div>
    <${Letters} key=${cursor ?? ""} topic=${topic} list=${list} cursors=${cursors} setCursors=${setCursors} />
    ${asks?.what === "replay" && html`<${ReplayAll} topic=${topic} dead=${asks.dead} close=${close} done=${done} />`}
    ${asks?.what === "delete" && html`<${DeleteAll} topic=${topic} dead=${asks.dead} close=${close} done=${done} />`}`;
}
