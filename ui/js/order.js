// Rows that never move under the pointer: their order stays until the user asks for a new one.
import { html, useCallback, useRef, useState } from "./lib.js";
import { counted } from "./format.js";
import { t } from "./language.js";

export const Changes = ({ changes, sort }) =>
  changes > 0 && html`<button class="quiet" onClick=${sort}>${t`${counted(changes, "change")}, press ${html`<kbd>r</kbd>`}`}</button>`;

/** Tells `hold` whether the pointer or the focus is in an element. */
export const holding = (hold) => ({
  onPointerEnter: () => hold(true),
  onFocusIn: () => hold(true),
  onPointerLeave: ({ currentTarget: list }) => hold(list.contains(document.activeElement)),
  onFocusOut: ({ currentTarget: list, relatedTarget: next }) => hold(list.contains(next) || list.matches(":hover")),
});

/**
 * Keeps the order of `rows`, each with the unique text `key(row)`. A new row comes last; of those that are gone, the last 100
 * keep their values and are marked `gone`. A new value of `again`, which is whatever the order depends on, sorts anew. Returns the
 * rows, how many `changes` a new order would make, and `sort`.
 */
export function useStableOrder(rows, key, compare, again) {
  const kept = useRef({ again: null, order: [] });
  const [, setSorted] = useState(0);
  const sort = useCallback(() => {
    kept.current.again = null;
    setSorted((n) => n + 1);
  }, []);
  const sorted = [...rows].sort(compare);
  const entry = (row) => ({ key: key(row), row });
  if (kept.current.again !== again || kept.current.order.length === 0) kept.current = { again, order: sorted.map(entry) };
  const known = new Set(kept.current.order.map((kept) => kept.key));
  const present = new Map(rows.map((row) => [key(row), row]));
  const all = [...kept.current.order, ...sorted.map(entry).filter(({ key }) => !known.has(key))];
  let extra = all.length - present.size - 100;
  const order = (kept.current.order = all.filter(({ key }) => present.has(key) || --extra < 0));
  for (const kept of order) kept.row = present.get(kept.key) ?? kept.row;
  const shown = order.map((kept) => ({ ...kept, gone: !present.has(kept.key) }));
  const positions = new Map(sorted.map((row, n) => [key(row), n]));
  let latest = -1;
  const changes = shown.filter((kept) => {
    const at = positions.get(kept.key) ?? -1;
    if (at > latest) latest = at;
    return kept.gone || at < latest;
  }).length;
  return { shown, changes, sort };
}
