//! The script for bash. It needs no other package.

use super::tree::{Node, Offer};
use std::fmt::Write;

/// Walks the words of the line through the table, and offers what the last command takes there.
const WALK: &str = r#"
# Offers what argument kind $1 can be, for the word $2.
_weir_offer() {
    local kind=$1 cur=$2 words= begin=
    case $kind in
    files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    pools) words=$(weir zpool list -H -o name 2>/dev/null) ;;
    datasets) words=$(weir zfs list -H -o name -t filesystem,volume 2>/dev/null) ;;
    snapshots) words=$(weir zfs list -H -o name -t snapshot,bookmark 2>/dev/null) ;;
    any) words=$(weir zfs list -H -o name -t all 2>/dev/null) ;;
    words:*) words=${kind#words:}; words=${words//,/ }; begin=list ;;
    zpool-properties) words=$_weir_zpool_properties; begin=list ;;
    zpool-all) words="all $_weir_zpool_properties"; begin=list ;;
    zfs-properties) words=$_weir_zfs_properties; begin=list ;;
    zfs-all) words="all $_weir_zfs_properties"; begin=list ;;
    zpool-assignments) words=${_weir_zpool_settable// /= }= ;;
    zfs-assignments) words=${_weir_zfs_settable// /= }= ;;
    esac
    # In a list, the part after the last comma is completed.
    if [[ $begin = list && $cur = *,* ]]; then
        begin=${cur%,*},
        cur=${cur##*,}
    else
        begin=
    fi
    mapfile -t COMPREPLY < <(compgen -P "$begin" -W "$words" -- "$cur")
    if [[ ${COMPREPLY[0]} = *= ]]; then
        compopt -o nospace 2>/dev/null
    fi
}

# Whether option $1 takes an argument: sets kind. The last letter of -Ho counts.
_weir_argument() {
    local pair option=$1
    kind=
    case $option in
    --*=*) return 1 ;;
    --*) ;;
    -?*) option=-${option: -1} ;;
    *) return 1 ;;
    esac
    for pair in $takes; do
        if [[ $pair = "$option="* ]]; then
            kind=${pair#*=}
            return 0
        fi
    done
    return 1
}

_weir() {
    local subs= opts= takes= operands= kind= line words cur path word count=0 i part
    # bash splits words at : = and @; the line does not.
    line=${COMP_LINE:0:COMP_POINT}
    read -ra words <<<"$line"
    [[ $line = *[[:space:]] || ${#words[@]} -eq 0 ]] && words+=("")
    cur=${words[-1]}
    path=${words[0]##*/}
    _weir_table "$path"
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        word=${words[i]}
        if [[ $word = -?* ]]; then
            _weir_argument "$word" && ((i++))
        elif [[ $count -eq 0 && " $subs " = *" $word "* ]]; then
            path="$path $word"
            _weir_table "$path"
        else
            ((count++))
        fi
    done
    COMPREPLY=()
    if [[ $i -ge ${#words[@]} ]] && _weir_argument "${words[-2]}"; then
        _weir_offer "$kind" "$cur"
    elif [[ $cur = -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$opts" -- "$cur")
    elif [[ -n $subs && $count -eq 0 ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$subs" -- "$cur")
    elif [[ -n $operands ]]; then
        read -ra part <<<"$operands"
        ((count >= ${#part[@]})) && count=$((${#part[@]} - 1))
        _weir_offer "${part[count]}" "$cur"
    fi
    # bash replaces only what follows the last of these characters.
    local mark head
    for mark in : = @; do
        if [[ $cur = *"$mark"* && $COMP_WORDBREAKS = *"$mark"* ]]; then
            head=${cur%"${cur##*"$mark"}"}
            for i in "${!COMPREPLY[@]}"; do
                COMPREPLY[i]=${COMPREPLY[i]#"$head"}
            done
            cur=${cur#"$head"}
        fi
    done
}
"#;

pub(super) fn script(programs: &[Node]) -> String {
    let mut text = "# Completions for bash of weir and of the commands that it is called as.\n\
                    # Made by \"weir completions bash\".\n\n"
        .to_owned();
    properties(&mut text, "_weir_");
    text.push_str("\n# Sets what the command $1 takes: subs, opts, takes (-o=kind) and operands.\n_weir_table() {\n    case $1 in\n");
    for (path, node) in programs.iter().flat_map(Node::walk) {
        let subs: Vec<&str> = node.children.iter().map(|child| child.name.as_str()).collect();
        let opts: Vec<String> = node.options.iter().flat_map(|option| option.words()).collect();
        let takes = node.options.iter().filter_map(|option| Some((option, kind(option.argument.as_ref()?))));
        let takes: Vec<String> =
            takes.flat_map(|(option, kind)| option.words().map(move |word| format!("{word}={kind}"))).collect();
        let operands: Vec<String> = node.operands.iter().map(kind).collect();
        let _ = writeln!(text, "    \"{path}\")");
        for (name, value) in [
            ("subs", subs.join(" ")),
            ("opts", opts.join(" ")),
            ("takes", takes.join(" ")),
            ("operands", operands.join(" ")),
        ] {
            let _ = writeln!(text, "        {name}='{value}'");
        }
        text.push_str("        ;;\n");
    }
    text.push_str("    esac\n}\n");
    text.push_str(WALK);
    let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
    let _ = writeln!(text, "\ncomplete -F _weir {}", names.join(" "));
    text
}

/// Variables with the names of properties.
pub(super) fn properties(text: &mut String, begin: &str) {
    let pool: Vec<&str> = pool::property::CATALOGUE.iter().map(|def| def.name).collect();
    let settable = pool::property::CATALOGUE.iter().filter(|def| !def.readonly).map(|def| def.name);
    let features = pool::property::FEATURES_2_3.iter().map(|name| format!("feature@{name}"));
    let settable: Vec<String> = settable.map(str::to_owned).chain(features).collect();
    let dataset: Vec<&str> = dataset::property::CATALOGUE.iter().map(|def| def.name).collect();
    let dataset_settable = dataset::property::CATALOGUE.iter().filter(|def| !def.readonly()).map(|def| def.name);
    let dataset_settable: Vec<&str> = dataset_settable.collect();
    for (name, words) in [
        ("zpool_properties", pool.join(" ")),
        ("zpool_settable", settable.join(" ")),
        ("zfs_properties", dataset.join(" ")),
        ("zfs_settable", dataset_settable.join(" ")),
    ] {
        let _ = writeln!(text, "{begin}{name}='{words}'");
    }
}

/// The word for an offer. No word of a list has a space or a comma.
pub(super) fn kind(offer: &Offer) -> String {
    match offer {
        Offer::Nothing => "nothing".to_owned(),
        Offer::Files => "files".to_owned(),
        Offer::Pools => "pools".to_owned(),
        Offer::Datasets => "datasets".to_owned(),
        Offer::Snapshots => "snapshots".to_owned(),
        Offer::AnyDatasets => "any".to_owned(),
        Offer::Words(words) => format!("words:{}", words.join(",")),
        Offer::AllPoolProperties => "zpool-all".to_owned(),
        Offer::PoolProperties => "zpool-properties".to_owned(),
        Offer::PoolAssignments => "zpool-assignments".to_owned(),
        Offer::AllDatasetProperties => "zfs-all".to_owned(),
        Offer::DatasetProperties => "zfs-properties".to_owned(),
        Offer::DatasetAssignments => "zfs-assignments".to_owned(),
    }
}
