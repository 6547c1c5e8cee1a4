#!/usr/bin/env python3
"""Checks the arrows of docs/guide/architecture.md: which folder may include, and link to, which.

    arrows.py [ROOT]     prints `file:line: reason` for each arrow that the page does not allow; exit code 1 if there is one

The page is the specification: this file holds no list of folders.
"""
import fnmatch
import pathlib
import re
import sys

PAGE = "docs/guide/architecture.md"
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
LIBRARY = re.compile(r"\btb_(library|executable)\(\s*(\w+)([^)]*)\)")
# The keywords that end a DEPS list in tb_library and tb_executable.
KEYWORDS = {"SOURCES", "HEADERS", "DEPS", "PUBLIC", "PRIVATE", "LIBS", "TIMEOUT"}
PUBLIC_ROOTS = ("tensorbroker/client/client.h", "tensorbroker/client/inspector.h", "tensorbroker/files/*.h")


class Page:
    """The two tables of the page: `allowed` folder -> names of folders; `fences` (patterns of includes, of files)."""

    def __init__(self, text):
        self.allowed, self.fences = {}, []
        header = None
        for line in text.splitlines():
            if not line.startswith("|"):
                header = None
                continue
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if header is None:
                header = cells
            elif set(line) <= set("|- "):
                continue
            elif header[0] == "folder":
                names = [name.strip() for name in cells[2].split(",")] if len(cells) > 2 else []
                self.allowed[cells[0].strip("`")] = {name for name in names if name}
            elif header[0] == "include":
                self.fences.append((re.findall("`([^`]+)`", cells[0]), re.findall("`([^`]+)`", cells[1])))
        if not self.allowed or not self.fences:
            raise SystemExit(f"{PAGE}: the table of folders or of libraries is missing")

    def folder_of(self, path):
        """The table's folder that holds `path`, or None."""
        for folder in self.allowed:
            if path.startswith(folder + "/"):
                return folder
        return None

    def fence_against(self, path, include):
        """The patterns of files that may name `include`, where `path` is none of them; else None."""
        for includes, files in self.fences:
            if any(fnmatch.fnmatch(include, pattern) for pattern in includes):
                if not any(fnmatch.fnmatch(path, pattern) for pattern in files):
                    return files
        return None


def sources(root):
    for top in ("tensorbroker", "examples"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in (".h", ".cc", ".inc"):
                yield path.relative_to(root).as_posix()


def includes(root, path):
    text = (root / path).read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1) == '"', match.group(2)


def check_includes(root, page):
    for path in sources(root):
        folder = page.folder_of(path)
        if folder is None:
            yield f"{path}:1: its folder is not in the table of {PAGE}"
            continue
        own = folder.rpartition("/")[2]
        for number, quoted, include in includes(root, path):
            where = f"{path}:{number}"
            files = page.fence_against(path, include)
            if files is not None:
                yield f"{where}: <{include}> may be included only in {', '.join(files)}"
            if include.startswith(("tensorbroker/v1/", "generated/")):
                continue  # what protoc makes: the fence is its rule
            if include.startswith("tensorbroker/"):
                target = page.folder_of(include)
                name = target.rpartition("/")[2] if target else include
                if name != own and name not in page.allowed[folder]:
                    yield f"{where}: {own} may not include {include} (it may: {', '.join(sorted(page.allowed[folder])) or 'nothing'})"
                elif not (root / include).exists() and not (root / (include + ".in")).exists():
                    yield f"{where}: there is no {include}"
            elif quoted and not include.startswith("absl/") and not include.endswith(".pb.h") and not folder.startswith("examples"):
                yield f'{where}: "{include}": write the path from the root, "tensorbroker/..."'


def check_links(root, page):
    for file in sorted(root.glob("tensorbroker/*/CMakeLists.txt")) + sorted(root.glob("examples/**/CMakeLists.txt")):
        path = file.relative_to(root).as_posix()
        folder = page.folder_of(path)
        if folder is None:
            continue
        own = folder.rpartition("/")[2]
        text = re.sub(r"#[^\n]*", "", file.read_text(encoding="utf-8"))
        for match in LIBRARY.finditer(text):
            in_deps = False
            for word in match.group(3).split():
                if word in KEYWORDS:
                    in_deps = word == "DEPS"
                elif in_deps and word not in page.allowed[folder] | {own} and not word.startswith("${"):
                    yield f"{path}: {match.group(2)} may not link to {word}"


def check_public_headers(root, page):
    queue = [path.relative_to(root).as_posix() for pattern in PUBLIC_ROOTS for path in sorted(root.glob(pattern))]
    via = dict.fromkeys(queue, "")
    while queue:
        path = queue.pop()
        for number, _, include in includes(root, path):
            if any(fnmatch.fnmatch(include, pattern) for patterns, _ in page.fences for pattern in patterns):
                yield f"{path}:{number}: <{include}> would be in a header that is installed{via[path]}"
            elif include.startswith("tensorbroker/") and include not in via and (root / include).exists():
                via[include] = f" (from {path})"
                queue.append(include)


def check(root):
    root = pathlib.Path(root)
    page = Page((root / PAGE).read_text(encoding="utf-8"))
    return sorted({*check_includes(root, page), *check_links(root, page), *check_public_headers(root, page)})


if __name__ == "__main__":
    findings = check(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2])
    for finding in findings:
        print(finding)
    print(f"arrows: {len(findings)} not allowed" if findings else "arrows: all as the page says")
    sys.exit(bool(findings))
