// Dead letters of a topic, or of all: why and when they died; replay and delete those of a reason.
import { html, useEffect, useLayoutEffect, useObservable, useRef, useState } from "../lib.js";
import { changed, href, path, query, queryText } from "../address.js";
import { figures, rights } from "../api.js";
import { useQuestion } from "../asking.js";
import { Lacking, useMay } from "../changes.js";
import { useNow } from "../clock.js";
import { filterOf } from "../filter.js";
import { count, counted, duration, spanText } from "../format.js";
import { Ended } from "../history.js";
import { JobList, useCounts } from "../joblist.js";
import { useKeys } from "../keys.js";
import { t } from "../language.js";
import { AsOf, Bars, Distance, Loading, Mark, Moment, StateName, Text, Unloaded } from "../parts.js";
import { usePoll } from "../poll.js";
import { preferences } from "../preferences.js";

/** Fewer bars would be as wide as blocks. */
const LEAST_BARS = 24;

/** How many are replayed to see whether the cause is gone. */
const FEW = 10;

const textOf = ({ reason }) => reason || t`no reason given`;

const ofAll = ({ examined, complete }) => (complete ? t`of ${counted(examined, "dead letter")}` : t`of the newest ${counted(examined, "dead letter")}`);

/** The steps before the first death: nothing died there, or that is not known. */
const padded = (deaths, complete) => [...Array(Math.max(0, LEAST_BARS - deaths.length)).fill(complete ? 0 : null), ...deaths];

function Deaths({ data: { from, step, deaths, complete } }) {
  const { zone } = useObservable(preferences);
  const now = useNow();
  const numbers = padded(deaths, complete);
  const begin = Date.parse(from) - (numbers.length - deaths.length) * step * 1000;
  const titleOf = (n) => t`${counted(numbers[n], "death")}, ${spanText(begin + n * step * 1000, begin + (n + 1) * step * 1000, now, zone)}`;
  return html`<div class="deaths"><${Bars} kind="died" numbers=${numbers} titleOf=${titleOf} />
    <p class="small"><span><${Moment} at=${begin} /></span>
      <span>${t`When they died: at most ${count(Math.max(...deaths))} in ${duration(step)}`}</span><span>${t`now`}</span></p></div>`;
}

/** A text, of which two lines are shown, above something small. A button shows the other lines. */
function Folded({ text, children }) {
  const [isOpen, setOpen] = useState(false);
  const [isLong, setLong] = useState(false);
  const box = useRef(null);
  useLayoutEffect(() => {
    const shown = box.current.firstElementChild;
    if (!isOpen) setLong(shown.scrollHeight > shown.clientHeight + 1);
  });
  return html`<div><div ref=${box} class=${isOpen ? "reason" : "reason folded"}>${text}</div>
    <p class="small">${children}${isLong && html` · <button class="link" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>${isOpen ? t`Two lines` : t`All lines`}</button>`}</p></div>`;
}

function Group({ group, complete, isAll, isChosen, children }) {
  const target = isAll
    ? `${href("topics", group.topic, "dead")}${queryText({ reason_prefix: group.prefix })}`
    : group.prefix && changed({ reason_prefix: isChosen ? null : group.prefix });
  const text = html`<${Text} text=${textOf(group)} />`;
  return html`<li class="job group" data-row=${isAll || undefined}>
    <strong>${count(group.count)}</strong>
    <${Folded} text=${target ? html`<a href=${target} aria-current=${isChosen ? "true" : undefined}>${text}</a>` : html`<span>${text}</span>`}>
      ${isAll && html`<a class="mono" href=${href("topics", group.topic)}>${group.topic}</a>, `}${t`first ${html`<${Distance} at=${group.first_dead_at} />`}, last ${html`<${Distance} at=${group.last_dead_at} />`}`}<//>
    <${Bars} kind="died" numbers=${padded(group.deaths, complete)} />
    <div class="actions">${children}</div></li>`;
}

function Reasons({ poll, topic, chosen, actions }) {
  if (!poll.data) return html`<${Unloaded} poll=${poll} what=${t`the reasons`} />`;
  const { reasons, complete } = poll.data;
  if (reasons.length === 0) {
    return html`<section class="card well"><span class="mark well" aria-hidden="true" />
      <p><strong>${t`No dead letters.`}</strong> ${t`A job comes here when its attempts are used up, or when a worker buries it.`}</p></section>`;
  }
  return html`<${AsOf} poll=${poll} /><section class="card ${poll.stale}" aria-labelledby="reasons">
    <div class="heading"><h2 id="reasons">${t`Reasons`}</h2>
      <span class="small">${ofAll(poll.data)}${reasons.some(({ reason }) => reason?.includes("#")) && `; ${t`# stands for a number`}`}</span>
      ${!topic && html`<a href=${`${href("jobs")}${queryText({ state: "dead", order: "desc" })}`}>${t`One by one`}</a>`}</div>
    <${Deaths} data=${poll.data} />
    <ul class="jobs">${reasons.map((group) => html`<${Group} key=${`${group.topic} ${group.reason}`} group=${group} complete=${complete} isAll=${!topic}
      isChosen=${group.prefix && group.prefix === chosen}>${actions(group)}<//>`)}</ul>
  </section>`;
}

function Replayed({ id }) {
  const [gone, setGone] = useState(null);
  const { data, error } = usePoll(gone ? null : path("jobs", id), 2_000);
  useEffect(() => void (error?.status === 404 && setGone(error)), [error]);
  return html`<li class="job"><div><a class="mono" href=${href("jobs", id)}>${id}</a>${data?.reason && html`<p class="reason"><${Text} text=${data.reason} /></p>`}</div>
    <span class="small">${gone ? (gone.ended ? html`<${Ended} ended=${gone.ended} />` : t`gone: finished or deleted`) : data && html`<${StateName} state=${data.state} />`}</span></li>`;
}

/** How the first few of a reason fare after they were replayed, and the question about the rest. */
function FirstFew({ started, jobs, group, filter, ask, refresh, close }) {
  const { data, error } = usePoll(path("bulk", started.id), 1_000);
  const operation = data ?? started;
  const heading = useRef(null);
  const isRunning = operation.state === "running";
  useEffect(() => heading.current.focus(), []);
  useEffect(() => void (isRunning || refresh()), [isRunning]);
  const left = group.count - operation.changed;
  // Those that died again since are not of the rest.
  const askRest = () => ask({ action: "requeue", filter: { ...filter, to: operation.started_at }, listed: left });
  return html`<section class="card" aria-labelledby="first">
    <div class="heading"><h2 id="first" tabindex="-1" ref=${heading}>${t`The first ${count(jobs.length)} of “${html`<${Text} text=${textOf(group).split("\n")[0]} />`}”`}</h2>
      <button class="quiet" onClick=${close}>${t`Close`}</button></div>
    <p role="status">${isRunning
      ? (error?.status === 404 ? t`The server no longer knows this operation: see below what it has done.` : t`Replaying …`)
      : operation.skipped > 0 ? t`${count(operation.changed)} replayed, ${count(operation.skipped)} changed before their turn.` : t`${count(operation.changed)} replayed.`}
      ${operation.error && html` <${Text} text=${operation.error} />`}</p>
    <ul class="jobs">${jobs.map(({ id }) => html`<${Replayed} key=${id} id=${id} />`)}</ul>
    ${!isRunning && left > 0 && html`<div class="actions"><button class="primary" onClick=${askRest}>${t`Replay the other ${count(left)} …`}</button></div>`}
  </section>`;
}

/** Dead letters for a token of some topics. */
function OwnTopics() {
  const poll = usePoll("topics?sort=dead", 5_000);
  useKeys({ r: poll.refresh });
  if (!poll.data) return html`<${Unloaded} poll=${poll} what=${t`the topics`} />`;
  const topics = poll.data.topics.filter(({ counts }) => counts.dead > 0);
  return html`<${AsOf} poll=${poll} /><section class="card ${poll.stale}">
    <p>${topics.length > 0 ? t`This token is for some topics only. These have dead letters:` : t`No topic of this token has dead letters.`}</p>
    <ul class="jobs">${topics.map(({ topic, counts }) => html`<li key=${topic} class="job" data-row>
      <a class="mono" href=${href("topics", topic, "dead")}>${topic}</a><strong class="small"><${Mark} state="dead" /> ${count(counts.dead)}</strong></li>`)}</ul>
  </section>`;
}

/** The reasons, and the children unless the token is refused. */
function DeadLetters({ topic, chosen, ask, children }) {
  const poll = usePoll(topic ? path("topics", topic, "dead", "reasons") : "dead/reasons", 5_000);
  const may = useMay(topic);
  const [few, setFew] = useState(null);
  // The head of the page then says the same as the page.
  useEffect(() => void (!topic && poll.data?.complete && figures.set({ ...figures.get(), dead: poll.data.examined })), [poll.data]);
  useKeys({ r: poll.refresh });
  const actions = (group) => {
    if (!may("admin") || !group.prefix) return null;
    const filter = { state: "dead", topic: group.topic, reason_prefix: group.prefix };
    const button = (name, text, question, look = "") => html`<button class=${look} aria-label=${topic ? t`${name} “${group.reason}”` : t`${name} “${group.reason}” of ${group.topic}`}
      onClick=${() => ask({ filter, listed: group.count, ...question })}>${text}</button>`;
    const first = { limit: FEW, begun: (started, jobs) => setFew({ started, jobs, group, filter }) };
    return [button(t`Replay`, t`Replay …`, { action: "requeue" }), group.count > FEW && button(t`Replay ${FEW} first`, t`Replay ${FEW} first …`, { action: "requeue", ...first }),
      button(t`Delete`, t`Delete …`, { action: "delete" }, "danger quiet")];
  };
  return html`${few && html`<${FirstFew} key=${few.started.id} ...${few} ask=${ask} refresh=${poll.refresh} close=${() => setFew(null)} />`}
    <${Reasons} poll=${poll} topic=${topic} chosen=${chosen} actions=${actions} />
    ${!topic && html`<${Lacking} scopes=${["admin"]} />`}
    ${poll.error?.status !== 403 && children}`;
}

function OfTopic({ topic, ask }) {
  const filter = filterOf({ ...useObservable(query), state: "dead", topic });
  return html`<${DeadLetters} topic=${topic} chosen=${filter.reason_prefix} ask=${ask}>${filter.reason_prefix && html`<p class="chosen">${t`Only those whose reason begins with ${html`<strong><${Text} text=${filter.reason_prefix} /></strong>`}.`}${" "}
      <a href=${changed({ reason_prefix: null })}>${t`Show all`}</a></p>`}
    <${JobList} key=${JSON.stringify(filter)} filter=${filter} counts=${useCounts(topic)} ask=${ask} /><//>
    <${Lacking} topic=${topic} scopes=${["add", "admin"]} />`;
}

/** The dead letters of a topic, or of all that the token covers. */
export function Dead({ topic }) {
  const known = useObservable(rights);
  const { ask, question } = useQuestion();
  return html`${topic && html`<nav class="crumbs" aria-label=${t`Path`}><a href=${href()}>${t`Overview`}</a><a class="mono" href=${href("topics", topic)}>${topic}</a></nav>`}
    <h1 tabindex="-1">${t`Dead letters`}</h1>
    ${topic ? html`<${OfTopic} topic=${topic} ask=${ask} />`
      : known?.topics ? html`<${OwnTopics} />`
      : known ? html`<${DeadLetters} ask=${ask} />` : html`<${Loading} what=${t`the dead letters`} />`}
    ${question}`;
}
