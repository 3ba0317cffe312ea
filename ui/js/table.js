// A table whose rows are blocks on a narrow screen, where each cell names its column.
import { html } from "./lib.js";

/** A row: the first cell names it, `below` is a line under it over all columns. */
const Row = ({ columns, cells: [name, ...cells], below }) => html`<tr role="row" data-row>
  <th role="rowheader" scope="row">${name}</th>
  ${cells.map((cell, at) => {
    const { text, kind } = columns[at + 1];
    return html`<td role="cell" class=${kind} data-name=${text}>${cell}</td>`;
  })}</tr>
  ${below && html`<tr role="row" class="notes"><td role="cell" colspan=${columns.length}>${below}</td></tr>`}`;

/** `columns` have a `text`, or a `label` that is heard but not seen, and a `kind`; `rows` a `key`, `cells`, and maybe what is `below`. */
export const Table = ({ columns, rows }) => html`<table role="table" class="blocks">
  <thead role="rowgroup"><tr role="row">${columns.map(({ text, label, kind }) => html`<th key=${text ?? label} role="columnheader" scope="col" class=${kind}>${
    text ?? html`<span class="visually-hidden">${label}</span>`}</th>`)}</tr></thead>
  <tbody role="rowgroup">${rows.map((row) => html`<${Row} ...${row} columns=${columns} />`)}</tbody></table>`;
