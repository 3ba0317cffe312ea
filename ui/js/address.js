// Addresses: of the API, relative to this file so that any path of a proxy works, and of the pages, in the fragment.
import { observable } from "./lib.js";

export const ROOT = new URL("../../", import.meta.url);

export const path = (...parts) => parts.map(encodeURIComponent).join("/");

/** Parameters as a query, "" if there are none. Those without a value are left out. */
export function queryText(parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length > 0 ? `?${new URLSearchParams(given)}` : "";
}

export const href = (...parts) => `#/${path(...parts)}`;

const split = () => location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);

function current() {
  try {
    return split()[0].split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    return ["no such page"];
  }
}

const parameters = () => Object.fromEntries(new URLSearchParams(split()[1]));

/** The parts of the present page's address, and its parameters. */
export const route = observable(current());
export const query = observable(parameters());

let shown = split()[0];

addEventListener("hashchange", () => {
  query.set(parameters());
  if (shown === split()[0]) return;
  shown = split()[0];
  route.set(current());
});

export function go(...parts) {
  location.hash = href(...parts);
}

/** Goes to the dead letters of a topic, or of all. */
export const goDead = (topic) => (topic ? go("topics", topic, "dead") : go("dead"));

/** The page of the job or topic whose address in the API a text is; nothing for another text. */
export function placeIn(text) {
  const [, kind, name] = text.match(/^(?:.*\/)?(jobs|topics)\/([^/?#\s]+)/) ?? [];
  try {
    return kind && [kind, decodeURIComponent(name)];
  } catch {
    return undefined;
  }
}

export const changed = (changes) => `#/${split()[0]}${queryText({ ...parameters(), ...changes })}`;

export function setQuery(changes, replaces = false) {
  if (replaces) location.replace(changed(changes));
  else location.hash = changed(changes);
}
