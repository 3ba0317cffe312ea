// The dialogs of pages. Each is loaded a little later than the first page, or when it is asked for.
import { html, later, useState } from "./lib.js";
import { notLoaded } from "./parts.js";

/** Makes a hook of a dialog: `ask` opens it with its properties, `question` is what to show. */
function dialog(load) {
  const Dialog = later(load, null, notLoaded);
  return function useDialog() {
    const [asked, setAsked] = useState(null);
    return { ask: setAsked, question: asked && html`<${Dialog} ...${asked} close=${() => setAsked(null)} />` };
  };
}

/** Asks before jobs are changed. */
export const useQuestion = dialog(async () => (await import("./bulk.js")).ChangeJobs);

/** Adds a job to a `topic`, or a copy of a `job`. */
export const useAddJob = dialog(async () => (await import("./addjob.js")).AddJob);

/** Asks before all jobs of a topic are deleted. */
export const usePurge = dialog(async () => (await import("./topicdialogs.js")).Purge);

/** Asks why a part of a topic is paused, and until when. */
export const useSayWhy = dialog(async () => (await import("./topicdialogs.js")).SayWhy);

/** Lists the keys. */
export const useKeyList = dialog(async () => (await import("./keylist.js")).KeyList);
