// A test job: adds one to a topic, shows the same as a command, and follows it until it is gone.
import { html, useEffect, useId, useRef, useState } from "../lib.js";
import { href, path, ROOT } from "../address.js";
import { DeleteJob, useMay } from "../changes.js";
import { add } from "../api.js";
import { useNow } from "../clock.js";
import { countdown, shellQuote } from "../format.js";
import { Command, Failure, StateName } from "../parts.js";
import { usePoll } from "../poll.js";
import { session } from "../session.js";

/** A curl command that posts `json`. It names the variable of the token, never the token. */
export function curl(json) {
  const token = session.get().token ? ` \\\n  --header "Authorization: Bearer $LINGER_TOKEN"` : "";
  const target = shellQuote(new URL("jobs", ROOT).href);
  return `curl ${target}${token} \\\n  --header 'content-type: application/json' \\\n  --data ${shellQuote(json)}`;
}

/** A call's JSON, with the body as it is: parsing it could change its numbers. */
export const jobJson = (fields, body) => `${JSON.stringify(fields).slice(0, -1)},"body":${body}}`;

function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const STEPS = { delayed: "waits for its due time", ready: "waits for a worker", reserved: "a worker has it", dead: "is a dead letter" };

function Watched({ id, close }) {
  const poll = usePoll(path("jobs", id), 1_000);
  const now = useNow();
  const may = useMay(poll.data?.topic);
  const [deletes, setDeletes] = useState(false);
  const isGone = poll.error?.status === 404;
  const job = poll.data;
  const left = job ? (Date.parse(job.due_at) - now) / 1000 : 0;
  return html`<div class="watched">
    <p><a class="mono" href=${href("jobs", id)}>${id}</a></p>
    <p role="status">${
      isGone
        ? html`<span class="state unknown">gone</span> finished or deleted`
        : job
          ? html`<${StateName} state=${job.state} /> ${STEPS[job.state]}`
          : (poll.error?.detail ?? "…")
    }</p>
    ${job && !isGone && job.state === "delayed" && html`<p class="countdown" aria-hidden="true">${countdown(left)}</p>`}
    <div class="actions">
      ${job && !isGone && may("add") && html`<button type="button" onClick=${() => setDeletes(true)}>Delete …</button>`}
      <button type="button" onClick=${close}>Add another</button>
    </div>
    ${deletes && html`<${DeleteJob} job=${job} close=${() => setDeletes(false)} done=${poll.refresh} />`}
  </div>`;
}

export function TestJob({ topic, refresh }) {
  const [delay, setDelay] = useState("10s");
  const [body, setBody] = useState('{"test":true}');
  const [state, setState] = useState({ busy: false, error: null, added: null });
  const [delayField, bodyField] = [useId(), useId()];
  const may = useMay(topic);
  const first = useRef(null);
  const wasAdded = useRef(false);
  useEffect(() => {
    if (wasAdded.current && !state.added) first.current?.focus();
    wasAdded.current = Boolean(state.added);
  }, [state.added]);
  if (!may("add")) return null;
  const valid = isJson(body);
  const json = valid ? jobJson({ topic, ...(delay.trim() ? { delay: delay.trim() } : {}) }, body.trim()) : null;
  const submit = async (event) => {
    event.preventDefault();
    if (!valid || state.busy) return;
    setState({ busy: true, error: null, added: null });
    try {
      const { id } = await add(json, topic);
      setState({ busy: false, error: null, added: id });
      refresh();
    } catch (error) {
      setState({ busy: false, error, added: null });
    }
  };
  const fields = html`<form onSubmit=${submit}>
    <p class="small">A worker of this topic receives it like any other job.</p>
    <label for=${delayField}>Delay</label>
    <input ref=${first} id=${delayField} class="short" autocomplete="off" value=${delay} placeholder="none: ready at once"
      onInput=${(event) => setDelay(event.target.value)} />
    <label for=${bodyField}>Body, in JSON</label>
    <textarea id=${bodyField} class="mono" rows="3" spellcheck=${false} aria-invalid=${valid ? undefined : "true"} value=${body}
      onInput=${(event) => setBody(event.target.value)} />
    ${!valid && html`<p class="problem" role="alert">This is not JSON. Text needs quotes: "hello".</p>`}
    ${state.error && html`<${Failure} error=${state.error} />`}
    <div class="actions"><button class="primary" disabled=${!valid || state.busy}>${state.busy ? "Adding …" : "Add job"}</button></div>
  </form>`;
  return html`<section class="card test-job">
    <h2>Test job</h2>
    ${state.added ? html`<${Watched} id=${state.added} close=${() => setState({ busy: false, error: null, added: null })} />` : fields}
    ${json && html`<details><summary>The same with curl</summary><${Command} text=${curl(json)} /></details>`}
  </section>`;
}
