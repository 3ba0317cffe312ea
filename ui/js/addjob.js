// The dialog that adds a job, a new one or a copy, and shows the same call as a command.
import { html, useId, useState } from "./lib.js";
import { href } from "./address.js";
import { curl, jobJson } from "./curl.js";
import { add, newId } from "./api.js";
import { serverNow } from "./clock.js";
import { announce, Question } from "./dialog.js";
import { useWhen } from "./due.js";
import { t } from "./language.js";
import { Command, Field } from "./parts.js";
import { Ended } from "./history.js";

const UUID = /^[\da-f]{8}-([\da-f]{4}-){3}[\da-f]{12}$/;
const LONGEST_ID = 255;

/** An id for a copy: "close-2" of "close", none where the server made the id or reserves it. */
function copyOf(id) {
  if (UUID.test(id) || /^(cron|run):/.test(id)) return "";
  const [, begin, number] = id.match(/^(.*?)(?:-(\d{1,6}))?$/);
  const end = `-${Number(number ?? 1) + 1}`;
  return `${begin.slice(0, LONGEST_ID - end.length)}${end}`;
}

const EMPTY = { id: "", ttr: "", max_attempts: "", retry: "", expire: "", on_expiry: "", url: "", body: '{"test":true}' };

const seconds = (number) => `${number}s`;

const copied = (job) => ({
  topic: job.topic,
  id: copyOf(job.id),
  ttr: seconds(job.ttr),
  max_attempts: String(job.max_attempts),
  retry: job.retry ? job.retry.map(seconds).join(", ") : "",
  expire: Date.parse(job.expires_at) > serverNow() ? job.expires_at : "",
  on_expiry: job.on_expiry ?? "",
  url: job.callback?.url ?? "",
  body: job.body,
});

function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** What the API takes: an empty field is left out. What a copied callback has beside its URL stays, but for the secret headers. */
function fieldsOf({ topic, id, ttr, max_attempts: max, retry, expire, on_expiry, url }, due, job) {
  const given = (text) => text.trim() || undefined;
  const { headers, ...callback } = job?.callback ?? {};
  const attempts = given(max);
  return {
    topic: topic.trim(), id: given(id), ...due, ttr: given(ttr),
    max_attempts: /^\d+$/.test(attempts) ? Number(attempts) : attempts,
    retry: given(retry)?.split(/[\s,]+/).filter(Boolean),
    expire: given(expire), on_expiry: given(expire) && given(on_expiry),
    callback: given(url) && { ...callback, url: given(url) },
  };
}

/** Adds a job to `topic`, or a copy of `job`. */
export function AddJob({ topic, job, close, done }) {
  const [values, setValues] = useState(job ? copied(job) : { ...EMPTY, topic });
  const waits = job?.state === "delayed";
  const { due, fields: when } = useWhen({
    legend: t`Due`, kinds: ["delay", "at"], first: waits ? "at" : "delay", start: { delay: job ? "" : "10s", at: waits ? job.due_at : undefined }, none: {},
  });
  const [body, expiry] = [useId(), useId()];
  const set = (name) => (event) => setValues({ ...values, [name]: event.target.value });
  const field = (name, label, more) => html`<div><${Field} label=${label} value=${values[name]} ...${more} onInput=${set(name)} /></div>`;
  const isValid = isJson(values.body);
  const fields = due ? fieldsOf(values, due, job) : null;
  const json = isValid && fields ? jobJson(fields, values.body.trim()) : null;
  const [ownId] = useState(newId);
  const act = async () => {
    const { id, ended } = await add(jobJson({ ...fields, id: fields.id ?? ownId }, values.body.trim()));
    const link = html`<a class="mono" href=${href("jobs", id)}>${id}</a>`;
    announce(ended ? t`Not added again: ${link} is remembered, ${html`<${Ended} ended=${ended} />`}` : t`Added ${link}.`);
    done?.();
  };
  return html`<${Question} title=${job ? t`Duplicate this job` : t`Add a job`} label=${t`Add job`} kind="primary" act=${act} close=${close}
      ready=${json !== null && values.topic.trim() !== ""} complete>
    <div class="filters">${field("topic", t`Topic`, { maxlength: 128 })}${field("id", t`Id`, { maxlength: LONGEST_ID, placeholder: t`one is made` })}</div>
    ${when}
    <label for=${body}>${t`Body, in JSON`}</label>
    <textarea id=${body} class="mono" rows="3" spellcheck=${false} aria-invalid=${isValid ? undefined : "true"} value=${values.body} onInput=${set("body")} />
    ${!isValid && html`<p class="problem" role="alert">${t`This is not JSON. Text needs quotes: "hello".`}</p>`}
    <details open=${Boolean(job)}><summary>${t`Attempts, expiry, callback`}</summary>
      <p class="small">${t`An empty field means what the topic says, else the server's default.`}</p>
      <div class="filters">
        ${field("ttr", "TTR", { placeholder: t`such as ${"1m"}` })}${field("max_attempts", t`Most attempts`, { inputmode: "numeric" })}
        ${field("retry", t`Retry after`, { placeholder: t`such as ${"15s, 3m"}` })}${field("expire", t`Expires`, { placeholder: t`such as 1h after it is due` })}
        ${values.expire.trim() && html`<div><label for=${expiry}>${t`At its expiry`}</label>
          <select id=${expiry} value=${values.on_expiry} onChange=${set("on_expiry")}>
            <option value="">${t`as its topic says`}</option><option value="dead">${t`dead letter`}</option><option value="delete">${t`deleted`}</option></select></div>`}
      </div>
      ${field("url", t`URL to call, in place of a worker`, { placeholder: "https://" })}
      ${job?.callback?.headers && html`<p class="small">${t`The headers of the callback are secret, and are not copied.`}</p>`}
    </details>
    ${json && html`<details><summary>${t`The same with curl`}</summary><${Command} text=${curl(json)} /></details>`}
  <//>`;
}
