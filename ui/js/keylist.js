// The list of the keys.
import { html } from "./lib.js";
import { useModal } from "./dialog.js";

const KEYS = [
  ["/", "find a job or a topic"],
  ["g o", "overview"],
  ["g t", "topics"],
  ["g j", "jobs"],
  ["g d", "dead letters, of the topic if there is one"],
  ["g c", "schedules"],
  ["g w", "workers"],
  ["g h", "hosts of callbacks"],
  ["g b", "changes of many jobs"],
  ["g a", "audit"],
  ["g s", "server"],
  ["j k", "next and previous row"],
  ["x", "select the row; Shift and a click select a range"],
  ["Enter", "open the row"],
  ["t", "table of the timeline"],
  ["← →", "move in the timeline; with Shift select"],
  ["⏎ ⌫", "zoom in, and back"],
  ["r", "refresh, and sort anew"],
  ["l", "live updates on or off"],
  ["?", "this list"],
  ["Esc", "leave a field or a dialog"],
];

export function KeyList({ close }) {
  return html`<dialog ref=${useModal()} aria-labelledby="keys" onClose=${close}>
    <h2 id="keys">Keys</h2>
    <dl class="keys">${KEYS.map(([keys, what]) => html`<div key=${keys}>
      <dt>${keys.split(" ").map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${what}</dd></div>`)}</dl>
    <p class="small">They can be switched off in the menu at the top right.</p>
    <div class="actions end"><button data-cancel onClick=${close}>Close</button></div>
  </dialog>`;
}
