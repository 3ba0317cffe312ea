// Keyboard shortcuts. They do nothing while a text is entered or a dialog is open, and can be switched off.
import { useLayoutEffect } from "./lib.js";
import { preferences } from "./preferences.js";

const bound = [];
let prefix = "";
let prefixAt = 0;

/**
 * Binds keys such as "r" or "g o" while the component is shown. A page's binding of a key takes the place of the general one
 * (`isGeneral`); `r` runs all of them.
 */
export function useKeys(actions, isGeneral = false) {
  useLayoutEffect(() => {
    if (isGeneral) bound.unshift(actions);
    else bound.push(actions);
    return () => bound.splice(bound.indexOf(actions), 1);
  });
}

const isEntry = (target) => target.closest?.("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]");

function onKey(event) {
  if (!preferences.get().keys || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (document.querySelector("dialog[open]")) return;
  if (isEntry(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const isPrefixed = prefix && event.timeStamp - prefixAt < 1500;
  const key = isPrefixed ? `${prefix} ${event.key}` : event.key;
  prefix = "";
  if (key === "g") {
    [prefix, prefixAt] = ["g", event.timeStamp];
    return;
  }
  const actions = bound.map((binding) => binding[key]).filter(Boolean);
  if (actions.length === 0) return;
  event.preventDefault();
  for (const action of key === "r" ? actions : [actions.at(-1)]) action();
}

addEventListener("keydown", onKey);

export function moveRow(step) {
  const rows = [...document.querySelectorAll("main [data-row]")].map((row) => row.closest("a") ?? row.querySelector("a")).filter((row) => row?.offsetParent);
  if (rows.length === 0) return;
  const at = rows.indexOf(document.activeElement?.closest("[data-row]")?.querySelector("a") ?? document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + step, 0), rows.length - 1);
  rows[next].focus();
}
