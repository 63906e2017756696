; tools/update-editors writes the lists of words.

(comment) @comment
(doc_comment) @comment.documentation
(string) @string
[(integer) (float) (percent)] @number

["recurrence" "layer" "model" "fn" "import" "init" "train" "evaluate"] @keyword
["input" "param" "state" "output" "let" "repeat" "in" "for" "after"] @keyword
["+" "-" "*" "/" "^" "<" "<=" ">" ">=" "==" "=" "~" "->" ".."] @operator
["(" ")" "[" "]" "{" "}"] @punctuation.bracket
["," ":" "."] @punctuation.delimiter

(recurrence name: (name) @function)
(function name: (name) @function)
(layer name: (name) @type)
(model name: (name) @type)
(init name: (name) @function target: (name) @type)
(train name: (name) @label)
(evaluate name: (name) @label)

(header_axis name: (name) @constant)
(axes (name) @constant)
(slice_binding axis: (name) @constant)
(renaming (name) @constant)
(declaration name: (name) @variable)
(binding name: (name) @variable)
(time) @variable.builtin
(type (name) @type.builtin (#eq? @type.builtin "complex"))
(named_argument name: (name) @property)
(setting name: (setting_name) @property)

(call function: (name) @function.call)
(call function: (name) @function.builtin
  (#any-of? @function.builtin
    "exp" "expm1" "log" "log1p" "sqrt" "rsqrt" "abs" "sigmoid" "log_sigmoid" "softplus" "silu" "gelu" "relu" "tanh" "sin" "cos"
    "min" "max" "clamp" "where" "stop_gradient" "complex" "polar" "re" "im" "conj" "sum" "mean" "norm" "normalize" "softmax" "index"
    "fold" "uniform" "loguniform" "normal" "inv_softplus" "legs_imag" "legs_input" "linear" "conv1d" "rms_norm" "embed" "unembed"))
(indexed name: (name) @function.builtin (#any-of? @function.builtin "index" "legs_imag" "legs_input"))
((name) @constant.builtin (#any-of? @constant.builtin "pi" "identity" "layers"))

; Words of settings have a meaning there alone.
(setting value: (name) @function.builtin)
(setting value: (call function: (name) @function.builtin
  (#any-of? @function.builtin
    "adamw" "muon" "cosine" "linear" "constant" "warmup_stable_decay" "cross_entropy" "text" "tokens" "copying" "stack_copying"
    "sorting" "selective_copying" "mqar" "passkey" "babi" "zero" "state_passing" "random_noise" "fitted_noise" "learned" "tbtt")))
(entry (name) @function.builtin)
(mix name: (name) @keyword (#eq? @keyword "mix"))
(call function: (name) @keyword (#eq? @keyword "ramp"))
(task name: (name) @function.builtin
  (#any-of? @function.builtin
    "perplexity" "state_norm" "remembrance" "attention" "overflow" "accuracy" "initial_state"))
(setting name: (setting_name) @keyword
  (#any-of? @keyword
    "model" "init" "data" "context" "batch" "steps" "seed" "optimizer" "schedule" "accumulate" "segments" "exchange" "loss"
    "initial_state"))
(named_argument value: (name) @constant.builtin
  (#any-of? @constant.builtin
    "on" "off" "bytes" "chars" "by_content" "raw" "llmc" "megatron" "npy" "shuffled" "streaming" "joined" "apart" "total_variation"
    "jensen_shannon" "cosine" "embedding" "convolution" "answers" "all"))
