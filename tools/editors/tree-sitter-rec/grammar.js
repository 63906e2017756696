// The grammar of .rec files for tree-sitter: rule by rule that of compiler/syntax/parser.y, which is LALR(1) without a conflict.
// Newlines mean nothing: a statement starts with a reserved word or a name, and an expression never continues with one.

const list = (rule) => seq(rule, repeat(seq(',', rule)));
const trailing = (rule) => seq(list(rule), optional(','));
const binary = ($, left, operator, right) => seq(field('left', left), field('operator', operator), field('right', right));

module.exports = grammar({
  name: 'rec',
  word: ($) => $.name,
  extras: ($) => [/\s/, /\uFEFF/, $.comment, $.doc_comment],
  supertypes: ($) => [$._item, $._statement],

  rules: {
    file: ($) => repeat($._item),

    comment: () => token(seq('//', /[^\n]*/)),
    doc_comment: () => token(prec(1, seq('///', optional(/[^\/\n][^\n]*/)))),

    // ---- items ----
    _item: ($) => choice($.recurrence, $.layer, $.model, $.import, $.function, $.init, $.train, $.evaluate),
    recurrence: ($) => seq('recurrence', field('name', $.name), optional($.header), $.body),
    layer: ($) => seq('layer', field('name', $.name), optional($.header), $.body),
    model: ($) => seq('model', field('name', $.name), optional($.header), $.body),
    import: ($) => seq('import', choice($.string, $.path)),
    function: ($) =>
      seq('fn', field('name', $.name), optional($.axes), '(', field('parameters', alias($._names_with_comma, $.parameters)), ')', '=',
        field('value', $._expression)),
    init: ($) =>
      seq('init', field('name', $.name), optional($.header), 'for', field('target', $.name), '{', repeat($.init_entry), '}'),
    train: ($) => seq('train', field('name', $.name), optional($._after), '{', repeat($.setting), '}'),
    evaluate: ($) => seq('evaluate', field('name', $.name), optional($._after), '{', repeat($.task), '}'),
    _after: ($) => seq('after', field('after', $.name)),
    _names_with_comma: ($) => trailing($.name),

    header: ($) => seq('(', optional(trailing($.header_axis)), ')'),
    header_axis: ($) => seq(field('name', $.name), optional(seq('=', field('value', $._expression)))),
    body: ($) => seq('{', repeat($._statement), '}'),

    // ---- statements ----
    _statement: ($) => choice($.input, $.param, $.state, $.output, $.let, $.assignment),
    input: ($) => seq('input', list($.declaration)),
    state: ($) => seq('state', list(alias($.started_declaration, $.declaration))),
    param: ($) => seq('param', list(alias($.started_declaration, $.declaration))),
    output: ($) => seq('output', list(alias($.output_declaration, $.declaration))),
    declaration: ($) => seq(field('name', $.name), optional($.axes), repeat(choice($.type, $.promise))),
    started_declaration: ($) =>
      seq(field('name', $.name), optional($.axes), repeat(choice($.type, $.promise)),
        optional(seq('~', field('start', $._expression), repeat(choice($.type, $.promise))))),
    output_declaration: ($) =>
      seq(field('name', $.name), optional($.axes), repeat(choice($.type, $.promise)),
        optional(seq('=', field('value', $._expression)))),
    type: ($) => seq(':', $.name),
    promise: ($) => seq('in', '[', $._expression, ',', $._expression, ']'),
    let: ($) => seq('let', choice($.binding, seq('(', trailing($.binding), ')')), '=', field('value', $._expression)),
    binding: ($) => seq(field('name', $.name), optional($.axes)),
    assignment: ($) => seq(field('name', $.name), '=', field('value', $._expression)),
    axes: ($) => seq('[', list($.name), ']'),

    // ---- init, train, evaluate ----
    init_entry: ($) => seq(field('weight', $.path), '~', field('start', $._expression)),
    setting: ($) =>
      seq(field('name', alias(choice($.name, 'model', 'init'), $.setting_name)), field('value', choice($._expression, $.mix, $.entries))),
    entries: ($) => seq('{', $.entry, repeat(seq(optional(','), $.entry)), '}'),
    entry: ($) =>
      choice(seq($._edge, '..', $._edge, ':', $._kind), seq(alias($._plain_call, $.call), ':', $._kind), $._kind),
    _edge: ($) => choice($.name, $.integer, $.float, $.percent),
    _kind: ($) => choice($.name, alias($._plain_call, $.call), $.mix),
    _plain_call: ($) => seq(field('function', $.name), $.arguments),
    mix: ($) => seq(field('name', $.name), '{', trailing($.mix_entry), '}'),
    mix_entry: ($) => seq(field('weight', $._expression), ':', field('kind', $._kind)),
    task: ($) => seq(field('name', $.name), optional($.arguments)),

    // ---- expressions; comparisons do not chain, `^` binds tighter than the minus before it ----
    _expression: ($) => choice($._sum, alias($.comparison, $.binary_expression)),
    comparison: ($) => binary($, $._sum, choice('<', '<=', '>', '>=', '=='), $._sum),
    _sum: ($) => choice($._product, alias($.sum, $.binary_expression)),
    sum: ($) => binary($, $._sum, choice('+', '-'), $._product),
    _product: ($) => choice($._unary, alias($.product, $.binary_expression)),
    product: ($) => binary($, $._product, choice('*', '/'), $._unary),
    _unary: ($) => choice($._power, $.negation),
    negation: ($) => seq('-', $._unary),
    _power: ($) => choice($._primary, alias($.power, $.binary_expression)),
    power: ($) => binary($, $._primary, '^', $._unary),
    _primary: ($) => choice($.name, $._form),
    _form: ($) =>
      choice($.call, $.indexed, $.lag, $.slice, $.rename, alias($.path_expression, $.path), $.integer, $.float, $.percent, $.string,
        $.parenthesized, $.tuple, $.repeat),
    call: ($) => seq(field('function', $.name), optional($.axes), $.arguments),
    indexed: ($) => seq(field('name', $.name), $.axes),
    lag: ($) => seq(field('name', $.name), '[', alias($.name, $.time), '-', $.integer, ']'),
    slice: ($) => seq(choice($.name, $._form), '[', list($.slice_binding), ']'),
    slice_binding: ($) => seq(field('axis', $.name), '=', $._expression),
    rename: ($) => seq(choice($.name, $._form), '{', list($.renaming), '}'),
    renaming: ($) => seq(field('from', $.name), '->', field('to', $.name)),
    path_expression: ($) => seq($.name, '.', $._steps),
    parenthesized: ($) => seq('(', $._expression, ')'),
    tuple: ($) => seq('(', $._expression, ',', trailing($._expression), ')'),
    repeat: ($) =>
      seq('repeat', field('count', choice($.name, $.integer, $.parenthesized)), '(', list($.carried), ')', '{',
        choice($._expression, repeat1(choice($.let, $.assignment))), '}'),
    carried: ($) => seq(field('name', $.name), '=', field('value', $._expression)),
    arguments: ($) => seq('(', optional(trailing($._argument)), ')'),
    _argument: ($) => choice($._expression, $.named_argument, $.arrow, $.range),
    named_argument: ($) => seq(field('name', $.name), '=', field('value', choice($._expression, $.axis_list))),
    axis_list: ($) => seq('[', optional(list($.name)), ']'),
    arrow: ($) => seq($._expression, '->', $._expression),
    range: ($) => seq($._expression, '..', $._expression),

    // ---- paths and tokens; behind a point every word is a name ----
    path: ($) => seq($.name, optional(seq('.', $._steps))),
    _steps: ($) => seq($._step, repeat(seq('.', $._step))),
    _step: ($) =>
      choice($.name, $.integer,
        alias(choice('recurrence', 'fn', 'layer', 'model', 'init', 'train', 'evaluate', 'import', 'input', 'param', 'state', 'output',
          'let', 'repeat', 'in', 'for', 'after'), $.name)),
    name: () => /[A-Za-z_][A-Za-z_0-9]*/,
    integer: () => /[0-9]+/,
    float: () => token(choice(/[0-9]+\.[0-9]+([eE][+-]?[0-9]+)?/, /[0-9]+[eE][+-]?[0-9]+/)),
    percent: () => token(/[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?%/),
    string: () => token(seq('"', /([^"\\\n]|\\[^\n])*/, '"')),
  },
});
