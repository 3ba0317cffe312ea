// Schedules: the list of recurring jobs; one with its next runs; pause, run now, change and delete it.
import { html, useObservable, useState } from "../lib.js";
import { go, href, path, queryText } from "../address.js";
import { change, rights } from "../api.js";
import { Lacking, useMay } from "../changes.js";
import { words } from "../cron.js";
import { perform, Question } from "../dialog.js";
import { count, duration } from "../format.js";
import { useKeys } from "../keys.js";
import { AsOf, Body, Distance, Elapsed, Facts, Gone, Text, Unloaded, When } from "../parts.js";
import { usePoll } from "../poll.js";
import { ClockChanges, Editor } from "../schedule.js";

const REASONS = { store_full: "the store is full", intake_paused: "the intake of its topic is paused" };

/** The rule of a schedule: in words if there are any, else as it was written. */
const Rule = ({ schedule: { cron, every, time_zone: zone } }) =>
  every !== undefined ? `every ${duration(every)}` : html`${words(cron) ?? html`<code>${cron}</code>`}${zone !== "UTC" && html` <span class="small">${zone}</span>`}`;

const State = ({ schedule: { state, waiting } }) => {
  if (state === "active") return null;
  const why = waiting && html` for <${Elapsed} at=${waiting.since} />: <${Text} text=${REASONS[waiting.reason] ?? waiting.reason.replaceAll("_", " ")} />`;
  return html`<span class="tag">${state}</span>${why && html`<span class="problem">${why}</span>`}`;
};

const Row = ({ schedule }) => html`<tr data-row>
  <th scope="row"><a class="mono" href=${href("schedules", schedule.name)}>${schedule.name}</a> <${State} schedule=${schedule} /></th>
  <td><${Rule} schedule=${schedule} /></td>
  <td>${schedule.next[0] && schedule.state !== "paused" ? html`<${Distance} at=${schedule.next[0]} />` : "–"}</td>
  <td><a class="mono" href=${href("topics", schedule.job.topic)}>${schedule.job.topic}</a></td>
  <td class="number">${count(schedule.runs.fired)}</td>
</tr>`;

function List() {
  const [cursors, setCursors] = useState([]);
  const [isNew, setNew] = useState(false);
  const poll = usePoll(`schedules${queryText({ cursor: cursors.at(-1) })}`, 5_000);
  const { scopes = [] } = useObservable(rights) ?? {};
  useKeys({ r: poll.refresh });
  const heading = html`<div class="heading"><h1 tabindex="-1">Schedules</h1>
    ${scopes.includes("admin") && html`<button class="primary" onClick=${() => setNew(true)}>New schedule …</button>`}</div>
    ${isNew && html`<${Editor} close=${() => setNew(false)} done=${(name) => go("schedules", name)} />`}`;
  if (!poll.data) return html`${heading}<${Unloaded} poll=${poll} what="the schedules" />`;
  const { schedules, next_cursor: next } = poll.data;
  return html`${heading}<${AsOf} poll=${poll} />
    <section class="card ${poll.stale}" aria-label="Schedules">
      ${schedules.length > 0
        ? html`<div class="wide"><table>
            <thead><tr><th scope="col">Name</th><th scope="col">When</th><th scope="col">Next run</th><th scope="col">Topic</th><th scope="col" class="number">Runs</th></tr></thead>
            <tbody>${schedules.map((schedule) => html`<${Row} key=${schedule.name} schedule=${schedule} />`)}</tbody></table></div>`
        : html`<p class="empty">${cursors.length > 0 || next ? "No schedule on this page." : "There are no schedules. One adds a job at each moment of a pattern, such as every night at two."}</p>`}
      ${(cursors.length > 0 || next) && html`<div class="actions">
        ${cursors.length > 0 && html`<button onClick=${() => setCursors(cursors.slice(0, -1))}>Earlier schedules</button>`}
        ${next && html`<button onClick=${() => setCursors([...cursors, next])}>Next schedules</button>`}</div>`}
    </section>`;
}

const OVERLAP = { skip: "a run is left out while the last one is not over", allow: "a run takes place beside one that is not over", replace: "a run takes the place of a job that waits" };
const MISSED = { one: "the latest run is made up for", all: "all runs are made up for", none: "no run is made up for" };

const factsOf = (schedule) => [
  ["Pattern", schedule.cron && html`<code>${schedule.cron}</code>`],
  ["Zone", schedule.time_zone],
  ["Not before", schedule.start && html`<${When} at=${schedule.start} />`],
  ["Not after", schedule.end && html`<${When} at=${schedule.end} />`],
  ["Jitter", schedule.jitter && `up to ${duration(schedule.jitter)}`],
  ["Last run", schedule.last && html`<${When} at=${schedule.last} />`],
  ["Its job", schedule.last_job && html`<a class="mono" href=${href("jobs", schedule.last_job)}>${schedule.last_job}</a>`],
  ["Runs", `${count(schedule.runs.fired)}${schedule.runs.overlap > 0 ? `, ${count(schedule.runs.overlap)} gave way` : ""}${schedule.runs.missed > 0 ? `, ${count(schedule.runs.missed)} missed` : ""}`],
  ["Overlap", OVERLAP[schedule.overlap] ?? schedule.overlap],
  ["After an outage", `${MISSED[schedule.missed] ?? schedule.missed}${schedule.missed_within ? `, if less than ${duration(schedule.missed_within)} late` : ""}`],
];

function Actions({ schedule, refresh }) {
  const { name, state } = schedule;
  const { topic } = schedule.job;
  const may = useMay(topic);
  const [asked, setAsked] = useState(null);
  const [busy, setBusy] = useState(false);
  const run = async (failed, act) => {
    setBusy(true);
    await perform(failed, act);
    // A change begins with what is there now.
    await refresh();
    setBusy(false);
  };
  const addRun = async () => `Added ${(await change("POST", path("schedules", name, "run"))).id}.`;
  const pauses = state !== "paused";
  const setPaused = async () => {
    await change("POST", path("schedules", name, pauses ? "pause" : "resume"));
    return pauses ? `${name} is paused.` : `${name} is running again.`;
  };
  const remove = async () => {
    await change("DELETE", path("schedules", name));
    go("schedules");
  };
  const hidesHeaders = Object.keys(schedule.job.callback?.headers ?? {}).length > 0;
  if (!may("admin")) return html`<${Lacking} topic=${topic} scopes=${["admin"]} />`;
  return html`<div class="actions">
      <button disabled=${busy} onClick=${() => run("Not run.", addRun)}>Run now</button>
      <button disabled=${busy} onClick=${() => run(pauses ? "Not paused." : "Not resumed.", setPaused)}>${pauses ? "Pause" : "Resume"}</button>
      ${!hidesHeaders && html`<button disabled=${busy} onClick=${() => setAsked("change")}>Change …</button>`}
      <button class="danger quiet" onClick=${() => setAsked("delete")}>Delete …</button>
    </div>
    ${hidesHeaders && html`<p class="small">The callback of its job has headers, whose values are not shown here: change this schedule where it was made.</p>`}
    ${asked === "change" && html`<${Editor} schedule=${schedule} close=${() => setAsked(null)} done=${refresh} />`}
    ${asked === "delete" && html`<${Question} title="Delete this schedule?" label="Delete" act=${remove} close=${() => setAsked(null)}>
      <p>There will be no more runs of <code class="id">${name}</code>. The jobs of its earlier runs stay.</p><//>`}`;
}

function Schedule({ name, hidesBodies }) {
  const poll = usePoll(path("schedules", name), 5_000);
  const next = usePoll(`${path("schedules", name, "next")}?count=10`, 5_000);
  const refresh = () => Promise.all([poll.refresh(), next.refresh()]);
  useKeys({ r: refresh });
  const schedule = poll.data;
  const isGone = poll.error?.status === 404;
  const heading = html`<nav class="crumbs" aria-label="Path"><a href=${href("schedules")}>Schedules</a></nav>
    <div class="job-id"><h1 tabindex="-1" class="mono">${name}</h1></div>`;
  if (!schedule) return html`${heading}<${Unloaded} poll=${poll} what="the schedule" />`;
  const { next: runs = [], clock_changes: changes = [] } = next.data ?? {};
  return html`${heading}
    ${isGone ? html`<${Gone} what="This schedule is gone:" poll=${poll}>it was deleted.<//>` : html`<${AsOf} poll=${poll} />`}
    <div class="columns wide-left">
      <div class="stack">
        <section class="card ${poll.stale}">
          <p class="headline"><strong><${Rule} schedule=${schedule} /></strong> <${State} schedule=${schedule} /></p>
          ${!isGone && html`<${Actions} schedule=${schedule} refresh=${refresh} />`}
          <${Facts} facts=${factsOf(schedule)} />
        </section>
        <section class="card">
          <h2>Job of each run</h2>
          <${Body} key=${hidesBodies} raw=${schedule.jobText} hidden=${hidesBodies}><//>
        </section>
      </div>
      <section class="card ${next.stale}">
        <h2>Next runs</h2>
        ${schedule.state === "paused" && html`<p class="small">It is paused. Without that, it would run:</p>`}
        ${!next.data && html`<${Unloaded} poll=${next} what="the next runs" />`}
        ${next.data && runs.length === 0 && html`<p class="small">It has no more runs.</p>`}
        <ol class="runs">${runs.map((at) => html`<li key=${at}><${When} at=${at} /></li>`)}</ol>
        <${ClockChanges} changes=${changes} />
      </section>
    </div>`;
}

export const Schedules = ({ name, hidesBodies }) => (name === undefined ? html`<${List} />` : html`<${Schedule} name=${name} hidesBodies=${hidesBodies} />`);
