// The server's clock, estimated from the Date header of its responses, and a tick for texts that count down.
import { observable, useObservable } from "./lib.js";

// The server's clock minus this browser's lies between these bounds, in milliseconds. A header has whole seconds, so
// each response narrows the bounds further.
let low = -Infinity;
let high = Infinity;

/** Takes in the Date header of a response to a request that was sent and received at these moments. */
export function observeDate(header, sent, received) {
  const date = Date.parse(header || "");
  if (Number.isNaN(date)) return;
  const [newLow, newHigh] = [date - received, date + 1000 - sent];
  if (newLow > high || newHigh < low) [low, high] = [newLow, newHigh];
  else [low, high] = [Math.max(low, newLow), Math.min(high, newHigh)];
}

export function serverNow() {
  return Date.now() + (Number.isFinite(low) ? (low + high) / 2 : 0);
}

// One for the whole page, so that two texts about the same moment agree. New figures set it, too:
// otherwise a moment in them could be shown as in the future.
const tick = observable(serverNow());
export const update = () => document.hidden || tick.set(serverNow());
setInterval(update, 1000);
document.addEventListener("visibilitychange", update);

export const useNow = () => useObservable(tick);
