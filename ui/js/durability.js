// What a failure would cost, by what `GET /version` says of the durability of acknowledged changes.
import { duration } from "./format.js";
import { t } from "./language.js";

/** Each beginning of a text, what is lost, and whether that is more than a few seconds of changes. */
const REDIS = [
  ["none", t`Redis keeps nothing on disk: all jobs are lost when it ends.`, true],
  ["snapshots only", t`Redis writes snapshots only: what changed since the last one is lost when it crashes or the power fails.`, true],
  ["unknown", t`Redis does not say what it keeps on disk: all jobs may be lost when it ends.`, true],
  ["aof always", t`Redis writes each change to its disk before it is acknowledged.`],
  ["aof everysec", t`When Redis crashes or the power fails, about the last second of changes is lost.`],
  ["aof", t`When the power fails, what the operating system has not written yet is lost: perhaps half a minute of changes.`],
];

const EMBEDDED = {
  always: () => t`Each change is on the disk before it is acknowledged: nothing is lost.`,
  interval: (milliseconds) => t`A power failure may lose the last ${duration(milliseconds / 1000)} of changes; a crash of the server loses nothing.`,
  os: () => t`A power failure may lose the last half minute or so of changes; a crash of the server loses nothing.`,
};

/** What is lost, in words, and whether that is bad. The servers of a Redis Cluster may differ: the worst counts. */
export function lossOf({ engine, durability }) {
  if (engine !== "redis") return { text: EMBEDDED[durability.split(" ")[0]]?.(parseFloat(durability.split(" ")[1])), isBad: false };
  const found = durability.split(" / ").map((one) => REDIS.find(([begin]) => one.startsWith(begin))).filter(Boolean);
  const [, text, isBad = false] = found.find(([, , isBad]) => isBad) ?? found[0] ?? [];
  const [, replicas] = durability.match(/, (\d+) replicas/) ?? [];
  return { text: text && replicas ? t`${text} ${replicas} replicas have a change before it is acknowledged.` : text, isBad };
}
