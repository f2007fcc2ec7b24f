//! The script for zsh, which shows a description with each command and option.

use super::bash::{kind, properties};
use super::tree::Node;
use std::fmt::Write;

/// As that of bash.
const WALK: &str = r#"
# Offers what argument kind $1 can be.
_weir_offer() {
    local kind=$1
    local -a list
    case $kind in
    files) _files; return ;;
    pools) list=(${(f)"$(weir zpool list -H -o name 2>/dev/null)"}) ;;
    datasets) list=(${(f)"$(weir zfs list -H -o name -t filesystem,volume 2>/dev/null)"}) ;;
    snapshots) list=(${(f)"$(weir zfs list -H -o name -t snapshot,bookmark 2>/dev/null)"}) ;;
    any) list=(${(f)"$(weir zfs list -H -o name -t all 2>/dev/null)"}) ;;
    words:*) list=(${(s:,:)${kind#words:}}); compset -P '*,' ;;
    zpool-properties) list=(${=_weir_zpool_properties}); compset -P '*,' ;;
    zpool-all) list=(all ${=_weir_zpool_properties}); compset -P '*,' ;;
    zfs-properties) list=(${=_weir_zfs_properties}); compset -P '*,' ;;
    zfs-all) list=(all ${=_weir_zfs_properties}); compset -P '*,' ;;
    zpool-assignments) compadd -S = -- ${=_weir_zpool_settable}; return ;;
    zfs-assignments) compadd -S = -- ${=_weir_zfs_settable}; return ;;
    esac
    compadd -- $list
}

# Whether option $1 takes an argument: sets kind. The last letter of -Ho counts.
_weir_argument() {
    local pair option=$1
    kind=
    case $option in
    --*=*) return 1 ;;
    --*) ;;
    -?*) option=-${option[-1]} ;;
    *) return 1 ;;
    esac
    for pair in $takes; do
        if [[ $pair == "$option="* ]]; then
            kind=${pair#*=}
            return 0
        fi
    done
    return 1
}

_weir() {
    local -a subs opts takes operands names
    local kind line_path word
    integer i count=0
    line_path=${words[1]:t}
    _weir_table "$line_path"
    for ((i = 2; i < CURRENT; i++)); do
        word=${words[i]}
        names=(${subs%%:*})
        if [[ $word == -?* ]]; then
            _weir_argument "$word" && ((i++))
        elif ((count == 0 && ${names[(Ie)$word]})); then
            line_path="$line_path $word"
            _weir_table "$line_path"
        else
            ((count++))
        fi
    done
    if ((i > CURRENT)) && _weir_argument "${words[CURRENT - 1]}"; then
        _weir_offer "$kind"
    elif [[ ${words[CURRENT]} == -* ]]; then
        _describe option opts
    elif ((${#subs} && count == 0)); then
        _describe command subs
    elif ((${#operands})); then
        ((count >= ${#operands})) && count=$((${#operands} - 1))
        _weir_offer "${operands[count + 1]}"
    fi
}
"#;

pub(super) fn script(programs: &[Node]) -> String {
    let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
    let mut text = format!(
        "#compdef {}\n# Completions for zsh of weir and of the commands that it is called as.\n\
         # Made by \"weir completions zsh\".\n\n",
        names.join(" ")
    );
    properties(&mut text, "typeset -g _weir_");
    text.push_str("\n# Sets what the command $1 takes.\n_weir_table() {\n    subs=() opts=() takes=() operands=()\n    case $1 in\n");
    for (path, node) in programs.iter().flat_map(Node::walk) {
        let _ = writeln!(text, "    \"{path}\")");
        let subs: Vec<String> = node.children.iter().map(|child| entry(&child.name, &child.about)).collect();
        let opts: Vec<String> =
            node.options.iter().flat_map(|o| o.words().map(|word| entry(&word, &o.about))).collect();
        let takes = node.options.iter().filter_map(|option| Some((option, kind(option.argument.as_ref()?))));
        let takes: Vec<String> = takes
            .flat_map(|(option, kind)| option.words().map(move |word| quoted(&format!("{word}={kind}"))))
            .collect();
        let operands: Vec<String> = node.operands.iter().map(|operand| quoted(&kind(operand))).collect();
        for (name, values) in [("subs", subs), ("opts", opts), ("takes", takes), ("operands", operands)] {
            if !values.is_empty() {
                let _ = writeln!(text, "        {name}=({})", values.join(" "));
            }
        }
        text.push_str("        ;;\n");
    }
    text.push_str("    esac\n}\n");
    text.push_str(WALK);
    let _ = writeln!(
        text,
        "\nif [[ $funcstack[1] == _weir ]]; then\n    _weir \"$@\"\nelse\n    compdef _weir {}\nfi",
        names.join(" ")
    );
    text
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn entry(word: &str, about: &str) -> String {
    quoted(&format!("{word}:{about}"))
}
