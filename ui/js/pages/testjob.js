// A test job: adds one to a topic, and shows the same as a command.
import { html, useId, useState } from "../lib.js";
import { href, ROOT } from "../address.js";
import { useMay } from "../changes.js";
import { add } from "../api.js";
import { shellQuote } from "../format.js";
import { Command, Failure, Field } from "../parts.js";
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

export function TestJob({ topic, isCalled, refresh }) {
  const [delay, setDelay] = useState("10s");
  const [body, setBody] = useState('{"test":true}');
  const [state, setState] = useState({ busy: false, error: null, added: null });
  const bodyField = useId();
  const may = useMay(topic);
  if (!may("add")) return null;
  const valid = isJson(body);
  const json = valid ? jobJson({ topic, ...(delay.trim() ? { delay: delay.trim() } : {}) }, body.trim()) : null;
  const submit = async (event) => {
    event.preventDefault();
    if (!valid || state.busy) return;
    setState({ busy: true, error: null, added: null });
    try {
      const { id } = await add(json);
      setState({ busy: false, error: null, added: id });
      refresh();
    } catch (error) {
      setState({ busy: false, error, added: null });
    }
  };
  return html`<section class="card test-job"><h2>Test job</h2><form onSubmit=${submit}>
    <p class="small">${isCalled ? "Linger calls the topic's URL for it" : "A worker of this topic receives it"} like any other job.</p>
    <${Field} label="Delay" class="short" value=${delay} placeholder="none: ready at once"
      onInput=${(event) => setDelay(event.target.value)} />
    <label for=${bodyField}>Body, in JSON</label>
    <textarea id=${bodyField} class="mono" rows="3" spellcheck=${false} aria-invalid=${valid ? undefined : "true"} value=${body}
      onInput=${(event) => setBody(event.target.value)} />
    ${!valid && html`<p class="problem" role="alert">This is not JSON. Text needs quotes: "hello".</p>`}
    ${state.error && html`<${Failure} error=${state.error} />`}
    <div class="actions"><button class="primary" disabled=${!valid || state.busy}>${state.busy ? "Adding …" : "Add job"}</button></div>
    <p role="status">${state.added && html`Added <a class="mono" href=${href("jobs", state.added)}>${state.added}</a>.`}</p>
  </form>
    ${json && html`<details><summary>The same with curl</summary><${Command} text=${curl(json)} /></details>`}
  </section>`;
}
