// The menu at the right of the header: who is signed in, and what this browser shows.
import { html, useObservable, useRef } from "./lib.js";
import { rights } from "./api.js";
import { t } from "./language.js";
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
  if (!name) return html`<p class="small">${t`This server requires no token: all may do everything.`}</p>`;
  return html`<p><strong>${name}</strong> <span class="small">${topics ? t`${scopes.join(", ")} for ${topics.join(", ")}` : scopes.join(", ")}</span></p>`;
}

export function Menu({ showKeys }) {
  const known = useObservable(rights);
  const { token } = useObservable(session);
  const menu = useRef(null);
  // The focus goes back to the button first, which then gets it again from what is opened.
  const after = (action) => () => (menu.current.hidePopover(), action());
  return html`<button class="quiet menu-button" popovertarget="menu"><span class="visually-hidden">${t`Menu`} </span>${known?.name ? html`${known.name} <small>${known.scopes.join(", ")}</small>` : t`Menu`}</button>
    <div ref=${menu} id="menu" popover="auto" class="menu" role="group" aria-label=${t`Menu`}>
      ${known && html`<${Who} rights=${known} />`}
      <${Choice} name="theme" legend=${t`Theme`} options=${[["auto", t`Auto`], ["light", t`Light`], ["dark", t`Dark`]]} />
      <${Choice} name="language" legend=${t`Language`} options=${[["auto", t`Browser`], ["en", "English"], ["zh", "简体中文"]]} />
      <${Choice} name="zone" legend=${t`Times`} options=${[["local", t`Local`], ["utc", "UTC"]]} />
      <${Choice} name="live" legend=${t`Live updates`} options=${[[true, t`On`], [false, t`Off`]]} />
      <${Choice} name="keys" legend=${t`Single-key shortcuts`} options=${[[true, t`On`], [false, t`Off`]]} />
      <div class="actions">
        <button onClick=${after(showKeys)}>${t`Keys`}</button>
        ${token && html`<button onClick=${after(signOut)}>${t`Sign out`}</button>`}
      </div>
    </div>`;
}
