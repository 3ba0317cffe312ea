"""Builds many mutants into one program, so that one build serves them all: a file says which of them runs.

A function with a mutant gets its body once for each of its mutants and once as it is. A Lua script gets the mutant's
text when the program assembles it. What cannot be switched so, such as a constant or a signature, is built alone.
"""

import pathlib
import re

# Where the program assembles a Lua script, and what changes its text there.
ASSEMBLY = pathlib.Path("src/store/redis/scripts/mod.rs")
ASSEMBLED = "inline_constants(&assemble(source, preludes))"
SWITCHED = """let preludes: Vec<String> = preludes.iter().map(|text| crate::mutants::script(text)).collect();
    let preludes: Vec<&str> = preludes.iter().map(String::as_str).collect();
    inline_constants(&assemble(&crate::mutants::script(source), &preludes))"""
FUNCTION = re.compile(r"( *)(pub(\([^)]*\))? )?(async )?fn ")


def body_of_function(source, begin, end):
    """The range of the body of the function, as rustfmt writes it, whose body contains a range. None if there is none."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    first = max(number for number in range(len(lines)) if starts[number] <= begin)
    for number in range(first, -1, -1):
        if not (head := FUNCTION.match(lines[number])):
            continue
        margin = head[1]
        opening = next(
            (at for at in range(number, len(lines)) if at == number or re.match(margin + r"\S", lines[at])
             if lines[at].endswith("{\n") or lines[at].rstrip().endswith((";", "}"))), None)
        if opening is None or not lines[opening].endswith("{\n"):
            continue
        closing = next((at for at in range(opening, len(lines)) if lines[at] == margin + "}\n"), len(lines))
        body = starts[opening + 1], starts[closing]
        if body[0] <= begin and end <= body[1]:
            return body
    return None


class Switches:
    """The mutants of one build."""

    def __init__(self, root, chosen):
        self.root, self.chosen = root, chosen
        # The mutants of each body, and of scripts.
        self.bodies, self.scripts, self.regions = {}, [], []

    def add(self, mutant):
        """Whether the mutant can be switched."""
        file = pathlib.Path(mutant["file"])
        # Tests of the source would find what a switch writes into it.
        if any(test.startswith("tidy::") for test in mutant["tests"]):
            return False
        if file.suffix == ".lua":
            self.scripts.append((mutant, (self.root / file).read_text()))
            return True
        if file.parts[0] != "src":
            return False
        source = (self.root / file).read_text()
        begin = source.index(mutant["old"])
        body = body_of_function(source, begin, begin + len(mutant["old"]))
        others = [other for of, other in self.bodies if of == file and other != body]
        if body is None or any(body[0] < other[1] and other[0] < body[1] for other in others):
            return False
        self.bodies.setdefault((file, body), []).append(mutant)
        return True

    def write(self):
        """Writes the mutants into the files."""
        self.regions = []
        for file in sorted({file for file, _ in self.bodies}):
            self.write_file(file)
        assembly = self.root / ASSEMBLY
        source = assembly.read_text()
        if source.count(ASSEMBLED) != 1:
            raise SystemExit(f"scripts/mutants: {ASSEMBLY} has not just one line `{ASSEMBLED}`")
        assembly.write_text(source.replace(ASSEMBLED, SWITCHED))
        with (self.root / "src/lib.rs").open("a") as library:
            library.write("mod mutants;\n")
        (self.root / "src/mutants.rs").write_text(self.module())

    def write_file(self, file):
        source = (self.root / file).read_text()
        bodies = sorted((body, mutants) for (of, body), mutants in self.bodies.items() if of == file)
        parts, at = [], 0
        for body, mutants in bodies:
            original = source[body[0]:body[1]]
            parts.append(source[at:body[0]])
            first = "".join(parts).count("\n") + 1
            for mutant in mutants:
                changed = original.replace(mutant["old"], mutant["new"])
                parts.append(f"if crate::mutants::chosen({quoted(mutant['name'])}) {{\n{changed}}} else ")
            parts.append(f"{{\n{original}}}\n")
            self.regions.append((file, first, "".join(parts).count("\n"), body))
            at = body[1]
        (self.root / file).write_text("".join(parts) + source[at:])

    def module(self):
        """The module of the program that knows which mutant is chosen."""
        rows = "".join(
            f"        {quoted(mutant['name'])} => text.replace({quoted(text)}, "
            f"{quoted(text.replace(mutant['old'], mutant['new']))}),\n"
            for mutant, text in self.scripts
        )
        return f"""
use std::sync::LazyLock;

static CHOSEN: LazyLock<String> = LazyLock::new(|| std::fs::read_to_string({quoted(str(self.chosen))}).unwrap_or_default());

pub(crate) fn chosen(name: &str) -> bool {{
    *CHOSEN == name
}}

pub(crate) fn script(text: &str) -> String {{
    match CHOSEN.as_str() {{
{rows}        _ => text.to_owned(),
    }}
}}
"""

    def leave_out(self, said):
        """Leaves out the bodies in which the compiler found errors: their mutants."""
        errors = [(pathlib.Path(file), int(line)) for file, line in re.findall(r"^(\S+?):(\d+):\d+: error", said, re.M)]
        bad = {(of, body) for of, first, last, body in self.regions
               for file, line in errors if file == of and first <= line <= last}
        return [mutant for key in bad for mutant in self.bodies.pop(key)]


def quoted(text):
    """A string of Rust."""
    hashes = "#" * (max((len(run) for run in re.findall(r'"(#*)', text)), default=0) + 1)
    return f'r{hashes}"{text}"{hashes}'
