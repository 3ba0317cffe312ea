// Server: what runs, whether it is well, and this browser's settings.
import { html, useObservable } from "../lib.js";
import { useMay } from "../changes.js";
import { bytes, count, duration } from "../format.js";
import { AsOf, Facts, Text, Unloaded } from "../parts.js";
import { useKeys } from "../keys.js";
import { usePoll } from "../poll.js";
import { prefer, preferences } from "../preferences.js";

function Choice({ name, legend, options }) {
  const chosen = useObservable(preferences)[name];
  return html`<fieldset class="choice">
    <legend>${legend}</legend>
    <div class="segments">${options.map(([value, label]) => html`<label key=${label}>
      <input type="radio" name=${name} checked=${chosen === value} onChange=${() => prefer({ [name]: value })} />
      <span>${label}</span></label>`)}</div>
  </fieldset>`;
}

const CHECKS = { shutdown: "Accepts work", store: "Store", disk_space: "Disk space", memory: "Memory", shards: "Shards" };
const STATUS = { ok: "ok", degraded: "works in part", failed: "failed" };

/** The checks of `/readyz`. A server that is not ready sends them too, as an error with the first failure. */
function Checks({ poll }) {
  if (!poll.data && !poll.error) return html`<${Unloaded} poll=${poll} what="the checks" />`;
  if (poll.error) {
    return html`<p class="check failed"><span class="mark dead" aria-hidden="true" /> Not ready: <${Text} text=${poll.error.detail} /></p>`;
  }
  return html`<ul class="checks">${poll.data.checks.map(({ name, status, detail }) => html`<li key=${name} class=${`check ${status}`}>
    <span class=${`mark ${status === "ok" ? "ready" : "dead"}`} aria-hidden="true" />
    <span>${CHECKS[name] ?? name}</span> <span class="small">${STATUS[status] ?? status}${detail && html`: <${Text} text=${detail} />`}</span>
  </li>`)}</ul>`;
}

/** The limits by the settings that set them: sizes in bytes, durations in seconds. */
const limitsOf = (limits) => Object.entries(limits).flatMap(([section, settings]) => Object.entries(settings).map(([name, value]) => [
  `${section}.${name}`,
  /max_delay|max_wait$|timeout/.test(name) ? duration(value) : /bytes|body|delivery|rate/.test(name) ? bytes(value) : count(value),
]));

export function Server() {
  const version = usePoll("version", 30_000);
  const ready = usePoll("readyz?verbose", 5_000);
  const { data: stats } = usePoll(useMay()("read") ? "stats" : null, 5_000);
  useKeys({ r: () => (version.refresh(), ready.refresh()) });
  return html`<h1 tabindex="-1">Server</h1>
    <${AsOf} poll=${version} />
    <div class="columns">
      <section class="card">
        <h2>What runs here</h2>
        ${version.data
          ? html`<div class=${version.stale ? "stale" : ""}><${Facts} facts=${[
              ["Version", version.data.version],
              ["Engine", `${version.data.engine} (${version.data.engine_version})`],
              ["Durability", version.data.durability === "none"
                ? html`<span class="problem">none: all jobs are lost when the store ends</span>` : version.data.durability],
              ["Processes", stats?.processes.map(({ name, version }) => `${name} (${version})`).join(", ")],
            ]} /></div>`
          : html`<${Unloaded} poll=${version} what="the version" />`}
      </section>
      <section class="card"><h2>Health</h2><${Checks} poll=${ready} /></section>
      ${version.data?.limits && html`<section class="card limits"><h2>Limits</h2><${Facts} facts=${limitsOf(version.data.limits)} /></section>`}
      <section class="card">
        <h2>This browser</h2>
        <${Choice} name="theme" legend="Theme" options=${[["auto", "Auto"], ["light", "Light"], ["dark", "Dark"]]} />
        <${Choice} name="zone" legend="Times" options=${[["local", "Local"], ["utc", "UTC"]]} />
        <${Choice} name="live" legend="Live updates" options=${[[true, "On"], [false, "Off"]]} />
        <${Choice} name="keys" legend="Single-key shortcuts" options=${[[true, "On"], [false, "Off"]]} />
      </section>
    </div>`;
}
