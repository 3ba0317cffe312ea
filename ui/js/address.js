// Addresses: of the API, relative to this file so that any path of a proxy works, and of the pages, in the fragment.
import { observable } from "./lib.js";

/** Where the API is. */
export const ROOT = new URL("../../", import.meta.url);

/** The path of a call, from its parts. */
export const path = (...parts) => parts.map(encodeURIComponent).join("/");

/** The link to a page, from its parts. */
export const href = (...parts) => `#/${path(...parts)}`;

function current() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean);
  try {
    return parts.map(decodeURIComponent);
  } catch {
    return ["no such page"];
  }
}

/** The parts of the present page's address. */
export const route = observable(current());

addEventListener("hashchange", () => route.set(current()));

export function go(...parts) {
  location.hash = href(...parts);
}
