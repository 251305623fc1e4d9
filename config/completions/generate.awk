# SPDX-License-Identifier: MIT
# Writes the completion of one shell (-v shell=bash, zsh or fish) from the preprocessed verbs.in. It contains no verb
# and no option; these are rows of shim/cli/verbs.def.

{ all = all $0 " " }

# A record has unquoted words and then strings in double quotes. The words go to word[], the strings to text[].
function take(record, parts, n, i) {
    delete word
    delete text
    n = split(record, parts, "\"")
    n_words = split(parts[1], word, " ")
    for (i = 2; i <= n; i += 2)
        text[i / 2] = parts[i]
}

# The words: "option", the verbs that have it, its letter, and the kind of its value.
function take_option(j, v, i) {
    for (j = 2; j <= n_words - 2; j++) {
        v = word[j]
        i = ++n_options[v]
        letter[v, i] = word[n_words - 1] == "0" ? "" : substr(word[n_words - 1], 2, 1)
        kind[v, i] = word[n_words]
        name[v, i] = text[1]
        value[v, i] = text[2]
        about[v, i] = text[3]
        sub(/:$/, "", about[v, i])
    }
}

# Quotes the text in single quotes for this shell.
function quote(s) {
    if (shell == "fish")
        gsub(/'/, "\\'", s)
    else
        gsub(/'/, "'\\''", s)
    return "'" s "'"
}

# Does the option need a value?
function is_valued(v, i) {
    return kind[v, i] != "NOTHING" && kind[v, i] != "RESULT"
}

# "-p --policy", or with another separator
function spelled(v, i, between) {
    return (letter[v, i] ? "-" letter[v, i] between : "") "--" name[v, i]
}

function bash_values(k) {
    if (k in words)
        return "values='" words[k] "'"
    if (k == "FILE" || k == "FILES" || k == "RESULT")
        return "action=file"
    if (k == "PROGRAM")
        return "action=command"
    return "action=nothing"
}

function bash(v, i, j, options, valued, done) {
    print "# bash completion of nagleshim, generated from its table of verbs and options\n"
    print "_nagleshim() {"
    print "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]-}"
    print "    local options= valued= values= action= program= i"
    print "    COMPREPLY=()"
    print "    # bash parts --option=value at the sign"
    print "    [[ $before != = ]] || before=${COMP_WORDS[COMP_CWORD - 2]}="
    print "    [[ $word != = ]] || { before+='=' && word=; }"
    print "    case $verb in"
    for (j = 1; j <= n_verbs; j++) {
        v = verbs[j]
        options = valued = ""
        for (i = 1; i <= n_options[v]; i++) {
            options = options (options ? " " : "") spelled(v, i, " ")
            if (is_valued(v, i))
                valued = valued " " spelled(v, i, " ")
        }
        print "    " v ") options='" options "' valued='" valued " ' ;;"
    }
    print "    esac"
    print "    case \"$verb $before\" in"
    for (j = 1; j <= n_verbs; j++) {
        v = verbs[j]
        for (i = 1; i <= n_options[v]; i++)
            if (kind[v, i] != "NOTHING")
                print "    " (is_valued(v, i) ? "'" v " " spelled(v, i, "' | '" v " ") "' | " : "") "'" v " --" name[v, i] \
                    "=') " bash_values(kind[v, i]) " ;;"
    }
    print "    esac"
    print "    if ((COMP_CWORD == 1)); then"
    print "        action= values='" all_verbs "'"
    print "        [[ $word != -* ]] || values='--help --version'"
    print "    elif [[ -z $action$values ]]; then"
    print "        case $verb in"
    for (j = 1; j <= n_verbs; j++) {
        v = verbs[j]
        # A word of a list directly follows the verb.
        print "        " v ") " (operands[v] in words ? "((COMP_CWORD > 2)) && action=nothing || " : "") \
            bash_values(operands[v]) " ;;"
    }
    print "        *) return ;;"
    print "        esac"
    print "        # A program's own words: from the first one on that is neither an option nor its value."
    print "        for ((i = 2; i < COMP_CWORD; i++)); do"
    print "            [[ $action == command && ${COMP_WORDS[i]} != = ]] || continue"
    print "            if [[ ${COMP_WORDS[i]} == -- ]]; then"
    print "                program=$((i + 1))"
    print "                break"
    print "            elif [[ ${COMP_WORDS[i]} != -* ]]; then"
    print "                program=$i"
    print "                break"
    print "            elif [[ ${COMP_WORDS[i + 1]} == = ]]; then"
    print "                ((i += 2))"
    print "            elif [[ $valued == *\" ${COMP_WORDS[i]} \"* ]]; then"
    print "                ((++i))"
    print "            fi"
    print "        done"
    print "        if [[ -n $program ]] && ((program < COMP_CWORD)); then"
    print "            action=file"
    print "            if declare -F _command_offset >/dev/null; then"
    print "                _command_offset \"$program\""
    print "                return"
    print "            fi"
    print "        elif [[ -z $program && $word == -* ]]; then"
    print "            action= values=$options"
    print "        fi"
    print "    fi"
    print "    case $action in"
    print "    file) compopt -o filenames 2>/dev/null && mapfile -t COMPREPLY < <(compgen -f -- \"$word\") ;;"
    print "    command) mapfile -t COMPREPLY < <(compgen -c -- \"$word\") ;;"
    print "    '') mapfile -t COMPREPLY < <(compgen -W \"$values\" -- \"$word\") ;;"
    print "    esac"
    print "}"
    print "complete -F _nagleshim nagleshim"
}

function zsh_action(k) {
    if (k in words)
        return "(" words[k] ")"
    if (k == "FILE" || k == "FILES" || k == "RESULT")
        return "_files"
    if (k == "PID")
        return "_pids"
    return " "
}

function zsh(v, i, j, described, spec) {
    print "#compdef nagleshim"
    print "# zsh completion of nagleshim, generated from its table of verbs and options\n"
    print "_nagleshim() {"
    print "    local -a verbs=("
    for (j = 1; j <= n_verbs; j++)
        print "        " quote(verbs[j] ":" summary[verbs[j]])
    print "    )"
    print "    local verb=$words[2]"
    print "    if ((CURRENT == 2)) && [[ $words[2] == -* ]]; then"
    print "        _arguments '--help[print what it does]' '--version[print the version]'"
    print "        return"
    print "    elif ((CURRENT == 2)); then"
    print "        _describe -t commands command verbs"
    print "        return"
    print "    fi"
    print "    shift words"
    print "    ((CURRENT--))"
    print "    case $verb in"
    for (j = 1; j <= n_verbs; j++) {
        v = verbs[j]
        print "    " v ")"
        spec = "        _arguments -S"
        for (i = 1; i <= n_options[v]; i++) {
            described = "[" about[v, i] "]"
            if (kind[v, i] != "NOTHING")
                described = described (kind[v, i] == "RESULT" ? ":" : "") ":" value[v, i] ":" zsh_action(kind[v, i])
            sub(/ADDR:PORT/, "ADDR\\:PORT", described)
            if (letter[v, i])
                spec = spec " \\\n            '(-" letter[v, i] " --" name[v, i] ")-" letter[v, i] quote(described) \
                    " \\\n            '(-" letter[v, i] " --" name[v, i] ")--" name[v, i] "=" quote(described)
            else
                spec = spec " \\\n            '--" name[v, i] (kind[v, i] == "NOTHING" ? "" : kind[v, i] == "RESULT" ? "=-" : "=") quote(described)
        }
        gsub(/'\[/, "[", spec) # the name has opened the quote already
        if (operands[v] == "PROGRAM")
            spec = spec " \\\n            '(-)1:program:_command_names -e' '*::argument:_normal'"
        else if (operands[v] == "FILES")
            spec = spec " \\\n            '*:file:_files'"
        else if (operands[v] in words)
            spec = spec " \\\n            '1:word:(" words[operands[v]] ")'"
        print spec "\n        ;;"
    }
    print "    esac"
    print "}"
    print "_nagleshim \"$@\""
}

function fish_action(k) {
    if (k in words)
        return " -x -a " quote(words[k])
    if (k == "FILE")
        return " -r -F"
    if (k == "PID")
        return " -x -a '(__fish_complete_pids)'"
    return k == "NOTHING" || k == "RESULT" ? "" : " -x"
}

function fish(v, i, j) {
    print "# fish completion of nagleshim, generated from its table of verbs and options\n"
    print "function __nagleshim_has_no_verb"
    print "    test (count (commandline -opc)) -eq 1"
    print "end\n"
    print "function __nagleshim_verb"
    print "    set -l words (commandline -opc)"
    print "    test (count $words) -ge 2; and test $words[2] = $argv[1]"
    print "end\n"
    print "function __nagleshim_behind"
    print "    test (count (commandline -opc)) -eq 2; and __nagleshim_verb $argv[1]"
    print "end\n"
    print "complete -c nagleshim -f"
    print "complete -c nagleshim -n __nagleshim_has_no_verb -l help -d 'print what it does'"
    print "complete -c nagleshim -n __nagleshim_has_no_verb -l version -d 'print the version'"
    for (j = 1; j <= n_verbs; j++) {
        v = verbs[j]
        print "complete -c nagleshim -n __nagleshim_has_no_verb -a " v " -d " quote(summary[v])
        for (i = 1; i <= n_options[v]; i++)
            print "complete -c nagleshim -n '__nagleshim_verb " v "'" (letter[v, i] ? " -s " letter[v, i] : "") \
                " -l " name[v, i] fish_action(kind[v, i]) " -d " quote(about[v, i])
        if (operands[v] == "PROGRAM")
            print "complete -c nagleshim -n '__nagleshim_verb " v "' -x -a '(__fish_complete_subcommand --fcs-skip=2)'"
        else if (operands[v] == "FILES")
            print "complete -c nagleshim -n '__nagleshim_verb " v "' -F"
        else if (operands[v] in words)
            print "complete -c nagleshim -n '__nagleshim_behind " v "' -a " quote(words[operands[v]])
    }
}

END {
    n_records = split(all, records, ";;")
    for (r = 1; r <= n_records; r++) {
        take(records[r])
        if (word[1] == "verb") {
            verbs[++n_verbs] = word[2]
            operands[word[2]] = word[3]
            summary[word[2]] = text[1]
            all_verbs = all_verbs (n_verbs > 1 ? " " : "") word[2]
        } else if (word[1] == "option") {
            take_option()
        } else if (word[1] == "word") {
            words[word[2]] = words[word[2]] (words[word[2]] ? " " : "") text[1]
        }
    }
    if (n_verbs == 0) {
        print "generate.awk: no verb in the table" > "/dev/stderr"
        exit 1
    }
    if (shell == "bash")
        bash()
    else if (shell == "zsh")
        zsh()
    else
        fish()
}
