"""A client of `rec lsp` for tests.

  client.py script REC FILE         plays a script (tests/lsp/NAME.script) and prints what is answered
  client.py messages REC FILE.err ..   for each: the diagnostics of FILE.rec are the messages of FILE.err
  client.py sweep REC N FILE.rec .. hovers, completions and definitions at words of N of the files (0: all), half-typed texts among them
  client.py live REC                messages come without a request; edits take no memory
  client.py time REC FILE.rec ..    milliseconds from an edit to its messages

Of a script, places are LINE:COLUMN from 0, as in the protocol:

  utf8                     first: the client can count columns in bytes; `bare`: there is no initialize
  open NAME .. end         the lines between are the text
  full NAME .. end         replaces the whole text
  edit NAME L:C-L:C "text" replaces a part; the text is a JSON string
  close NAME
  hover NAME L:C           also definition, references, documentHighlight
  completion NAME L:C WORD what begins with the word is printed
  symbols NAME, format NAME, fixes NAME
  send {..}                any message, bytes "..": what is no message
"""
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import textwrap
import time


def frame(message):
    data = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n" % len(data) + data


def parse(data):
    messages = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        length = int(head.split(b":")[1])
        messages.append(json.loads(data[:length]))
        data = data[length:]
    return messages


def run(rec, data, folder):
    """All input at once, from a file: nothing depends on time."""
    with tempfile.TemporaryFile() as given:
        given.write(data)
        given.seek(0)
        done = subprocess.run([rec, "lsp"], stdin=given, capture_output=True, timeout=300,
                              env=dict(os.environ, XDG_CACHE_HOME=folder + "/cache"))
    return done.returncode, parse(done.stdout), done.stderr.decode()


def initialize(utf8=False, markdown=False):
    able = {"general": {"positionEncodings": ["utf-8", "utf-16"] if utf8 else ["utf-16"]},
            "textDocument": {"hover": {"contentFormat": ["markdown"] if markdown else ["plaintext"]}}}
    return {"jsonrpc": "2.0", "id": "initialize", "method": "initialize", "params": {"capabilities": able}}


def notification(method, params):
    return {"jsonrpc": "2.0", "method": method, "params": params}


def request(number, method, uri, place=None, **more):
    params = dict({"textDocument": {"uri": uri}}, **more)
    if place:
        params["position"] = {"line": place[0], "character": place[1]}
    return {"jsonrpc": "2.0", "id": number, "method": "textDocument/" + method, "params": params}


def opened(uri, text):
    return notification("textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "rec", "version": 1, "text": text}})


def end():
    return [{"jsonrpc": "2.0", "id": "shutdown", "method": "shutdown"}, {"jsonrpc": "2.0", "method": "exit"}]


def changed(uri, version, **change):
    return notification("textDocument/didChange", {"textDocument": {"uri": uri, "version": version}, "contentChanges": [change]})


# ---- scripts ----------------------------------------------------------------------------------------------------------------

def place_of(text):
    line, column = text.split(":")
    return {"line": int(line), "character": int(column)}


def range_text(r):
    start, stop = r["start"], r["end"]
    return f"{start['line']}:{start['character']}-{stop['line']}:{stop['character']}"


class Script:
    def __init__(self, path, folder):
        self.folder, self.version, self.asked, self.data = folder, 1, {}, b""
        self.lines = iter(open(path, encoding="utf-8").read().split("\n"))
        self.begun = False
        for line in self.lines:
            if line and not line.startswith("#"):
                self.read(line)

    def uri(self, name):
        return f"file://{self.folder}/{name}"

    def block(self):
        text = []
        for line in self.lines:
            if line == "end":
                return "\n".join(text) + "\n"
            text.append(line)
        raise SystemExit("a text without its end")

    def send(self, message):
        self.data += frame(message)

    def ask(self, line, method, name, place=None, **more):
        number = len(self.asked) + 1
        self.asked[number] = line
        self.send(request(number, method, self.uri(name), place and tuple(place_of(place).values()), **more))

    def read(self, line):
        word, _, rest = line.partition(" ")
        name, _, rest_of_name = rest.partition(" ")
        if not self.begun and word != "bare":
            self.send(initialize(utf8=word == "utf8"))
        self.begun = True
        self.version += 1
        if word in ("bare", "utf8"):
            return
        if word == "open":
            self.send(opened(self.uri(name), self.block()))
        elif word == "full":
            self.send(changed(self.uri(name), self.version, text=self.block()))
        elif word == "edit":
            where, text = rest_of_name.split(" ", 1)
            start, stop = where.split("-")
            self.send(changed(self.uri(name), self.version, text=json.loads(text), range={"start": place_of(start), "end": place_of(stop)}))
        elif word == "close":
            self.send(notification("textDocument/didClose", {"textDocument": {"uri": self.uri(name)}}))
        elif word in ("symbols", "format", "fixes"):
            method = {"symbols": "documentSymbol", "format": "formatting", "fixes": "codeAction"}[word]
            everything = {"start": place_of("0:0"), "end": place_of("100000:0")}
            self.ask(line, method, name, **({"range": everything} if word == "fixes" else {}))
        elif word == "send":
            self.send(json.loads(rest))
        elif word == "bytes":
            self.data += json.loads(rest).encode()
        else:
            self.ask(line, word, name, rest_of_name.split(" ")[0])


def short(uri, folder):
    return re.sub(r"^file://.*/cache/rec/stdlib/", "CACHE/", uri.replace(f"file://{folder}/", ""))


def print_symbols(symbols, indent):
    for s in symbols:
        print(f"{indent}{s['detail']} {s['name']} {range_text(s['range'])} name {range_text(s['selectionRange'])}")
        print_symbols(s.get("children", []), indent + "  ")


def print_items(items):
    """Few with all that is said of them, many by their names."""
    if len(items) <= 6:
        for item in items:
            print(f"  {item['label']}: {item.get('detail', '-')}")
    else:
        print(textwrap.fill(" ".join(item["label"] for item in items), 120, initial_indent="  ", subsequent_indent="  "))


def print_result(method, result, folder, prefix=""):
    if result is None:
        print("  nothing")
    elif "contents" in result:
        print("".join(f"  {line}\n" if line else "\n" for line in result["contents"]["value"].rstrip("\n").split("\n")), end="")
    elif "items" in result:
        print_items([item for item in result["items"] if item["label"].startswith(prefix)])
    elif method == "symbols":
        print_symbols(result, "  ")
    else:
        for one in result if isinstance(result, list) else [result]:
            if "newText" in one:
                print(f"  {range_text(one['range'])} {json.dumps(one['newText'])}")
            elif "edit" in one:
                print(f"  {one['title']}: {one['diagnostics'][0]['message']}")
                for edits in one["edit"]["changes"].values():
                    print_result("format", edits, folder)
            elif "range" in one:
                print(f"  {short(one['uri'], folder) + ' ' if 'uri' in one else ''}{range_text(one['range'])}")
            else:
                print("  " + json.dumps(one))


def print_diagnostics(params, folder):
    name = short(params["uri"], folder)
    print(f"{name} {params['version']}:" if "version" in params else f"{name} closed:", "" if params["diagnostics"] else "no messages")
    for d in params["diagnostics"]:
        unused = ", unused" if d.get("tags") == [1] else ""
        message = d["message"].replace(folder + "/", "")
        print(f"  {range_text(d['range'])} {['', 'error', 'warning', 'note'][d['severity']]}{unused}: {message}")
        for related in d.get("relatedInformation", []):
            where = related["location"]
            print(f"    {short(where['uri'], folder)} {range_text(where['range'])}: {related['message']}")


def play(rec, path):
    with tempfile.TemporaryDirectory() as folder:
        script = Script(path, folder)
        status, messages, errors = run(rec, script.data, folder)
        for m in messages:
            if m.get("method") == "textDocument/publishDiagnostics":
                print_diagnostics(m["params"], folder)
            elif m.get("id") == "initialize":
                print("columns in", m["result"]["capabilities"]["positionEncoding"])
            elif "error" in m:
                print(f"{script.asked.get(m['id'], m['id'])}: error {m['error']['code']}: {m['error']['message']}")
            elif m["id"] in script.asked:
                print(script.asked[m["id"]])
                words = script.asked[m["id"]].split(" ")
                print_result(words[0], m["result"], folder, *words[3:])
            else:
                print(m["id"], json.dumps(m["result"]))
        print("exit status", status)
        print(errors, end="")


# ---- the messages of recc -------------------------------------------------------------------------------------------------------

def messages_of(path, name):
    """{(line, column, severity, text)} of an .err file, of the program itself."""
    found = set()
    for line in open(path, encoding="utf-8"):
        m = re.match(r"(.*?):(\d+):(\d+): (error|warning): (.*)\n", line)
        if m and m[1] == name:
            found.add((int(m[2]), int(m[3]), m[4], m[5]))
    return found


def column_of(line, units):
    """From 1, in characters, of a column in UTF-16 units."""
    return len(line.encode("utf-16-le")[:2 * units].decode("utf-16-le")) + 1


def compare_messages(rec, paths):
    """One server for all of them."""
    failed, wanted, data = 0, {}, frame(initialize())
    for path in paths:
        program = path[:path.rindex(".")] + ".rec"
        text = open(program, "rb").read().decode("utf-8", "replace")
        said = open(path, encoding="utf-8").read()
        # Texts that are no source at all, messages that are cut, and options are recc's own.
        if "// options:" in text or "... and " in said or "\0" in text or "is not UTF-8" in said or not said.startswith(program + ":"):
            continue
        uri = "file://" + os.path.abspath(program)
        wanted[uri] = (path, messages_of(path, program), text)
        data += frame(opened(uri, text)) + frame(request(0, "documentSymbol", uri))
        data += frame(notification("textDocument/didClose", {"textDocument": {"uri": uri}}))
    with tempfile.TemporaryDirectory() as folder:
        _, answers, errors = run(rec, data + b"".join(map(frame, end())), folder)
    got = {}
    for m in answers:
        if m.get("method") != "textDocument/publishDiagnostics" or "version" not in m["params"]:
            continue
        uri, found = m["params"]["uri"], set()
        lines = wanted[uri][2].split("\n")
        for d in m["params"]["diagnostics"]:
            start = d["range"]["start"]
            line = lines[start["line"]] if start["line"] < len(lines) else ""
            message = d["message"].replace(os.getcwd() + "/", "")
            found.add((start["line"] + 1, column_of(line, start["character"]), ["", "error", "warning"][d["severity"]], message))
        got[uri] = found
    for uri, (path, messages, _) in wanted.items():
        if got.get(uri) != messages:
            failed += 1
            print("FAILED", path, "\n  recc:", sorted(messages - got.get(uri, set())), "\n  lsp: ", sorted(got.get(uri, set()) - messages))
    print(errors, end="")
    return len(wanted) - failed, failed


# ---- every word of many files -----------------------------------------------------------------------------------------------------

def sweep(rec, paths):
    seed = int(os.environ.get("REC_SEED", random.randrange(1 << 30)))
    draw = random.Random(seed)
    paths = draw.sample(paths[1:], int(paths[0])) if int(paths[0]) else paths[1:]
    print("REC_SEED=%d" % seed)
    data, asked, texts = frame(initialize(markdown=True)), 0, 0
    for path in paths:
        text = open(path, encoding="utf-8").read()
        uri = "file://" + os.path.abspath(path)
        words = [m.start() for m in re.finditer(r"\w+|[^\s\w]", text)]
        cut = draw.choice(words) if words else 0
        for k, version in enumerate((text, text[:cut], text[:cut] + text[cut + draw.randrange(1, 9):])):
            texts += 1
            data += frame(opened(uri, version) if k == 0 else changed(uri, k + 1, text=version))
            for at in draw.sample(words, min(len(words), 6)) + [cut]:
                place = (version.count("\n", 0, at), len(version[version.rfind("\n", 0, at) + 1:at]))
                for method in ("hover", "definition", "completion", "references"):
                    asked += 1
                    data += frame(request(asked, method, uri, place))
            asked += 2
            data += frame(request(asked - 1, "documentSymbol", uri)) + frame(request(asked, "formatting", uri))
        data += frame(notification("textDocument/didClose", {"textDocument": {"uri": uri}}))
    with tempfile.TemporaryDirectory() as folder:
        status, answers, errors = run(rec, data + b"".join(map(frame, end())), folder)
    results = [m for m in answers if isinstance(m.get("id"), int)]
    fine = status == 0 and [m["id"] for m in results] == list(range(1, asked + 1)) and all("result" in m for m in results)
    found = sum(m["result"] is not None for m in results if "result" in m)
    print(f"{texts} texts, {asked} requests, {found} answers, exit status {status}")
    print(errors, end="")
    return (1, 0) if fine and found > asked / 3 else (0, 1)


# ---- a server that goes on ----------------------------------------------------------------------------------------------------------

class Live:
    def __init__(self, rec):
        self.server = subprocess.Popen([rec, "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.send(initialize())
        self.receive()

    def send(self, *messages):
        self.server.stdin.write(b"".join(map(frame, messages)))
        self.server.stdin.flush()

    def receive(self):
        length = int(self.server.stdout.readline().split(b":")[1])
        self.server.stdout.readline()
        return json.loads(self.server.stdout.read(length))

    def memory(self):
        return int(re.search(r"VmRSS:\s*(\d+)", open(f"/proc/{self.server.pid}/status").read())[1])

    def close(self):
        self.send(*end())
        self.receive()
        return self.server.wait(timeout=60)


def edit_of(uri, version, line, column, old, new):
    return changed(uri, version, text=new, range={"start": {"line": line, "character": column}, "end": {"line": line, "character": column + old}})


def live(rec):
    text = open("stdlib/mamba2.rec", encoding="utf-8").read()
    client, uri, passed, failed = Live(rec), "file:///tmp/live.rec", 0, 0

    def result(fine, name):
        nonlocal passed, failed
        passed, failed = passed + bool(fine), failed + (not fine)
        if not fine:
            print("FAILED:", name)

    client.send(opened(uri, text))
    result(client.receive()["params"]["diagnostics"] == [], "messages come without a request")
    line = text[:text.index("  h = A_t")].count("\n")
    sizes = []
    for version in range(2, 802):
        client.send(edit_of(uri, version, line, 6, 3, "A_x" if version % 2 == 0 else "A_t"))
        found = client.receive()["params"]
        if found["version"] != version or bool(found["diagnostics"]) != (version % 2 == 0):
            result(False, f"version {version}: {found}")
            break
        sizes.append(client.memory())
    # AddressSanitizer keeps what is freed for a while.
    if "asan" not in rec:
        result(max(sizes[400:]) < 1.1 * max(sizes[:50]) + 512, f"800 edits take no memory: {sizes[0]} .. {max(sizes)} KiB")
    # Edits at once are checked once: the server is behind them all when it finds time.
    client.send(*(edit_of(uri, version, line, 6, 3, "A_x" if version % 2 == 0 else "A_t") for version in range(802, 1002)))
    seen = 0
    while client.receive()["params"]["version"] < 1001:
        seen += 1
    result(seen < 100, f"200 edits at once: {seen} times of messages before the last")
    result(client.close() == 0, "the end")
    return passed, failed


def measure(rec, paths):
    for path in paths:
        client, uri = Live(rec), "file://" + os.path.abspath(path)
        text = open(path, encoding="utf-8").read()
        client.send(opened(uri, text))
        client.receive()
        times = []
        for version in range(2, 102):
            begin = time.perf_counter()
            client.send(edit_of(uri, version, 0, 0, version % 2, "" if version % 2 else " "))
            client.receive()
            times.append(1000 * (time.perf_counter() - begin))
        times.sort()
        print(f"{path}: {len(text)} bytes, {times[50]:.2f} ms, at most {times[-1]:.2f} ms, {client.memory()} KiB")
        client.close()


def main():
    kind, rec, paths = sys.argv[1], sys.argv[2], sys.argv[3:]
    if kind == "script":
        return play(rec, paths[0])
    if kind == "time":
        return measure(rec, paths)
    passed, failed = {"messages": compare_messages, "sweep": sweep}[kind](rec, paths) if paths else live(rec)
    print(f"{passed} passed, {failed} failed")
    return sys.exit(failed > 0)


main()
