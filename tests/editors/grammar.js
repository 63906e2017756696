// Reads programs by tools/editors/tree-sitter-rec/grammar.js without tree-sitter: its tokens, then Earley's algorithm over its
// rules. Prints `FILE fine`, or `FILE no: LINE` where the first token that fits no rule stands.
//
//   node tests/editors/grammar.js GRAMMAR.js FILE.rec ..
const fs = require('fs');

// ---- the words in which grammars are written ----

const rule = (x) => (typeof x === 'string' ? {kind: 'text', text: x} : x instanceof RegExp ? {kind: 'pattern', source: x.source} : x);
Object.assign(global, {
  seq: (...parts) => ({kind: 'seq', parts: parts.map(rule)}),
  choice: (...parts) => ({kind: 'choice', parts: parts.map(rule)}),
  repeat: (part) => ({kind: 'repeat', part: rule(part), least: 0}),
  repeat1: (part) => ({kind: 'repeat', part: rule(part), least: 1}),
  optional: (part) => ({kind: 'choice', parts: [rule(part), {kind: 'seq', parts: []}]}),
  field: (name, part) => rule(part),
  alias: (part) => rule(part),
  prec: (level, part) => rule(part),
  token: (part) => ({kind: 'token', part: rule(part)}),
  grammar: (made) => made,
});

const grammar = require(require('path').resolve(process.argv[2]));
const symbols = new Proxy({}, {get: (all, name) => ({kind: 'symbol', name})});
const rules = Object.fromEntries(Object.entries(grammar.rules).map(([name, make]) => [name, rule(make(symbols))]));

// ---- tokens ----

function pattern(r) {
  switch (r.kind) {
    case 'text': return r.text.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&');
    case 'pattern': return `(?:${r.source})`;
    case 'seq': return r.parts.map(pattern).join('');
    case 'choice': return `(?:${r.parts.map(pattern).join('|')})`;
    case 'repeat': return `(?:${pattern(r.part)})${r.least ? '+' : '*'}`;
    default: return pattern(r.part);
  }
}

const isToken = (name) => ['pattern', 'token'].includes(rules[name].kind);
const tokens = Object.keys(rules).filter(isToken).map((name) => ({name, pattern: new RegExp(pattern(rules[name]), 'uy')}));
const skipped = new Set(grammar.extras(symbols).map((extra) => extra.name));
const texts = new Set();

// The longest token counts; a text of the grammar counts before a pattern, so that words are reserved.
function lex(program) {
  const found = [];
  for (let at = 0; at < program.length;) {
    let best = {length: 0};
    const space = /[\s\uFEFF]+/uy;
    space.lastIndex = at;
    if (space.test(program)) { at = space.lastIndex; continue; }
    for (const t of tokens) {
      t.pattern.lastIndex = at;
      if (t.pattern.test(program) && t.pattern.lastIndex - at > best.length) best = {name: t.name, length: t.pattern.lastIndex - at};
    }
    for (const text of texts)
      if (program.startsWith(text, at) && text.length >= best.length) best = {name: `'${text}`, length: text.length};
    if (!best.length) return {found, stopped: at};
    if (!skipped.has(best.name)) found.push({name: best.name, at});
    at += best.length;
  }
  return {found, stopped: -1};
}

// ---- rules as lists of symbols ----

const lists = {};
const add = (name, list) => (lists[name] = lists[name] || []).push(list);

function expand(r) {
  switch (r.kind) {
    case 'text': texts.add(r.text); return [[`'${r.text}`]];
    case 'symbol': return [[r.name]];
    case 'seq': return r.parts.reduce((all, part) => expand(part).flatMap((end) => all.map((begin) => [...begin, ...end])), [[]]);
    case 'choice': return r.parts.flatMap(expand);
    case 'repeat': {
      const name = `repeat ${Object.keys(lists).length} ${texts.size} ${Math.random()}`;
      for (const list of expand(r.part)) { add(name, list); add(name, [name, ...list]); }
      return r.least ? [[name]] : [[], [name]];
    }
    default: throw new Error(`a ${r.kind} inside of a rule`);
  }
}
for (const name of Object.keys(rules)) if (!isToken(name)) expand(rules[name]).forEach((list) => add(name, list));

// ---- Earley's algorithm; only lists of `file` are empty ----

function read(program) {
  const {found, stopped} = lex(program), start = Object.keys(rules)[0], sets = [];
  const set = (i) => (sets[i] = sets[i] || {items: [], known: new Set(), waiting: new Map()});
  const put = (to, list, done, from, name) => {
    const key = `${name} ${lists[name].indexOf(list)} ${done} ${from}`;
    if (!to.known.has(key)) { to.known.add(key); to.items.push({list, done, from, name}); }
  };
  for (const list of lists[start]) put(set(0), list, 0, 0, start);
  for (let i = 0; i <= found.length; i++) {
    if (!sets[i]) return found[i - 1].at;
    for (const {list, done, from, name} of sets[i].items) {
      const next = list[done];
      if (next === undefined) {
        for (const w of sets[from].waiting.get(name) || []) put(sets[i], w.list, w.done + 1, w.from, w.name);
      } else if (lists[next]) {
        const waiting = sets[i].waiting;
        waiting.set(next, [...(waiting.get(next) || []), {list, done, from, name}]);
        for (const begun of lists[next]) put(sets[i], begun, 0, i, next);
      } else if (i < found.length && found[i].name === next) {
        put(set(i + 1), list, done + 1, from, name);
      }
    }
  }
  if (stopped >= 0) return stopped;
  const whole = sets[found.length].items.some((item) => item.name === start && item.done === item.list.length && !item.from);
  return whole ? -1 : program.length;
}

for (const path of process.argv.slice(3)) {
  const program = fs.readFileSync(path, 'utf8'), wrong = read(program);
  console.log(path, wrong < 0 ? 'fine' : `no: ${program.slice(0, wrong).split('\n').length}`);
}
