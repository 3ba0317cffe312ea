// The timeline as it is drawn: bars, axes and labels. It knows no call and no address.
import { html } from "./lib.js";
import { href } from "./address.js";
import { compact } from "./format.js";
import { t } from "./language.js";
import { heightsOf, labelsOf, scaleOf } from "./timeline.js";

const MINUTE = 60_000;

/** Pixels: above the bars, of the bars, below them, at their left and right, and the width of what stands apart. */
const [TOP, HEIGHT, BELOW, LEFT, RIGHT, SIDE] = [8, 150, 40, 84, 58, 28];

/** Where the bars lie: bar 0 begins now, and the past ends with bar -1. Before the past is what is overdue, after the last bar what lies outside. */
export function placesOf({ counts: { length }, past }, width) {
  const first = -past.length;
  const right = Math.max(width - RIGHT, LEFT + length - first);
  const each = (right - LEFT) / (length - first);
  const leftOf = (n) => (n < first ? 12 : n < length ? LEFT + (n - first) * each : right + 18);
  return {
    right,
    each,
    leftOf,
    rightOf: (n) => leftOf(n) + (n < first || n >= length ? SIDE : each),
    barAt: (x) => (x < LEFT - 24 ? first - 1 : x > right + 9 ? length : Math.min(Math.max(Math.floor((x - LEFT) / each) + first, first), length - 1)),
  };
}

/** A bar that stands apart. It has the scale of the others, and a torn end where it would be higher than they. */
function Side({ kind, x, jobs, label, heightOf }) {
  const height = jobs > 0 ? Math.max(Math.min(heightOf(jobs), 1) * HEIGHT, 2) : 0;
  const base = TOP + HEIGHT;
  return html`<rect class=${kind} x=${x} y=${base - height} width=${SIDE} height=${height} />
    ${heightOf(jobs) > 1 && html`<path class="torn" d=${`M${x - 2} ${TOP + 14}l8 -6 8 6 8 -6 8 6`} />`}
    <text x=${x + SIDE / 2} y=${base + 16} text-anchor="middle">${label}</text>
    <text x=${x + SIDE / 2} y=${base + 33} text-anchor="middle" class="figure">${compact(jobs)}</text>`;
}

/** A bar of the jobs of each topic above each other. Also on a logarithmic scale they share its height by their numbers. */
function Stack({ n, jobs, stacks, x, width, height }) {
  let top = TOP + HEIGHT;
  const part = (name, share) => {
    top -= height * share;
    return html`<rect key=${name} class=${name} x=${x} y=${top} width=${width} height=${height * share} />`;
  };
  const parts = stacks.filter(({ counts }) => counts[n] > 0);
  return html`<g class="due">${parts.length > 0 ? parts.map(({ name, counts }) => part(name, counts[n] / jobs)) : part("", 1)}</g>`;
}

/** What came due in each step of the past, and as a line what was delivered. */
function Past({ past, places: { each, leftOf, rightOf }, heightOf }) {
  const [base, gap] = [TOP + HEIGHT, each > 3 ? 1 : 0];
  const known = past.filter(({ isKnown }) => isKnown);
  const steps = known.map(({ n, delivered }) => `${base - heightOf(delivered) * HEIGHT}H${rightOf(n)}`);
  return html`<rect class="unknown" x=${LEFT} y=${TOP} width=${(past.length - known.length) * each} height=${HEIGHT} />
    ${known.filter(({ due }) => due > 0).map(({ n, due }) => {
      const height = Math.max(heightOf(due) * HEIGHT, 2);
      return html`<rect key=${n} class="came" x=${leftOf(n) + gap / 2} y=${base - height} width=${each - gap} height=${height} />`;
    })}
    ${known.length > 0 && html`<path class="handed" d=${`M${leftOf(known[0].n)} ${steps.join("V")}`} />`}
    <line class="now" x1=${leftOf(0)} x2=${leftOf(0)} y1="0" y2=${base} />
    <text x=${leftOf(0)} y=${base + 33} text-anchor="middle" class="figure">${t`now`}</text>`;
}

const Key = ({ of, children }) => html`<li><svg width="12" height="10" aria-hidden="true">${of === "handed" ? html`<path class="handed" d="M0 5H12" />` : html`<rect class=${of} width="12" height="10" />`}</svg>
  ${children}</li>`;

/** Which colour is which topic, and how the past is drawn. */
export const Legend = ({ stacks, past }) => stacks.length + past.length > 0 && html`<ul class="legend">
  ${stacks.map(({ name, topic }) => html`<${Key} key=${name} of=${`due ${name}`}>${topic === null ? t`others` : html`<a class="mono" href=${href("topics", topic)}>${topic}</a>`}<//>`)}
  ${past.length > 0 && html`<${Key} of="came">${t`came due`}<//><${Key} of="handed">${t`delivered`}<//>`}
  ${past.some(({ isKnown }) => !isKnown) && html`<${Key} of="unknown">${t`not known`}<//>`}</ul>`;

export function Drawing({ figures, stacks, places, view, width, zone, isLog, mark, isLate }) {
  const { right, each, leftOf, rightOf } = places;
  const { past, bars } = figures;
  const { heightOf, lines } = scaleOf(Math.max(...heightsOf(figures)), isLog);
  // Longer steps of the past do not begin with the clock.
  const labelled = figures.step === MINUTE ? [...past, ...bars] : bars;
  const base = TOP + HEIGHT;
  const gap = each > 3 ? 1 : 0;
  return html`<svg width=${width} height=${base + BELOW} aria-hidden="true">
    <defs><pattern id="hatching" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="hatching" width="2" height="6" /></pattern></defs>
    ${lines.map((jobs, n) => {
      const y = base - heightOf(jobs) * HEIGHT;
      return html`<line key=${jobs} class=${n === 0 ? "axis" : "grid"} x1=${LEFT} x2=${right} y1=${y} y2=${y} />
        <text x=${LEFT - 6} y=${y + 4} text-anchor="end">${compact(jobs)}</text>`;
    })}
    ${isLog && html`<text x=${LEFT - 6} y=${base + 4} text-anchor="end">${t`log`}</text>`}
    ${mark.bars && html`<rect class=${mark.selects ? "cursor selected" : "cursor"} x=${leftOf(mark.bars[0])} y=${TOP - 6}
      width=${rightOf(mark.bars[1]) - leftOf(mark.bars[0])} height=${HEIGHT + 6} />`}
    ${past.length > 0 && html`<${Past} past=${past} places=${places} heightOf=${heightOf} />`}
    ${bars.filter((bar) => bar.jobs > 0).map(({ n, jobs }) => {
      const height = Math.max(heightOf(jobs) * HEIGHT, 2);
      return html`<${Stack} key=${n} n=${n} jobs=${jobs} stacks=${stacks} x=${leftOf(n) + gap / 2} width=${each - gap} height=${height} />`;
    })}
    <line class="axis" x1=${LEFT} x2=${right} y1=${base} y2=${base} />
    ${labelsOf({ ...figures, from: labelled[0].from, bars: labelled }, zone, (right - leftOf(labelled[0].n)) / 72).map(([{ n }, label]) => html`<line class="axis" x1=${leftOf(n)} x2=${leftOf(n)} y1=${base} y2=${base + 5} />
      ${leftOf(n) < right - 24 && html`<text x=${leftOf(n)} y=${base + 18} text-anchor="middle">${label}</text>`}`)}
    <${Side} kind=${isLate ? "overdue late" : "overdue"} x=${leftOf(-past.length - 1)} jobs=${figures.ready} label=${t`overdue`} heightOf=${heightOf} />
    <${Side} kind="outside" x=${right + 18} jobs=${figures.outside} label=${view.from === null ? t`later` : t`outside`} heightOf=${heightOf} />
  </svg>`;
}
