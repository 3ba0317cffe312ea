// The dialog that makes or changes a schedule. While one types, the server says when it would run.
import { html, useEffect, useId, useState } from "./lib.js";
import { path } from "./address.js";
import { put } from "./api.js";
import { words } from "./cron.js";
import { announce, Question } from "./dialog.js";
import { isDuration } from "./format.js";
import { t } from "./language.js";
import { Field, Text, Time, When } from "./parts.js";

/** How many milliseconds after the last key the server is asked. */
const PAUSE_MS = 300;
const SHOWN = 5;

/** The moments at which changed clocks meet a run. */
export const ClockChanges = ({ changes }) => html`<ul class="clock-changes">${changes.map(({ at, time, effect }) => html`<li key=${at} class="problem">
  ${effect === "skipped" ? t`Clocks skip ${time.replace("T", " ")}: that run is at ${html`<${Time} at=${at} />`}, right after the gap.`
    : t`Clocks repeat ${time.replace("T", " ")}: that run is at ${html`<${Time} at=${at} />`}, the first of the two.`}</li>`)}</ul>`;

const ZONES = Intl.supportedValuesOf("timeZone");

/** A choice of one value. */
function Select({ label, value, options, choose }) {
  const id = useId();
  return html`<label for=${id}>${label}</label>
    <select id=${id} value=${value} onChange=${(event) => choose(event.target.value)}>${Object.entries(options).map(([name, text]) => html`<option key=${name} value=${name}>${text}</option>`)}</select>`;
}

const OVERLAP = { skip: t`Leave the run out`, allow: t`Run beside it`, replace: t`Take the place of a job that waits` };
const MISSED = { one: t`Make up for the latest`, all: t`Make up for all`, none: t`Make up for none` };

const EMPTY = {
  name: "", rule: "cron", cron: "0 9 * * MON-FRI", every: "15m", time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  overlap: "skip", missed: "one", job: null,
};

/** The job of a new schedule before it is written: its topic has the name of the schedule. */
const firstJob = (name) => `{"topic": ${JSON.stringify(name || "new")}, "body": {}}`;

const valuesOf = (schedule) => schedule ? {
  ...EMPTY, ...schedule, rule: schedule.cron ? "cron" : "every", job: schedule.jobText,
  every: schedule.every === undefined ? EMPTY.every : `${schedule.every}s`, time_zone: schedule.time_zone ?? "UTC",
} : EMPTY;

/** What the API takes. What the dialog has no field for stays as it was. The job stays the text that it is. */
function definitionOf({ rule, cron, every, time_zone, overlap, missed, job }, { start, end, jitter, missed_within } = {}) {
  const when = rule === "cron" ? { cron: cron.trim(), time_zone } : { every: every.trim() };
  const kept = { start, end, jitter, missed_within: missed === "none" ? undefined : missed_within };
  return `${JSON.stringify({ ...when, overlap, missed, ...kept }).slice(0, -1)},"job":${job}}`;
}

function isJson(text) {
  try {
    return typeof JSON.parse(text) === "object";
  } catch {
    return false;
  }
}

/** What the server says of a definition: `{ runs, changes }` or `{ error }`; null while it is asked. */
function usePreview(name, definition) {
  const [said, setSaid] = useState(null);
  useEffect(() => {
    setSaid(null);
    if (definition === null) return undefined;
    let isCurrent = true;
    const ask = async () => {
      const target = `${path("schedules", name || "new")}?dry_run=true&count=${SHOWN}`;
      const answer = await put(target, definition).then(({ next, clock_changes }) => ({ runs: next, changes: clock_changes }), (error) => ({ error }));
      if (isCurrent) setSaid(answer);
    };
    const timer = setTimeout(ask, PAUSE_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [name, definition]);
  return said;
}

function Preview({ said, text }) {
  if (!said) return html`<p class="small preview" role="status">…</p>`;
  if (said.error) return html`${(said.error.faults ?? [said.error.detail]).map((fault) => html`<p class="problem" role="alert"><${Text} text=${fault} /></p>`)}`;
  return html`<div class="preview" role="status">${text && html`<p><strong>${text}</strong></p>`}
    ${said.runs.length === 0 ? html`<p>${t`It has no run.`}</p>` : html`<ol class="runs">${said.runs.map((at) => html`<li key=${at}><${When} at=${at} /></li>`)}</ol>`}
    <${ClockChanges} changes=${said.changes} /></div>`;
}

/** Makes a schedule, or changes one. */
export function Editor({ schedule: present, close, done }) {
  // What it was when the dialog opened: a change of another person is not overwritten.
  const [schedule] = useState(present);
  const [given, setValues] = useState(valuesOf(schedule));
  const name = given.name.trim();
  const values = { ...given, job: given.job ?? firstJob(name) };
  const [job, zones] = [useId(), useId()];
  const set = (name) => (value) => setValues({ ...given, [name]: value });
  const field = (name, label, more) => html`<${Field} key=${name} label=${label} value=${values[name]} ...${more} onInput=${(event) => set(name)(event.target.value)} />`;
  const isWhole = isJson(values.job) && (values.rule === "cron" || isDuration(values.every.trim()));
  const definition = isWhole ? definitionOf(values, schedule) : null;
  const said = usePreview(name, definition);
  const act = async () => {
    await put(path("schedules", name), definition, schedule?.revision ?? 0);
    // First, because what is announced goes with the page.
    done(name);
    announce(schedule ? t`${name} is changed.` : t`${name} is made.`);
  };
  return html`<${Question} title=${schedule ? t`Change ${name}` : t`New schedule`} label=${t`Save`} kind="primary" act=${act} close=${close}
      ready=${Boolean(name && said?.runs)}>
    ${!schedule && field("name", t`Name`, { maxlength: 200 })}
    <${Select} label=${t`Runs`} value=${values.rule} choose=${set("rule")} options=${{ cron: t`By the clock, as a pattern of cron`, every: t`At an interval` }} />
    ${values.rule === "cron"
      ? html`${field("cron", t`Pattern: minute, hour, day, month, day of the week`)}${field("time_zone", t`Zone`, { list: zones })}
          <datalist id=${zones}>${["UTC", ...ZONES].map((zone) => html`<option key=${zone} value=${zone} />`)}</datalist>`
      : field("every", t`Every`, { class: "short" })}
    ${values.rule === "every" && !isDuration(values.every.trim()) && html`<p class="problem" role="alert">${t`A time looks like 30m, 1h30m or 2d.`}</p>`}
    <label for=${job}>${t`Job of each run, in JSON`}</label>
    <textarea id=${job} class="mono" rows="3" spellcheck=${false} aria-invalid=${isJson(values.job) ? undefined : "true"} value=${values.job} onInput=${(event) => set("job")(event.target.value)} />
    ${!isJson(values.job) && html`<p class="problem" role="alert">${t`This is not a JSON object.`}</p>`}
    <${Select} label=${t`If the last run is not over`} value=${values.overlap} options=${OVERLAP} choose=${set("overlap")} />
    <${Select} label=${t`After an outage`} value=${values.missed} options=${MISSED} choose=${set("missed")} />
    ${definition && html`<${Preview} said=${said} text=${values.rule === "cron" && words(values.cron)} />`}
  <//>`;
}
