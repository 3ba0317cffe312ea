// What adds a job: the JSON of the call, the same as a command, and the dialog, which is loaded later.
import { html, later, useState } from "./lib.js";
import { ROOT } from "./address.js";
import { shellQuote } from "./format.js";
import { notLoaded } from "./parts.js";
import { session } from "./session.js";

/** A curl command that posts `json`. It names the variable of the token, never the token. */
export function curl(json) {
  const token = session.get().token ? ` \\\n  --header "Authorization: Bearer $LINGER_TOKEN"` : "";
  const target = shellQuote(new URL("jobs", ROOT).href);
  return `curl ${target}${token} \\\n  --header 'content-type: application/json' \\\n  --data ${shellQuote(json)}`;
}

/** A call's JSON, with the body as it is: parsing it could change its numbers. */
export const jobJson = (fields, body) => `${JSON.stringify(fields).slice(0, -1)},"body":${body}}`;

const AddJob = later(async () => (await import("./addjob.js")).AddJob, null, notLoaded);

/** The dialog that adds a job, once it is asked for: `ask` opens it with a topic, or with a job to copy. */
export function useAddJob() {
  const [given, setGiven] = useState(null);
  return { ask: setGiven, dialog: given && html`<${AddJob} ...${given} close=${() => setGiven(null)} />` };
}
