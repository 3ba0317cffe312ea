// The small parts that pages are made of. They know no call and no page.
import { html, useEffect, useId, useMemo, useObservable, useRef, useState } from "./lib.js";
import { useNow } from "./clock.js";
import { byteLength, bytes, count, distance, duration, exactly, moment, revealed } from "./format.js";
import { t } from "./language.js";
import { readable } from "./payload.js";
import { preferences } from "./preferences.js";

export const STATES = ["delayed", "ready", "reserved", "dead"];

const STATE_NAMES = { delayed: t`delayed`, ready: t`ready`, reserved: t`reserved`, dead: t`dead` };

/** A state in the language of the page, or as the API has it. */
export const stateName = (state) => STATE_NAMES[state] ?? state;

/** The mark of a state: a colour and a shape, so that neither is needed alone. */
export const Mark = ({ state }) => html`<span class="mark ${state}" aria-hidden="true" />`;

export const StateName = ({ state }) => {
  const known = STATES.includes(state) ? state : "unknown";
  return html`<span class="state ${known}"><${Mark} state=${known} />${stateName(state)}</span>`;
};

/** What the pointer shows of a moment: the whole of it with its zone, and the text of the API. */
function useTitle(at) {
  const { zone } = useObservable(preferences);
  return useMemo(() => `${exactly(Date.parse(at), zone)}\n${at}`, [at, zone]);
}

export function Time({ at }) {
  const { zone } = useObservable(preferences);
  const now = useNow();
  return html`<time datetime=${at} title=${useTitle(at)}>${moment(Date.parse(at), now, zone)}</time>`;
}

export const Moment = ({ at }) => html`<${Time} at=${new Date(at).toISOString()} />`;

/** A moment in full, whose text of the API can be copied if it `copies`. */
export function When({ at, copies }) {
  const now = useNow();
  return html`<span class="when">${distance(Date.parse(at), now)} <small><${Time} at=${at} /></small></span>${
    copies && html`<${Copy} text=${at} what=${t`Copy ${at}`} isSmall />`}`;
}

export function Distance({ at }) {
  const now = useNow();
  return html`<time datetime=${at} title=${useTitle(at)}>${distance(Date.parse(at), now)}</time>`;
}

export function Elapsed({ at }) {
  const now = useNow();
  return html`<time datetime=${at} title=${useTitle(at)}>${duration(Math.max(0, Math.round((now - Date.parse(at)) / 1000)))}</time>`;
}

/** Text of strangers: hidden characters are shown as their code points. */
export const Text = ({ text }) =>
  html`<bdi>${revealed(text).map((part) => (part.code ? html`<span class="hidden-character">${part.code}</span>` : part))}</bdi>`;

/** Such a text in a cell that cuts it; the pointer shows the whole. */
export const Cut = ({ text, ...more }) =>
  html`<span class="cut" title=${revealed(text).map((part) => (part.code ? `[${part.code}]` : part)).join("")} ...${more}><${Text} text=${text} /></span>`;

export function Bar({ counts }) {
  const total = STATES.reduce((sum, state) => sum + counts[state], 0);
  let x = 0;
  const present = STATES.filter((state) => counts[state] > 0);
  // A share of less than 2 % would not be seen.
  const widths = present.map((state) => Math.max(counts[state] / total, 0.02));
  const scale = 200 / widths.reduce((sum, width) => sum + width, 0);
  return html`<svg class="bar" viewBox="0 0 200 8" preserveAspectRatio="none" aria-hidden="true">
    <rect class="empty" width="200" height="8" />
    ${present.map((state, n) => {
      const width = widths[n] * scale;
      x += width;
      return html`<rect class=${state} x=${x - width} width=${width} height="8" />`;
    })}
  </svg>`;
}

/** Numbers over time as bars; null is not known. What they are, a text has to say. */
export function Bars({ kind, numbers, titleOf }) {
  const most = Math.max(...numbers);
  return html`<svg class="past ${kind}" viewBox="0 0 ${numbers.length} 16" preserveAspectRatio="none" aria-hidden="true">
    ${numbers.map((number, n) => number !== null && html`<rect key=${n} class=${number > 0 ? "some" : ""} x=${n + 0.1} width="0.8" y=${number > 0 ? 15 - (14 * number) / most : 15}
      height=${number > 0 ? 1 + (14 * number) / most : 1}>${titleOf && html`<title>${titleOf(n)}</title>`}</rect>`)}</svg>`;
}

/** Appears only after 200 ms, so that quick answers do not flicker. */
export const Loading = ({ what }) => html`<p class="loading" role="status">${t`Loading ${what} …`}</p>`;

/** What the operator of the server finds a failed call by. */
export const CallDetails = ({ error: { status, code, requestId } }) => requestId && html`<details class="call-details"><summary>${t`Details`}</summary>
  <p class="small">${t`HTTP ${status} ${html`<code>${code}</code>`}, request ${html`<code>${requestId}</code>`}`}</p></details>`;

/** What failed and why. It can be tried again unless it would fail in the same way. */
export function Failure({ error, retry }) {
  return html`<div class="failure" role="alert">
    <strong>${error.title || t`This did not work`}</strong>
    <p><${Text} text=${error.detail ?? String(error)} /></p>
    <${CallDetails} error=${error} />
    ${retry && error.passes !== false && html`<button onClick=${retry}>${t`Retry`}</button>`}
  </div>`;
}

/** In place of a module that was not loaded. */
export const notLoaded = (retry) => html`<${Failure} error=${{ title: t`The page was not loaded`, detail: t`The server does not answer.` }} retry=${retry} />`;

export function Unloaded({ poll, what }) {
  if (poll.error) return html`<${Failure} error=${poll.error} retry=${poll.refresh} />`;
  return html`<${Loading} what=${what} />`;
}

export function AsOf({ poll }) {
  const { live } = useObservable(preferences);
  if (!poll.stale && (live || !poll.data)) return null;
  return html`<p class="as-of" role="status">
    <strong>${t`As of ${html`<${Moment} at=${poll.at} />`}.`}</strong> ${poll.stale ? html`<${Text} text=${poll.error.detail} />` : t`Updates are off.`}
    ${(!poll.stale || poll.error.passes) && html`<button onClick=${poll.refresh}>${poll.stale ? t`Retry now` : t`Read now`}</button>`}
  </p>`;
}

/** Tells that something is gone of which the last figures stay. */
export const Gone = ({ what, poll, children }) => html`<p class="as-of" role="status">
  <strong>${what}</strong> <span>${children} ${t`Below is what it was at ${html`<${Moment} at=${poll.at} />`}.`}</span></p>`;

/** Copies a text. `what` it is distinguishes the buttons of a page; one that `isSmall` is a sign alone. */
export function Copy({ text, label = t`Copy`, what, isSmall }) {
  const [state, setState] = useState("");
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async () => {
    setState((await copied(text)) ? t`Copied` : t`Not copied`);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setState(""), 2000);
  };
  return html`<button class=${isSmall ? "quiet sign" : "quiet"} onClick=${copy} aria-label=${what} title=${isSmall && what}>
      ${isSmall && !state ? html`<svg viewBox="0 0 16 16" aria-hidden="true"><path d="M5.5 5.5h8v8h-8zM3.5 10.5h-1v-8h8v1" /></svg>` : state || label}</button>
    <span class="visually-hidden" role="status">${state}</span>`;
}

/** Copies without the clipboard API too, which browsers offer only to encrypted pages. */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = Object.assign(document.createElement("textarea"), { value: text, className: "visually-hidden" });
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

const FIRST_CHARACTERS = 64 * 1024;

/** A body, and beside its buttons the children, which appear with it. */
export function Body({ raw, hidden, children }) {
  const [shown, setShown] = useState(!hidden);
  const [whole, setWhole] = useState(false);
  const [isRaw, setRaw] = useState(false);
  if (!shown) return html`<button onClick=${() => setShown(true)}>${t`Show the body`}</button>`;
  const { text, size } = useMemo(() => (isRaw ? { text: raw, size: bytes(byteLength(raw)) } : readable(raw)), [raw, isRaw]);
  const isLong = text.length > FIRST_CHARACTERS && !whole;
  return html`<div class="body">
    <div class="actions">
      <${Copy} text=${raw} what=${t`Copy the body`} />
      <button class="quiet" aria-pressed=${isRaw} onClick=${() => setRaw(!isRaw)}>${t`Raw`}</button>
      ${children}
      <span class="small">${size}</span>
    </div>
    <pre tabindex="0" role="region" aria-label=${t`Body`}><${Text} text=${isLong ? text.slice(0, FIRST_CHARACTERS) : text} /></pre>
    ${isLong &&
    html`<button onClick=${() => setWhole(true)}>${t`Show all ${count(text.length)} characters`}</button>`}
  </div>`;
}

/** A field for a word or a number. */
export function Field({ label, ...more }) {
  const id = useId();
  return html`<label for=${id}>${label}</label>
    <input id=${id} autocomplete="off" autocapitalize="off" spellcheck=${false} ...${more} />`;
}

export const Facts = ({ facts }) => html`<dl class="facts">
  ${facts
    .filter(([, value]) => value !== null && value !== undefined && value !== false)
    .map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
</dl>`;

export const Command = ({ text }) => html`<div class="command">
  <pre tabindex="0" role="region" aria-label=${t`Command`}><code>${text}</code></pre>
  <${Copy} text=${text} what=${t`Copy the command`} />
</div>`;
