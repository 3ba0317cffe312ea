// The language of the page: English, whose texts are in the code, or Simplified Chinese, whose texts are in `zh.js`.
//
// To add a text: write the whole English sentence where it is shown, marked with `t`, as in t`${count(jobs)} jobs of ${topic}`. A value
// may be markup; then the result is for markup, too, and no attribute can have it. The key of the text in `zh.js` has a number in
// the place of each value, "{0} jobs of {1}", and its Chinese has them in any order. Do not join sentences of parts: the order
// of parts is English. Where English depends on a number, choose between two texts, or use `counted` of `format.js`, whose key is
// "{0} jobs". What is data stays as it is: names, ids, codes, reasons, texts of the server. Numbers and times are for `format.js`.
// tests/ui/language.test.mjs compares the keys with `zh.js`, and looks for English on the Chinese pages.
//
// To add a language: a file as `zh.js`, its name in `js/first.js`, `preferences.js` and `menu.js`, and the choice of the file below.

const root = globalThis.document?.documentElement;

/** The Chinese texts by their keys; null in English. */
let texts = null;

// All modules that import this one wait for it, so no text is made before.
if (root?.lang === "zh-CN") {
  try {
    ({ texts } = await import("./zh.js"));
  } catch {
    root.lang = "en";
  }
}

/** What `Intl` formats numbers and dates for. */
export const LOCALES = texts ? { numbers: "zh-CN", dates: "zh-CN" } : { numbers: "en", dates: "en-GB" };

/** The text for a key in the language of the page, if that is not English. */
export const textOf = (key) => texts?.[key];

/** Of each marked text, by its English strings: strings, and between them the numbers of the values. */
const known = new WeakMap();

function partsOf(strings) {
  const key = strings.reduce((key, text, n) => `${key}{${n - 1}}${text}`);
  return (textOf(key) ?? key).split(/\{(\d)\}/);
}

/** A text in the language of the page: a string, or an array of strings and markup if a value is markup. */
export function t(strings, ...values) {
  if (!known.has(strings)) known.set(strings, partsOf(strings));
  const parts = known.get(strings).map((part, n) => (n % 2 === 0 ? part : values[part]));
  return parts.some((part) => typeof part === "object") ? parts : parts.join("");
}
