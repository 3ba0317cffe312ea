// The menu at the right of the header: who is signed in, and what this browser shows.
import { html, useObservable, useRef } from "./lib.js";
import { rights } from "./api.js";
import { prefer, preferences } from "./preferences.js";
import { session, signOut } from "./session.js";

function Choice({ name, legend, options }) {
  const chosen = useObservable(preferences)[name];
  return html`<fieldset class="choice">
    <legend>${legend}</legend>
    <div class="segments">${options.map(([value, label]) => html`<label key=${label}>
      <input type="radio" name=${name} checked=${chosen === value} onChange=${() => prefer({ [name]: value })} />
      <span>${label}</span></label>`)}</div>
  </fieldset>`;
}

function Who({ rights: { name, scopes, topics } }) {
  if (!name) return html`<p class="small">This server requires no token: all may do everything.</p>`;
  return html`<p><strong>${name}</strong> <span class="small">${scopes.join(", ")}${topics ? ` for ${topics.join(", ")}` : ""}</span></p>`;
}

export function Menu({ showKeys }) {
  const known = useObservable(rights);
  const { token } = useObservable(session);
  const menu = useRef(null);
  // The focus goes back to the button first, which then gets it again from what is opened.
  const after = (action) => () => (menu.current.hidePopover(), action());
  return html`<button class="quiet menu-button" popovertarget="menu"><span class="visually-hidden">Menu </span>${known?.name || "Menu"}</button>
    <div ref=${menu} id="menu" popover="auto" class="menu" role="group" aria-label="Menu">
      ${known && html`<${Who} rights=${known} />`}
      <${Choice} name="theme" legend="Theme" options=${[["auto", "Auto"], ["light", "Light"], ["dark", "Dark"]]} />
      <${Choice} name="zone" legend="Times" options=${[["local", "Local"], ["utc", "UTC"]]} />
      <${Choice} name="live" legend="Live updates" options=${[[true, "On"], [false, "Off"]]} />
      <${Choice} name="keys" legend="Single-key shortcuts" options=${[[true, "On"], [false, "Off"]]} />
      <div class="actions">
        <button onClick=${after(showKeys)}>Keys</button>
        ${token && html`<button onClick=${after(signOut)}>Sign out</button>`}
      </div>
    </div>`;
}
