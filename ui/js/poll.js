// Keeps a page's figures fresh: asks again at intervals while the tab is visible, less often while calls fail.
import { observable, useCallback, useEffect, useObservable, useRef, useState } from "./lib.js";
import { get } from "./api.js";
import { serverNow, update } from "./clock.js";
import { preferences } from "./preferences.js";

const FIRST_RETRY_MS = 2_000;
const LONGEST_RETRY_MS = 30_000;

/** Whether the latest calls of any loop fail, and when the next one goes out. */
export const connection = observable({ failing: false, retryAt: 0 });

const failing = new Map();

const asked = new Map();

/** For how many milliseconds the oldest call of a loop has had no answer. */
export const waited = () => (asked.size > 0 ? Date.now() - Math.min(...asked.values()) : 0);

/** Notes when a loop whose calls fail tries again; without a time its calls work. */
function note(loop, retryAt) {
  if (retryAt) failing.set(loop, retryAt);
  else if (!failing.delete(loop)) return;
  connection.set({ failing: failing.size > 0, retryAt: failing.size > 0 ? Math.min(...failing.values()) : 0 });
}

/** Waits until the tab is visible. */
export async function seen() {
  while (document.hidden) await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
}

/**
 * Reads `path` now and every `every` milliseconds. Returns `data`, the moment `at` of it by the server's clock, the latest
 * `error`, the class `stale` or "" by whether that leaves the data old, and `refresh`, which asks now and resolves when that is
 * done. With `path` null it does nothing. `addressOf` makes the address of a call from the path.
 */
export function usePoll(path, every, addressOf = (path) => path) {
  const { live } = useObservable(preferences);
  const [state, setState] = useState({ path, data: null, at: 0, error: null });
  const loop = useRef(null);
  useEffect(() => {
    setState((before) => (before.path === path ? before : { path, data: null, at: 0, error: null }));
    if (path === null) return undefined;
    loop.current = startLoop(path, every, setState, addressOf);
    return () => loop.current.stop();
  }, [path, every]);
  useEffect(() => loop.current?.setLive(live), [live, path, every]);
  const refresh = useCallback(() => loop.current?.refresh() ?? Promise.resolve(), []);
  // The first rendering after a change of the path must not show the figures of the path before.
  const { data, at, error } = state.path === path ? state : { data: null, at: 0, error: null };
  return { data, at, error, stale: data && error ? "stale" : "", refresh };
}

function startLoop(path, every, setState, addressOf) {
  let [timer, running, failures, live, stopped] = [0, null, 0, true, false];
  const controller = new AbortController();
  let last = { address: null, data: null };

  const schedule = () => {
    clearTimeout(timer);
    if (stopped || (!live && failures === 0)) return;
    const wait = failures ? Math.min(FIRST_RETRY_MS * 2 ** (failures - 1), LONGEST_RETRY_MS) : every;
    if (failures) note(controller, serverNow() + wait);
    timer = setTimeout(run, wait);
  };

  /** Only one call at a time; a hidden tab asks when it is visible again. */
  async function run() {
    clearTimeout(timer);
    if (stopped || document.hidden) return;
    running ??= readOnce().finally(() => {
      running = null;
      schedule();
    });
    await running;
  }

  async function readOnce() {
    asked.set(controller, Date.now());
    try {
      const address = addressOf(path);
      const data = await get(address, controller.signal, address === last.address ? last.data : null);
      last = { address, data };
      if (stopped) return;
      failures = 0;
      update();
      setState({ path, data, at: serverNow(), error: null });
      note(controller);
    } catch (error) {
      if (stopped) return;
      failures = error.passes ? failures + 1 : 0;
      // A refusal is an answer: the job or topic is gone, or may not be seen. Its last figures stay for the page.
      setState((before) => ({ ...(before.path === path ? before : { data: null, at: 0 }), path, error }));
      if (!error.passes) note(controller);
    } finally {
      asked.delete(controller);
    }
  }

  const onVisible = () => document.hidden || run();
  document.addEventListener("visibilitychange", onVisible);
  addEventListener("online", run);
  run();
  return {
    /** Reads what is there now: a call that is on its way may have been answered before. */
    async refresh() {
      await running;
      await run();
    },
    setLive(value) {
      const resumed = value && !live;
      live = value;
      if (resumed) run();
      else schedule();
    },
    stop() {
      stopped = true;
      clearTimeout(timer);
      controller.abort();
      document.removeEventListener("visibilitychange", onVisible);
      removeEventListener("online", run);
      note(controller);
    },
  };
}
