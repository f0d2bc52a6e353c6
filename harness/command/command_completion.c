// Command: `longbp completion SHELL`, a script with which a shell asks `longbp --complete WORD...` for completions.
// Shells replace only the part of a word after its last "=", if they end words there. A line without a tab stands
// for files (":file") or folders (":folder").
#include "harness/options/arguments.h"
#include "harness/options/command.h"
#include <string.h>

static const char bash[] =
    "# Completion of longbp's commands, options and what they take, for bash; made by `longbp completion bash`.\n"
    "_longbp() {\n"
    "    local words=() word line replaced=\n"
    "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD}\"; do\n"
    "        if [[ ${#words[@]} -gt 0 && ($word == [=:]* || ${words[-1]} == *[=:]) ]]; then\n"
    "            words[-1]+=$word # bash takes --out=FILE apart\n"
    "        else\n"
    "            words+=(\"$word\")\n"
    "        fi\n"
    "    done\n"
    "    word=${words[-1]}\n"
    "    [[ $word != *[=:]* || $COMP_WORDBREAKS != *=* ]] || replaced=${word%\"${word##*[=:]}\"}\n"
    "    COMPREPLY=()\n"
    "    while IFS= read -r line; do\n"
    "        case $line in\n"
    "        :file) compopt -o filenames 2>/dev/null; mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -f "
    "-- \"${word##*[=:]}\") ;;\n"
    "        :folder) compopt -o filenames 2>/dev/null; mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen "
    "-d -- \"${word##*[=:]}\") ;;\n"
    "        *)\n"
    "            line=${line%%$'\\t'*}\n"
    "            COMPREPLY+=(\"${line#\"$replaced\"}\")\n"
    "            [[ $line != *= ]] || compopt -o nospace 2>/dev/null\n"
    "            ;;\n"
    "        esac\n"
    "    done < <(\"${COMP_WORDS[0]}\" --complete \"${words[@]}\" 2>/dev/null)\n"
    "}\n"
    "complete -F _longbp longbp\n";

static const char zsh[] =
    "#compdef longbp\n"
    "# Completion of longbp's commands, options and what they take, for zsh; made by `longbp completion zsh`.\n"
    "_longbp() {\n"
    "    local line replaced= word=${words[CURRENT]}\n"
    "    local -a found open_ended\n"
    "    if [[ $word == *=* ]]; then\n"
    "        replaced=${word%${word##*=}}\n"
    "        compset -P '*='\n"
    "    fi\n"
    "    while IFS= read -r line; do\n"
    "        case $line in\n"
    "        :file) _files ;;\n"
    "        :folder) _files -/ ;;\n"
    "        *=$'\\t'*) open_ended+=(\"${${${line%%$'\\t'*}#$replaced}//:/\\\\:}:${line#*$'\\t'}\") ;;\n"
    "        *) found+=(\"${${${line%%$'\\t'*}#$replaced}//:/\\\\:}:${line#*$'\\t'}\") ;;\n"
    "        esac\n"
    "    done < <(\"${words[1]}\" --complete \"${(@)words[2,CURRENT]}\" 2>/dev/null)\n"
    "    (( ! ${#found} )) || _describe longbp found\n"
    "    (( ! ${#open_ended} )) || _describe longbp open_ended -S ''\n"
    "}\n"
    "if [[ $funcstack[1] == _longbp ]]; then\n"
    "    _longbp \"$@\" # as a file of $fpath\n"
    "else\n"
    "    compdef _longbp longbp\n"
    "fi\n";

static const char fish[] =
    "# Completion of longbp's commands, options and what they take, for fish; made by `longbp completion fish`.\n"
    "function __longbp_complete\n"
    "    set -l words (commandline -opc)\n"
    "    set -l program $words[1]\n"
    "    set -e words[1]\n"
    "    set -l word (commandline -ct)\n"
    "    set -l path (string replace -r '^.*=' '' -- \"$word\")\n"
    "    set -l kept (string replace -r '[^=]*$' '' -- \"$word\")\n"
    "    for line in ($program --complete $words \"$word\" 2>/dev/null)\n"
    "        switch $line\n"
    "            case :file\n"
    "                printf \"$kept%s\\n\" (__fish_complete_path \"$path\")\n"
    "            case :folder\n"
    "                printf \"$kept%s\\n\" (__fish_complete_directories \"$path\")\n"
    "            case '*'\n"
    "                printf '%s\\n' $line\n"
    "        end\n"
    "    end\n"
    "end\n"
    "complete -c longbp -f -a '(__longbp_complete)'\n";

static const struct {
    const char *name, *script;
} shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};

int command_completion(int argc, char **argv)
{
    static const struct flag flags[] = {{OPERANDS, .kind = FLAG_TEXT, .doc = "name a shell: bash, zsh or fish"},
                                        {0}};
    static const struct argp argp = {
        .args_doc = "bash|zsh|fish",
        .doc = "Prints a script with which a shell completes commands, options and their values. `make install` "
               "puts it where shells find it; without that:\v  bash: eval \"$(longbp completion bash)\" in "
               "~/.bashrc\n  zsh:  eval \"$(longbp completion zsh)\" in ~/.zshrc, behind compinit\n  fish: longbp "
               "completion fish > ~/.config/fish/completions/longbp.fish"};
    const char *shell = NULL;
    arguments_parse(&argp, flags, argc, argv, &shell);
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(shells[i].name, shell) == 0)
            fputs(shells[i].script, stdout);
    return EXIT_FINE;
}
