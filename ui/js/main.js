// Starts the dashboard: chooses the page from the address, or the sign-in.
import { Boundary, focusHeading, html, later, render, useEffect, useObservable, useRef, useState } from "./lib.js";
import { href, route } from "./address.js";
import { settings } from "./api.js";
import { t } from "./language.js";
import { Overview, troubles } from "./pages/overview.js";
import { SignIn } from "./pages/signin.js";
import { Topic } from "./pages/topic.js";
import { Loading, notLoaded } from "./parts.js";
import { recalled } from "./place.js";
import { session } from "./session.js";
import { Shell } from "./shell.js";

const loading = html`<${Loading} what=${t`the page`} />`;
const Audit = later(async () => (await import("./pages/audit.js")).Audit, loading, notLoaded);
const Bulk = later(async () => (await import("./pages/bulk.js")).Bulk, loading, notLoaded);
const Callbacks = later(async () => (await import("./pages/callbacks.js")).Callbacks, loading, notLoaded);
const Dead = later(async () => (await import("./pages/dead.js")).Dead, loading, notLoaded);
const Job = later(async () => (await import("./pages/job.js")).Job, loading, notLoaded);
const Jobs = later(async () => (await import("./pages/jobs.js")).Jobs, loading, notLoaded);
const Schedules = later(async () => (await import("./pages/schedules.js")).Schedules, loading, notLoaded);
const Server = later(async () => (await import("./pages/server.js")).Server, loading, notLoaded);
const Workers = later(async () => (await import("./pages/workers.js")).Workers, loading, notLoaded);

function pageOf(parts, hidesBodies) {
  const [first, second, third] = parts;
  if (parts.length === 0) return [t`Overview`, html`<${Overview} />`];
  if (first === "topics" && parts.length === 2) return [second, html`<${Topic} key=${second} topic=${second} />`];
  if (first === "topics" && third === "dead" && parts.length === 3) {
    return [t`Dead letters of ${second}`, html`<${Dead} key=${second} topic=${second} />`];
  }
  if (first === "dead" && parts.length === 1) return [t`Dead letters`, html`<${Dead} key="" />`];
  if (first === "jobs" && parts.length === 1) return [t`Jobs`, html`<${Jobs} />`];
  if (first === "jobs" && parts.length === 2) {
    return [second, html`<${Job} key=${second} id=${second} hidesBodies=${hidesBodies} />`];
  }
  if (first === "bulk" && parts.length <= 2) return [second ?? t`Bulk`, html`<${Bulk} key=${second} id=${second} />`];
  if (first === "schedules" && parts.length <= 2) {
    return [second ?? t`Schedules`, html`<${Schedules} key=${second} name=${second} hidesBodies=${hidesBodies} />`];
  }
  if (first === "callbacks" && parts.length === 1) return [t`Callbacks`, html`<${Callbacks} />`];
  if (first === "workers" && parts.length === 1) return [t`Workers`, html`<${Workers} />`];
  if (first === "audit" && parts.length === 1) return [t`Audit`, html`<${Audit} />`];
  if (first === "server" && parts.length === 1) return [t`Server`, html`<${Server} />`];
  return [t`No such page`, html`<h1 tabindex="-1">${t`No such page`}</h1><p>${t`See the ${html`<a href=${href()}>${t`overview`}</a>`}.`}</p>`];
}

function useSettings() {
  const [known, setKnown] = useState({ title: "", hide_bodies: true });
  useEffect(() => {
    let [wait, timer] = [2000, 0];
    const read = async () => {
      try {
        setKnown(await settings());
      } catch {
        timer = setTimeout(read, wait);
        wait = Math.min(wait * 2, 30_000);
      }
    };
    read();
    return () => clearTimeout(timer);
  }, []);
  return known;
}

const failed = (error) => html`<h1 tabindex="-1">${t`This page failed`}</h1>
  <p class="problem" role="alert">${error.message}</p><button onClick=${() => location.reload()}>${t`Try again`}</button>`;

function App() {
  const parts = useObservable(route);
  const { token, required } = useObservable(session);
  const { title, hide_bodies: hidesBodies } = useSettings();
  const signsIn = required && !token;
  const [name, page] = signsIn ? [t`Sign in`, html`<${SignIn} />`] : pageOf(parts, hidesBodies);
  const isFirst = useRef(true);
  const number = useObservable(troubles);
  useEffect(() => void (document.title = [number > 0 ? `(${number}) ${name}` : name, "Linger", title].filter(Boolean).join(" · ")), [name, title, number]);
  useEffect(() => {
    if (!isFirst.current) focusHeading();
    isFirst.current = false;
  }, [name]);
  useEffect(() => void (recalled() || scrollTo(0, 0)), [parts]);
  return html`<${Shell} title=${title} signsIn=${signsIn}>
    <${Boundary} instead=${failed}>${page}<//><//>`;
}

render(html`<${App} />`, document.getElementById("app"));
