// JSON whose job bodies stay the text that the server sent: a number such as 9007199254740993 would otherwise change.
// All functions take text that JSON.parse accepts.

function skipSpace(text, at) {
  while (" \t\r\n".includes(text[at])) at += 1;
  return at;
}

function skipString(text, at) {
  for (at += 1; text[at] !== '"'; at += 1) if (text[at] === "\\") at += 1;
  return at + 1;
}

function skipValue(text, at) {
  if (text[at] === '"') return skipString(text, at);
  if (text[at] !== "{" && text[at] !== "[") {
    while (at < text.length && !",]} \t\r\n".includes(text[at])) at += 1;
    return at;
  }
  for (let depth = 0; ; ) {
    const c = text[at];
    if (c === '"') {
      at = skipString(text, at);
      continue;
    }
    if (c === "{" || c === "[") depth += 1;
    if (c === "}" || c === "]") depth -= 1;
    at += 1;
    if (depth === 0) return at;
  }
}

/** The member whose name begins at `at`: the name, and where the value begins and ends. */
function memberAt(text, at) {
  const nameEnd = skipString(text, at);
  const begin = skipSpace(text, skipSpace(text, nameEnd) + 1);
  return [JSON.parse(text.slice(at, nameEnd)), [begin, skipValue(text, begin)]];
}

/** The members of the object that begins at `at`: name, and where the value begins and ends. */
function members(text, at) {
  const found = [];
  at = skipSpace(text, at + 1);
  while (text[at] === '"') {
    const member = memberAt(text, at);
    found.push(member);
    at = skipSpace(text, member[1][1]);
    if (text[at] === ",") at = skipSpace(text, at + 1);
  }
  return found;
}

/** The name and the value of the member of an object that has exactly one, doubled names counted; otherwise nothing. */
export function soleMember(text) {
  const start = skipSpace(text, 0);
  const found = text[start] === "{" ? members(text, start) : [];
  if (found.length !== 1) return [];
  const [[name, span]] = found;
  return [name, JSON.parse(text.slice(...span))];
}

/** Parses any response. The `body` of a job is the raw text; a schedule gets that of its job, too, as `jobText`. */
export function parse(text) {
  const value = JSON.parse(text);
  const start = skipSpace(text, 0);
  if (text[start] !== "{") return value;
  for (const [name, span] of members(text, start)) {
    if (name === "body") value.body = text.slice(...span);
    if (name === "job") value.jobText = text.slice(...span);
  }
  return value;
}

/** Indents JSON without changing a character of any string or number. */
export function indent(text) {
  let out = "";
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (let at = skipSpace(text, 0); at < text.length; at = skipSpace(text, at)) {
    const c = text[at];
    if (c === "{" || c === "[") {
      const next = skipSpace(text, at + 1);
      if (text[next] === "}" || text[next] === "]") {
        out += c + text[next];
        at = next + 1;
        continue;
      }
      depth += 1;
      out += c + line();
    } else if (c === "}" || c === "]") {
      depth -= 1;
      out += line() + c;
    } else if (c === ",") {
      out += c + line();
    } else if (c === ":") {
      out += ": ";
    } else {
      const end = skipValue(text, at);
      out += text.slice(at, end);
      at = end;
      continue;
    }
    at += 1;
  }
  return out;
}
