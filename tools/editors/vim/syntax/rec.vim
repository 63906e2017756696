" tools/update-editors writes the lists of words.
if exists('b:current_syntax')
  finish
endif

syntax keyword recItem recurrence layer model fn import init
syntax keyword recStatement input param state output let repeat in for after
syntax keyword recType complex
syntax keyword recFunction exp expm1 log log1p sqrt rsqrt abs sigmoid log_sigmoid softplus silu gelu relu tanh sin cos min max clamp
syntax keyword recFunction where stop_gradient polar re im conj sum mean norm normalize softmax index fold
syntax keyword recStart uniform loguniform normal inv_softplus identity legs_imag legs_input layers
syntax keyword recPart linear conv1d rms_norm embed unembed
syntax keyword recConstant pi

" Words of settings have a meaning inside of blocks alone.
syntax keyword recSetting contained model init data context batch steps seed optimizer schedule accumulate segments exchange loss
syntax keyword recSetting contained initial_state
syntax keyword recChoice contained adamw muon cosine linear constant warmup_stable_decay cross_entropy text tokens copying
syntax keyword recChoice contained stack_copying sorting selective_copying mqar passkey babi zero state_passing random_noise
syntax keyword recChoice contained fitted_noise learned tbtt mix ramp layers
syntax keyword recTask contained perplexity state_norm remembrance attention overflow accuracy initial_state
syntax keyword recValue contained on off bytes chars by_content raw llmc megatron npy shuffled streaming joined apart
syntax keyword recValue contained total_variation jensen_shannon embedding convolution answers all
syntax match recBlockWord contained /\<\(train\|evaluate\)\>\|\<after\>/
syntax region recBlock matchgroup=recItem start=/^\s*\<\(train\|evaluate\)\>/ end=/^}\|}\s*$/ contains=recSetting,recChoice,recTask,recValue,recNumber,recString,recComment,recDoc,recInner,recBlockWord
syntax region recInner contained matchgroup=Delimiter start=/{/ end=/}/ contains=recSetting,recChoice,recTask,recValue,recNumber,recString,recComment,recDoc,recInner

syntax match recNumber /\<\d\+\(\.\d\+\)\?\([eE][+-]\?\d\+\)\?%\?/
syntax region recString start=/"/ skip=/\\./ end=/"/ oneline
syntax match recComment /\/\/.*/ contains=@Spell
syntax match recDoc /^\s*\/\/\/\([^/].*\)\?$/ contains=@Spell
syntax match recOperator /[-+*^<>=~]\|\.\./
syntax match recLag /\[t\s*-\s*\d\+\]/

syntax sync fromstart

highlight default link recItem Keyword
highlight default link recBlockWord Keyword
highlight default link recStatement Statement
highlight default link recType Type
highlight default link recFunction Function
highlight default link recStart Function
highlight default link recPart Function
highlight default link recConstant Constant
highlight default link recSetting Statement
highlight default link recChoice Function
highlight default link recTask Function
highlight default link recValue Constant
highlight default link recNumber Number
highlight default link recString String
highlight default link recComment Comment
highlight default link recDoc SpecialComment
highlight default link recOperator Operator
highlight default link recLag Special

let b:current_syntax = 'rec'
