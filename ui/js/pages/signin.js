// Sign in: one field for a token.
import { html, useEffect, useObservable, useRef, useState } from "../lib.js";
import { check } from "../api.js";
import { t } from "../language.js";
import { session, signIn } from "../session.js";

export function SignIn() {
  const { refused } = useObservable(session);
  const [token, setToken] = useState("");
  const [state, setState] = useState({ busy: false, problem: null });
  const field = useRef(null);
  useEffect(() => field.current.focus(), []);
  const { problem } = state;
  const submit = async (event) => {
    event.preventDefault();
    const entered = token.trim();
    if (!entered || state.busy) return;
    if (!/^[\x21-\x7e]+$/.test(entered)) {
      setState({ busy: false, problem: { text: t`A token has only letters, digits and signs of plain ASCII.` } });
      return;
    }
    setState({ busy: true, problem: null });
    try {
      await check(entered);
      signIn(entered);
    } catch (error) {
      setState({ busy: false, problem: { title: error.status === 401 ? null : error.title, text: error.detail } });
      field.current.focus();
    }
  };
  const describes = problem ? "problem" : refused ? "refused" : "why";
  return html`<form class="card sign-in" onSubmit=${submit}>
    <h1 tabindex="-1">${t`Sign in`}</h1>
    ${refused && !problem && html`<p id="refused" class="as-of" role="alert"><span><strong>${t`Your token is no longer accepted.`}</strong> ${refused}</span></p>`}
    <p id="why">${t`This server wants a token. It stays in this browser's tabs until you close them or sign out.`}</p>
    <input type="text" name="username" autocomplete="username" value="linger" hidden readonly />
    <label for="token">${t`Token`}</label>
    <input ref=${field} id="token" type="password" name="token" autocomplete="current-password" value=${token}
      aria-describedby=${describes} aria-invalid=${problem ? "true" : undefined}
      onInput=${(event) => setToken(event.target.value)} />
    ${problem && html`<p id="problem" class="problem" role="alert"><strong>${problem.title ? t`${problem.title}.` : t`Not accepted.`}</strong> ${problem.text}</p>`}
    <div class="actions"><button class="primary" disabled=${state.busy}>${state.busy ? t`Checking …` : t`Sign in`}</button></div>
    <p class="small">${t`A token with the scope ${html`<code>read</code>`} looks; ${html`<code>add</code>`} and ${html`<code>admin</code>`} also change things. ${
      html`<code>linger token new</code>`} makes one.`}</p>
  </form>`;
}
