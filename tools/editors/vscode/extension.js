// Starts `rec lsp` and hands its answers to VS Code. It needs nothing beside VS Code: the protocol is plain JSON, and what the
// server can do maps to calls of the editor one by one.
const vscode = require('vscode');
const {spawn} = require('child_process');

// ---- the server ----

class Server {
  constructor(command, output, notified) {
    this.waiting = new Map();
    this.count = 0;
    this.rest = Buffer.alloc(0);
    this.notified = notified;
    this.process = spawn(command, ['lsp'], {stdio: ['pipe', 'pipe', 'pipe']});
    this.process.stdout.on('data', (data) => this.receive(data));
    this.process.stderr.on('data', (data) => output.append(data.toString()));
    this.process.stdin.on('error', () => {});
    this.ended = new Promise((resolve) => {
      this.process.on('error', (error) => resolve(`${command} lsp: ${error.message}`));
      this.process.on('exit', (status) => resolve(status ? `${command} lsp ended with status ${status}` : ''));
    });
    this.ended.then(() => this.waiting.forEach((resolve) => resolve(null)));
  }

  send(message) {
    const text = Buffer.from(JSON.stringify({jsonrpc: '2.0', ...message}));
    if (this.process.stdin.writable) this.process.stdin.write(Buffer.concat([Buffer.from(`Content-Length: ${text.length}\r\n\r\n`), text]));
  }

  request(method, params) {
    const id = ++this.count;
    this.send({id, method, params});
    return new Promise((resolve) => this.waiting.set(id, resolve));
  }

  receive(data) {
    this.rest = Buffer.concat([this.rest, data]);
    for (;;) {
      const end = this.rest.indexOf('\r\n\r\n');
      const length = end < 0 ? null : /Content-Length: (\d+)/.exec(this.rest.toString('ascii', 0, end));
      if (!length || this.rest.length < end + 4 + Number(length[1])) return;
      const text = this.rest.toString('utf8', end + 4, end + 4 + Number(length[1]));
      this.rest = this.rest.subarray(end + 4 + Number(length[1]));
      this.take(JSON.parse(text));
    }
  }

  take(message) {
    const resolve = this.waiting.get(message.id);
    this.waiting.delete(message.id);
    if (resolve) resolve(message.error ? null : message.result);
    else if (message.method) this.notified(message);
  }
}

// ---- from the protocol to VS Code ----

const place = (p) => new vscode.Position(p.line, p.character);
const range = (r) => new vscode.Range(place(r.start), place(r.end));
const location = (l) => new vscode.Location(vscode.Uri.parse(l.uri), range(l.range));
const edit = (e) => new vscode.TextEdit(range(e.range), e.newText);

function diagnostic(d) {
  const made = new vscode.Diagnostic(range(d.range), d.message, d.severity - 1);
  made.source = d.source;
  made.tags = d.tags;
  made.relatedInformation = (d.relatedInformation || []).map((r) => new vscode.DiagnosticRelatedInformation(location(r.location), r.message));
  return made;
}

function symbol(s) {
  const made = new vscode.DocumentSymbol(s.name, s.detail, s.kind - 1, range(s.range), range(s.selectionRange));
  made.children = (s.children || []).map(symbol);
  return made;
}

function completion(c) {
  const made = new vscode.CompletionItem(c.label, c.kind - 1);
  made.detail = c.detail;
  made.documentation = c.documentation;
  return made;
}

function action(a) {
  const made = new vscode.CodeAction(a.title, vscode.CodeActionKind.QuickFix);
  made.edit = new vscode.WorkspaceEdit();
  for (const [uri, edits] of Object.entries(a.edit.changes)) made.edit.set(vscode.Uri.parse(uri), edits.map(edit));
  made.diagnostics = a.diagnostics.map(diagnostic);
  return made;
}

// ---- the extension ----

let server;

const id = (document) => ({uri: document.uri.toString()});

function about(method, document, position, convert, more = {}) {
  const params = {textDocument: id(document), ...more};
  if (position) params.position = {line: position.line, character: position.character};
  return server.request(`textDocument/${method}`, params).then((result) => (result ? convert(result) : null));
}

function open(document) {
  if (document.languageId !== 'rec') return;
  server.send({
    method: 'textDocument/didOpen',
    params: {textDocument: {...id(document), languageId: 'rec', version: document.version, text: document.getText()}},
  });
}

function change(event) {
  if (event.document.languageId !== 'rec' || !event.contentChanges.length) return;
  const contentChanges = event.contentChanges.map((c) => ({range: {start: c.range.start, end: c.range.end}, text: c.text}));
  server.send({method: 'textDocument/didChange', params: {textDocument: {...id(event.document), version: event.document.version}, contentChanges}});
}

function close(document) {
  if (document.languageId === 'rec') server.send({method: 'textDocument/didClose', params: {textDocument: id(document)}});
}

async function activate(context) {
  const output = vscode.window.createOutputChannel('rec');
  const messages = vscode.languages.createDiagnosticCollection('rec');
  const command = vscode.workspace.getConfiguration('rec').get('command');
  server = new Server(command, output, ({method, params}) => {
    if (method === 'textDocument/publishDiagnostics') messages.set(vscode.Uri.parse(params.uri), params.diagnostics.map(diagnostic));
  });
  server.ended.then((why) => why && vscode.window.showErrorMessage(`${why}. The setting rec.command names the program.`));
  await server.request('initialize', {
    processId: process.pid,
    capabilities: {textDocument: {hover: {contentFormat: ['markdown']}}},
  });
  server.send({method: 'initialized', params: {}});

  const l = vscode.languages;
  context.subscriptions.push(
    output,
    messages,
    vscode.workspace.onDidOpenTextDocument(open),
    vscode.workspace.onDidChangeTextDocument(change),
    vscode.workspace.onDidCloseTextDocument(close),
    l.registerHoverProvider('rec', {
      provideHover: (d, p) => about('hover', d, p, (h) => new vscode.Hover(new vscode.MarkdownString(h.contents.value))),
    }),
    l.registerDefinitionProvider('rec', {provideDefinition: (d, p) => about('definition', d, p, location)}),
    l.registerReferenceProvider('rec', {provideReferences: (d, p) => about('references', d, p, (all) => all.map(location))}),
    l.registerDocumentHighlightProvider('rec', {
      provideDocumentHighlights: (d, p) =>
        about('documentHighlight', d, p, (all) => all.map((h) => new vscode.DocumentHighlight(range(h.range)))),
    }),
    l.registerDocumentSymbolProvider('rec', {provideDocumentSymbols: (d) => about('documentSymbol', d, null, (all) => all.map(symbol))}),
    l.registerDocumentFormattingEditProvider('rec', {
      provideDocumentFormattingEdits: (d) => about('formatting', d, null, (all) => all.map(edit)),
    }),
    l.registerCodeActionsProvider('rec', {
      provideCodeActions: (d, r) => about('codeAction', d, null, (all) => all.map(action), {range: {start: r.start, end: r.end}}),
    }),
    l.registerCompletionItemProvider(
      'rec',
      {provideCompletionItems: (d, p) => about('completion', d, p, (all) => all.items.map(completion))},
      '.', '[', '~'),
  );
  vscode.workspace.textDocuments.forEach(open);
}

async function deactivate() {
  await server.request('shutdown');
  server.send({method: 'exit'});
}

module.exports = {activate, deactivate};
