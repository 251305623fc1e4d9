# SPDX-License-Identifier: MIT
# Promise: The shells' completions offer exactly the verbs, options and words that the command has.
# The completions of bash, zsh and fish are compared with the command's help texts, which do not come from the same
# generator.

load ../helpers/command

setup() {
    ns_setup
    DIR=$PWD/build/completions
    VERBS=$("$NS" help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
    [[ $(wc -l <<<"$VERBS") -ge 6 ]]
}

# Prints the words that the command's message offers instead of a wrong one: "must be A, B or C", "followed by A, B or C".
told() {
    { "$NS" "$@" nothing-like-that 2>&1 || true; } | sed -nE 's/.*(must be|followed by) ([a-z, ]*)[,;].*/\2/p' |
        sed 's/, \| or /\n/g' | sort
}

# Prints the options in a verb's help, in both spellings.
options_of() {
    "$NS" "$1" --help | sed -n '/^options:/,/^$/p' | grep -oE '^  (-[a-z], )?--[-a-z]+' | tr -d ' ' | tr ',' '\n' | sort
}

# Prints the words that an option takes, if its help lists them.
words_of() {
    "$NS" "$1" --help | sed -n "/^  $2 /{n;p}" | tr -d ' ' | tr ',' '\n' | sort
}

# same WHAT EXPECTED OFFERED
same() {
    echo "of $1:"
    [[ -n $2 ]]
    diff <(printf '%s\n' "$2") <(printf '%s\n' "$3")
}

# bash_offers WORD...: prints what bash offers for the last of these words.
bash_offers() {
    COMP_WORDS=(nagleshim "$@")
    COMP_CWORD=$#
    COMPREPLY=()
    _nagleshim
    printf '%s\n' "${COMPREPLY[@]}" | sort
}

@test "bash offers the verbs, and each verb's options" {
    local verb
    source "$DIR/nagleshim"
    [[ $(complete -p nagleshim) == *"-F _nagleshim"* ]]
    same verbs "$(sort <<<"$VERBS")" "$(bash_offers '')"
    same 'the options of the command' $'--help\n--version' "$(bash_offers -)"
    same 'the verbs that begin with c' $'check\ncompare\ncure' "$(bash_offers c)"
    for verb in $VERBS; do
        same "$verb" "$(options_of "$verb")" "$(bash_offers "$verb" -)"
    done
    same 'options behind others' --max-delay-us "$(bash_offers run --send app --m)"
}

@test "bash offers the words that an option takes, files and programs" {
    source "$DIR/nagleshim"
    local option
    for option in --send --ack --log; do
        same "$option" "$(words_of run "$option")" "$(bash_offers run "$option" '')"
        same "$option=" "$(words_of run "$option")" "$(bash_offers run "$option" =)"
        same "$option=" "$(words_of run "$option")" "$(bash_offers run "$option" = '')"
    done
    same --role "$(words_of explain --role)" "$(bash_offers explain --role '')"
    same help "$(sort <<<"$VERBS")" "$(bash_offers help '')"
    [[ -z $(bash_offers help run '') ]]
    same host "$(told host)" "$(bash_offers host '')"
    [[ -z $(bash_offers host status '') && $(bash_offers host status --j) == --json ]]
    for option in --fail-on --experiment; do
        same "$option" "$(told diagnose "$option")" "$(bash_offers diagnose "$option" '')"
    done
    touch "$T/policy.json"
    # compopt works only in a real completion
    compopt() { :; }
    same check "$T/policy.json" "$(bash_offers check "$T/policy")"
    same --policy "$T/policy.json" "$(bash_offers run --policy "$T/policy")"
    same -p "$T/policy.json" "$(bash_offers run -p "$T/policy")"
    same --json= "$T/policy.json" "$(bash_offers check --json = "$T/policy")"
    [[ $(bash_offers run --log info prin) == *printenv* && $(bash_offers doctor --json prin) == *printenv* ]]
    # The words after the program are its own.
    _command_offset() { COMPREPLY=("offset $1"); }
    same program 'offset 2' "$(bash_offers run printenv --)"
    same program 'offset 5' "$(bash_offers run --log info -- printenv -)"
    same program 'offset 5' "$(bash_offers diagnose --json = o.json printenv -)"
    same program 'offset 6' "$(bash_offers run --log = info --ack=app printenv '' -)"
}

@test "zsh offers the verbs, and each verb's options" {
    local verb
    type -P zsh >/dev/null || cannot_here "no zsh"
    zsh -n "$DIR/_nagleshim"
    # zsh's own functions need a terminal; these print their arguments.
    cat >"$T/stubs" <<'STUBS'
_describe() {
    local list=$argv[-1] row
    for row in "${(@P)list}"; do print -r -- "${row%%:*}"; done
}
_arguments() {
    local spec
    for spec in "$@"; do
        spec=${spec#\(-*\)} # what it excludes
        [[ $spec == -[-a-z]* && $spec != -S ]] && print -r -- "${spec%%[=\[]*}"
    done
    return 0
}
STUBS
    zsh_offers() {
        zsh -f -c 'source $1; words=(nagleshim "${@[3,-1]}"); CURRENT=$#words; source $2' \
            zsh "$T/stubs" "$DIR/_nagleshim" "$@" | sort
    }
    same verbs "$(sort <<<"$VERBS")" "$(zsh_offers '')"
    same 'the options of the command' $'--help\n--version' "$(zsh_offers -)"
    for verb in $VERBS; do
        same "$verb" "$(options_of "$verb")" "$(zsh_offers "$verb" -)"
    done
}

@test "fish offers the verbs, each verb's options, and the words that an option takes" {
    local verb option
    type -P fish >/dev/null || cannot_here "no fish"
    fish -n "$DIR/nagleshim.fish"
    fish_offers() {
        HOME=$T fish --no-config -c "source $DIR/nagleshim.fish; complete -C '$1'" | cut -f1 | sort
    }
    same verbs "$(sort <<<"$VERBS")" "$(fish_offers 'nagleshim ')"
    same 'the options of the command' $'--help\n--version' "$(fish_offers 'nagleshim --')"
    same help "$(sort <<<"$VERBS")" "$(fish_offers 'nagleshim help ')"
    same host "$(told host)" "$(fish_offers 'nagleshim host ')"
    [[ -z $(fish_offers 'nagleshim host status ') ]]
    for option in --fail-on --experiment; do
        same "$option" "$(told diagnose "$option")" "$(fish_offers "nagleshim diagnose $option ")"
    done
    for verb in $VERBS; do
        same "$verb" "$(options_of "$verb" | grep -- --)" "$(fish_offers "nagleshim $verb --")"
    done
    same letters $'-h\n-p' "$(fish_offers 'nagleshim run -' | grep -v -- --)"
    for option in --send --ack --log; do
        same "$option" "$(words_of run "$option")" "$(fish_offers "nagleshim run $option ")"
    done
}
