// The list of the keys.
import { html } from "./lib.js";
import { useModal } from "./dialog.js";
import { t } from "./language.js";

const KEYS = [
  ["/", t`find a job or a topic`],
  ["g o", t`overview`],
  ["g t", t`topics`],
  ["g j", t`jobs`],
  ["g d", t`dead letters, of the topic if there is one`],
  ["g c", t`schedules`],
  ["g w", t`workers`],
  ["g h", t`endpoints of callbacks`],
  ["g b", t`changes of many jobs`],
  ["g a", t`audit`],
  ["g s", t`server`],
  ["j k", t`next and previous row`],
  ["x", t`select the row; Shift and a click select a range`],
  ["Enter", t`open the row`],
  ["t", t`table of the timeline`],
  ["← →", t`move in the timeline; with Shift select`],
  ["⏎ ⌫", t`zoom in, and back`],
  ["r", t`refresh, and sort anew`],
  ["l", t`live updates on or off`],
  ["?", t`this list`],
  ["Esc", t`leave a field or a dialog`],
];

export function KeyList({ close }) {
  return html`<dialog ref=${useModal()} aria-labelledby="keys" onClose=${close}>
    <h2 id="keys">${t`Keys`}</h2>
    <dl class="keys">${KEYS.map(([keys, what]) => html`<div key=${keys}>
      <dt>${keys.split(" ").map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${what}</dd></div>`)}</dl>
    <p class="small">${t`They can be switched off in the menu at the top right.`}</p>
    <div class="actions end"><button data-cancel onClick=${close}>${t`Close`}</button></div>
  </dialog>`;
}
