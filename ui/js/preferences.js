// What the user chose for this browser: theme, language, time zone, keys, live updates. Never a token.
import { observable } from "./lib.js";

const KEY = "linger.preferences";
const DEFAULTS = { theme: "auto", language: "auto", zone: "local", keys: true, live: true };
const CHOICES = { theme: ["auto", "light", "dark"], language: ["auto", "en", "zh"], zone: ["local", "utc"], keys: [true, false], live: [true, false] };

function stored() {
  const chosen = { ...DEFAULTS };
  try {
    const found = JSON.parse(localStorage.getItem(KEY) || "{}");
    for (const name of Object.keys(CHOICES)) {
      if (CHOICES[name].includes(found[name])) chosen[name] = found[name];
    }
  } catch {
    // Without storage the defaults apply.
  }
  return chosen;
}

export const preferences = observable(stored());

export function prefer(change) {
  const before = preferences.get();
  const next = { ...before, ...change };
  preferences.set(next);
  if (next.theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next.theme;
  try {
    localStorage.setItem(KEY, JSON.stringify(next));
  } catch {
    // The choice then lasts as long as the page.
  }
  // Texts are made in the language with which the page was loaded.
  if (next.language !== before.language) location.reload();
}
