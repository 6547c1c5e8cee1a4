"""Turns a header's plain `//` comments into ones that Doxygen reads, line for line (so that its line numbers hold)."""
import re
import sys

COMMENT = re.compile(r"^(\s*)//(?!/)( ?)(.*)$")
TRAILING = re.compile(r"^(\s*\S[^\"]*?;|\s*k\w+[^\"]*?,)(\s+)// (.*)$")
# A status code and its cause, as the headers list them: `kNotFound   no such name`.
CODE = re.compile(r"^\s*((?:k[A-Z]\w+)(?:\s*/\s*k[A-Z]\w+)*)\s{2,}(\S.*)$")

STD_HASH = re.compile(r"^template <[^\n]*>\nstruct std::\w+<.*?^};$", re.MULTILINE | re.DOTALL)


def escape(text):
    """Keeps what Markdown, HTML or Doxygen would take for a command."""
    return re.sub(r"([\\@<>#$])", r"\\\1", text)


def main(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    # Doxygen 1.9 refuses a specialisation outside its namespace.
    text = STD_HASH.sub(lambda match: "\n" * match.group(0).count("\n"), text)
    lines = text.splitlines()
    previous = None  # the comment line before this one
    for number, line in enumerate(lines):
        match = COMMENT.match(line)
        if not match or match.group(3).startswith(("----", "clang-format")):
            previous = None
            match = TRAILING.match(line)
            print(f"{match.group(1)}{match.group(2)}///< {escape(match.group(3))}" if match else line)
            continue
        indent, _, text = match.groups()
        code = CODE.match(text)
        if number == 0:  # the comment that opens a file
            print(f"/// \\file\n/// {escape(text)}")
        elif code:
            print(f"{indent}/// - `{code.group(1)}` {escape(code.group(2))}")
        elif text.startswith("  ") and previous in ("", "sample"):
            text = "sample"
            print(f"{indent}///     {match.group(3).strip()}")
        else:
            print(f"{indent}/// {escape(text)}")
        previous = text


main(sys.argv[1])
