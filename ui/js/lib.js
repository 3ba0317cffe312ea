// The one place that imports the vendored libraries, and the smallest helpers over them.
import { h } from "../vendor/preact.mjs";
import { useEffect, useErrorBoundary, useRef, useState } from "../vendor/hooks.mjs";
import htm from "../vendor/htm.mjs";

export { render } from "../vendor/preact.mjs";
export { useEffect, useMemo, useRef, useState, useCallback, useLayoutEffect, useId } from "../vendor/hooks.mjs";

export const html = htm.bind(h);

/** Shows `instead(error)` in place of its children once they fail. The next address loads everything anew. */
export function Boundary({ instead, children }) {
  const [error] = useErrorBoundary(console.error);
  if (!error) return children;
  addEventListener("hashchange", () => location.reload(), { once: true });
  return instead(error);
}

/** Gives the heading of a page the focus, unless a field has it, or the row that the user has gone back to. */
export function focusHeading() {
  if (!document.activeElement?.matches("input, select, textarea, [data-row] a")) document.querySelector("main h1")?.focus({ preventScroll: true });
}

/** How many milliseconds after the first page the others are loaded. */
const LATER_MS = 3_000;

/**
 * A component whose module is loaded a little later than the first page, or when it is shown. Until then `instead` is there; if it
 * cannot be loaded, what `failed` makes of a function that tries again.
 */
export function later(load, instead, failed) {
  let loaded = null;
  const read = async () => (loaded ??= await load());
  // Later it can be shown although the server is away. If this fails, showing it tries again.
  setTimeout(() => read().catch(() => null), LATER_MS);
  return function Later(props) {
    const [page, setPage] = useState(() => loaded);
    const [hasFailed, setFailed] = useState(false);
    const isLate = useRef(!page);
    const show = () => {
      setFailed(false);
      read().then((found) => setPage(() => found), () => setFailed(true));
    };
    useEffect(() => void (page ?? show()), []);
    useEffect(() => void (page && isLate.current && focusHeading()), [page]);
    if (hasFailed) return failed(show);
    return page ? html`<${page} ...${props} />` : instead;
  };
}

/** A value that components and other modules can follow. */
export function observable(value) {
  const listeners = new Set();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const listener of [...listeners]) listener(value);
    },
    follow(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export function useObservable(source) {
  const [value, setValue] = useState(source.get());
  useEffect(() => {
    setValue(source.get());
    return source.follow(setValue);
  }, [source]);
  return value;
}
