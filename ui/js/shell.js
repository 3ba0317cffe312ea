// What surrounds every page: the header, the state of the connection, the keys, and the warning about plain HTTP.
import { html, useEffect, useObservable, useRef, useState } from "./lib.js";
import { go, goDead, href, path, placeIn, route } from "./address.js";
import { figures, get, rights } from "./api.js";
import { useKeyList } from "./asking.js";
import { useMay } from "./changes.js";
import { serverNow, useNow } from "./clock.js";
import { Result } from "./dialog.js";
import { count, zoneName } from "./format.js";
import { moveRow, useKeys } from "./keys.js";
import { t } from "./language.js";
import { Menu } from "./menu.js";
import { connection, usePoll, waited } from "./poll.js";
import { prefer, preferences } from "./preferences.js";

const PAGES = [
  [t`Overview`, [], ["", "topics"]],
  [t`Jobs`, ["jobs"], ["jobs"]],
  [t`Dead letters`, ["dead"], ["dead"]],
  [t`Schedules`, ["schedules"], ["schedules"]],
  [t`Workers`, ["workers"], ["workers"]],
  [t`Callbacks`, ["callbacks"], ["callbacks"]],
  [t`Bulk`, ["bulk"], ["bulk"]],
  [t`Audit`, ["audit"], ["audit"]],
  [t`Server`, ["server"], ["server"]],
];

/** Reads the figures of the whole queue so rarely that it costs nothing, where no page does so anyway. */
const RARELY_MS = 30_000;

/** What is counted beside the name of a page, and what a screen reader hears after the number. */
const COUNTED = {
  dead: { figure: "dead", isBad: true },
  callbacks: { figure: "failing", isBad: true, meaning: t`failing` },
  bulk: { figure: "operations", meaning: t`running` },
};

/** How many there are, if there are some and the token covers all topics. */
function Count({ page }) {
  const { figure, isBad, meaning } = COUNTED[page];
  const number = useObservable(figures)[figure];
  return number > 0 && html` <span class=${isBad ? "tag bad" : "tag"} title=${meaning}>${count(number)}${meaning && html`<span class="visually-hidden"> ${meaning}</span>`}</span>`;
}

/** The pages. Where they do not fit, they are scrolled so that the present one is seen. */
function Pages({ pages, root }) {
  const nav = useRef(null);
  usePoll(useMay()("read") && root !== "" ? "stats" : null, RARELY_MS);
  useEffect(() => {
    const link = nav.current.querySelector("[aria-current]");
    if (link) nav.current.scrollLeft = link.offsetLeft - (nav.current.clientWidth - link.offsetWidth) / 2;
  }, [root, pages.length]);
  return html`<nav ref=${nav} aria-label=${t`Pages`}>${pages.map(([name, target, roots]) => html`<a key=${name} href=${href(...target)}
    aria-current=${roots.includes(root) ? "page" : undefined}>${name}${COUNTED[target[0]] && html`<${Count} page=${target[0]} />`}</a>`)}</nav>`;
}

const Logo = () => html`<svg class="logo" viewBox="0 0 32 32" aria-hidden="true">
  <rect width="32" height="32" rx="8" />
  <path d="M9 23V13M16 23V8M23 23v-6" />
</svg>`;

/** After how many milliseconds without an answer the header says so: figures are read every two seconds. */
const LONG_WAIT = 4_000;

const togglesLive = () => prefer({ live: !preferences.get().live });

/** Whether figures are fresh, and a button that stops and starts that. */
function Live() {
  const { live } = useObservable(preferences);
  const { failing, retryAt } = useObservable(connection);
  useNow();
  const wait = Math.max(0, Math.ceil((retryAt - serverNow()) / 1000));
  const isSlow = waited() > LONG_WAIT;
  const text = failing ? (wait > 0 ? t`Retry in ${wait} s` : t`Retrying …`) : isSlow ? t`Waiting ${Math.floor(waited() / 1000)} s` : live ? t`Live` : t`Updates off`;
  return html`<button class=${`live ${failing || isSlow ? "failing" : live ? "on" : "off"}`} aria-pressed=${live}
    aria-label=${failing || isSlow ? t`Live updates: the server does not answer` : t`Live updates`} onClick=${togglesLive}>
    <span class="dot" aria-hidden="true" /><span class="live-text">${text}</span></button>`;
}

/** Where a text leads: to what a pasted address of the API names, else to the job with this id, else to the topic of this name. */
async function placeOf(text) {
  const pasted = placeIn(text);
  if (pasted) return pasted;
  const [job, topic] = await Promise.allSettled([get(path("jobs", text)), get(path("topics", text))]);
  const isNoJob = job.status === "rejected" && [400, 404].includes(job.reason.status);
  return isNoJob && topic.status === "fulfilled" ? ["topics", text] : ["jobs", text];
}

function Search() {
  const field = useRef(null);
  const [text, setText] = useState("");
  const turn = useRef(0);
  const focus = () => field.current.focus();
  useKeys({ "/": focus });
  const open = async (event) => {
    event.preventDefault();
    if (!text.trim()) return;
    field.current.blur();
    const [mine, from] = [(turn.current += 1), location.hash];
    const page = text.indexOf("#/");
    const place = page < 0 && (await placeOf(text.trim()));
    if (turn.current !== mine || location.hash !== from) return;
    setText("");
    if (place) go(...place);
    else location.hash = text.slice(page).trim();
  };
  return html`<form role="search" onSubmit=${open}>
    <input ref=${field} type="search" aria-label=${t`Find a job or a topic`} placeholder=${t`Id of a job, or a topic`} autocomplete="off"
      autocapitalize="off" spellcheck=${false} maxlength="2000" value=${text} onInput=${(event) => setText(event.target.value)} />
    <kbd aria-hidden="true">/</kbd>
  </form>`;
}

const isLoopback = /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/.test(location.hostname);

const Warning = () =>
  location.protocol === "http:" && !isLoopback
    ? html`<p class="banner" role="note">${t`This connection is not encrypted: others on the network can read tokens and jobs.`}</p>`
    : null;

export function Shell({ title, signsIn, children }) {
  const { zone } = useObservable(preferences);
  const parts = useObservable(route);
  const now = useNow();
  const keys = useKeyList();
  const { scopes = [] } = useObservable(rights) ?? {};
  // The audit list is for admins, also of some topics only.
  const pages = PAGES.filter(([, [root]]) => root !== "audit" || scopes.includes("admin"));
  const topic = parts[0] === "topics" ? parts[1] : undefined;
  const root = topic && parts[2] === "dead" ? "dead" : (parts[0] ?? "");
  useKeys({
    "g o": () => go(),
    "g t": () => go(),
    "g j": () => go("jobs"),
    "g c": () => go("schedules"),
    "g w": () => go("workers"),
    "g h": () => go("callbacks"),
    "g b": () => go("bulk"),
    "g a": () => go("audit"),
    "g s": () => go("server"),
    "g d": () => goDead(topic),
    j: () => moveRow(1),
    k: () => moveRow(-1),
    l: togglesLive,
    "?": () => keys.ask({}),
  }, true);
  return html`<a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), document.querySelector("main").focus())}>
      ${t`Skip to the page`}</a>
    <header class="top">
      <div class="brand"><a href=${href()}><${Logo} /><span class="name">Linger</span></a>${title && html`<span class="title">${title}</span>`}</div>
      ${!signsIn && html`<${Pages} pages=${pages} root=${root} />
        <${Search} />
        <${Live} />
        <${Menu} showKeys=${() => keys.ask({})} />`}
    </header>
    <${Warning} />
    <main tabindex="-1" id="main">${children}</main>
    <footer>
      <span>${zone === "utc" ? t`Times in UTC` : t`Times in ${zoneName(zone, now)}, or with their own offset`}</span>
    </footer>
    <${Result} />
    ${keys.question}`;
}
