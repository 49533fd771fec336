// SPDX-License-Identifier: Apache-2.0
// The script is one function and one table in the shape of two functions with a `case` each:
//
//     _finetuned_flags VERB         its flags and keys
//     _finetuned_values VERB FLAG   what may follow: words, or one of %dir %file %none
#include "daemon/completion.h"

#include "base/options.h"
#include "daemon/verbs.h"
#include "data/source.h"

#include <ctype.h>

static const char completion_function[] =
    "_finetuned() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]-} values word\n"
    "    local -i at=$COMP_CWORD\n"
    "    COMPREPLY=()\n"
    "    # bash cuts words at = and : and hands us the pieces\n"
    "    if [[ $cur == : ]]; then cur=$prev:; prev=${COMP_WORDS[COMP_CWORD-2]}; at=COMP_CWORD-1\n"
    "    elif [[ $prev == : && COMP_CWORD -gt 2 ]]; then cur=${COMP_WORDS[COMP_CWORD-2]}:$cur; "
    "prev=${COMP_WORDS[COMP_CWORD-3]}; at=COMP_CWORD-2; fi\n"
    "    if [[ $cur == = ]]; then cur=\n"
    "    elif [[ $prev == = ]]; then prev=${COMP_WORDS[at-2]}; fi\n"
    "    local head=\n" // elsewhere, as in zsh, it comes whole
    "    if [[ $cur == --*=* ]]; then prev=${cur%%=*}; head=$prev=; cur=${cur#*=}; fi\n"
    "    if (( COMP_CWORD == 1 )); then\n"
    "        COMPREPLY=( $(compgen -W \"$_finetuned_verbs --help --version\" -- \"$cur\") )\n"
    "        return\n"
    "    fi\n"
    "    case \" $_finetuned_parts \" in *\" $verb:${COMP_WORDS[2]-} \"*) (( COMP_CWORD > 2 )) && "
    "verb=$verb:${COMP_WORDS[2]} ;; esac\n"
    "    values=$(_finetuned_values \"$verb\" \"$prev\")\n"
    "    if [[ -z $values && $cur == -* ]]; then\n"
    "        COMPREPLY=( $(compgen -W \"$(_finetuned_flags \"$verb\") --help\" -- \"$cur\") )\n"
    "        return\n"
    "    fi\n"
    "    [[ -n $values ]] || values=$(_finetuned_values \"$verb\" words)\n"
    "    local list=\n"
    "    case $values in *%list*) [[ $cur == *,* ]] && list=${cur%,*},; cur=${cur##*,} ;; esac\n"
    "    local -a plain=()\n"
    "    local IFS=$'\\n'\n" // a file's name may have blanks
    "    values=${values// /$IFS}\n"
    "    for word in $values; do\n"
    "        case $word in\n"
    "        %dir) compopt -o filenames 2> /dev/null; COMPREPLY+=( $(compgen -P \"$head\" -d -- \"$cur\") ) ;;\n"
    "        %file) compopt -o filenames 2> /dev/null; COMPREPLY+=( $(compgen -P \"$head\" -f -- \"$cur\") ) ;;\n"
    "        %job) compopt -o filenames 2> /dev/null\n"
    "            COMPREPLY+=( $(compgen -P \"$head\" -d -- \"$cur\") $(compgen -f -X '!*.y*ml' -- \"$cur\") ) ;;\n"
    "        %*) ;;\n"
    "        *) plain+=( \"$word\" ) ;;\n"
    "        esac\n"
    "    done\n"
    "    (( ${#plain[@]} )) && COMPREPLY+=( $(compgen -P \"$head$list\" -W \"${plain[*]}\" -- \"$cur\") )\n"
    "    # what stands before a : is on the line already\n"
    "    if [[ -z $head && $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then\n"
    "        local before=${cur%\"${cur##*:}\"} i\n"
    "        for i in \"${!COMPREPLY[@]}\"; do COMPREPLY[i]=${COMPREPLY[i]#\"$before\"}; done\n"
    "    fi\n"
    "}\n"
    "complete -F _finetuned finetuned\n";

// ---- values

// Whether `name` is one of the blank-separated words of `later`; "*" is not (the default is allowed).
static bool value_later(const char *later, const char *name) {
    size_t size = strlen(name);
    for (const char *at = later; at && *at; at += strcspn(at, " "), at += strspn(at, " "))
        if (strcspn(at, " ") == size && strncmp(at, name, size) == 0)
            return true;
    return false;
}

// Words that stand in a range for people: "auto, never, or a checkpoint's path" has auto and never.
static void values_of_range(struct text *out, const char *range) {
    for (const char *at = range; at && *at;) {
        size_t size = strcspn(at, ",");
        const char *word = strncmp(at, "or ", 3) == 0 ? at + 3 : at;
        size_t n = size - (size_t)(word - at);
        if (n && !memchr(word, ' ', n) && !memchr(word, '/', n))
            text_printf(out, " %.*s", (int)n, word);
        at += size;
        at += strspn(at, ", ");
    }
}

static void values_of_option(struct text *out, const struct option *option) {
    bool everything = option->later && strcmp(option->later, "*") == 0;
    for (size_t i = option->type == OPTION_CHOICE ? (size_t)option->least : 0; option->names && option->names[i]; i++)
        if (!value_later(option->later, option->names[i]) &&
            (!everything || strcmp(option->names[i], option->fallback) == 0))
            text_printf(out, " %s", option->names[i]);
    for (size_t i = 0; i < 2; i++)
        if (option->words[i].word && (!everything || strcmp(option->words[i].word, option->fallback) == 0))
            text_printf(out, " %s", option->words[i].word);
    if (option->type == OPTION_BOOL)
        text_puts(out, " true false");
    if (option->type == OPTION_TEXT && !everything)
        values_of_range(out, option->range);
    if (option->range && strstr(option->range, "path"))
        text_puts(out, " %dir");
    if (strcmp(option->key, "data.task") == 0)
        for (size_t i = 0; tweet_eval_tasks[i]; i++)
            text_printf(out, " %s", tweet_eval_tasks[i]);
}

static void values_of_flag(struct text *out, const struct flag *flag) {
    for (size_t i = 0; flag->choices && flag->choices[i]; i++)
        text_printf(out, " %s", flag->choices[i]);
    if (flag->choices)
        return;
    if (strcmp(flag->value, "DIR") == 0)
        text_puts(out, " %dir");
    else if (strcmp(flag->value, "FILE") == 0 || strcmp(flag->value, "PATH") == 0)
        text_puts(out, " %file");
    else if (strcmp(flag->value, "TASK") == 0)
        for (size_t i = 0; tweet_eval_tasks[i]; i++)
            text_printf(out, " %s", tweet_eval_tasks[i]);
    else if (strcmp(flag->value, "KIND") == 0)
        values_of_option(out, option_find("export.to"));
    else
        text_puts(out, " %none");
}

static void values_of_words(struct text *out, const struct verb_flags *spec) {
    if (spec->keys)
        text_puts(out, " %job");
    else if (spec->word_choices)
        for (size_t i = 0; spec->word_choices[i]; i++)
            text_printf(out, " %s", spec->word_choices[i]);
    else if (spec->words && strcmp(spec->words, "VERB") == 0)
        text_puts(out, " $_finetuned_verbs job");
    else if (spec->words && strcmp(spec->words, "TOPIC") == 0)
        text_puts(out, " $_finetuned_verbs ${_finetuned_keys//--/}");
    else if (spec->words && (strcmp(spec->words, "FILE") == 0 || strcmp(spec->words, "PATH") == 0))
        text_puts(out, " %file");
    for (const struct verb_flags *const *part = spec->parts; part && *part; part++)
        text_printf(out, " %s", (*part)->verb + strlen(spec->verb) + 1);
}

// ---- the table

// "bench gemm" as "bench:gemm".
static void verb_name(struct text *out, const char *name) {
    for (; *name; name++)
        text_printf(out, "%c", *name == ' ' ? ':' : *name);
}

static void value_case(struct text *out, const char *verb, const char *flag, const struct text *values) {
    text_puts(out, "    ");
    verb_name(out, verb);
    text_printf(out, "\" \"%s) echo \"%s\" ;;\n", flag,
                text_string(values) && values->size ? text_string(values) + 1 : "");
}

static void values_of_verb(struct text *out, const struct verb_flags *spec) {
    struct text values = {0};
    for (const struct flag *f = spec->flags; f->name; f++)
        if (f->kind != FLAG_SWITCH) {
            text_clear(&values);
            values_of_flag(&values, f);
            value_case(out, spec->verb, f->name, &values);
        }
    text_clear(&values);
    values_of_words(&values, spec);
    value_case(out, spec->verb, "words", &values);
    text_release(&values);
    for (const struct verb_flags *const *part = spec->parts; part && *part; part++)
        values_of_verb(out, *part);
}

// Every verb that takes a job knows the same keys.
static void values_of_keys(struct text *out) {
    struct text values = {0};
    text_puts(out, "    esac\n    case \" $_finetuned_keyed \" in *\" $1 \"*) ;; *) return ;; esac\n    case $2 in\n");
    for (size_t i = 0; i < options_count; i++) {
        text_clear(&values);
        if (options[i].type == OPTION_SET)
            text_puts(&values, " %list");
        values_of_option(&values, &options[i]);
        text_printf(out, "    --%s) echo \"%s\" ;;\n", options[i].key,
                    values.size ? text_string(&values) + 1 : "%none");
    }
    text_release(&values);
}

static void flags_of_verb(struct text *out, const struct verb_flags *spec) {
    text_puts(out, "    ");
    verb_name(out, spec->verb);
    text_puts(out, ") echo \"");
    for (const struct flag *f = spec->flags; f->name; f++)
        text_printf(out, "%s%s", f == spec->flags ? "" : " ", f->name);
    text_printf(out, "%s\" ;;\n", spec->keys ? " $_finetuned_keys" : "");
    for (const struct verb_flags *const *part = spec->parts; part && *part; part++)
        flags_of_verb(out, *part);
}

static void completion_names(struct text *out) {
    text_puts(out, "_finetuned_verbs=\"");
    for (size_t i = 0; i < verbs_count; i++)
        text_printf(out, "%s%s", i ? " " : "", verbs[i].name);
    text_puts(out, "\"\n_finetuned_parts=\"");
    for (size_t i = 0; i < verbs_count; i++)
        for (const struct verb_flags *const *part = verbs[i].flags->parts; part && *part; part++) {
            verb_name(out, (*part)->verb);
            text_puts(out, " ");
        }
    text_puts(out, "\"\n_finetuned_keyed=\"");
    for (size_t i = 0; i < verbs_count; i++) {
        if (verbs[i].flags->keys)
            text_printf(out, "%s ", verbs[i].name);
        for (const struct verb_flags *const *part = verbs[i].flags->parts; part && *part; part++)
            if ((*part)->keys) {
                verb_name(out, (*part)->verb);
                text_puts(out, " ");
            }
    }
    text_puts(out, "\"\n_finetuned_keys=\"");
    for (size_t i = 0; i < options_count; i++)
        text_printf(out, "%s--%s", i ? " " : "", options[i].key);
    text_puts(out, "\"\n");
}

void completion_bash(struct text *out, bool zsh) {
    text_puts(out, zsh ? "# Completion of finetuned " FINETUNED_VERSION " for zsh: source <(finetuned completion zsh)\n"
                         "whence compdef > /dev/null || { autoload -U compinit && compinit; }\n"
                         "autoload -U bashcompinit && bashcompinit\n"
                       : "# Completion of finetuned " FINETUNED_VERSION
                         " for bash: source <(finetuned completion bash)\n");
    completion_names(out);
    text_puts(out, "_finetuned_flags() {\n    case $1 in\n");
    for (size_t i = 0; i < verbs_count; i++)
        flags_of_verb(out, verbs[i].flags);
    text_puts(out, "    esac\n}\n_finetuned_values() {\n    case \"$1 $2\" in\n");
    for (size_t i = 0; i < verbs_count; i++)
        values_of_verb(out, verbs[i].flags);
    values_of_keys(out);
    text_puts(out, "    esac\n}\n");
    text_puts(out, completion_function);
}
