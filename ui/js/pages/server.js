// Server: its processes, where jobs are kept and what a failure would cost, whether it is well, and its limits.
import { html } from "../lib.js";
import { useMay } from "../changes.js";
import { lossOf } from "../durability.js";
import { bytes, count, duration } from "../format.js";
import { t } from "../language.js";
import { AsOf, Facts, Text, Unloaded, When } from "../parts.js";
import { useKeys } from "../keys.js";
import { usePoll } from "../poll.js";

const CHECKS = { shutdown: t`Accepts work`, store: t`Store`, clock: t`Clock`, disk_space: t`Disk space`, log: t`Logging`, memory: t`Memory`, shards: t`Shards`, replaced: t`Replaced` };
const STATUS = { ok: t`ok`, degraded: t`works in part`, failed: t`failed` };

/** The checks of `/readyz`. A server that is not ready sends them too, as an error with the first failure. */
function Checks({ poll }) {
  if (!poll.data && !poll.error) return html`<${Unloaded} poll=${poll} what=${t`the checks`} />`;
  if (poll.error) {
    return html`<p class="check failed"><span class="mark dead" aria-hidden="true" /> ${t`Not ready: ${html`<${Text} text=${poll.error.detail} />`}`}</p>`;
  }
  return html`<ul class="checks">${poll.data.checks.map(({ name, status, detail }) => html`<li key=${name} class=${`check ${status}`}>
    <span class=${`mark ${status === "ok" ? "ready" : "dead"}`} aria-hidden="true" />
    <span>${CHECKS[name] ?? name}</span> <span class="small">${STATUS[status] ?? status}${detail && t`: ${html`<${Text} text=${detail} />`}`}</span>
  </li>`)}</ul>`;
}

/** The limits by the settings that set them: sizes in bytes, durations in seconds. */
const limitsOf = (limits) => Object.entries(limits).flatMap(([section, settings]) => Object.entries(settings).map(([name, value]) => [
  `${section}.${name}`,
  /max_delay|max_wait$|timeout|retention/.test(name) ? duration(value) : /bytes|body|delivery|rate/.test(name) ? bytes(value) : count(value),
]));

/** When the last backup began; only an engine that makes them says so. */
const backupOf = ({ backup_at: at }) => at === undefined ? null : at === null ? t`none known` : html`<${When} at=${at} copies />`;

function Store({ version, space = {} }) {
  const [used, free] = version.engine === "redis" ? [t`Memory in use`, t`Memory left`] : [t`On disk`, t`Disk left`];
  const { text, isBad } = lossOf(version);
  return html`<${Facts} facts=${[
    [t`Engine`, version.engine === "redis" ? `${/^\d/.test(version.engine_version) ? "Redis " : ""}${version.engine_version}` : `${version.engine} (${version.engine_version})`],
    [t`Durability`, html`<span class=${isBad ? "tag" : ""}>${version.durability}</span>${text && html`<p class=${isBad ? "warning" : "small"}>${text}</p>`}`],
    [used, space.used_bytes !== undefined && bytes(space.used_bytes)],
    [free, space.free_bytes !== undefined && bytes(space.free_bytes)],
    [t`Last backup`, backupOf(space)],
  ]} />`;
}

const Processes = ({ processes }) => html`<table>
  <thead><tr><th scope="col">${t`Process`}</th><th scope="col">${t`Version`}</th><th scope="col">${t`Up since`}</th><th scope="col" class="number">${t`Memory`}</th></tr></thead>
  <tbody>${processes.map(({ name, version, started_at: at, resident_bytes: memory }) => html`<tr key=${name}>
    <th scope="row"><span class="mono">${name}</span></th><td>${version}</td><td><${When} at=${at} /></td><td class="number">${memory === undefined ? "–" : bytes(memory)}</td></tr>`)}</tbody></table>`;

export function Server() {
  const version = usePoll("version", 30_000);
  const ready = usePoll("readyz?verbose", 5_000);
  const mayRead = useMay()("read");
  const stats = usePoll(mayRead ? "stats" : null, 5_000);
  useKeys({ r: () => (version.refresh(), ready.refresh(), stats.refresh()) });
  return html`<h1 tabindex="-1">${t`Server`}</h1>
    <${AsOf} poll=${version} />
    <section class="card ${stats.stale}">
      <h2>${t`Processes`}</h2>
      ${stats.data ? html`<${Processes} processes=${stats.data.processes} />`
        : mayRead ? html`<${Unloaded} poll=${stats} what=${t`the processes`} />`
        : html`<p class="small">${version.data && t`Version ${version.data.version}.`} ${t`A token for all topics sees the processes.`}</p>`}
    </section>
    <div class="columns">
      <section class="card ${version.stale}"><h2>${t`Store`}</h2>
        ${version.data ? html`<${Store} version=${version.data} space=${stats.data?.store} />` : html`<${Unloaded} poll=${version} what=${t`the store`} />`}</section>
      <section class="card"><h2>${t`Health`}</h2><${Checks} poll=${ready} /></section>
    </div>
    ${version.data && html`<details class="card limits"><summary><h2>${t`Limits`}</h2></summary><${Facts} facts=${limitsOf(version.data.limits)} /></details>`}`;
}
