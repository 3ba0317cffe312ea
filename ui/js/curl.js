// The call that adds a job: its JSON, and the same as a command.
import { ROOT } from "./address.js";
import { shellQuote } from "./format.js";
import { session } from "./session.js";

/** A curl command that posts `json`. It names the variable of the token, never the token. */
export function curl(json) {
  const token = session.get().token ? ` \\\n  --header "Authorization: Bearer $LINGER_TOKEN"` : "";
  const target = shellQuote(new URL("jobs", ROOT).href);
  return `curl ${target}${token} \\\n  --header 'content-type: application/json' \\\n  --data ${shellQuote(json)}`;
}

/** A call's JSON, with the body as it is: parsing it could change its numbers. */
export const jobJson = (fields, body) => `${JSON.stringify(fields).slice(0, -1)},"body":${body}}`;
