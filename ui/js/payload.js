// What a job's body says, for people. The stored text stays in `Raw`, and is what is copied.
import { t } from "./language.js";
import { indent, soleMember } from "./rawjson.js";
import { byteLength, bytes } from "./format.js";

// Characters that JSON has to escape, and other controls.
const STAYS_ESCAPED = /["\\\u0000-\u001f\u007f-\u009f]/;

/** Shows the characters that escapes such as `\u884c` stand for, in JSON. */
function decoded(json) {
  return json.replace(/\\(?:u([\da-fA-F]{4})|.)/g, (escape, hex) => {
    const character = hex && String.fromCharCode(parseInt(hex, 16));
    return !hex || STAYS_ESCAPED.test(character) ? escape : character;
  });
}

/** The bytes of canonical base64; nothing for other text. */
function bytesOf(base64) {
  try {
    const binary = atob(base64);
    return btoa(binary) === base64 ? Uint8Array.from(binary, (c) => c.charCodeAt(0)) : undefined;
  } catch {
    return undefined;
  }
}

/** Bytes in lines of eight, which fit on a phone: the offset, the bytes, and the characters of ASCII. */
function dump(payload) {
  const lines = [];
  for (let at = 0; at < payload.length; at += 8) {
    const line = [...payload.subarray(at, at + 8)];
    const hex = line.map((byte) => byte.toString(16).padStart(2, "0")).join(" ").padEnd(23);
    const ascii = line.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${hex}  ${ascii}`);
  }
  return lines.join("\n");
}

/**
 * A body as text for people, and its size in words. Clients of older servers send payloads of any bytes: text that is not
 * JSON and bytes that are not text are in an object with one member (`src/compat/encoding.rs`).
 */
export function readable(raw) {
  const [name, value] = soleMember(raw);
  if (name === "linger:text" && typeof value === "string") return { text: value, size: t`${bytes(byteLength(value))} of text` };
  const payload = name === "linger:base64" && typeof value === "string" ? bytesOf(value) : undefined;
  if (payload) return { text: dump(payload), size: t`${bytes(payload.length)} that are not text` };
  return { text: decoded(indent(raw)), size: bytes(byteLength(raw)) };
}
