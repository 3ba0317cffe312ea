// The timeline as it is drawn: bars, axes and labels. It knows no call and no address.
import { html } from "./lib.js";
import { href } from "./address.js";
import { compact } from "./format.js";
import { t } from "./language.js";
import { labelsOf, scaleOf } from "./timeline.js";

/** Pixels: above the bars, of the bars, below them, at their left and right, and the width of what stands apart. */
const [TOP, HEIGHT, BELOW, LEFT, RIGHT, SIDE] = [8, 150, 40, 84, 58, 28];

/** Where the bars lie. Bar -1 is what is overdue, the one after the last is what lies outside. */
export function placesOf({ counts: { length } }, width) {
  const right = Math.max(width - RIGHT, LEFT + length);
  const each = (right - LEFT) / length;
  return {
    right,
    each,
    leftOf: (n) => (n < 0 ? 12 : n < length ? LEFT + n * each : right + 18),
    rightOf: (n) => (n < 0 ? 12 + SIDE : n < length ? LEFT + (n + 1) * each : right + 18 + SIDE),
    barAt: (x) => (x < LEFT - 24 ? -1 : x > right + 9 ? length : Math.min(Math.max(Math.floor((x - LEFT) / each), 0), length - 1)),
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

/** Which colour is which topic. */
export const Legend = ({ stacks }) => stacks.length > 0 && html`<ul class="legend">${stacks.map(({ name, topic }) => html`<li key=${name}>
  <svg width="10" height="10" aria-hidden="true"><rect class=${`due ${name}`} width="10" height="10" /></svg>
  ${topic === null ? t`others` : html`<a class="mono" href=${href("topics", topic)}>${topic}</a>`}</li>`)}</ul>`;

export function Drawing({ figures, stacks, places, view, width, zone, isLog, mark, isLate }) {
  const { right, each, leftOf, rightOf } = places;
  const { heightOf, lines } = scaleOf(Math.max(...figures.counts), isLog);
  const base = TOP + HEIGHT;
  const gap = each > 3 ? 1 : 0;
  return html`<svg width=${width} height=${base + BELOW} aria-hidden="true">
    ${lines.map((jobs, n) => {
      const y = base - heightOf(jobs) * HEIGHT;
      return html`<line key=${jobs} class=${n === 0 ? "axis" : "grid"} x1=${LEFT} x2=${right} y1=${y} y2=${y} />
        <text x=${LEFT - 6} y=${y + 4} text-anchor="end">${compact(jobs)}</text>`;
    })}
    ${isLog && html`<text x=${LEFT - 6} y=${base + 4} text-anchor="end">${t`log`}</text>`}
    ${mark.bars && html`<rect class=${mark.selects ? "cursor selected" : "cursor"} x=${leftOf(mark.bars[0])} y=${TOP - 6}
      width=${rightOf(mark.bars[1]) - leftOf(mark.bars[0])} height=${HEIGHT + 6} />`}
    ${figures.bars.filter((bar) => bar.jobs > 0).map(({ n, jobs }) => {
      const height = Math.max(heightOf(jobs) * HEIGHT, 2);
      return html`<${Stack} key=${n} n=${n} jobs=${jobs} stacks=${stacks} x=${leftOf(n) + gap / 2} width=${each - gap} height=${height} />`;
    })}
    <line class="axis" x1=${LEFT} x2=${right} y1=${base} y2=${base} />
    ${labelsOf(figures, zone, (right - LEFT) / 72).map(([{ n }, label]) => html`<line class="axis" x1=${leftOf(n)} x2=${leftOf(n)} y1=${base} y2=${base + 5} />
      ${leftOf(n) < right - 24 && html`<text x=${leftOf(n)} y=${base + 18} text-anchor="middle">${label}</text>`}`)}
    <${Side} kind=${isLate ? "overdue late" : "overdue"} x=${leftOf(-1)} jobs=${figures.ready} label=${t`overdue`} heightOf=${heightOf} />
    <${Side} kind="outside" x=${right + 18} jobs=${figures.outside} label=${view.from === null ? t`later` : t`outside`} heightOf=${heightOf} />
  </svg>`;
}
