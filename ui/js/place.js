// Where the user left a page, for when the user goes back: kept in memory, by the entry of the browser's history.
import { session } from "./session.js";

/** How many entries are kept, and for how long. */
const MOST = 5;
const LONGEST_MS = 10 * 60_000;

/** Of each entry, by its name: what was kept, and when. */
const kept = new Map();
// Names of an earlier loading of the page must mean nothing.
const loaded = Date.now();
let named = 0;

// The browser would restore its own position before the page has its rows again.
history.scrollRestoration = "manual";
// Another token may not see what this one did.
session.follow(() => kept.clear());

/** What was kept of the present entry. Undefined if it is new, or was left long ago. */
export function recalled() {
  const found = kept.get(history.state?.entry);
  return found && Date.now() - found.at < LONGEST_MS ? found.what : undefined;
}

/** The name of the present entry, by which `keep` finds it when the page is left. */
export function entryName() {
  if (!history.state?.entry?.startsWith(`${loaded}.`)) {
    history.replaceState({ entry: `${loaded}.${(named += 1)}` }, "");
  }
  return history.state.entry;
}

export function keep(name, what) {
  kept.delete(name);
  kept.set(name, { what, at: Date.now() });
  for (const old of [...kept.keys()].slice(0, -MOST)) kept.delete(old);
}
