// Questions before something that cannot be undone, and the line that says what came of a change.
import { html, observable, useEffect, useId, useObservable, useRef, useState } from "./lib.js";
import { route } from "./address.js";
import { t } from "./language.js";
import { CallDetails, Failure, Field, Text } from "./parts.js";

const result = observable(null);

/** Announces the outcome of a change, a text or markup. It stays until it is closed, the next one comes or the page changes. */
export function announce(text, error = null) {
  result.set({ text, error, page: location.hash });
}

// An announcement that was made on the way to a page stays there.
route.follow(() => result.get()?.page !== location.hash && result.set(null));

export function Result() {
  const shown = useObservable(result);
  return html`<div class="result" role="status" aria-live="polite">
    ${shown &&
    html`<div class=${shown.error ? "note error" : "note"}>
      <p>${shown.text && html`<strong>${typeof shown.text === "string" ? html`<${Text} text=${shown.text} />` : shown.text}</strong>`} ${shown.error && html`<${Text} text=${shown.error.detail} />`}</p>
      ${shown.error && html`<${CallDetails} error=${shown.error} />`}
      <button class="quiet" onClick=${() => result.set(null)}>${t`Close`}</button>
    </div>`}
  </div>`;
}

/** Whether a call may have been carried out although it failed. */
export const mayBeDone = ({ status, code }) => status === 0 || (status >= 500 && code !== "not_begun");

/** Runs a change and announces what came of it. `run` returns the text to announce. True if it worked. */
export async function perform(failed, run) {
  try {
    announce(await run());
    return true;
  } catch (error) {
    announce(mayBeDone(error) ? t`It is not known whether this was done.` : failed, error);
    return false;
  }
}

/** Opens a dialog with the focus on what closes it, and gives the focus back afterwards. */
export function useModal() {
  const dialog = useRef(null);
  useEffect(() => {
    const [opener, shown] = [document.activeElement, dialog.current];
    shown.showModal();
    shown.querySelector("[data-cancel]").focus();
    return () => {
      // Nothing outside of a dialog that is open can have the focus.
      shown.close();
      (opener?.isConnected ? opener : document.querySelector("main h1"))?.focus();
    };
  }, []);
  return dialog;
}

const FIRST_FIELD = ":is(input:not([type=radio], [type=checkbox]), textarea)";

/**
 * Asks before `act` runs. With `type` its text has to be entered first. Cancel has the focus until the fields are `complete`:
 * then the first one has it. The button says what happens. `kind` is its look; it works once `ready`.
 */
export function Question({ title, children, label, type, act, close, kind = "danger", ready = true, complete = false }) {
  const dialog = useModal();
  useEffect(() => {
    const isUntouched = document.activeElement?.matches("[data-cancel]");
    if (complete && isUntouched) dialog.current.querySelector(FIRST_FIELD)?.focus();
  }, [complete]);
  const [entered, setEntered] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const heading = useId();
  const allowed = ready && (!type || entered.trim().replaceAll(",", "") === type);
  const submit = async (event) => {
    event.preventDefault();
    if (!allowed || busy) return;
    setBusy(true);
    setError(null);
    try {
      await act();
      close();
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  };
  return html`<dialog ref=${dialog} aria-labelledby=${heading} onCancel=${(event) => (event.preventDefault(), busy || close())}>
    <form onSubmit=${submit}>
      <h2 id=${heading}>${title}</h2>
      ${children}
      ${type &&
      html`<${Field} label=${t`Enter ${html`<code>${type}</code>`} to confirm`} value=${entered} onInput=${(event) => setEntered(event.target.value)} />`}
      ${error && html`<${Failure} error=${error} />`}
      <div class="actions end">
        <button type="button" data-cancel onClick=${close} disabled=${busy}>${t`Cancel`}</button>
        <button class=${kind} disabled=${!allowed || busy}>${busy ? t`Working …` : label}</button>
      </div>
    </form>
  </dialog>`;
}
