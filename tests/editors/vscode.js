// The extension of VS Code in a VS Code that is made of a few classes: messages arrive, a hover, a completion and a fix.
//
//   node tests/editors/vscode.js tools/editors/vscode REC
const Module = require('module');
const path = require('path');

const [folder, rec] = process.argv.slice(2);
const providers = {}, published = {}, errors = [], events = {};
let arrived = () => {};

class Plain {
  constructor(...given) { this.given = given; }
}
class Uri extends Plain {
  static parse(text) { return new Uri(text); }
  toString() { return this.given[0]; }
}
class WorkspaceEdit {
  set(uri, edits) { this.edits = edits; }
}
const listen = (name) => (listener) => ((events[name] = listener), {});
const vscode = {
  ...Object.fromEntries(['Position', 'Range', 'Location', 'TextEdit', 'Diagnostic', 'DiagnosticRelatedInformation', 'DocumentSymbol',
    'CompletionItem', 'CodeAction', 'Hover', 'MarkdownString', 'DocumentHighlight'].map((name) => [name, class extends Plain {}])),
  Uri, WorkspaceEdit,
  CodeActionKind: {QuickFix: 'quickfix'},
  window: {createOutputChannel: () => ({append: (text) => errors.push(text)}), showErrorMessage: (text) => errors.push(text)},
  workspace: {
    getConfiguration: () => ({get: () => rec}), textDocuments: [],
    onDidOpenTextDocument: listen('open'), onDidChangeTextDocument: listen('change'), onDidCloseTextDocument: listen('close'),
  },
  languages: new Proxy({}, {
    get: (all, name) => name === 'createDiagnosticCollection'
      ? () => ({set: (uri, list) => { published[uri] = list; arrived(); }})
      : (language, provider) => ((providers[name] = provider), {}),
  }),
};
const load = Module._load;
Module._load = (name, ...rest) => (name === 'vscode' ? vscode : load(name, ...rest));

let failed = 0;
function expect(fine, what) {
  console.log(fine ? 'ok' : 'FAILED:', what);
  failed += !fine;
}

async function main() {
  const extension = require(path.resolve(folder, 'extension.js'));
  await extension.activate({subscriptions: []});
  const text = 'recurrence r(K = 4) {\n  input  x[K]\n  output y\n  y = summ[K](x)\n}\n';
  const document = {languageId: 'rec', version: 1, uri: Uri.parse('file:///a.rec'), getText: () => text};
  const messages = new Promise((resolve) => (arrived = resolve));
  events.open(document);
  await messages;
  const list = published['file:///a.rec'];
  expect(list.length === 1 && /did you mean 'sum'/.test(list[0].given[1]), 'messages arrive');
  const actions = await providers.registerCodeActionsProvider.provideCodeActions(document, {start: {line: 3, character: 6}, end: {line: 3, character: 7}});
  expect(actions.length === 1 && actions[0].edit.edits[0].given[1] === 'sum', 'a fix');
  const again = new Promise((resolve) => (arrived = resolve));
  events.change({document: {...document, version: 2}, contentChanges: [{range: {start: {line: 3, character: 6}, end: {line: 3, character: 10}}, text: 'sum'}]});
  await again;
  expect(published['file:///a.rec'].length === 0, 'an edit');
  const hover = await providers.registerHoverProvider.provideHover(document, {line: 3, character: 13});
  expect(/input x\[K = 4\]/.test(hover.given[0].given[0]), 'a hover');
  const items = await providers.registerCompletionItemProvider.provideCompletionItems(document, {line: 3, character: 10});
  expect(items.map((item) => item.given[0]).join() === 'K', 'a completion');
  const symbols = await providers.registerDocumentSymbolProvider.provideDocumentSymbols(document);
  expect(symbols[0].children.length === 3, 'an outline');
  events.close(document);
  await extension.deactivate();
  expect(errors.length === 0, `no errors: ${errors.join()}`);
  process.exit(failed ? 1 : 0);
}

main();
