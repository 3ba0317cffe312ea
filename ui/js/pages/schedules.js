// Schedules: the list of recurring jobs; one with its next runs; pause, run now, change and delete it.
import { html, useObservable, useRef, useState } from "../lib.js";
import { go, href, path, queryText } from "../address.js";
import { change, newId, rights } from "../api.js";
import { Lacking, useMay } from "../changes.js";
import { words } from "../cron.js";
import { mayBeDone, perform, Question } from "../dialog.js";
import { count, duration } from "../format.js";
import { useKeys } from "../keys.js";
import { t } from "../language.js";
import { AsOf, Body, Distance, Elapsed, Facts, Gone, Text, Unloaded, When } from "../parts.js";
import { usePoll } from "../poll.js";
import { ClockChanges, Editor } from "../schedule.js";
import { Table } from "../table.js";

const REASONS = { store_full: t`the store is full`, intake_paused: t`the intake of its topic is paused` };

/** The rule of a schedule: in words if there are any, else as it was written. */
const Rule = ({ schedule: { cron, every, time_zone: zone } }) =>
  every !== undefined ? t`every ${duration(every)}` : html`${words(cron) ?? html`<code>${cron}</code>`}${zone !== "UTC" && html` <span class="small">${zone}</span>`}`;

const STATES = { paused: t`paused`, waiting: t`waiting`, ahead: t`ahead`, ended: t`ended` };

const State = ({ schedule: { state, waiting } }) => {
  if (state === "active") return null;
  const why = waiting && t` for ${html`<${Elapsed} at=${waiting.since} />`}: ${html`<${Text} text=${REASONS[waiting.reason] ?? waiting.reason.replaceAll("_", " ")} />`}`;
  return html`<span class="tag">${STATES[state] ?? state}</span>${why && html`<span class="problem">${why}</span>`}`;
};

const COLUMNS = [{ text: t`Name` }, { text: t`When` }, { text: t`Next run` }, { text: t`Topic` }, { text: t`Runs`, kind: "number" }];

const rowOf = (schedule) => ({
  key: schedule.name,
  cells: [
    html`<a class="mono" href=${href("schedules", schedule.name)}>${schedule.name}</a> <${State} schedule=${schedule} />`,
    html`<${Rule} schedule=${schedule} />`,
    schedule.next[0] && schedule.state !== "paused" ? html`<${Distance} at=${schedule.next[0]} />` : "–",
    html`<a class="mono" href=${href("topics", schedule.job.topic)}>${schedule.job.topic}</a>`,
    count(schedule.runs.fired),
  ],
});

function List() {
  const [cursors, setCursors] = useState([]);
  const [isNew, setNew] = useState(false);
  const poll = usePoll(`schedules${queryText({ cursor: cursors.at(-1) })}`, 5_000);
  const { scopes = [] } = useObservable(rights) ?? {};
  useKeys({ r: poll.refresh });
  const heading = html`<div class="heading"><h1 tabindex="-1">${t`Schedules`}</h1>
    ${scopes.includes("admin") && html`<button class="primary" onClick=${() => setNew(true)}>${t`New schedule …`}</button>`}</div>
    ${isNew && html`<${Editor} close=${() => setNew(false)} done=${(name) => go("schedules", name)} />`}`;
  if (!poll.data) return html`${heading}<${Unloaded} poll=${poll} what=${t`the schedules`} />`;
  const { schedules, next_cursor: next } = poll.data;
  return html`${heading}<${AsOf} poll=${poll} />
    <section class="card ${poll.stale}" aria-label=${t`Schedules`}>
      ${schedules.length > 0
        ? html`<${Table} columns=${COLUMNS} rows=${schedules.map(rowOf)} />`
        : html`<p class="empty">${cursors.length > 0 || next ? t`No schedule on this page.` : t`There are no schedules. One adds a job at each moment of a pattern, such as every night at two.`}</p>`}
      ${(cursors.length > 0 || next) && html`<div class="actions">
        ${cursors.length > 0 && html`<button onClick=${() => setCursors(cursors.slice(0, -1))}>${t`Earlier schedules`}</button>`}
        ${next && html`<button onClick=${() => setCursors([...cursors, next])}>${t`Next schedules`}</button>`}</div>`}
    </section>`;
}

const OVERLAP = { skip: t`a run is left out while the last one is not over`, allow: t`a run takes place beside one that is not over`, replace: t`a run takes the place of a job that waits` };
const MISSED = { one: t`the latest run is made up for`, all: t`all runs are made up for`, none: t`no run is made up for` };

function runsOf({ fired, overlap, missed }) {
  const runs = overlap > 0 ? t`${count(fired)}, ${count(overlap)} gave way` : count(fired);
  return missed > 0 ? t`${runs}, ${count(missed)} missed` : runs;
}

const factsOf = (schedule) => [
  [t`Pattern`, schedule.cron && html`<code>${schedule.cron}</code>`],
  [t`Zone`, schedule.time_zone],
  [t`Not before`, schedule.start && html`<${When} at=${schedule.start} copies />`],
  [t`Not after`, schedule.end && html`<${When} at=${schedule.end} copies />`],
  [t`Jitter`, schedule.jitter && t`up to ${duration(schedule.jitter)}`],
  [t`Last run`, schedule.last && html`<${When} at=${schedule.last} copies />`],
  [t`Its job`, schedule.last_job && html`<a class="mono" href=${href("jobs", schedule.last_job)}>${schedule.last_job}</a>`],
  [t`Runs`, runsOf(schedule.runs)],
  [t`Overlap`, OVERLAP[schedule.overlap] ?? schedule.overlap],
  [t`After an outage`, schedule.missed_within
    ? t`${MISSED[schedule.missed] ?? schedule.missed}, if less than ${duration(schedule.missed_within)} late` : MISSED[schedule.missed] ?? schedule.missed],
];

/** The dialogs stay when the schedule has gone, with what was entered. */
function Actions({ schedule, refresh, isGone }) {
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
  // The next call repeats one of which it is not known what came of it.
  const runId = useRef(null);
  const addRun = async () => {
    runId.current ??= newId();
    try {
      const { id } = await change("POST", path("schedules", name, "run"), { id: runId.current });
      runId.current = null;
      return t`Added ${id}.`;
    } catch (error) {
      if (!mayBeDone(error)) runId.current = null;
      throw error;
    }
  };
  const pauses = state !== "paused";
  const setPaused = async () => {
    await change("POST", path("schedules", name, pauses ? "pause" : "resume"));
    return pauses ? t`${name} is paused.` : t`${name} is running again.`;
  };
  const remove = async () => {
    await change("DELETE", path("schedules", name));
    go("schedules");
  };
  const hidesHeaders = Object.keys(schedule.job.callback?.headers ?? {}).length > 0;
  if (!may("admin")) return !isGone && html`<${Lacking} topic=${topic} scopes=${["admin"]} />`;
  return html`${!isGone && html`<div class="actions">
      <button disabled=${busy} onClick=${() => run(t`Not run.`, addRun)}>${t`Run now`}</button>
      <button disabled=${busy} onClick=${() => run(pauses ? t`Not paused.` : t`Not resumed.`, setPaused)}>${pauses ? t`Pause` : t`Resume`}</button>
      ${!hidesHeaders && html`<button disabled=${busy} onClick=${() => setAsked("change")}>${t`Change …`}</button>`}
      <button class="danger quiet" onClick=${() => setAsked("delete")}>${t`Delete …`}</button>
    </div>`}
    ${hidesHeaders && !isGone && html`<p class="small">${t`The callback of its job has headers, whose values are not shown here: change this schedule where it was made.`}</p>`}
    ${asked === "change" && html`<${Editor} schedule=${schedule} close=${() => setAsked(null)} done=${refresh} />`}
    ${asked === "delete" && html`<${Question} title=${t`Delete this schedule?`} label=${t`Delete`} act=${remove} close=${() => setAsked(null)}>
      <p>${t`There will be no more runs of ${html`<code class="id">${name}</code>`}. The jobs of its earlier runs stay.`}</p><//>`}`;
}

function Schedule({ name, hidesBodies }) {
  const poll = usePoll(path("schedules", name), 5_000);
  const next = usePoll(`${path("schedules", name, "next")}?count=10`, 5_000);
  const refresh = () => Promise.all([poll.refresh(), next.refresh()]);
  useKeys({ r: refresh });
  const schedule = poll.data;
  const isGone = poll.error?.status === 404;
  const heading = html`<nav class="crumbs" aria-label=${t`Path`}><a href=${href("schedules")}>${t`Schedules`}</a></nav>
    <div class="job-id"><h1 tabindex="-1" class="mono">${name}</h1></div>`;
  if (!schedule) return html`${heading}<${Unloaded} poll=${poll} what=${t`the schedule`} />`;
  const { next: runs = [], clock_changes: changes = [] } = next.data ?? {};
  return html`${heading}
    ${isGone ? html`<${Gone} what=${t`This schedule is gone:`} poll=${poll}>${t`it was deleted.`}<//>` : html`<${AsOf} poll=${poll} />`}
    <div class="columns wide-left">
      <div class="stack">
        <section class="card ${poll.stale}">
          <p class="headline"><strong><${Rule} schedule=${schedule} /></strong> <${State} schedule=${schedule} /></p>
          <${Actions} schedule=${schedule} refresh=${refresh} isGone=${isGone} />
          <${Facts} facts=${factsOf(schedule)} />
        </section>
        <section class="card">
          <h2>${t`Job of each run`}</h2>
          <${Body} key=${hidesBodies} raw=${schedule.jobText} hidden=${hidesBodies}><//>
        </section>
      </div>
      <section class="card ${next.stale}">
        <h2>${t`Next runs`}</h2>
        ${schedule.state === "paused" && html`<p class="small">${t`It is paused. Without that, it would run:`}</p>`}
        ${!next.data && html`<${Unloaded} poll=${next} what=${t`the next runs`} />`}
        ${next.data && runs.length === 0 && html`<p class="small">${t`It has no more runs.`}</p>`}
        <ol class="runs">${runs.map((at) => html`<li key=${at}><${When} at=${at} /></li>`)}</ol>
        <${ClockChanges} changes=${changes} />
      </section>
    </div>`;
}

export const Schedules = ({ name, hidesBodies }) => (name === undefined ? html`<${List} />` : html`<${Schedule} name=${name} hidesBodies=${hidesBodies} />`);
