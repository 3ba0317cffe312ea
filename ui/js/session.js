// The token of this tab. It lies in sessionStorage and goes out as a header, never as a cookie or in an address, so that
// no other page can borrow it. A new tab asks the open ones for theirs; a sign-out ends all of them.
import { observable } from "./lib.js";
import { ROOT } from "./address.js";

const KEY = `linger.token:${ROOT.pathname}`;

/** `token`, whether one is `required`, and why the last one was `refused`. */
export const session = observable({ token: load(), required: false, refused: null });

const channel = "BroadcastChannel" in window ? new BroadcastChannel(KEY) : null;

function load() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function save(token) {
  try {
    if (token) sessionStorage.setItem(KEY, token);
    else sessionStorage.removeItem(KEY);
  } catch {
    // The token then lasts as long as the page.
  }
}

export function signIn(token) {
  save(token);
  session.set({ token, required: true, refused: null });
}

export function refuse(token, detail) {
  const known = session.get();
  if (known.token !== token || (known.required && !token)) return;
  save(null);
  session.set({ token: null, required: true, refused: token ? detail : null });
}

export function signOut() {
  save(null);
  session.set({ token: null, required: true, refused: null });
  channel?.postMessage({ kind: "signed out" });
}

channel?.addEventListener("message", ({ data }) => {
  const { token, required } = session.get();
  if (data.kind === "who has a token" && token) channel.postMessage({ kind: "token", token });
  if (data.kind === "token" && !token && typeof data.token === "string") signIn(data.token);
  if (data.kind === "signed out" && token) {
    save(null);
    session.set({ token: null, required, refused: null });
  }
});

if (!session.get().token) channel?.postMessage({ kind: "who has a token" });
