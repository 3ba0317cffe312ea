// Jobs: opens a job by its id.
import { html, useState } from "../lib.js";
import { go } from "../address.js";

export function FindJob() {
  const [id, setId] = useState("");
  const open = (event) => {
    event.preventDefault();
    if (id.trim()) go("jobs", id.trim());
  };
  return html`<h1 tabindex="-1">Jobs</h1>
    <form class="card find" onSubmit=${open}>
      <label for="id">Id of the job</label>
      <div class="field-row">
        <input id="id" class="mono" autocomplete="off" autocapitalize="off" spellcheck=${false} maxlength="255"
          placeholder="orders:1001:close" value=${id} onInput=${(event) => setId(event.target.value)} />
        <button class="primary">Open</button>
      </div>
      <p class="small">The id that was given with the job, or the one that the server chose and returned.</p>
    </form>`;
}
